"""``pricdr prepare``: the paper's five steps or a joint core, and a release that says it was filtered."""

import json

import polars as pl
import pytest


def write(file, rows):
    pl.DataFrame(rows, schema=["user", "item", "rating"], orient="row").write_csv(file)


@pytest.fixture
def pair(here):
    """Seven users who share seven items in each domain; `few` has five, `low` rates low, and two live in one domain."""
    full = [(f"u{u}", f"i{i}") for u in range(7) for i in range(7)]
    for name, only in (("source", "s"), ("target", "t")):
        few = [("few", f"i{i}") for i in range(5)]
        alone = [(only, f"i{i}") for i in range(7)]
        rare = [("u0", "rare")]
        low = [("low", f"i{i}", 2) for i in range(7)]
        write(here / f"{name}.csv", [(u, i, 4) for u, i in full + few + alone + rare] + low)
    return here / "source.csv", here / "target.csv"


def test_the_papers_five_steps_and_a_release_that_says_so(here, pair, pricdr, publish):
    outcome = pricdr("prepare", *pair, "--out", "pair")
    assert outcome.code == 0
    assert "users: 9 in both, 1 only in the source, 1 only in the target" in outcome.out
    assert "prepared 7 users: the paper's five steps (rating >= 3, more than 5 positives" in outcome.out
    assert "source: 7 items, 49 ratings" in outcome.out
    assert sorted(path.name for path in (here / "pair").iterdir()) == ["source.parquet", "target.parquet", "users.txt"]
    users = [f"u{u}" for u in range(7)]
    assert (here / "pair" / "users.txt").read_text().splitlines() == users
    for name in ("source", "target"):
        frame = pl.read_parquet(here / "pair" / f"{name}.parquet")
        assert sorted(frame.select("user", "item").rows()) == [
            (user, f"i{item}") for user in users for item in range(7)
        ]
    assert not list(here.glob("*.partial-*"))
    outcome = publish("pair/source.parquet", "--users", "pair/users.txt")
    assert outcome.code == 0
    assert "look like stars" not in outcome.err  # of which prepare chose
    assert "warning: these ratings were filtered before (the paper's five steps" in outcome.err
    certificate = json.loads((here / "release" / "certificate.json").read_text())
    assert certificate["input"]["filtered_by"].startswith("the paper's five steps")
    assert any("filter" in line for line in certificate["not_protected"])
    assert "filter" in pricdr("inspect", "release").out


def test_a_joint_core_of_all_ratings_replaces_the_five_steps(here, pair, pricdr):
    outcome = pricdr("prepare", *pair, "--out", "pair", "--core", 5, "--threshold", "none")
    assert outcome.code == 0
    assert "a joint 5-core (all ratings" in outcome.out
    assert {"few", "low"} <= set((here / "pair" / "users.txt").read_text().splitlines())
    assert "rare" not in set(pl.read_parquet(here / "pair" / "source.parquet")["item"])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--core", 0), ("core", "at least 1")),
        (("--core", 99), ("leaves nothing", "99")),
        (("--threshold", 6), ("leaves nothing", "at least 6")),
        (("--threshold", "nan"), ("threshold", "finite")),
        (("--columns", "user=nobody,item=item"), ("source.csv", "nobody")),
    ],
)
def test_options_that_leave_nothing_are_refused(pair, refused, options, says):
    refused("prepare", *pair, "--out", "pair", *options, says=says)


def test_duplicate_items_are_counted_and_left_out_where_asked(here, pricdr):
    """A disc that both shops list; everything else has raters of its own."""
    shared = [(f"u{u}", "disc", 5) for u in range(6)]
    for name, shift in (("source", 1), ("target", 2)):
        own = [(f"u{u}", f"{name}{i}", 5) for u in range(6) for i in range(4) if (u * shift + i) % 4]
        write(here / f"{name}.csv", shared + own)
    command = ("prepare", "source.csv", "target.csv", "--core", 1)
    kept, left = pricdr(*command, "--out", "kept"), pricdr(*command, "--out", "left", "--drop-duplicates")
    counted = "duplicate items: 1 source items with the raters of a target item, 6 ratings, kept: the source shows"
    assert counted in kept.out
    assert "6 ratings, left out of the source" in left.out
    assert "without items rated by the same users as an item of the other domain" in left.out
    found = ["disc" in set(pl.read_parquet(here / name / "source.parquet")["item"]) for name in ("kept", "left")]
    assert found == [True, False]
