"""The figures of the data sheet, to the digit."""

import os
from pathlib import Path

import pytest

from pricdr.data.pairs import DomainPair, prepare
from pricdr.data.reading.read import read_ratings, read_ratings_file as read

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("PRICDR_DATA", ROOT / "../shared/data"))

pytestmark = [
    pytest.mark.realdata,
    pytest.mark.skipif(not DATA.is_dir(), reason="no data under PRICDR_DATA"),
]


def sizes(pair: DomainPair) -> list[int]:
    return [len(pair.users), len(pair.source.items), len(pair.source), len(pair.target.items), len(pair.target)]


@pytest.fixture(scope="module")
def douban() -> DomainPair:
    return prepare(*(read_ratings(DATA / "douban_raw" / f"{name}.csv.gz") for name in ("book", "music")))


def test_douban_raw_as_listed():
    book, music = (read(DATA / "douban_raw" / f"{name}.csv.gz") for name in ("book", "music"))
    assert (book.rows, len(book.ratings.users), len(book.ratings.items)) == (96_041, 2_110, 6_777)
    assert (music.rows, len(music.ratings.users), len(music.ratings.items)) == (69_709, 1_672, 5_567)
    assert len({*book.ratings.users} & {*music.ratings.users}) == 1_566
    assert book.rating_range == (1, 5)


def test_the_papers_preprocessing_of_douban(douban):
    assert sizes(douban) == [924, 3_916, 50_429, 4_228, 50_157]


def test_douban_equals_what_the_authors_released(douban):
    folder = DATA / "douban_book_music_official"
    for mine, name in ((douban.source, "book"), (douban.target, "music")):
        theirs = read_ratings(folder / f"{name}.csv.gz")
        assert set(theirs.users) == set(mine.users)
        assert set(theirs.items) == set(mine.items)
        same = theirs.select(users=mine.users, items=mine.items)
        assert same.matrix.nnz == mine.matrix.nnz
        assert (same.matrix != mine.matrix).nnz == 0


MOVIES = {"threshold": 3.0, "core": 5}, [2_042, 5_198, 112_825, 4_510, 81_830], (139, 2_089)
PHONES = {"threshold": None, "core": 3}, [19_265, 22_800, 262_442, 8_593, 125_712], (381, 13_544)


@pytest.mark.parametrize(
    ("source", "target", "options", "expected", "duplicates"),
    [("amazon_movie_music/movie", "music", *MOVIES), ("amazon_electronics_cell/electronic", "cell", *PHONES)],
)
def test_joint_cores(source, target, options, expected, duplicates):
    """Products listed in both categories: their ratings in the source are the target's."""
    file = DATA / f"{source}.csv.gz"
    pair = prepare(read_ratings(file), read_ratings(file.with_name(f"{target}.csv.gz")), **options)
    assert sizes(pair) == expected
    assert (len(pair.duplicate_items()), len(pair.source) - len(pair.without_duplicates().source)) == duplicates


def test_douban_has_no_duplicate_items(douban):
    assert douban.duplicate_items() == ()
