"""``pricdr ledger`` and ``publish --ledger``: one budget over every release, what is left, and what fits into it."""

import json
from datetime import UTC, date, datetime, timedelta

import pytest

from pricdr import Guarantee, Ledger, Unit
from pricdr.errors import BudgetError, ParameterError
from pricdr.privacy.ledger import Balance
from pricdr.privacy.plan import MAX_RELEASES, allowance_at, equal_allowance

BUDGET = Guarantee(epsilon=8, delta=1e-6)


@pytest.fixture
def fresh(tmp_path):
    return Ledger.create(tmp_path / "fresh.jsonl", BUDGET)


def spend(ledger, mu):
    return ledger.spend(mu=mu, dim=8, unit=Unit.RATING, strategy="spectral", promise="")


def test_show_tells_budget_spends_and_what_is_left(ratings, ledger, publish, pricdr):
    made = pricdr("ledger", "init", "sub dir/other.jsonl", "--epsilon", 8, "--delta", 1e-6)
    assert "(8, 1e-06)-differential privacy for one rating, over all releases together" in made.out
    assert "in 0 releases; room for one more release of epsilon 8 at this delta" in pricdr("ledger", "show", ledger).out
    assert publish(ratings, "--ledger", ledger, "--epsilon", 2).code == 0
    budget, first, spent, meaning, _ = pricdr("ledger", "show", ledger).out.splitlines()
    assert budget == "budget: (8, 1e-06)-differential privacy for one rating, however each release is chosen"
    assert first.split()[0] == "1"
    assert "spectral" in first
    assert spent.startswith("spent: epsilon 2 ")
    assert "in 1 release; room for one more release of epsilon 7.58995" in spent
    assert "had all been fixed in advance; the promise is the budget" in meaning
    room = spent.split("epsilon ")[-1].split()[0]
    assert publish(ratings, "--ledger", ledger, "--epsilon", float(room) * 0.9999, out="fits").code == 0


def test_an_overspend_is_refused_before_anything_is_drawn(ratings, ledger, publish, refused_publish, nothing_drawn):
    assert publish(ratings, "--ledger", ledger, "--epsilon", 6, out="first").code == 0
    with nothing_drawn():
        says = ("budget.jsonl", "refuses", "spent so far epsilon 6", "budget 8 at delta 1e-06")
        refused_publish(ratings, "--epsilon", 7, code=1, says=says)
        assert "something was drawn" in publish(ratings, "--ledger", ledger, "--epsilon", 1).err


# verify and repair


@pytest.fixture
def paid(here, ratings, ledger, publish):
    """A ledger with two releases, and their folders."""
    folders = [here / "first", here / "second"]
    for folder in folders:
        assert publish(ratings, "--ledger", ledger, "--epsilon", 2, "--strategy", "jlt", out=folder).code == 0
    return ledger, folders


def test_verify_says_whose_releases_a_ledger_holds_and_finds_an_edit(ratings, paid, publish, pricdr, refused):
    ledger, folders = paid
    alone, whole = pricdr("ledger", "verify", ledger), pricdr("ledger", "verify", ledger, *folders)
    assert (alone.code, alone.err, whole.code, whole.err) == (0, "", 0, "")
    assert "give the releases made from it" in alone.out
    assert "2 releases" in whole.out
    assert "it holds every release given (2)" in whole.out
    assert "not among these: release 1 of the ledger" in pricdr("ledger", "verify", ledger, folders[1]).out
    assert pricdr("ledger", "init", "other.jsonl", "--epsilon", 9, "--delta", 1e-6).code == 0
    assert publish(ratings, "--ledger", "other.jsonl", out="other").code == 0
    refused("ledger", "verify", ledger, *folders, "other", says="other was made with a ledger other than", code=1)
    ledger.write_bytes(ledger.read_bytes().replace(b'"epsilon":8.0', b'"epsilon":80.0'))
    refused("ledger", "verify", ledger, says=("line 1 was changed", "do not begin a new ledger"), code=1)


def test_verify_finds_a_ledger_that_was_restored_from_a_backup(ratings, paid, publish, refused):
    ledger, folders = paid
    ledger.write_bytes(b"".join(ledger.read_bytes().splitlines(keepends=True)[:2]))
    refused("ledger", "verify", ledger, *folders, says=("release 2", "second", "rolled back"), code=1)
    assert publish(ratings, "--ledger", ledger, "--epsilon", 2, "--strategy", "jlt", out="third").code == 0
    refused("ledger", "verify", ledger, *folders, says=("release 2", "second", "rolled back"), code=1)


def test_a_cut_line_is_repaired_by_its_release_or_costs_all_that_was_left(ratings, paid, pricdr, publish, refused):
    ledger, folders = paid
    whole = ledger.read_bytes()
    ledger.write_bytes(whole[:-50])
    refused("ledger", "repair", ledger, folders[0], says="is that of release 2, and not of the one given")
    outcome = pricdr("ledger", "repair", ledger, folders[1])
    assert (outcome.code, ledger.read_bytes()) == (0, whole)
    assert "pricdr ledger verify" in outcome.out
    refused("ledger", "repair", ledger, folders[1], says="needs no repair")
    ledger.write_bytes(whole[:-50])
    assert pricdr("ledger", "repair", ledger, "--forfeit").code == 0
    assert "room for one more release of epsilon 0 " in pricdr("ledger", "show", ledger).out
    assert publish(ratings, "--ledger", ledger, "--epsilon", 0.1, out="more").code == 1
    assert [pricdr("ledger", "verify", ledger, folder).code for folder in folders] == [0, 1]


