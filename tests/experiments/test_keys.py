"""A result is found again only by the settings it was measured with, defaults included."""

from dataclasses import fields, replace
from pathlib import Path

import pytest

from pricdr.experiments.arms import Arm, DataSpec, Guide, ReleaseSpec, RowContent, resolved, result_key
from pricdr.experiments.spec import read_specs
from pricdr.models.catalogue import METHODS, method_class
from pricdr.models.methods.hetero import SourceStageConfig
from pricdr.privacy.accounting import Calibration
from pricdr.strategies import Spectral
from pricdr.training.loop import TrainingOptions

SPECS = sorted((Path(__file__).parents[2] / "specs").glob("*.toml"))
DATA = DataSpec(folder="here", source="a.csv", target="b.csv")
HETERO = Arm(name="hetero", method="hetero", release=ReleaseSpec(strategy="spectral", epsilon=4))
ARMS = {
    "spectral": HETERO,
    "stated": replace(HETERO, settings={"narrow_dropout": 0.0}),
    "jlt": replace(HETERO, release=ReleaseSpec(strategy="jlt")),
    "guided": replace(HETERO, release=ReleaseSpec(strategy="guided", epsilon=4)),
    "dmf": Arm(name="dmf", method="dmf"),
    "ease": Arm(name="ease", method="ease"),
}


def key(arm: Arm = HETERO, data: DataSpec = DATA) -> str:
    return result_key(data, arm, full=True)


def changed_default(monkeypatch: pytest.MonkeyPatch, kind: type, name: str, value: object) -> None:
    """Make another value the default of a field, as somebody who edits the class would."""
    field = next(one for one in fields(kind) if one.name == name)
    monkeypatch.setattr(field, "default", value)
    monkeypatch.setattr(kind, name, value)
    monkeypatch.setattr(kind.__init__, "__kwdefaults__", {**dict(kind.__init__.__kwdefaults__), name: value})
    for part in (part for method in METHODS for part in fields(method_class(method)) if type(part.default) is kind):
        monkeypatch.setitem(vars(part.default), name, value)  # made when its method was defined


@pytest.mark.parametrize(
    ("change", "invalid"),
    [
        (lambda m: changed_default(m, SourceStageConfig, "narrow_dropout", 0.3), {"spectral", "jlt", "guided"}),
        (lambda m: changed_default(m, TrainingOptions, "epochs", 100), {*ARMS} - {"ease"}),
        # The guide of a guided release counts with its constants.
        (lambda m: changed_default(m, Spectral, "item_prior", 99.0), {"spectral", "stated", "guided"}),
        (lambda m: m.setattr(Spectral, "revision", 2), {"spectral", "stated", "guided"}),
        (lambda m: m.setattr("pricdr.experiments.arms.GUIDE_DIM", 4), {"guided"}),
        (lambda m: m.setattr(method_class("hetero"), "revision", 2), {"spectral", "stated", "jlt", "guided"}),
    ],
    ids=range(6),
)
def test_a_default_or_revision_that_changes_invalidates_the_arms_that_rest_on_it_and_no_other(
    monkeypatch, change, invalid
):
    before = {name: key(arm) for name, arm in ARMS.items()}
    assert before["spectral"] == before["stated"]  # saying what is the default anyway changes nothing
    change(monkeypatch)
    assert {name for name, arm in ARMS.items() if key(arm) != before[name]} == invalid


def test_names_seeds_and_devices_are_no_part_of_it_nor_whether_a_default_is_stated():
    assert key() == key(replace(HETERO, name="another", settings={"seed": 7, "device": "cpu"}))
    assert key() == key(data=replace(DATA, name="x", title="X", paper="P", stand_in=True, note="n"))
    assert "seed" not in str(resolved(DATA, HETERO))
    dim = resolved(DATA, HETERO)["release"]["constants"]["dim"]
    assert key() == key(replace(HETERO, release=ReleaseSpec(strategy="spectral", epsilon=4.0, delta=1e-6, dim=dim)))
    sjlt = replace(HETERO, release=ReleaseSpec(strategy="sjlt"))
    assert key(sjlt) == key(replace(sjlt, release=ReleaseSpec(strategy="sjlt", density=0.5, dim=200)))
    assert key(replace(HETERO, settings={"learning_rate": 1})) == key(replace(HETERO, settings={"learning_rate": 1.0}))


@pytest.mark.parametrize(
    ("strategy", "change"),
    [
        ("spectral", {"epsilon": 5.0}),
        ("spectral", {"delta": 1e-5}),
        ("spectral", {"dim": 3}),
        ("spectral", {"rows": RowContent.NOISE}),
        ("jlt", {"strategy": "sjlt"}),
        ("jlt", {"calibration": Calibration.PAPER}),
        ("sjlt", {"density": 0.1}),
        ("guided", {"guide": Guide.CLEAR}),
        ("guided", {"refine": False}),
    ],
)
def test_whatever_a_release_is_made_with_counts(strategy, change):
    plain = replace(HETERO, release=ReleaseSpec(strategy=strategy))
    assert key(replace(plain, release=replace(plain.release, **change))) != key(plain)


def test_a_share_of_the_source_and_the_delta_of_the_data_count():
    assert key(replace(HETERO, source_share=0.5)) != key()
    assert key(data=replace(DATA, delta=1e-3)) != key()


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_no_two_arms_of_a_table_are_the_same_run(path):
    for spec in read_specs(path, path.parent / "tuned"):
        keys = [spec.key(arm) for arm in spec.arms]
        assert len(set(keys)) == len(keys), spec.name
