"""Fixtures every test may use."""

import os
import secrets
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import settings

from pricdr.errors import InputError

# Timings vary with whatever else the machine does: a slow example is not a wrong one. `make fuzz` runs many more.
settings.register_profile("default", deadline=None)
settings.register_profile("fuzz", deadline=None, max_examples=int(os.environ.get("PRICDR_FUZZ_EXAMPLES", "3000")))
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture
def any_seed(record_property) -> int:
    """A new seed each run; PRICDR_TEST_SEED repeats one. Tests that use it must pass for every seed."""
    seed = int(os.environ.get("PRICDR_TEST_SEED", secrets.randbits(32)))
    record_property("seed", seed)
    return seed


@pytest.fixture
def rng(any_seed) -> np.random.Generator:
    return np.random.default_rng(any_seed)


@pytest.fixture
def refused():
    """Call something that must be refused; return its one line."""

    def check(call: Callable[[], object], error: type[Exception] = InputError) -> str:
        with pytest.raises(error) as caught:
            call()
        message = str(caught.value)
        assert message
        assert "\n" not in message
        assert message.isprintable()
        return message

    return check


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Print the seed of a failed statistical test, so that it can be repeated."""
    outcome = yield
    report = outcome.get_result()
    seed = dict(item.user_properties).get("seed")
    if report.failed and seed is not None:
        report.sections.append(("rotating seed", f"repeat with PRICDR_TEST_SEED={seed}"))
