"""The strategy and the method in docs/extending.md, run as they are printed: they keep the contracts that ours keep."""

import re
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from pricdr import Bounds, Guarantee, cli, publish, synthetic_pair, transfer, verify
from pricdr.data.features import ItemFeatures
from pricdr.data.synthetic import SyntheticConfig
from pricdr.errors import InputError, ParameterError
from pricdr.experiments.search import draws
from pricdr.models.catalogue import METHODS, configure, method_class
from pricdr.privacy.strategies import BY_NAME
from pricdr.strategies import JLT, SJLT, Features, Guided, Spectral
from pricdr.testing.strategies import StrategyContract, random_ratings, sensitivity_ratio

PAGE = Path(__file__).parents[1] / "docs" / "extending.md"
RATING = (Guarantee(epsilon=4, delta=1e-6), Bounds())
ITEMS, USERS = StrategyContract.items, StrategyContract.users
RATINGS = random_ratings(USERS[:40], ITEMS, seed=1)


def blocks(title: str) -> list[str]:
    """The fenced Python of one section of the page."""
    (section,) = re.findall(
        rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    return re.findall(r"^```python\n(.*?)^```", section, re.DOTALL | re.MULTILINE)


SECTION = "A strategy of your own"


def run_as_printed(name: str, *printed: str) -> ModuleType:
    """The module that the page says to save, with these of its blocks."""
    module = ModuleType(name)
    sys.modules[name] = module  # a dataclass looks its module up
    for block in printed:
        exec(compile(block, str(PAGE), "exec"), module.__dict__)
    return module


DEFINITION, *_, CONTRACT = blocks(SECTION)
NEIGHBOURS = run_as_printed("neighbours", *blocks("A method of your own"))
TestCategories = run_as_printed("categories", DEFINITION, CONTRACT).TestCategories
TestNeighbours = NEIGHBOURS.TestNeighbours
"""The contracts, collected here like any other test."""


@pytest.fixture
def example(tmp_path, monkeypatch):
    """The module of the page, importable and known to nobody; the rest of its blocks."""
    module, *rest = blocks(SECTION)
    (tmp_path / "categories.py").write_text(module)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "categories", raising=False)
    monkeypatch.setattr(BY_NAME, "_registered", {})
    return rest


def test_the_page_runs_as_printed_and_the_certificate_says_whose_claim_the_sensitivity_is(example, capsys):
    namespace = {}
    for block in example:
        exec(compile(block, str(PAGE), "exec"), namespace)
    release = verify("films.release")
    assert "PUBLIC item categories, one column each" in Path("films.release/README.md").read_text()
    assert any(line.startswith("The item categories:") for line in release.certificate.not_protected)
    assert release.certificate.input.item_universe == "declared"
    assert release.certificate.items == 3
    (warning,) = [line for line in release.certificate.warnings if "not part of PriCDR" in line]
    assert warning.startswith("strategy categories ")
    assert warning in Path("films.release/README.md").read_text()
    ours = publish(RATINGS, RATING[0], users=RATINGS.users).certificate
    assert not [line for line in ours.warnings if "PriCDR" in line]
    assert cli.run(["verify", "films.release"]) == 0
    audit = ["audit", "films.release", "--draws", "2000", "--canaries", "1000"]
    assert cli.run(audit) == 0
    assert "categories, dim 2" in capsys.readouterr().out


def test_the_example_cannot_run_without_its_categories(example, capsys):
    exec(compile(example[0], str(PAGE), "exec"), {})
    with pytest.raises(ParameterError, match="needs the category of every item"):
        publish(RATINGS, RATING[0], strategy=BY_NAME["categories"]())
    with pytest.raises(ParameterError, match=r"takes dim, category_of \(needed\).*Categories\(category_of=…\)"):
        publish(RATINGS, RATING[0], strategy="categories")
    run = ["publish", "r.csv", "--epsilon", "4", "--delta", "1e-6", "--out", "x", "--strategy", "categories"]
    assert cli.run(run) == 2
    assert "takes dim, category_of (needed)" in capsys.readouterr().err  # before r.csv, which is not there, is read


