import json
import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pricdr.cli import run
from pricdr.data.reading.readers import read_ratings_file as read
from pricdr.data.splits import hold_out, load_split, read_official, save_split
from pricdr.data.synthetic import SyntheticConfig, synthetic_pair
from pricdr.errors import InputError

DATA = Path(os.environ.get("PRICDR_DATA", Path(__file__).parents[2] / "../shared/data"))


@pytest.fixture(scope="module")
def ratings():
    config = SyntheticConfig(users=200, source_items=300, target_items=400)
    return synthetic_pair(config).target.positives()


@pytest.fixture
def folder(ratings, tmp_path):
    save_split(hold_out(ratings, seed=3, cold=0.25), tmp_path)
    return tmp_path


def test_a_split_survives_the_round_trip(ratings, folder):
    made, loaded = hold_out(ratings, seed=3, cold=0.25), load_split(folder)
    assert made.train.fingerprint() == loaded.train.fingerprint()
    for a, b in ((made.test, loaded.test), (made.validation, loaded.validation)):
        for field in ("users", "items", "negatives"):
            assert np.array_equal(getattr(a, field), getattr(b, field)), field
    assert np.array_equal(made.cold, loaded.cold)
    assert (loaded.seed, loaded.not_evaluated) == (3, made.not_evaluated)


def test_the_folder_holds_what_the_design_says(folder):
    names = ["negatives", "test", "train", "validation"]
    assert sorted(p.name for p in folder.iterdir()) == sorted([*(f"{n}.parquet" for n in names), "split.json"])
    negatives = pl.read_parquet(folder / "negatives.parquet")
    assert negatives.columns == ["user", "item", "for"]
    assert set(negatives["for"]) == {"validation", "test"}
    about = json.loads((folder / "split.json").read_text())
    assert {"seed", "strata", "fingerprint"} <= set(about)
    expected = {name: keep.sum() for name, keep in load_split(folder).strata().items() if name != "all"}
    assert about["strata"] == {**expected, "not_evaluated": load_split(folder).not_evaluated}


def change(folder, **changes):
    about = json.loads((folder / "split.json").read_text())
    (folder / "split.json").write_text(json.dumps({**about, **changes}))


def twice(path):
    frame = pl.read_parquet(path)
    pl.concat([frame, frame]).write_parquet(path)


def given_to_another(folder):
    """One user has a negative less, another one more: the total is the same."""
    frame = pl.read_parquet(folder / "negatives.parquet")
    users = frame["user"].to_list()
    users[0] = next(user for user in users if user != users[0])
    frame.with_columns(user=pl.Series(users)).write_parquet(folder / "negatives.parquet")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (given_to_another, "same number"),
        (lambda f: change(f, strata=5), "can be read"),
        (lambda f: change(f, users=[["a"]]), "must be text"),
        (lambda f: (f / "split.json").unlink(), "no split.json"),
        (lambda f: (f / "split.json").write_text("{}"), "cannot be read|can be read"),
        (lambda f: (f / "test.parquet").write_bytes(b"junk"), "cannot be read as Parquet"),
        (lambda f: (f / "negatives.parquet").unlink(), "no such file"),
        (lambda f: pl.read_parquet(f / "train.parquet").head(9).write_parquet(f / "train.parquet"), "not the one"),
        (lambda f: pl.read_parquet(f / "negatives.parquet")[1:].write_parquet(f / "negatives.parquet"), "same number"),
        (lambda f: pl.read_parquet(f / "negatives.parquet")[:0].write_parquet(f / "negatives.parquet"), "same number"),
        (lambda f: change(f, seed=2**70), "seed must be"),
        (lambda f: change(f, seed="1"), "seed must be"),
        (lambda f: change(f, users=["a", "a"]), "must be distinct"),
        (lambda f: change(f, users=["a\x1b[2J"]), "control character"),
        (lambda f: change(f, users=[1, 2]), "must be text"),
        (lambda f: change(f, strata={"not_evaluated": -1}), "whole number"),
        (lambda f: change(f, strata=[]), "can be read"),
        (lambda f: (f / "split.json").write_text("[" * 100_000), "can be read"),
        (lambda f: twice(f / "test.parquet"), "same number"),
    ],
)
def test_a_spoilt_split_is_refused_in_one_line(folder, spoil, message):
    spoil(folder)
    with pytest.raises(InputError, match=message) as caught:
        load_split(folder)
    assert "\n" not in str(caught.value)


def test_the_command_writes_a_split_and_says_who_is_not_evaluated(tmp_path, capsys):
    rows = [f"u{u},i{i}" for u in range(41) for i in range(u, 300, 40)] + ["lonely,i1"]
    (tmp_path / "r.csv").write_text("user,item\n" + "\n".join(rows) + "\n")
    out = tmp_path / "split"
    assert run(["split", str(tmp_path / "r.csv"), "--out", str(out), "--cold", "0.2", "--seed", "5"]) == 0
    assert "1 users with fewer than 3 ratings" in capsys.readouterr().out
    assert load_split(out).cold.sum() == round(0.2 * 41)
    assert run(["split", str(tmp_path / "r.csv"), "--out", str(out)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert run(["split", str(tmp_path / "r.csv"), "--out", str(tmp_path / "x"), "--cold", "1.5"]) == 2
    assert not (tmp_path / "x").exists()


@pytest.mark.realdata
def test_the_official_split_is_imported_as_it_is(tmp_path):
    here = DATA / "douban_book_music_official"
    if not here.exists():
        pytest.skip("no real data")
    ratings = read(here / "music.csv.gz").ratings.positives()
    split = read_official(here / "official_split_music.csv.gz", ratings)
    assert (len(split.test), len(ratings.items), len(ratings)) == (924, 4228, 50157)
    assert len(split.train) == 50157 - 2 * 924
    assert np.array_equal(split.test.negatives, split.validation.negatives)
    popularity = np.bincount(split.train.matrix.indices, minlength=4228)
    mine = popularity[split.test.items][:, None]
    others = popularity[split.test.negatives]
    rank = (others > mine).sum(axis=1) + 0.5 * (others == mine).sum(axis=1)
    assert (rank < 10).mean() == pytest.approx(0.319, abs=0.001)


def test_an_official_split_that_does_not_fit_is_refused(ratings, tmp_path):
    (tmp_path / "o.csv").write_text("user,valid_item,test_item,negatives_99\nnobody,a,b,c d\n")
    with pytest.raises(InputError, match="'nobody', which is not in the ratings"):
        read_official(tmp_path / "o.csv", ratings)
    (tmp_path / "o.csv").write_text("user,item\na,b\n")
    with pytest.raises(InputError, match="negatives_99 are needed"):
        read_official(tmp_path / "o.csv", ratings)
