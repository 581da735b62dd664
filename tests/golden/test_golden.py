"""Nothing that users get changes unnoticed: matrices, certificates, ledgers, commands, what is read or refused."""

import json
from pathlib import Path

import pytest

from tests.data.kept import KEPT, keep
from tests.golden import scenarios

RECORDED = json.loads(Path(__file__).with_name("golden.json").read_text())


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("golden").resolve()
    with scenarios.inside(folder):
        scenarios.lay_out(folder)
    return folder


def same(found, recorded):
    """Whole numbers, texts and rows to the letter; other numbers to nine digits."""
    if isinstance(recorded, dict):
        assert set(found) == set(recorded)
        for key in recorded:
            same(found[key], recorded[key])
    elif isinstance(recorded, float):
        assert found == pytest.approx(recorded, rel=1e-9, abs=1e-12)
    else:
        assert found == recorded


@pytest.mark.parametrize("where", KEPT)
def test_releases_have_the_recorded_rows_wherever_ratings_are_kept(laid_out, where, monkeypatch):
    keep(monkeypatch, where)
    with scenarios.inside(laid_out):
        found = scenarios.releases()
    assert set(found) == set(RECORDED["releases"])
    for key, recorded in RECORDED["releases"].items():
        same({key: found[key]}, {key: recorded})


@pytest.mark.parametrize(
    ("part", "compute"),
    [("ledger", scenarios.ledgers), ("commands", scenarios.commands), ("ratings files", scenarios.corpus)],
)
def test_everything_else_is_as_recorded(laid_out, part, compute):
    with scenarios.inside(laid_out):
        found = compute()
    assert set(found) == set(RECORDED[part])
    for key, recorded in RECORDED[part].items():
        same({key: found[key]}, {key: recorded})
