"""A decoding process that has been taken over."""

import pytest

from pricdr.untrusted import sandbox


@pytest.fixture(scope="module")
def obedient(request):
    """Let children do what a file says, where it is not Parquet: a module's ``TAKEN_OVER`` is the host they have."""
    with pytest.MonkeyPatch.context() as patch:
        sandbox.stop()
        patch.setattr(sandbox, "START", request.module.TAKEN_OVER)
        yield
        sandbox.stop()
