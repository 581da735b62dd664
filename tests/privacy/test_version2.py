"""What was published before certificates named their line in the ledger still verifies."""

import json
from pathlib import Path

import pytest

from pricdr import Ledger, verify
from pricdr.release.statement import readme

OLD = Path(__file__).parents[1] / "version2"
FOLDERS = ["guided", "jlt", "spectral"]


@pytest.mark.parametrize("name", FOLDERS)
def test_releases_of_version_2_verify(name):
    release = verify(OLD / name)
    stated = json.loads((OLD / name / "certificate.json").read_text())
    assert stated["schema_version"] == release.certificate.schema_version == 2
    assert release.certificate.to_bytes() == (OLD / name / "certificate.json").read_bytes()
    assert readme(release.certificate) == (OLD / name / "README.md").read_text()
    assert (stated["ledger"] is None) == (name == "guided")
    if stated["ledger"] is not None:
        assert not {"head", "opening", "nonce", "recorded", "numbers"} & set(stated["ledger"])


def test_a_ledger_of_version_1_is_read():
    balance = Ledger(OLD / "budget.jsonl").read()
    assert [spend.strategy for spend in balance.spends] == ["spectral", "jlt"]
    assert balance.budget.epsilon == 8
