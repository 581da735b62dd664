"""``pricdr ledger`` and ``publish --ledger``: one budget over every release."""

import json
import stat
import sys

import pytest

from pricdr import Ledger
from pricdr.privacy.calibration import composed_epsilon


def init(pricdr, file, epsilon=8, unit="rating"):
    return pricdr("ledger", "init", file, "--epsilon", epsilon, "--delta", 1e-6, "--unit", unit)


def test_init_creates_a_private_file_and_says_the_budget(here, pricdr):
    outcome = init(pricdr, "sub dir/budget.jsonl")
    assert outcome.code == 0
    assert "(8, 1e-06)-differential privacy for one rating, over all releases together" in outcome.out
    file = here / "sub dir" / "budget.jsonl"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in file.parent.iterdir()] == ["budget.jsonl"]


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
    assert lines[0].startswith("budget: (8, 1e-06)-differential privacy for one rating, whatever is decided")
    assert lines[1].split()[0] == "1"
    assert "spectral" in lines[1]
    assert lines[2].startswith("spent: epsilon 2 ")
    assert "in 1 releases; room for one more release of epsilon 7.58995" in lines[2]
    assert "had all releases been fixed beforehand; the promise is the budget" in lines[3]
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

    module = sys.modules["pricdr.publish"]
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


@pytest.mark.parametrize("flags", [("--insecure-seed", 1), ("--insecure-no-noise",)])
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


def test_an_automatic_dim_is_paid_for_too(here, ratings, ledger, publish):
    assert publish(ratings, "--ledger", ledger, "--epsilon", 4, "--dim", "auto", "--strategy", "jlt").code == 0
    certificate = json.loads((here / "release" / "certificate.json").read_text())
    (spend,) = Ledger(ledger).read().spends
    assert spend.mu == pytest.approx(certificate["mu"])
    assert Ledger(ledger).read().epsilon == pytest.approx(4, rel=1e-6)


@pytest.mark.parametrize(
    ("unit", "options"),
    [
        ("user", ("--epsilon", 1, "--unit", "user", "--clip", 1e-300)),
        ("rating", ("--epsilon", 1e-9, "--dim", "auto", "--strategy", "jlt")),
        ("rating", ("--epsilon", 1e9)),
        ("rating", ("--epsilon", 1, "--calibration", "paper")),
        ("rating", ("--epsilon", 1, "--calibration", "paper", "--dim", "auto", "--strategy", "jlt")),
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
