"""``pricdr ledger`` and ``publish --ledger``: one budget over every release."""

import json
import stat
import sys

import pytest

from pricdr import Ledger
from pricdr.privacy.accounting import composed_epsilon
from tests.settings import config


def init(pricdr, file, epsilon=8, unit="rating"):
    return pricdr("ledger", "init", file, "--epsilon", epsilon, "--delta", 1e-6, "--unit", unit)


def test_init_creates_a_private_file_and_says_the_budget(here, pricdr):
    outcome = init(pricdr, "sub dir/budget.jsonl")
    assert outcome.code == 0
    assert "(8, 1e-06)-differential privacy for one rating, over all releases together" in outcome.out
    file = here / "sub dir" / "budget.jsonl"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in file.parent.iterdir()] == ["budget.jsonl"]


def test_init_warns_of_a_large_epsilon_for_what_it_protects(pricdr):
    assert "the odds about one user may change" in init(pricdr, "budget.jsonl", epsilon=20, unit="user").err


def test_init_never_overwrites(ledger, refused):
    refused(
        *("ledger", "init", ledger, "--epsilon", 99, "--delta", 1e-6, "--unit", "rating"),
        says=("budget.jsonl", "exists already"),
    )


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


@pytest.mark.parametrize("content", [b"", b"junk", b"\x00\xff", b"{}\n", b'{"pricdr_ledger": 2}\n'])
def test_show_refuses_what_is_no_ledger(here, refused, content):
    (here / "x").write_bytes(content)
    refused("ledger", "show", "x", says="x is not a")
    refused("ledger", "show", "nowhere", says=("nowhere", "No such file"))


def test_a_release_is_recorded_once_and_its_certificate_states_the_account(here, ratings, ledger, publish, pricdr):
    for number, strategy in enumerate(["spectral", "jlt", "sjlt"], 1):
        out = here / f"release{number}"
        assert publish(ratings, "--ledger", ledger, "--epsilon", 2, "--strategy", strategy, out=out).code == 0
        balance = Ledger(ledger).read()
        assert [spend.strategy for spend in balance.spends] == ["spectral", "jlt", "sjlt"][:number]
        account = json.loads((out / "certificate.json").read_text())["ledger"]
        assert account["releases"] == number
        assert account["epsilon_total"] == pytest.approx(balance.epsilon)
        assert account["mu_total"] == pytest.approx(balance.mu)
        assert account["budget_epsilon"] == 8
        assert pricdr("verify", out).code == 0
        assert f"Release {number} of this ledger" in pricdr("inspect", out).out
    spends = [(spend.mu, spend.dim) for spend in balance.spends]
    assert balance.epsilon == pytest.approx(composed_epsilon(spends, 1e-6))
    assert balance.epsilon < 4


def test_a_release_of_exactly_the_budget_fits_and_nothing_after_it(here, ratings, ledger, publish):
    assert publish(ratings, "--ledger", ledger, "--epsilon", 8).code == 0
    refusal = publish(ratings, "--ledger", ledger, "--epsilon", 0.01, out="more")
    assert refusal.code == 1
    assert "spent so far epsilon 8, " in refusal.err


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


@pytest.mark.parametrize(("held", "asked"), [("user", "rating"), ("rating", "user")])
def test_a_ledger_of_another_unit_is_refused(here, ratings, pricdr, refused, held, asked):
    init(pricdr, "other.jsonl", unit=held)
    clip = ("--clip", 1) if asked == "user" else ()
    refused(
        *("publish", ratings, "--epsilon", 1, "--delta", 1e-6, "--out", "release"),
        *("--unit", asked, *clip, "--ledger", "other.jsonl"),
        says=("other.jsonl", f"unit {held}", f"unit {asked}"),
    )


@pytest.mark.parametrize("flags", [("--insecure-seed", 1), config(insecure_no_noise=True)])
def test_a_release_that_is_not_private_cannot_be_entered(ratings, refused_publish, flags):
    refused_publish(ratings, *flags, says=("not private", "ledger"))


def test_a_ledger_behind_a_link_is_the_one_that_pays(here, ratings, ledger, publish):
    (here / "link.jsonl").symlink_to(ledger)
    assert publish(ratings, "--ledger", here / "link.jsonl", "--epsilon", 6).code == 0
    assert (here / "link.jsonl").is_symlink()
    assert len(Ledger(ledger).read().spends) == 1
    assert publish(ratings, "--ledger", ledger, "--epsilon", 6, out="more").code == 1


def test_spending_through_the_command_keeps_the_file_private(ratings, ledger, publish):
    publish(ratings, "--ledger", ledger)
    assert stat.S_IMODE(ledger.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("unit", "options"),
    [
        ("user", ("--epsilon", 1, "--unit", "user", "--clip", 1e-300)),
        ("rating", ("--epsilon", 1e9)),
        ("rating", ("--epsilon", 1, *config(calibration="paper"))),
        ("user", ("--epsilon", 1, "--unit", "user", "--clip", 1e300)),
        ("rating", ("--epsilon", 1, "--values", "--rating-bound", 1e300, "--rating-step", 1e296)),
    ],
)
def test_what_cannot_be_published_costs_nothing(here, pricdr, refused, unit, options):
    (here / "r.csv").write_text("user,item,rating\na,x,1\n")
    (here / "users.txt").write_text("a\n")
    init(pricdr, "budget.jsonl", unit=unit)
    fixed = ("--delta", 1e-6, "--out", "release", "--users", "users.txt", "--ledger", "budget.jsonl")
    refused("publish", "r.csv", *fixed, *options)


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


def test_a_release_is_not_paid_from_a_ledger_that_was_changed(ratings, ledger, refused_publish):
    ledger.write_bytes(ledger.read_bytes().replace(b'"epsilon":8.0', b'"epsilon":80.0'))
    refused_publish(ratings, says=("line 1 was changed", "do not begin a new ledger"))


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


def test_a_release_outside_any_ledger_is_warned_of_once(ratings, ledger, publish):
    assert publish(ratings, out="plain").err.count("not counted against a budget") == 1
    assert "budget" not in publish(ratings, "--ledger", ledger, out="paid").err
    assert "budget" not in publish(ratings, "--insecure-seed", 1, out="seeded").err
    assert "budget" not in publish(ratings, *config(insecure_no_noise=True), out="noiseless").err


def test_inspect_says_that_the_budget_is_the_promise(paid, pricdr):
    _, folders = paid
    shown = " ".join(pricdr("inspect", folders[1]).out.split())
    assert "stay within epsilon 8 at delta 1e-06, however each of them was chosen" in shown
    assert "had all of them been fixed in advance: a figure for orientation, not a promise" in shown


def test_a_read_only_ledger_is_refused(ratings, ledger, refused_publish):
    ledger.chmod(0o444)
    refused_publish(ratings, says=("budget.jsonl is read-only", "chmod"))


def test_verify_says_which_release_is_wrong(paid, refused):
    ledger, folders = paid
    (folders[1] / "README.md").write_text("another promise")
    refused("ledger", "verify", ledger, *folders, says=f"{folders[1]}: README.md was changed", code=1)
