"""``ledger plan``, and the JSON of every ledger command."""

import json
from datetime import UTC, date, datetime, timedelta

import pytest

from pricdr import Guarantee, Ledger, Unit
from pricdr.errors import BudgetError, ParameterError
from pricdr.privacy.ledger import Balance
from pricdr.privacy.plan import MAX_RELEASES, allowance_at, equal_allowance

BUDGET = Guarantee(epsilon=8, delta=1e-6)


def _cost(mu):
    return {"mu": mu, "dim": 8, "unit": Unit.RATING, "strategy": "spectral", "promise": ""}


@pytest.mark.parametrize("releases", [1, 2, 7, 52])
def test_as_many_releases_as_planned_fit_and_not_one_more(tmp_path, releases):
    ledger = Ledger.create(tmp_path / "budget.jsonl", BUDGET)
    allowance = equal_allowance(ledger.read(), releases)
    for _ in range(releases):
        balance = ledger.spend(**_cost(allowance.mu))
    assert balance.epsilon == pytest.approx(8, rel=1e-9)
    with pytest.raises(BudgetError):
        ledger.spend(**_cost(allowance.mu))
    with pytest.raises(BudgetError, match="nothing is left"):
        equal_allowance(balance, 1)


def test_one_part_in_a_thousand_more_would_not_fit(tmp_path):
    ledger = Ledger.create(tmp_path / "budget.jsonl", BUDGET)
    allowance = equal_allowance(ledger.read(), 7)
    for _ in range(6):
        ledger.spend(**_cost(1.001 * allowance.mu))
    with pytest.raises(BudgetError):
        ledger.spend(**_cost(1.001 * allowance.mu))


def test_what_was_spent_counts(tmp_path):
    ledger = Ledger.create(tmp_path / "budget.jsonl", BUDGET)
    planned = equal_allowance(ledger.read(), 10)
    for _ in range(4):
        ledger.spend(**_cost(planned.mu))
    assert equal_allowance(ledger.read(), 6).mu == pytest.approx(planned.mu, rel=1e-9)


def test_the_whole_budget_is_one_release_of_its_epsilon():
    assert equal_allowance(Balance.unspent(BUDGET), 1).guarantee == BUDGET


def test_squares_add_up_so_52_releases_get_far_more_than_a_52nd():
    allowance = equal_allowance(Balance.unspent(BUDGET), 52)
    assert allowance.guarantee.epsilon == 0.889813
    assert allowance.sigma == pytest.approx(6.118, rel=1e-3)


@pytest.mark.parametrize(("unit", "sigma"), [(Unit.RATING, 1.695), (Unit.USER, 2 * 1.695)])
def test_sigma_is_what_the_default_strategy_would_publish_with(unit, sigma):
    allowance = equal_allowance(Balance.unspent(Guarantee(epsilon=8, delta=1e-6, unit=unit)), 4)
    assert allowance.sigma == pytest.approx(sigma, rel=1e-3)


def test_an_epsilon_too_small_for_the_default_strategy_has_no_sigma():
    assert equal_allowance(Balance.unspent(BUDGET), MAX_RELEASES).sigma is None


@pytest.mark.parametrize("releases", [0, -1, 2.5, True, MAX_RELEASES + 1])
def test_numbers_of_releases_that_cannot_be(releases):
    with pytest.raises(ParameterError, match="releases"):
        equal_allowance(Balance.unspent(BUDGET), releases)


def test_the_command_plans_without_a_ledger(pricdr):
    outcome = pricdr("ledger", "plan", "--epsilon", 8, "--releases", 52)
    assert (outcome.code, outcome.err) == (0, "")
    assert "each of 52 more: epsilon 0.889813 at delta 1e-06 (mu 0.212387)" in outcome.out
    assert "sigma it needs: 6.118" in outcome.out
    user = pricdr("ledger", "plan", "--epsilon", 8, "--delta", 1e-8, "--unit", "user", "--releases", 2)
    assert "(8, 1e-08)-differential privacy for one user" in user.out
    assert "a clip of 1" in user.out