class TestJLT(StrategyContract):
    strategy = JLT(dim=5)


class TestSJLT(StrategyContract):
    strategy = SJLT(dim=5)


class TestFeatures(StrategyContract):
    strategy = Features(features=ItemFeatures(ITEMS, np.random.default_rng(2).standard_normal((12, 6))), dim=5)


class TestSpectral(StrategyContract):
    strategy = Spectral()


class TestGuided(StrategyContract):
    strategy = Guided(guide=publish(random_ratings(USERS, ITEMS, seed=2), RATING[0], strategy=JLT(dim=8)))


def test_the_contracts_cover_every_strategy():
    contracts = (TestJLT, TestSJLT, TestFeatures, TestSpectral, TestGuided)
    # A series is of one unit, and the contract asks for both: it has tests of its own (tests/privacy/test_series.py).
    assert {contract.strategy.name for contract in contracts} == set(BY_NAME.own) - {"continued"}


class Longer(JLT):
    """FLAWED: claims half of what its rows move."""

    name = "longer"

    def steps(self, declared):
        return tuple(replace(step, sensitivity=step.sensitivity / 2) for step in super().steps(declared))


class Quieter(JLT):
    """FLAWED: draws less noise than it is given."""

    name = "quieter"

    def publish(self, entries, run):
        return super().publish(entries, run) * np.float32(0.9)


def contract(strategy: JLT) -> StrategyContract:
    return type("Flawed", (StrategyContract,), {"strategy": strategy})()


def test_the_checks_catch_a_strategy_that_claims_too_little():
    assert sensitivity_ratio(Longer(dim=5), *RATING, RATINGS, seed=3) > 1.9
    with pytest.raises(AssertionError, match="the claim is 4"):
        contract(Longer(dim=5)).test_an_audit_does_not_refute_the_promise(RATING)
    with pytest.raises(AssertionError, match="under its own name"):
        contract(Longer(dim=5)).test_the_steps_follow_from_what_is_declared(RATING)


def test_the_checks_catch_a_strategy_that_draws_too_little_noise(monkeypatch):
    monkeypatch.setattr(BY_NAME, "_registered", {})
    with pytest.raises(AssertionError):
        contract(Quieter(dim=5)).test_the_noise_has_the_stated_size(RATING)


def test_nothing_is_published_under_a_name_of_ours_by_other_code():
    class Better(JLT):
        """Calls itself jlt, and a certificate would too."""

    with pytest.raises(ParameterError, match="Better calls itself 'jlt', a strategy of PriCDR's own"):
        publish(RATINGS, RATING[0], strategy=Better(dim=5))


@pytest.fixture
def catalogue(monkeypatch):
    """The example's name, once the user has named its class."""
    monkeypatch.setattr(METHODS, "_registered", {})
    monkeypatch.setattr(METHODS, "_references", {})
    return METHODS.resolve_reference("neighbours:Neighbours")


@pytest.fixture(scope="module")
def pair():
    return synthetic_pair(SyntheticConfig(users=120, source_items=250, target_items=300))


def test_naming_it_makes_it_known_to_specs_searches_and_settings(catalogue):
    assert "--method neighbours:Neighbours" in PAGE.read_text(encoding="utf-8")
    assert method_class(catalogue) is NEIGHBOURS.Neighbours
    assert configure(catalogue, {"neighbours": 3}).config.neighbours == 3
    assert {"neighbours": 20} in draws(catalogue, 4)


def test_it_chooses_by_items_set_aside_and_refuses_what_is_not_private(pair):
    # Bits that repeat: whether real noise leaves enough to choose by is a matter of luck.
    promise = Guarantee(epsilon=200, delta=1e-6)
    seeded = publish(pair.source, promise, strategy=JLT(dim=64), users=pair.users, insecure_seed=1)
    model = transfer(pair.target, seeded, method=NEIGHBOURS.Neighbours(), allow_not_private=True)
    assert model.chosen.settings["neighbours"] in (5, 10, 20)
    with pytest.raises(InputError, match="NOT PRIVATE"):
        transfer(pair.target, seeded, method=NEIGHBOURS.Neighbours())
