"""Fixtures every test may use."""

import os
import secrets

import numpy as np
import pytest


@pytest.fixture
def any_seed(record_property) -> int:
    """A new seed each run; PRICDR_TEST_SEED repeats one. Tests that use it must pass for every seed."""
    seed = int(os.environ.get("PRICDR_TEST_SEED", secrets.randbits(32)))
    record_property("seed", seed)
    return seed


@pytest.fixture
def rng(any_seed) -> np.random.Generator:
    return np.random.default_rng(any_seed)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Print the seed of a failed statistical test, so that it can be repeated."""
    outcome = yield
    report = outcome.get_result()
    seed = dict(item.user_properties).get("seed")
    if report.failed and seed is not None:
        report.sections.append(("rotating seed", f"repeat with PRICDR_TEST_SEED={seed}"))
