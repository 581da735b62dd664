"""Nothing that users get changes unnoticed: matrices, certificates, ledgers, commands, what is read or refused."""

import json
from pathlib import Path

import pytest

from tests.data.kept import keep
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


PARTS = {
    "releases": scenarios.releases,
    "series": scenarios.series,
    "ledger": scenarios.ledgers,
    "commands": scenarios.commands,
    "ratings files": scenarios.corpus,
}


@pytest.mark.parametrize("part", PARTS)
def test_everything_is_as_recorded(laid_out, part):
    with scenarios.inside(laid_out):
        same(PARTS[part](), RECORDED[part])


def test_releases_of_ratings_on_disk_have_the_same_rows(laid_out, monkeypatch):
    keep(monkeypatch, "on disk")
    with scenarios.inside(laid_out):
        found = scenarios.releases(inputs=["values"])
    same(found, {key: RECORDED["releases"][key] for key in found})
    assert len(found) == 12
