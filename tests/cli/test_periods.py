"""A ledger for some days alone, publishing against it, and the unit user-period, from the command line."""

import hashlib
import json
from pathlib import Path

import pytest

from pricdr import Guarantee, Ledger, Release
from pricdr.data.periods import Window
from pricdr.errors import LedgerError
from pricdr.privacy.ledger import compact

ROWS = "user,item,rating,time\nalice,dune,5,2026-02-01\nalice,emma,3,2026-02-03\nbob,dune,4,2026-06-01\n"
OTHERS = "alice,dune,1,2027-01-01\ncarol,it,5,2025-12-31\ncarol,it,5,\n"
BUDGET = ("--epsilon", 8, "--delta", 1e-6)
DAYS = ("--from", "2026-01-01", "--until", "2027-01-01")
BY_WEEK = ("--unit", "user-period", "--period", "7d")


@pytest.fixture
def timed(here):
    (here / "inside.csv").write_text(ROWS)
    (here / "all.csv").write_text(ROWS + OTHERS)
    return here / "all.csv"


@pytest.mark.parametrize(("unit", "clip"), [((), ()), (BY_WEEK, ("--clip", 2))], ids=["rating", "user-period"])
def test_a_ledger_of_some_days_publishes_their_rows_and_says_so(here, timed, pricdr, publish, unit, clip):
    assert pricdr("ledger", "init", "b26", *BUDGET, *DAYS, *unit).code == 0
    asked = (*unit, *clip, "--ledger", "b26", "--epsilon", 2)
    for file in ("inside", "all"):
        assert publish(f"{file}.csv", *asked, out=file).code == 0
    first, second = (Release.load(here / name).certificate for name in ("inside", "all"))
    assert (first.users, first.window, first.neighbours) == (second.users, second.window, second.neighbours)
    assert (second.users, second.window.begin, second.window.until) == (2, "2026-01-01", "2027-01-01")
    assert "from 2026-01-01 until 2027-01-01" in second.neighbours
    assert pricdr("verify", "all").code == 0
    assert pricdr("ledger", "verify", "b26", "inside", "all").code == 0
    assert "3 of other days" in publish("all.csv", *asked, "--dry-run", out="more").out
    shown = json.loads(pricdr("ledger", "show", "b26", "--json", "-").out)
    period = 7 if unit else None
    assert shown["window"] == {"from": "2026-01-01", "until": "2027-01-01", "period": period, "after": None}


def test_ledgers_that_follow_one_another_count_no_day_twice(pricdr):
    assert "--after" in pricdr("ledger", "init", "b26", *BUDGET, *DAYS).out
    next_year = ("--from", "2027-01-01", "--until", "2028-01-01", "--after", "b26")
    assert pricdr("ledger", "init", "b27", *BUDGET, *next_year).code == 0
    assert Ledger("b27").read().after == Ledger("b26").read().opening
    pricdr("ledger", "init", "all", *BUDGET)
    for options, says in (
        (("--from", "2026-12-31", "--until", "2028-01-01", "--after", "b26"), "b26 counts days from 2026-01-01"),
        ((*DAYS, "--after", "b26"), "b26 counts days from 2026-01-01"),
        ((*DAYS, "--after", "all"), "no ledger can come after all: it has no period"),
        (("--after", "b26"), "a ledger that comes after b26 needs days of its own"),
        (("--from", "2028-01-01"), "--from and --until go together"),
        (("--from", "2028-01-01", "--until", "2028-01-01"), "must end after it begins"),
        ((*DAYS, "--unit", "user"), "unit user has no period"),
        (("--unit", "user-period"), "needs the length of a period"),
        ((*DAYS, "--period", "7d"), "no other unit has one"),
        ((*DAYS, "--unit", "user-period", "--period", "0d"), "a period must be a number of days"),
    ):
        outcome = pricdr("ledger", "init", "refused", *BUDGET, *options)
        assert (outcome.code, says in outcome.err, outcome.err.count("\n")) == (2, True, 1), outcome.err


def test_a_series_over_two_ledgers_costs_what_the_dearer_costs(timed, pricdr):
    """No rating is in both: each pays in the releases that read its day."""
    Path("users.txt").write_text("alice\nbob\ncarol\n")
    pricdr("ledger", "init", "b25", *BUDGET, "--from", "2025-01-01", "--until", "2026-01-01")
    pricdr("ledger", "init", "b26", *BUDGET, *DAYS, "--after", "b25")
    for ledger, epsilon, out in (("b25", 2, "s/1"), ("b25", 1, "s/2"), ("b26", 1, "s/3")):
        asked = ("--delta", 1e-6, "--users", "users.txt", "--ledger", ledger, "--epsilon", epsilon)
        go_on = ("--continues", "s") if out != "s/1" else ("--dim", 2)
        outcome = pricdr("publish", timed, *asked, *go_on, "--out", out)
        assert outcome.code == 0, outcome.err
    pricdr("inspect", "s", "--json", "found.json")
    found = json.loads(Path("found.json").read_text())
    assert found["epsilon"] == pytest.approx(Ledger("b25").read().epsilon, rel=1e-6)


