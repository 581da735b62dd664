"""Whether a release arrives says nothing about the ratings: none that count, or one, and the source publishes alike."""

import json
import shutil

import pytest

from pricdr import Guarantee, Ratings, publish, verify
from pricdr.cli import run
from pricdr.data.reading.read import read_ratings_file as read

USERS = tuple(f"u{at:02d}" for at in range(12))
ITEMS = ("a", "b", "c", "d")
STRATEGIES = {
    "spectral": ("--threshold", "3"),
    "guided": ("--threshold", "3", "--items", "items.txt", "--strategy", "guided", "--guide", "guide"),
    "jlt": ("--threshold", "3", "--items", "items.txt", "--strategy", "jlt", "--unit", "user", "--clip", "2"),
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
    """Lists and a guide that both parties know."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(guide, tmp_path / "guide")
    (tmp_path / "users.txt").write_text("".join(f"{user}\n" for user in USERS))
    (tmp_path / "items.txt").write_text("".join(f"{item}\n" for item in ITEMS))
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


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_no_rating_that_counts_and_one_are_published_alike(folder, strategy):
    """Through the command line; ``test_learnt_secrets`` has every strategy in every unit."""
    options = STRATEGIES[strategy]
    one = published(folder, "one", ONE, *options)
    assert one[0] == 0
    for name, rows in (("below", "u03,b,1\n"), ("neither", NONE["of neither together"][0])):
        assert published(folder, name, rows, *options) == one


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


def test_a_threshold_above_all_leaves_users_and_items_without_ratings(tmp_path):
    (tmp_path / "r.csv").write_text("user,item,rating\na,x,2\n")
    reading = read(tmp_path / "r.csv", threshold=3)
    assert (reading.ratings.users, reading.ratings.items, len(reading.ratings)) == (("a",), ("x",), 0)
    assert reading.dropped == {"rated below 3": 1}
