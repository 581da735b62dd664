"""What the tests of methods share."""

import pytest

from pricdr.testing.contracts import Planted


@pytest.fixture(scope="session")
def planted():
    """The planted pair, which nobody changes."""
    return Planted.pair()