def test_bad_input_is_one_line_and_spends_nothing(here, timed, pricdr, publish):
    pricdr("ledger", "init", "b26", *BUDGET, *DAYS)
    pricdr("ledger", "init", "weeks", *BUDGET, *DAYS, *BY_WEEK)
    pricdr("ledger", "init", "later", *BUDGET, "--from", "2998-01-01", "--until", "2999-01-01")
    (here / "no-times.csv").write_text("user,item\nalice,dune\n")
    (here / "odd.csv").write_text(ROWS + "dora,it,5,a day in May\n")
    clip = ("--clip", 2)
    for file, options, says in (
        ("no-times.csv", ("--ledger", "b26"), "there is no time column"),
        ("odd.csv", ("--ledger", "b26"), "the time 'a day in May' is not a time"),
        ("no-times.csv", ("--ledger", "weeks", *BY_WEEK, *clip), "there is no time column"),
        ("all.csv", ("--ledger", "later"), "has not begun"),
        ("all.csv", ("--ledger", "b26", "--unit", "user", *clip), "in unit rating, this release in unit user"),
        ("all.csv", ("--ledger", "b26", *BY_WEEK, *clip), "in unit rating, this release in unit user-period"),
        ("all.csv", ("--ledger", "weeks"), "in unit user-period, this release in unit rating"),
        ("all.csv", ("--ledger", "weeks", *BY_WEEK[:-1], "1d", *clip), "weeks counts 7 days"),
        ("all.csv", ("--ledger", "weeks", *BY_WEEK, "--clip", 0.001), "too small: less than 1/256"),
        ("all.csv", ("--ledger", "weeks", *BY_WEEK), "needs a clip"),
        ("all.csv", ("--ledger", "weeks", *BY_WEEK, *clip, "--strategy", "jlt"), "cannot protect user-periods"),
        ("all.csv", ("--ledger", "weeks", "--unit", "user-period", *clip), "--period go together"),
        ("all.csv", ("--period", "7d"), "--period go together"),
    ):
        outcome = publish(file, *options)
        errors = [line for line in outcome.err.splitlines() if not line.startswith("warning")]
        assert (outcome.code, len(errors), says in outcome.err) == (2, 1, True), outcome.err
        assert not (here / "release").exists()
    for ledger in ("b26", "weeks", "later"):
        assert Ledger(ledger).read().spends == ()


def test_a_dry_run_shows_the_noise_of_other_clips(timed, publish):
    asked = ("all.csv", *BY_WEEK, "--clip", 2, "--dry-run")
    found = json.loads(publish(*asked, "--json", "-").out)
    assert list(found["sigma_by_clip"]) == ["1", "2", "3", "5"]
    assert found["sigma_by_clip"]["2"] == found["sigma"]
    assert found["sigma_by_clip"]["5"] == pytest.approx(2.5 * found["sigma"], rel=0.01)
    assert "sigma by the clip: " in publish(*asked).out
    assert "sigma by the clip" not in publish("all.csv", "--dry-run").out


def test_times_in_other_units_than_seconds_are_noticed_on_screen(here, pricdr, publish):
    (here / "r.csv").write_text("user,item,time\nalice,dune,1772323200000\n")
    pricdr("ledger", "init", "b26", *BUDGET, *DAYS)
    outcome = publish("r.csv", "--users", _users(here), "--ledger", "b26")
    assert (outcome.code, "no row has a time from 2026-01-01 until 2027-01-01" in outcome.err) == (0, True), outcome.err


def _users(folder):
    (folder / "users.txt").write_text("alice\nbob\n")
    return "users.txt"


def test_values_are_forced_period_by_period(here, publish):
    rows = [f"a,x,{value},2026-0{month}-01\n" for month, value in ((1, 4), (2, 5), (3, 6), (4, 2.4))]
    (here / "r.csv").write_text("user,item,rating,time\n" + "".join(rows))
    values = ("--values", "--rating-bound", 5, "--rating-step", 1)
    outcome = publish("r.csv", *BY_WEEK, "--clip", 5, *values)
    assert outcome.code == 0
    assert "of 4 ratings 1 lie outside [0, 5] and are clamped, 1 others" in outcome.err


def test_a_budget_line_that_states_no_days_is_refused(tmp_path):
    window = Window.parse("2026-01-01", "2027-01-01")
    Ledger.create(tmp_path / "b", Guarantee(epsilon=8, delta=1e-6, window=window))
    raw = json.loads((tmp_path / "b").read_bytes())
    changes = {"window": ["2027-01-01", "2026-01-01"]}, {"days": 7}, {"unit": "user"}, {"window": "2026"}
    for change in (*changes, {"window": None, "days": 7}):
        content = {name: value for name, value in {**raw, **change}.items() if name != "hash" and value is not None}
        content["hash"] = hashlib.sha256(compact(content)).hexdigest()
        (tmp_path / "b").write_bytes(compact(content) + b"\n")
        with pytest.raises(LedgerError, match="is not a valid ledger"):
            Ledger(tmp_path / "b").read()


@pytest.mark.slow
def test_an_audit_of_a_user_in_a_period_stays_below_the_claim(pricdr):
    options = ("--epsilon", 4, "--delta", 1e-6, *BY_WEEK, "--clip", 2, "--dim", 2)
    outcome = pricdr("audit", *options, "--draws", 4000, "--canaries", 1000, "--json", "-")
    assert outcome.code == 0
    assert json.loads(outcome.out)["unit"] == "user-period"
