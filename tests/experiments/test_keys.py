"""A result is found again only by the settings it was measured with, defaults included."""

from dataclasses import fields, replace
from pathlib import Path

import pytest

from pricdr.experiments.arms import Arm, DataSpec, Guide, ReleaseSpec, RowContent, resolved, result_key
from pricdr.experiments.spec import read_specs
from pricdr.models.catalogue import method_class
from pricdr.models.methods.hetero import SourceStageConfig
from pricdr.privacy.accounting import Calibration
from pricdr.strategies import Spectral
from pricdr.training.loop import TrainingOptions

SPECS = sorted((Path(__file__).parents[2] / "specs").glob("*.toml"))
DATA = DataSpec(folder="here", source="a.csv", target="b.csv")
HETERO = Arm(name="hetero", method="hetero", release=ReleaseSpec(strategy="spectral", epsilon=4))


def key(arm: Arm = HETERO, data: DataSpec = DATA) -> str:
    return result_key(data, arm, full=True)


def changed_default(monkeypatch: pytest.MonkeyPatch, kind: type, name: str, value: object) -> None:
    """Make another value the default of a field, as somebody who edits the class would."""
    field = next(one for one in fields(kind) if one.name == name)
    monkeypatch.setattr(field, "default", value)
    monkeypatch.setattr(kind, name, value)
    defaults = dict(kind.__init__.__kwdefaults__)
    monkeypatch.setattr(kind.__init__, "__kwdefaults__", {**defaults, name: value})


def test_a_default_that_changes_invalidates_the_arms_that_left_it_as_it_was_and_no_other(monkeypatch):
    stated = replace(HETERO, settings={"narrow_dropout": 0.0})
    popularity = Arm(name="popularity", method="popularity")
    dmf = Arm(name="dmf", method="dmf")
    arms = (HETERO, stated, popularity, dmf)
    before = [key(arm) for arm in arms]
    assert before[0] == before[1]  # saying what is the default anyway changes nothing
    changed_default(monkeypatch, SourceStageConfig, "narrow_dropout", 0.3)
    after = [key(arm) for arm in arms]
    assert [old == new for old, new in zip(before, after, strict=True)] == [False, True, True, True]


def test_a_default_of_training_or_of_a_strategy_counts_as_well(monkeypatch):
    before = {arm.name: key(arm) for arm in (HETERO, Arm(name="ease", method="ease"))}
    with monkeypatch.context() as patch:
        changed_default(patch, TrainingOptions, "epochs", 100)
        assert {name: key(arm) == before[arm.name] for name, arm in (("hetero", HETERO),)} == {"hetero": False}
        assert key(Arm(name="ease", method="ease")) == before["ease"]
    with monkeypatch.context() as patch:
        changed_default(patch, Spectral, "item_prior", 99.0)
        assert key() != before["hetero"]
        assert key(replace(HETERO, release=ReleaseSpec(strategy="jlt"))) == key(
            replace(HETERO, release=ReleaseSpec(strategy="jlt", dim=200))
        )
    assert key() == before["hetero"]


@pytest.mark.parametrize(
    ("raised", "other"),
    [
        (method_class("hetero"), Arm(name="dmf", method="dmf")),
        (Spectral, replace(HETERO, release=ReleaseSpec(strategy="jlt"))),
    ],
)
def test_a_revision_that_is_raised_invalidates_its_method_or_strategy_alone(monkeypatch, raised, other):
    before = key(), key(other)
    monkeypatch.setattr(raised, "revision", 2)
    assert key() != before[0]
    assert key(other) == before[1]


def test_the_guide_of_a_guided_release_counts_with_its_constants(monkeypatch):
    guided = replace(HETERO, release=ReleaseSpec(strategy="guided", epsilon=4))
    jlt = replace(HETERO, release=ReleaseSpec(strategy="jlt"))
    before, other = key(guided), key(jlt)
    for change in (
        lambda patch: patch.setattr("pricdr.experiments.arms.GUIDE_DIM", 4),
        lambda patch: patch.setattr(Spectral, "revision", 2),
        lambda patch: changed_default(patch, Spectral, "item_prior", 99.0),
    ):
        with monkeypatch.context() as patch:
            change(patch)
            assert key(guided) != before
            assert key(jlt) == other
    assert key(guided) == before


def test_names_seeds_and_devices_are_no_part_of_it():
    assert key() == key(replace(HETERO, name="another", settings={"seed": 7, "device": "cpu"}))
    assert key() == key(data=replace(DATA, name="x", title="X", paper="P", stand_in=True, note="n"))
    assert "seed" not in str(resolved(DATA, HETERO))


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 5.0},
        {"delta": 1e-5},
        {"dim": 3},
        {"rows": RowContent.NOISE},
        {"strategy": "guided"},
        {"strategy": "jlt", "calibration": Calibration.PAPER},
        {"strategy": "sjlt", "density": 0.1},
        {"strategy": "guided", "guide": Guide.CLEAR},
        {"strategy": "guided", "refine": False},
    ],
)
def test_whatever_a_release_is_made_with_counts(change):
    plain = replace(HETERO.release, strategy=change.get("strategy", "spectral"))
    given = {name: value for name, value in change.items() if name != "strategy"}
    made = replace(HETERO, release=replace(plain, **given))
    assert key(made) != key()
    if given:
        assert key(made) != key(replace(HETERO, release=plain))


def test_what_is_stated_as_its_default_is_the_default():
    assert key() == key(replace(HETERO, release=ReleaseSpec(strategy="spectral", epsilon=4.0, delta=1e-6)))
    dim = resolved(DATA, HETERO)["release"]["constants"]["dim"]
    assert key() == key(replace(HETERO, release=replace(HETERO.release, dim=dim)))
    sjlt = replace(HETERO, release=ReleaseSpec(strategy="sjlt"))
    assert key(sjlt) == key(replace(sjlt, release=ReleaseSpec(strategy="sjlt", density=0.5, dim=200)))
    assert key(sjlt, replace(DATA, delta=1e-3)) != key(sjlt)


def test_a_share_of_the_source_counts_where_there_is_one():
    assert key(replace(HETERO, source_share=0.5)) != key()
    assert key(replace(HETERO, settings={"learning_rate": 1})) == key(replace(HETERO, settings={"learning_rate": 1.0}))


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_no_two_arms_of_a_table_are_the_same_run(path):
    for spec in read_specs(path, path.parent / "tuned"):
        keys = [spec.key(arm) for arm in spec.arms]
        twice = [arm.name for arm in spec.arms if keys.count(spec.key(arm)) > 1]
        assert not twice, twice
