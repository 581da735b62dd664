"""What memory cannot hold is refused by its size, before it is there."""

import tracemalloc
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from pricdr.data.ratings import Ratings
from pricdr.data.splits import hold_out
from pricdr.errors import InputError, ParameterError
from pricdr.memory import memory_limit, require_memory
from pricdr.models.methods.dmf import DMF
from pricdr.models.methods.factorisation import BPR, BPRConfig
from pricdr.models.methods.hetero import HeteroCDR, SymmetricCDR
from pricdr.models.methods.linear import EASE, EASERelease, RidgeRelease
from pricdr.models.methods.paper import PaperCDR
from pricdr.testing.contracts import release_with_rows
from pricdr.training.loop import TrainingOptions

QUICK = TrainingOptions(epochs=1, device="cpu")
WIDE = 50_000


@cache
def ratings(users, items):
    matrix = sp.csr_array((np.ones(users), np.arange(users) % items, np.arange(users + 1)), shape=(users, items))
    return Ratings(matrix, tuple(f"u{i}" for i in range(users)), tuple(f"i{i}" for i in range(items)))


@pytest.mark.parametrize(("stated", "limit"), [("2000000000\n", 10**9), ("max\n", None), ("", None), (None, None)])
def test_a_container_counts_by_its_own_limit(tmp_path, monkeypatch, stated, limit):
    monkeypatch.delenv("PRICDR_MEMORY", raising=False)
    whole = memory_limit(container=())
    if stated is not None:
        (tmp_path / "memory.max").write_text(stated)
    assert memory_limit(container=(tmp_path / "memory.max",)) == min(whole, limit or whole)


@pytest.fixture
def wide():
    """Six users with long rows, 1.2 MB in all."""
    target, rows = ratings(6, 20), np.random.default_rng(0).standard_normal((6, WIDE)).astype(np.float32)
    return SimpleNamespace(target=target, release=release_with_rows(rows, target.users))


def refused(fit, *says, below=40 << 20):
    """Refused in one line, with hardly anything allocated by numpy on the way."""
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="of memory, the limit is") as raised:
            fit()
        assert tracemalloc.get_traced_memory()[1] < below
    finally:
        tracemalloc.stop()
    message = str(raised.value)
    for words in (*says, "PRICDR_MEMORY"):
        assert words in message


@pytest.mark.parametrize("method", [HeteroCDR, SymmetricCDR, PaperCDR])
def test_the_networks_of_a_wide_release_are_refused_before_they_are_built(wide, monkeypatch, method):
    """50,000 numbers a row make 50 million weights, and training holds 10 copies of those at most."""
    monkeypatch.setenv("PRICDR_MEMORY", "1GB")
    monkeypatch.setattr(torch.nn, "Linear", None)  # what they are made of
    refused(lambda: method(options=QUICK).fit(wide.target, wide.release), "2.0 GB", "1.0 GB", "weights")


def test_ridge_regression_on_a_wide_release_is_refused(wide, monkeypatch):
    monkeypatch.setenv("PRICDR_MEMORY", "64GB")
    refused(lambda: RidgeRelease().fit(wide.target, wide.release), "100.0 GB", "50,000 numbers")


@pytest.mark.parametrize("method", [EASERelease, HeteroCDR, RidgeRelease])
def test_a_wide_release_for_many_target_users_is_refused(wide, monkeypatch, method):
    """The release lists six users, but every user of the target gets a row: 120 GB."""
    monkeypatch.setenv("PRICDR_MEMORY", "110GB")
    many = ratings(300_000, 20)
    refused(lambda: method().fit(many, wide.release), "300,000 users", below=1 << 28)


def test_ease_is_refused_by_its_size(monkeypatch):
    monkeypatch.setenv("PRICDR_MEMORY", "1GB")
    refused(lambda: EASE().fit(ratings(20_000, 20_000)), "4.8 GB", "20,000 users and 20,000 columns")


def test_ease_on_a_release_counts_its_columns(monkeypatch):
    from pricdr.models.methods.linear import primal, solve_ease
    from pricdr.models.training_data import TrainingData

    monkeypatch.setenv("PRICDR_MEMORY", "1GB")
    target = ratings(10, 20)
    inputs = TrainingData.of(target, release_with_rows(np.ones((10, 20_000), dtype=np.float32), target.users))
    refused(lambda: solve_ease("ease-release", inputs, regularisation=1.0, solve=primal), "20,020 columns")


@pytest.mark.parametrize("fit", [BPR(config=BPRConfig(width=100), options=QUICK).fit, DMF(options=QUICK).fit])
def test_other_networks_are_counted_too(monkeypatch, fit):
    monkeypatch.setenv("PRICDR_MEMORY", "20MB")
    refused(lambda: fit(ratings(6_000, 200)), "weights")


def test_the_limit_is_what_the_environment_says_or_half_of_the_machine(monkeypatch):
    monkeypatch.setenv("PRICDR_MEMORY", "3GB")
    assert memory_limit() == 3 * 10**9
    require_memory(3 * 10**9, "a matrix")
    with pytest.raises(InputError, match=r"a matrix needs about 3.0 GB of memory, the limit is 3.0 GB"):
        require_memory(3 * 10**9 + 1, "a matrix")
    monkeypatch.delenv("PRICDR_MEMORY")
    assert 10**8 < memory_limit() < 10**14
    with pytest.raises(InputError, match="half of what this machine or container has"):
        require_memory(10**18, "a matrix")


@pytest.mark.parametrize("wrong", ["8", "8 GB", "-1GB", "0GB", "1e3GB", "lots", "9" * 400 + "GB", "8GB\n"])
def test_a_limit_that_is_none_is_refused(monkeypatch, wrong):
    monkeypatch.setenv("PRICDR_MEMORY", wrong)
    with pytest.raises(ParameterError, match="PRICDR_MEMORY must be a whole number and MB, GB or TB"):
        require_memory(1, "a matrix")


@pytest.mark.parametrize("seed", [-1, 2**63, 2**70, 1.0, True, "1"])
def test_seeds_have_one_rule(seed):
    for take in (lambda: TrainingOptions(seed=seed), lambda: hold_out(ratings(6, 20), seed=seed)):
        with pytest.raises(ParameterError, match="seed must be a whole number from 0 to 9223372036854775807, got"):
            take()
    TrainingOptions(seed=2**63 - 1)