def test_what_the_command_plans_can_be_published(here, ratings, ledger, pricdr, publish):
    assert publish(ratings, "--ledger", ledger, "--epsilon", 3, out="first").code == 0
    plan = json.loads(pricdr("ledger", "plan", ledger, "--releases", 3, "--json", "-").out)
    assert plan["spent"]["releases"] == 1
    for number in range(3):
        outcome = publish(ratings, "--ledger", ledger, "--epsilon", plan["each"]["epsilon"], out=f"next{number}")
        assert outcome.code == 0, outcome.err
    assert publish(ratings, "--ledger", ledger, "--epsilon", 0.1, out="more").code == 1


@pytest.mark.parametrize("each", [8.0, 4.0, 1.0])
def test_as_many_of_one_price_fit_as_the_plan_says_and_not_one_more(tmp_path, each):
    ledger = Ledger.create(tmp_path / "budget.jsonl", BUDGET)
    allowance = allowance_at(ledger.read(), each)
    for left in range(allowance.releases, 0, -1):
        assert ledger.read().room_for(allowance.mu) == left
        ledger.spend(**_cost(allowance.mu))
    with pytest.raises(BudgetError):
        ledger.spend(**_cost(allowance.mu))
    with pytest.raises(BudgetError, match="too little is left for one more release"):
        allowance_at(ledger.read(), each)


def test_a_price_is_planned_for_by_the_week(ratings, ledger, pricdr, publish):
    plan = json.loads(pricdr("ledger", "plan", ledger, "--each", 4, "--json", "-").out)
    assert plan["releases"] == 3
    assert date.fromisoformat(plan["last_of_weekly"]) - datetime.now(UTC).date() in (timedelta(13), timedelta(14))
    assert [publish(ratings, "--ledger", ledger, out=f"week{week}").code for week in range(4)] == [0, 0, 0, 1]
    assert "at the price of the last one: 0 more releases" in pricdr("ledger", "show", ledger).out
    assert pricdr("ledger", "plan", "--epsilon", 8, "--releases", 100_000).code == 0  # no calendar goes that far


def test_every_ledger_command_writes_json_and_nothing_else(here, ratings, pricdr, publish):
    budget = {"epsilon": 8.0, "delta": 1e-6, "unit": "rating"}
    made = pricdr("ledger", "init", "b.jsonl", "--epsilon", 8, "--delta", 1e-6, "--json", "-")
    spent = {"epsilon": 0.0, "mu": 0.0, "releases": 0}
    assert json.loads(made.out) == {"ledger": "b.jsonl", "budget": budget, "spent": spent, "signed_by": None}
    assert publish(ratings, "--ledger", "b.jsonl", "--strategy", "jlt").code == 0
    shown = json.loads(pricdr("ledger", "show", "b.jsonl", "--json", "-").out)
    balance = Ledger("b.jsonl").read()
    assert shown["budget"] == budget
    assert shown["spent"] == {"epsilon": balance.epsilon, "mu": balance.mu, "releases": 1}
    left = {"epsilon": balance.room, "mu": balance.mu_left, "at_the_last_price": 2}
    assert shown["room"] == left
    assert shown["releases"][0]["hash"] == balance.spends[0].hash
    verified = json.loads(pricdr("ledger", "verify", "b.jsonl", "release", "--json", "-").out)
    assert (verified["holds"], verified["signed_by"]) == (["release"], None)
    whole = (here / "b.jsonl").read_bytes()
    (here / "b.jsonl").write_bytes(whole[:-50])
    repaired = json.loads(pricdr("ledger", "repair", "b.jsonl", "release", "--json", "-").out)
    assert repaired["repaired"]["number"] == 1
    assert (here / "b.jsonl").read_bytes() == whole
    failed = pricdr("ledger", "verify", "nowhere", "--json", "-")
    assert (failed.code, failed.out) == (2, "")
