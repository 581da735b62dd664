"""``pricdr.publish`` warns in Python of what the command line warns of: before the spend, and once each."""

import re
import warnings

import polars as pl
import pytest

from pricdr import Bounds, Guarantee, Ledger, Ratings, publish
from pricdr.cli import run
from pricdr.errors import PublishWarning
from pricdr.strategies import JLT, SJLT

LIKES = Ratings.from_triples(["a", "b", "b"], ["x", "x", "y"])
STARS = Ratings.from_triples(["a", "b", "b"], ["x", "x", "y"], [1.0, 5.0, 3.0])
FRAME = pl.DataFrame({"user": ["a", "b"], "item": ["x", "y"], "rating": [1, 5]})
PROMISE = Guarantee(epsilon=4, delta=1e-6)
USERS = ["a", "b"]


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "budget", Guarantee(epsilon=99, delta=1e-6))


def _said(publishing):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        publishing()
    assert all(one.category is PublishWarning and one.filename == __file__ for one in caught)
    return [str(one.message) for one in caught]


@pytest.mark.parametrize(
    ("changes", "beginnings"),
    [
        ({}, []),
        ({"ledger": None}, ["no ledger: "]),
        ({"users": None}, ["no user list: "]),
        ({"ratings": STARS}, ["ratings from 1 to 5 look like stars: "]),
        (
            {"ratings": pl.DataFrame({"user": ["a", "b"], "item": ["x", "y"], "rating": [1, 5]})},
            ["ratings from 1 to 5"],
        ),
        ({"ratings": STARS, "bounds": Bounds(rating_bound=5, rating_step=1)}, []),
        ({"ratings": STARS.at_least(3)}, []),
        ({"strategy": SJLT(dim=8)}, ["sjlt without an item list: "]),
        ({"guarantee": Guarantee(epsilon=4, delta=1e-5)}, ["delta = 1e-05 is large"]),
        ({"guarantee": Guarantee(epsilon=4, delta=0.6)}, ["delta = 0.6 is large", "delta = 0.6 is at least 1/2"]),
        ({"guarantee": Guarantee(epsilon=9, delta=1e-6)}, ["epsilon = 9 is above 8"]),
        (
            {"guarantee": Guarantee(epsilon=20, delta=1e-6)},
            ["epsilon = 20 is above 16", "NOT PRIVATE, LITTLE IS PROMISED", "this release is NOT PRIVATE"],
        ),
        ({"insecure_seed": 1, "ledger": None, "users": None}, []),
    ],
)
def test_each_weakness_is_warned_of_once(ledger, changes, beginnings):
    arguments = {"ratings": LIKES, "guarantee": PROMISE, "users": USERS, "strategy": JLT(dim=8), "ledger": ledger}
    said = _said(lambda: publish(**{**arguments, **changes}))
    assert len(said) == len(beginnings)
    assert all(text.startswith(beginning) for text, beginning in zip(said, beginnings, strict=True))


@pytest.mark.parametrize("dim", [8, None], ids=["dim", "dim chosen by a noisy mean"])
def test_a_delta_too_large_for_the_users_is_warned_of_before_anything_is_spent(ledger, dim):
    """Where warnings are errors, nothing is spent."""
    warnings.filterwarnings("error", "delta = 0.5 is at least", PublishWarning)
    with pytest.raises(PublishWarning, match="at least 1/2, one over the number of"):
        publish(LIKES, Guarantee(epsilon=4, delta=0.5), users=USERS, strategy=JLT(dim=dim), ledger=ledger)
    assert ledger.read().spends == ()


def test_the_command_line_says_the_same_before_the_spend_and_nothing_twice(tmp_path, monkeypatch, capsys, ledger):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.csv").write_text("user,item,rating\na,x,1\nb,x,5\nb,y,3\n")
    spend, shown_before = Ledger.spend, []

    def looking(self, **cost):
        shown_before.append(capsys.readouterr().err)
        return spend(self, **cost)

    monkeypatch.setattr(Ledger, "spend", looking)
    options = ["--epsilon", "20", "--delta", "0.6", "--strategy", "sjlt", "--dim", "8", "--out", "out"]
    run(["ledger", "init", "wide", "--epsilon", "99", "--delta", "0.6", "--unit", "rating"])
    capsys.readouterr()
    assert run(["publish", "r.csv", *options, "--ledger", "wide"]) == 0
    assert "warning:" not in capsys.readouterr().err
    said = re.findall(r"warning: (.*)", shown_before[0])
    in_python = _said(
        lambda: publish(STARS, Guarantee(epsilon=20, delta=0.6), strategy=SJLT(dim=8), ledger=Ledger(tmp_path / "wide"))
    )
    assert said == in_python
    assert len(set(said)) == len(said) >= 7
