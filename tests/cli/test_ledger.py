"""``pricdr ledger`` and ``publish --ledger``: one budget over every release."""

import stat
import sys

import pytest


def init(pricdr, file, epsilon=8, unit="rating"):
    return pricdr("ledger", "init", file, "--epsilon", epsilon, "--delta", 1e-6, "--unit", unit)


def test_init_creates_a_private_file_and_says_the_budget(here, pricdr):
    outcome = init(pricdr, "sub dir/budget.jsonl")
    assert outcome.code == 0
    assert "(8, 1e-06)-differential privacy for one rating, over all releases together" in outcome.out
    file = here / "sub dir" / "budget.jsonl"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in file.parent.iterdir()] == ["budget.jsonl"]


def test_show_tells_budget_spends_and_what_is_left(ratings, ledger, publish, pricdr):
    fresh = pricdr("ledger", "show", ledger)
    assert fresh.code == 0
    assert "in 0 releases; room for one more release of epsilon 8 at this delta" in fresh.out
    assert publish(ratings, "--ledger", ledger, "--epsilon", 2).code == 0
    lines = pricdr("ledger", "show", ledger).out.splitlines()
    assert lines[0].startswith("budget: (8, 1e-06)-differential privacy for one rating, however each release is chosen")
    assert lines[1].split()[0] == "1"
    assert "spectral" in lines[1]
    assert lines[2].startswith("spent: epsilon 2 ")
    assert "in 1 release; room for one more release of epsilon 7.58995" in lines[2]
    assert "had all been fixed in advance; the promise is the budget" in lines[3]
    room = lines[2].split("epsilon ")[-1].split()[0]
    assert publish(ratings, "--ledger", ledger, "--epsilon", float(room) * 0.9999, out="fits").code == 0


def test_an_overspend_is_refused_before_anything_is_drawn(here, ratings, ledger, publish, refused_publish, monkeypatch):
    assert publish(ratings, "--ledger", ledger, "--epsilon", 6, out="first").code == 0

    def drawn(*_, **__):
        raise AssertionError("something was drawn")

    module = sys.modules["pricdr._publish"]
    for name in ("Secret", "Simulation", "Run"):
        monkeypatch.setattr(module, name, drawn)
    monkeypatch.setattr("secrets.token_bytes", drawn)
    monkeypatch.setattr("os.urandom", drawn)
    error = refused_publish(ratings, "--epsilon", 7, code=1, says=("budget.jsonl", "refuses", "spent so far epsilon 6"))
    assert "budget 8 at delta 1e-06" in error
    with monkeypatch.context() as control:
        control.delenv("PRICDR_TRACEBACK", raising=False)
        assert "something was drawn" in publish(ratings, "--ledger", ledger, "--epsilon", 1).err


@pytest.fixture
def paid(here, ratings, ledger, publish):
    """A ledger with two releases, and their folders."""
    folders = [here / "first", here / "second"]
    for folder in folders:
        assert publish(ratings, "--ledger", ledger, "--epsilon", 2, "--strategy", "jlt", out=folder).code == 0
    return ledger, folders


def test_verify_says_that_a_ledger_holds_its_releases(paid, pricdr):
    ledger, folders = paid
    alone = pricdr("ledger", "verify", ledger)
    assert (alone.code, alone.err) == (0, "")
    assert "ok: " in alone.out
    assert "give the releases made from it" in alone.out
    outcome = pricdr("ledger", "verify", ledger, *folders)
    assert outcome.code == 0
    assert "2 releases" in outcome.out
    assert "it holds every release given (2)" in outcome.out


def test_verify_finds_a_ledger_that_was_restored_from_a_backup(here, ratings, paid, publish, refused):
    ledger, folders = paid
    ledger.write_bytes(b"".join(ledger.read_bytes().splitlines(keepends=True)[:2]))
    refused("ledger", "verify", ledger, *folders, says=("release 2", "second", "rolled back"), code=1)
    assert publish(ratings, "--ledger", ledger, "--epsilon", 2, "--strategy", "jlt", out="third").code == 0
    refused("ledger", "verify", ledger, *folders, says=("release 2", "second", "rolled back"), code=1)


def test_verify_finds_an_edit_and_tells_other_releases_apart(here, ratings, paid, publish, pricdr, refused):
    ledger, folders = paid
    assert publish(ratings, out="none").code == 0
    init(pricdr, "other.jsonl", epsilon=9)
    assert publish(ratings, "--ledger", "other.jsonl", out="other").code == 0
    refused("ledger", "verify", ledger, *folders, "none", says=("none was made without a ledger",), code=1)
    refused("ledger", "verify", ledger, *folders, "other", says=("other was made with a ledger other than",), code=1)
    ledger.write_bytes(ledger.read_bytes().replace(b'"epsilon":8.0', b'"epsilon":80.0'))
    refused("ledger", "verify", ledger, says=("line 1 was changed", "do not begin a new ledger"), code=1)
    refused("ledger", "verify", "nowhere", says="No such file")


def test_a_cut_line_is_repaired_by_its_release(paid, pricdr, refused):
    ledger, folders = paid
    whole = ledger.read_bytes()
    ledger.write_bytes(whole[:-50])
    refused("ledger", "show", ledger, says=("line 3 is cut off", "pricdr ledger repair"))
    refused("ledger", "repair", ledger, says=("the release whose line was cut off", "--forfeit"))
    refused("ledger", "repair", ledger, folders[0], says="is that of release 2, and not of the one given")
    refused("ledger", "repair", ledger, folders[1], "--forfeit", says="or --forfeit")
    outcome = pricdr("ledger", "repair", ledger, folders[1])
    assert outcome.code == 0
    assert "pricdr ledger verify" in outcome.out
    assert ledger.read_bytes() == whole
    refused("ledger", "repair", ledger, folders[1], says="needs no repair")


def test_a_cut_line_without_its_release_costs_all_that_was_left(ratings, paid, pricdr, publish):
    ledger, folders = paid
    ledger.write_bytes(ledger.read_bytes()[:-50])
    assert pricdr("ledger", "repair", ledger, "--forfeit").code == 0
    assert "room for one more release of epsilon 0 " in pricdr("ledger", "show", ledger).out
    assert publish(ratings, "--ledger", ledger, "--epsilon", 0.1, out="more").code == 1
    assert pricdr("ledger", "verify", ledger, folders[0]).code == 0
    assert pricdr("ledger", "verify", ledger, folders[1]).code == 1