# plans


@pytest.mark.parametrize("releases", [1, 2, 7, 52])
def test_as_many_releases_as_planned_fit_and_not_one_more(fresh, releases):
    allowance = equal_allowance(fresh.read(), releases)
    for left in range(releases, 0, -1):
        assert equal_allowance(fresh.read(), left).mu == pytest.approx(allowance.mu, rel=1e-9), "what was spent counts"
        balance = spend(fresh, allowance.mu)
    assert balance.epsilon == pytest.approx(8, rel=1e-9)
    with pytest.raises(BudgetError):
        spend(fresh, allowance.mu)
    with pytest.raises(BudgetError, match="nothing is left"):
        equal_allowance(balance, 1)


@pytest.mark.parametrize("each", [8.0, 4.0, 1.0])
def test_as_many_of_one_price_fit_as_the_plan_says_and_not_one_more(fresh, each):
    allowance = allowance_at(fresh.read(), each)
    for left in range(allowance.releases, 0, -1):
        assert fresh.read().room_for(allowance.mu) == left
        spend(fresh, allowance.mu)
    with pytest.raises(BudgetError):
        spend(fresh, allowance.mu)
    with pytest.raises(BudgetError, match="too little is left for one more release"):
        allowance_at(fresh.read(), each)


def test_squares_add_up_so_52_releases_get_far_more_than_a_52nd():
    unspent = Balance.unspent(BUDGET)
    allowance = equal_allowance(unspent, 52)
    assert (allowance.guarantee.epsilon, allowance.sigma) == (0.889813, pytest.approx(6.118, rel=1e-3))
    assert equal_allowance(unspent, 1).guarantee == BUDGET
    assert equal_allowance(unspent, MAX_RELEASES).sigma is None, "too small an epsilon for the default strategy"
    for unit, sigma in ((Unit.RATING, 1.695), (Unit.USER, 1.695)):
        budget = Guarantee(epsilon=8, delta=1e-6, unit=unit)
        assert equal_allowance(Balance.unspent(budget), 4).sigma == pytest.approx(sigma, rel=1e-3)
    for releases in (0, -1, 2.5, True, MAX_RELEASES + 1):
        with pytest.raises(ParameterError, match="releases"):
            equal_allowance(unspent, releases)


def test_the_command_plans_without_a_ledger(pricdr):
    outcome = pricdr("ledger", "plan", "--epsilon", 8, "--releases", 52)
    assert (outcome.code, outcome.err) == (0, "")
    assert "each of 52 more: epsilon 0.889813 at delta 1e-06 (mu 0.212387)" in outcome.out
    assert "sigma it needs: 6.118" in outcome.out
    user = pricdr("ledger", "plan", "--epsilon", 8, "--delta", 1e-8, "--unit", "user", "--releases", 2)
    assert "(8, 1e-08)-differential privacy for one user" in user.out
    assert "a clip of 1" in user.out
    assert pricdr("ledger", "plan", "--epsilon", 8, "--releases", 100_000).code == 0  # no calendar goes that far


def test_what_the_command_plans_can_be_published_and_no_more(ratings, ledger, pricdr, publish):
    assert publish(ratings, "--ledger", ledger, "--epsilon", 3, out="first").code == 0
    plan = json.loads(pricdr("ledger", "plan", ledger, "--releases", 3, "--json", "-").out)
    assert plan["spent"]["releases"] == 1
    assert date.fromisoformat(plan["last_of_weekly"]) - datetime.now(UTC).date() in (timedelta(13), timedelta(14))
    price = ("--epsilon", plan["each"]["epsilon"])
    assert [publish(ratings, "--ledger", ledger, *price, out=f"next{at}").code for at in range(4)] == [0, 0, 0, 1]
    assert "at the price of the last one: 0 more releases" in pricdr("ledger", "show", ledger).out


def test_every_ledger_command_writes_json_and_nothing_else(here, ratings, pricdr, publish):
    def asked(*words):
        return json.loads(pricdr("ledger", *words, "--json", "-").out)

    budget, spent = {"epsilon": 8.0, "delta": 1e-6, "unit": "rating"}, {"epsilon": 0.0, "mu": 0.0, "releases": 0}
    made = asked("init", "b.jsonl", "--epsilon", 8, "--delta", 1e-6)
    assert made == {"ledger": "b.jsonl", "budget": budget, "spent": spent, "window": None, "signed_by": None}
    assert publish(ratings, "--ledger", "b.jsonl", "--strategy", "jlt").code == 0
    shown, balance = asked("show", "b.jsonl"), Ledger("b.jsonl").read()
    assert shown["budget"] == budget
    assert shown["spent"] == {"epsilon": balance.epsilon, "mu": balance.mu, "releases": 1}
    assert shown["room"] == {"epsilon": balance.room, "mu": balance.mu_left, "at_the_last_price": 2}
    assert shown["releases"][0]["hash"] == balance.spends[0].hash
    verified = asked("verify", "b.jsonl", "release")
    assert (verified["holds"], verified["signed_by"]) == (["release"], None)
    (here / "b.jsonl").write_bytes((here / "b.jsonl").read_bytes()[:-50])
    assert asked("repair", "b.jsonl", "release")["repaired"]["number"] == 1
    failed = pricdr("ledger", "verify", "nowhere", "--json", "-")
    assert (failed.code, failed.out) == (2, "")
