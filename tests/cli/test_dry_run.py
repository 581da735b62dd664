"""``publish --dry-run``, ``--json`` and ``--log``: what they say, and that they neither spend, draw nor tell."""

import json
import re
import stat
from pathlib import Path

import pytest

from pricdr import Ledger, verify
from tests.settings import config

USERS = "alice\nbob\ndave\n"
STRATEGIES = [(), ("--strategy", "jlt"), ("--strategy", "sjlt"), ("--unit", "user", "--clip", "2")]


@pytest.fixture
def users(here):
    file = here / "users.txt"
    file.write_text(USERS)
    return file


def test_a_dry_run_says_noise_cost_room_memory_time_and_the_certificate(ratings, users, ledger, publish):
    outcome = publish(ratings, "--users", users, "--ledger", ledger, "--dry-run")
    assert outcome.code == 0
    assert [line for line in outcome.err.splitlines() if "look like stars" not in line] == []
    shown = " ".join(outcome.out.split())
    assert re.search(r"noise: sigma \d+\.\d+ in the published numbers; mu 0\.837857 in all", shown)
    assert "cost: (4, 1e-06)-differential privacy for one rating" in shown
    assert "epsilon 0 is spent, and 4 after this release; that leaves room for one more of epsilon " in shown
    assert re.search(r"memory: about [\d,.]+ [MG]B; time: about [\d:]+, reading included", shown)
    assert "PRIVATE: it may leave the source" in shown
    assert "Release 1 of this ledger: epsilon 4 spent of 8" in shown
    assert outcome.out.endswith("dry run: nothing was spent or drawn, and no release was written\n")


@pytest.mark.parametrize("options", STRATEGIES, ids=" ".join)
def test_a_dry_run_foresees_the_certificate_and_spends_draws_and_writes_nothing(
    here, ratings, users, pricdr, publish, tree, nothing_drawn, options
):
    unit = "user" if "user" in options else "rating"
    pricdr("ledger", "init", "own.jsonl", "--epsilon", 8, "--delta", 1e-6, "--unit", unit)
    asked = (ratings, "--users", users, "--ledger", "own.jsonl", *options)
    before = tree()
    with nothing_drawn():
        outcome = publish(*asked, "--dry-run", "--json", "-")
    assert outcome.code == 0, outcome.err
    assert tree() == before
    assert publish(*asked, "--json", "made.json").code == 0
    foreseen, made = json.loads(outcome.out), json.loads((here / "made.json").read_text())["certificate"]
    assert (foreseen["sigma"], foreseen["mu"]) == (made["sigma"], made["mu"])
    assert foreseen["ledger"]["spent_after"] == made["ledger"]["epsilon_total"]
    assert foreseen["ledger"]["room_after"] == Ledger("own.jsonl").read().room
    assert set(made) - set(foreseen["certificate"]) <= {"files", "digest", "signed_by"}
    promised = foreseen["certificate"].pop("ledger")
    assert promised.items() - made["ledger"].items() <= {(key, None) for key in promised}
    assert foreseen["certificate"] == {key: made[key] for key in foreseen["certificate"]}


def test_a_dry_run_refuses_what_the_real_run_would(ratings, ledger, publish, tree):
    before = tree()
    for options, code, says in (
        (("--epsilon", 9), 1, "budget.jsonl refuses"),
        (("--unit", "user", "--clip", 1), 2, "unit rating"),
        (("--insecure-seed", 1), 2, "cannot be entered in a ledger"),
        (("--epsilon", 1e9), 2, "too large to certify"),
        (("--out", "ratings.csv"), 2, "ratings.csv exists already"),
    ):
        for dry in ((), ("--dry-run",)):
            outcome = publish(ratings, "--ledger", ledger, *options, *dry)
            assert (outcome.code, says in outcome.err) == (code, True), outcome.err
    assert tree() == before


def test_the_log_says_what_happened_and_is_private(here, ratings, users, ledger, publish):
    asked = (ratings, "--users", users, "--ledger", ledger, *config(log="publish.jsonl"))
    assert publish(*asked, "--dry-run").code == 0
    assert publish(*asked).code == 0
    assert publish(*asked, "--epsilon", 8, out="more").code == 1
    events = [json.loads(line) for line in (here / "publish.jsonl").read_text().splitlines()]
    assert [event["event"] for event in events] == [
        *("began", "dry_run", "finished", "began", "made", "published", "finished", "began", "failed")
    ]
    certificate = verify(here / "release").certificate
    made, failed = events[4], events[-1]
    assert (made["epsilon"], made["sigma"], made["mu"]) == (4, certificate.sigma, certificate.mu)
    assert (made["ledger_release"], made["ledger_line"]) == (1, certificate.ledger.head)
    assert (failed["error"], failed["exit_code"]) == ("BudgetError", 1)
    assert "refuses: spent so far epsilon 4" in failed["message"]
    assert stat.S_IMODE((here / "publish.jsonl").stat().st_mode) == 0o600


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_log_on_a_full_disk_does_not_lose_the_release(here, ratings, users, publish):
    outcome = publish(ratings, "--users", users, *config(log="/dev/full"))
    assert outcome.code == 0
    assert "/dev/full is incomplete: No space left on device" in outcome.err
    verify(here / "release")


@pytest.mark.parametrize("run", ["--dry-run", "--insecure-seed=1"])
def test_values_that_are_clamped_or_rounded_are_counted_on_screen_alone(here, pricdr, run):
    (here / "r.csv").write_text("user,item,rating\na,x,5\na,y,7\nb,x,-1\nb,y,6\nc,x,2.4\nc,y,0\n")
    (here / "users.txt").write_text("a\nb\nc\n")
    fixed = ("publish", "r.csv", "--users", "users.txt", "--epsilon", 4, "--delta", 1e-6, "--out", "release", run)
    values = ("--values", "--rating-bound", 5, "--rating-step", 1)
    outcome = pricdr(*fixed, *values)
    assert outcome.code == 0
    clamped, rounded = "3 lie outside [0, 5] and are clamped", "1 others are not multiples of 1 and are rounded"
    assert f"--values: of 6 ratings {clamped}, {rounded}" in outcome.err
    if (here / "release").exists():
        for path in (here / "release").iterdir():
            assert b"outside [0, 5]" not in path.read_bytes()
    assert "--values:" not in pricdr(*fixed[:-2], "other", run).err, "rows that count as 1 are not clamped"
