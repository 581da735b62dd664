"""Whether a release arrives says nothing about the ratings: none that count, or one, and the source publishes alike."""

import json
import shutil

import numpy as np
import pytest

from pricdr import Guarantee, Ratings, publish, verify
from pricdr.cli import run
from pricdr.data.features import ItemFeatures
from pricdr.data.reading.read import read_ratings_file as read
from pricdr.strategies import JLT, SJLT, Features, Guided, LearnFrom, Spectral
from tests.settings import config

USERS = tuple(f"u{at:02d}" for at in range(12))
ITEMS = ("a", "b", "c", "d")
STRATEGIES = {
    "spectral": ("--strategy", "spectral"),
    "spectral, from all": ("--strategy", "spectral", *config(learn_from="all", buckets=64)),
    "guided": ("--strategy", "guided", "--guide", "guide"),
    "guided, one round": ("--strategy", "guided", "--guide", "guide", *config(refine=False)),
    "features": ("--strategy", "features", *config(item_features="features.csv")),
    "jlt": ("--strategy", "jlt", "--dim", "16"),
    "sjlt": ("--strategy", "sjlt", "--dim", "16"),
}
UNITS = {
    "rating": (),
    "values": ("--values", "--rating-bound", "5", "--rating-step", "1"),
    "user": ("--unit", "user", "--clip", "2"),
}
ONE = "u03,b,5\n"
NONE = {
    "below the threshold": ("u03,b,1\n", "no rating is at least 3"),
    "of unlisted users": ("stranger,b,5\n", "no listed user rated a listed item"),
    "of unlisted items": ("u03,elsewhere,5\n", "no listed user rated a listed item"),
    "of neither together": ("stranger,b,5\nu03,elsewhere,5\n", "no listed user rated a listed item"),
}


@pytest.fixture(scope="module")
def guide(tmp_path_factory):
    theirs = Ratings.from_triples(list(USERS), [f"film{at % 5}" for at in range(12)])
    return publish(theirs, Guarantee(epsilon=4, delta=1e-6), users=USERS).save(
        tmp_path_factory.mktemp("theirs") / "guide"
    )


@pytest.fixture
def folder(tmp_path, monkeypatch, guide):
    """Lists, features and a guide that both parties know."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(guide, tmp_path / "guide")
    (tmp_path / "users.txt").write_text("".join(f"{user}\n" for user in USERS))
    (tmp_path / "items.txt").write_text("".join(f"{item}\n" for item in ITEMS))
    (tmp_path / "features.csv").write_text("item,war,love\na,0,1\nb,1,0\nc,1,1\nd,0,2\n")
    return tmp_path


def published(folder, name, rows, *options):
    """The exit code, the files with their sizes, and the certificate without what noise alone decides."""
    (folder / f"{name}.csv").write_text(f"user,item,rating\n{rows}")
    fixed = ["publish", f"{name}.csv", "--users", "users.txt", "--epsilon", "4", "--delta", "1e-6", "--out", name]
    code = run([*fixed, *options])
    verify(folder / name)
    certificate = json.loads((folder / name / "certificate.json").read_text())
    sizes = {file.name: file.stat().st_size for file in (folder / name).iterdir()}
    for drawn in ("files", "digest"):
        certificate.pop(drawn)
    return code, sizes, certificate


@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS.keys())
@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES.keys())
def test_no_rating_that_counts_and_one_are_published_alike(folder, strategy, unit):
    options = (
        (*strategy, *unit, "--items", "items.txt")
        if strategy != STRATEGIES["spectral, from all"]
        else (*strategy, *unit)
    )
    one = published(folder, "one", ONE, *options)
    assert one[0] == 0
    none, _ = NONE["of neither together"]
    assert published(folder, "none", none, *options) == one


@pytest.mark.parametrize("strategy", ["spectral", "jlt", "guided"])
def test_items_that_are_not_declared_make_no_difference_either(folder, strategy):
    one = published(folder, "one", ONE, *STRATEGIES[strategy], "--threshold", "3")
    for name, rows in (("below", "u03,b,1\n"), ("strange", "stranger,b,5\n")):
        assert published(folder, name, rows, *STRATEGIES[strategy], "--threshold", "3") == one


@pytest.mark.parametrize(("rows", "says"), NONE.values(), ids=NONE.keys())
def test_the_source_is_warned_on_its_own_screen(folder, capsys, rows, says):
    published(folder, "none", rows, "--threshold", "3", "--items", "items.txt")
    shown = capsys.readouterr().err
    assert shown.count("noise alone") == 1
    assert says in shown
    published(folder, "one", ONE, "--threshold", "3", "--items", "items.txt")
    assert "noise alone" not in capsys.readouterr().err


def test_swapped_columns_are_a_warning(folder, capsys):
    (folder / "r.csv").write_text("item,user\nu01,b\n")
    fixed = ("--epsilon", "4", "--delta", "1e-6", "--out", "r", "--users", "users.txt")
    assert run(["publish", "r.csv", *fixed]) == 0
    assert "are the user and item columns swapped" in capsys.readouterr().err


FEATURES = ItemFeatures(ITEMS, np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 2.0]]))
EMPTY = Ratings.from_triples([], [])


@pytest.mark.parametrize(
    "strategy",
    [Spectral(), Spectral(learn_from=LearnFrom.ALL, buckets=64), Features(features=FEATURES), JLT(), SJLT(), None],
    ids=lambda one: "guided" if one is None else one.name,
)
@pytest.mark.parametrize("items", [ITEMS, None], ids=["catalogue", "no catalogue"])
def test_the_library_publishes_no_ratings_at_all_and_prints_nothing(tmp_path, capfd, strategy, items):
    promise = Guarantee(epsilon=4, delta=1e-6)
    if strategy is None:
        strategy = Guided(guide=publish(EMPTY, promise, users=USERS))
    release = publish(EMPTY, promise, strategy=strategy, users=USERS, items=items)
    assert verify(release.save(tmp_path / "release")).users == USERS
    assert capfd.readouterr() == ("", "")


def test_a_threshold_above_all_leaves_users_and_items_without_ratings(tmp_path):
    (tmp_path / "r.csv").write_text("user,item,rating\na,x,2\n")
    reading = read(tmp_path / "r.csv", threshold=3)
    assert (reading.ratings.users, reading.ratings.items, len(reading.ratings)) == (("a",), ("x",), 0)
    assert reading.dropped == (("rated below 3", 1),)
