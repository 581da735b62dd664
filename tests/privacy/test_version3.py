"""What was published before certificates named an issuer and a day still verifies."""

import json
from pathlib import Path

import pytest

from pricdr import Ledger, verify
from pricdr.release.ledger_check import check_ledger
from pricdr.release.statement import readme

OLD = Path(__file__).parents[1] / "version3"
FOLDERS = ["jlt", "spectral"]


@pytest.mark.parametrize("name", FOLDERS)
def test_releases_of_version_3_verify(name):
    release = verify(OLD / name, public_key=OLD / "key.pub" if name == "spectral" else None)
    stated = json.loads((OLD / name / "certificate.json").read_text())
    assert stated["schema_version"] == release.certificate.schema_version == 3
    assert release.certificate.to_bytes() == (OLD / name / "certificate.json").read_bytes()
    assert readme(release.certificate) == (OLD / name / "README.md").read_text()


def test_a_ledger_of_that_time_holds_its_releases():
    checked = check_ledger(Ledger(OLD / "budget.jsonl"), [OLD / "spectral", OLD / "jlt"])
    assert [spend.strategy for spend in checked.balance.spends] == ["spectral", "jlt"]
