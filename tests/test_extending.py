"""The strategy in docs/extending.md, run as it is printed: it passes the checks that our own strategies pass."""

import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pricdr import JLT, SJLT, Bounds, Features, Guarantee, Guided, Spectral, Unit, cli, publish, verify
from pricdr.data.features import ItemFeatures
from pricdr.errors import ParameterError, VerificationError
from pricdr.privacy.registry import BY_NAME, HOMES
from pricdr.testing.strategies import (
    audited,
    check_layout,
    check_noise,
    check_release,
    random_ratings,
    sensitivity_ratio,
)

PAGE = Path(__file__).parents[1] / "docs" / "extending.md"
RATING = (Guarantee(epsilon=4, delta=1e-6), Bounds())
USER = (Guarantee(epsilon=4, delta=1e-6, unit=Unit.USER), Bounds(clip=2.0))
ITEMS = tuple(f"item {number}" for number in range(12))
USERS = tuple(f"user {number}" for number in range(2000))
RATINGS = random_ratings(USERS[:40], ITEMS, seed=1)


def blocks(title: str) -> list[str]:
    """The fenced Python of one section of the page."""
    (section,) = re.findall(
        rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    return re.findall(r"^```python\n(.*?)^```", section, re.DOTALL | re.MULTILINE)


@pytest.fixture
def registry():
    """The registry, as it was before once the test is over."""
    before = dict(HOMES)
    yield HOMES
    HOMES.clear()
    HOMES.update(before)


@pytest.fixture
def example(tmp_path, monkeypatch, registry):
    """The module of the page, importable; the rest of its blocks."""
    module, *rest = blocks("A strategy of your own")
    (tmp_path / "categories.py").write_text(module)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "categories", raising=False)
    return rest


def test_the_page_runs_as_printed_and_its_strategy_passes_our_checks(example, capsys):
    namespace = {}
    for block in example:
        exec(compile(block, str(PAGE), "exec"), namespace)
    assert "sensitivity_ratio(" in example[-1]
    release = verify("films.release")
    assert "PUBLIC item categories, one column each" in Path("films.release/README.md").read_text()
    assert any(line.startswith("The item categories:") for line in release.certificate.not_protected)
    assert release.certificate.input.item_universe == "declared"
    assert release.certificate.items == 3
    assert cli.run(["verify", "films.release"]) == 0
    audit = ["audit", "films.release", "--draws", "2000", "--canaries", "1000"]
    assert cli.run(audit) == 0
    assert "categories, dim 2" in capsys.readouterr().out


def test_a_release_of_a_strategy_that_is_not_registered_is_not_verified(example, registry):
    for block in example[:2]:
        exec(compile(block, str(PAGE), "exec"), {})
    del registry["categories"]
    with pytest.raises(VerificationError, match="strategy 'categories' is not one this software knows"):
        verify("films.release")


def test_the_example_cannot_run_without_its_categories(example):
    exec(compile(example[0], str(PAGE), "exec"), {})
    with pytest.raises(ParameterError, match="needs the category of every item"):
        publish(RATINGS, RATING[0], strategy=BY_NAME["categories"]())


def strategies():
    table = ItemFeatures(ITEMS, np.random.default_rng(2).standard_normal((12, 6)))
    guide = publish(random_ratings(USERS, ITEMS, seed=2), RATING[0], strategy=JLT(dim=8))
    return [JLT(dim=5), SJLT(dim=5), Features(features=table, dim=5), Spectral(), Guided(guide=guide)]


@pytest.mark.parametrize("strategy", strategies(), ids=lambda strategy: strategy.name)
@pytest.mark.parametrize(("promise", "bounds"), [RATING, USER], ids=["rating", "user"])
def test_our_own_strategies_pass_the_same_checks(strategy, promise, bounds, tmp_path):
    check_layout(strategy, promise, bounds, users=USERS, items=ITEMS)
    check_release(strategy, promise, bounds, RATINGS, tmp_path / "release")
    check_noise(strategy, promise, bounds, users=USERS, items=ITEMS)
    assert audited(strategy.resolved(promise, USERS), promise, bounds).share > 0.75
    if not strategy.learns:
        assert 0.5 < sensitivity_ratio(strategy, promise, bounds, RATINGS, seed=3) <= 1


def test_the_checks_cover_every_strategy():
    assert {strategy.name for strategy in strategies()} == set(BY_NAME)


class Longer(JLT):
    """FLAWED: claims half of what its rows move."""

    def steps(self, declared):
        return tuple(replace(step, sensitivity=step.sensitivity / 2) for step in super().steps(declared))


class Quieter(JLT):
    """FLAWED: draws less noise than it is given."""

    def publish(self, entries, run):
        return super().publish(entries, run) * np.float32(0.9)


def test_the_checks_catch_a_strategy_that_claims_too_little():
    promise, bounds = RATING
    assert sensitivity_ratio(Longer(dim=5), promise, bounds, RATINGS, seed=3) > 1.9
    with pytest.raises(AssertionError, match="the claim is 4"):
        audited(Longer(dim=5), promise, bounds)
    with pytest.raises(AssertionError, match="under its own name"):
        check_layout(Longer(dim=5), promise, bounds, users=USERS, items=ITEMS)


def test_the_checks_catch_a_strategy_that_draws_too_little_noise():
    promise, bounds = RATING
    with pytest.raises(AssertionError):
        check_noise(Quieter(dim=5), promise, bounds, users=USERS, items=ITEMS)
