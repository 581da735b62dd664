"""Pairs of domains: prepared against literal versions, products that both list, and what a folder keeps."""

from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, strategies as st

from pricdr.data.ids import read_ids
from pricdr.data.pairs import DomainPair, prepare, prepare_several, save_pair
from pricdr.data.ratings import Ratings
from pricdr.data.reading.read import read_ratings_file as read
from pricdr.errors import InputError, OutputError, ParameterError
from tests.data.conftest import cells

Cells = dict[tuple[str, str], float]


def ratings_of(cells: Cells) -> Ratings:
    users, items = zip(*cells, strict=True)
    return Ratings.from_triples(users, items, list(cells.values()))


def random_cells(rng: np.random.Generator, users: int, items: int, n: int, prefix: str) -> Cells:
    drawn = zip(rng.integers(0, users, n), rng.integers(0, items, n), rng.integers(0, 6, n), strict=True)
    return {(f"u{u}", f"{prefix}{i}"): float(v) for u, i, v in drawn}


def frequent(ratings: Cells, part: int, least: int) -> set[str]:
    counts = Counter(cell[part] for cell in ratings)
    return {name for name, times in counts.items() if times >= least}


def keep(cells: Cells, part: int, names: set[str]) -> Cells:
    return {cell: value for cell, value in cells.items() if cell[part] in names}


def of_both(both: list[Cells], least: int) -> list[Cells]:
    common = frequent(both[0], 0, least) & frequent(both[1], 0, least)
    return [keep(cells, 0, common) for cells in both]


def paper_by_hand(both: list[Cells]) -> list[Cells]:
    both = of_both([keep(cells, 0, frequent(cells, 0, 6)) for cells in both], 1)
    return of_both([keep(cells, 1, frequent(cells, 1, 6)) for cells in both], 1)


def core_by_hand(both: list[Cells], core: int) -> list[Cells]:
    before = None
    while before != both:
        # The other way round than the library does it: the largest core does not depend on the order.
        before, both = both, of_both([keep(cells, 1, frequent(cells, 1, core)) for cells in both], core)
    return both


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 900),
    core=st.sampled_from([None, 1, 2, 3, 4, 5, 6]),
    threshold=st.sampled_from([None, 0.0, 2.0, 3.0]),
)
def test_preparing_against_a_literal_version(seed, n, core, threshold):
    rng = np.random.default_rng(seed)
    both = [random_cells(rng, 30, 20, n, "s"), random_cells(rng, 35, 15, n, "t")]
    above = [{c: v for c, v in cells.items() if threshold is None or v >= threshold} for cells in both]
    expected = paper_by_hand(above) if core is None else core_by_hand(above, core)
    source, target = map(ratings_of, both)
    if not expected[0]:
        with pytest.raises(InputError, match="preparing leaves nothing"):
            prepare(source, target, threshold=threshold, core=core)
    else:
        pair = prepare(source, target, threshold=threshold, core=core)
        assert [cells(pair.source), cells(pair.target)] == expected
        assert set(pair.source.items) == {item for _, item in expected[0]}
        assert list(pair.users) == sorted(pair.users)
    assert [cells(source), cells(target)] == both, "inputs stay as they were"
    assert source.filtered_by is None


@pytest.mark.parametrize("any_source", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_several_sources_against_a_literal_version(seed, any_source):
    rng, core, before = np.random.default_rng(seed), 3, None
    sides = [random_cells(rng, 30, 20, 200, name) for name in "abt"]
    given = [ratings_of(cells) for cells in sides]
    while before != sides:
        before, sides = sides, [keep(cells, 1, frequent(cells, 1, core)) for cells in sides]
        one, other, own = (frequent(cells, 0, core) for cells in sides)
        sides = [keep(cells, 0, own & (one | other if any_source else one & other)) for cells in sides]
    pairs = prepare_several(given[:2], given[2], core=core, any_source=any_source)
    assert [cells(pair.source) for pair in pairs] == sides[:2]
    assert [cells(pair.target) for pair in pairs] == [sides[2]] * 2
    assert pairs[0].users == pairs[1].users


def test_users_are_matched_by_id_not_by_position():
    source = Ratings.from_triples(["a", "b"], ["x", "y"], [3, 4])
    target = source.select(users=("b", "a")).select(items=("y", "x"))
    pair = prepare(source, target, core=1)
    assert pair.users == ("a", "b")
    assert cells(pair.source) == cells(pair.target) == {("a", "x"): 3, ("b", "y"): 4}


def block(value: float = 4.0, users: int = 7) -> Ratings:
    cells = {(f"u{u}", f"i{i}"): value for u in range(users) for i in range(6)}
    return ratings_of(cells)


def test_what_was_done_is_disclosed():
    pair = prepare(block(), block())
    text = "the paper's five steps (rating >= 3, more than 5 positives per user and item, common users)"
    assert pair.source.filtered_by == pair.target.filtered_by == text
    core = prepare(pair.source, block(), core=2, threshold=None)
    once = "a joint 2-core (all ratings, at least 2 ratings per user and domain and per item, common users)"
    assert core.target.filtered_by == once
    assert core.source.filtered_by == f"{text}, then {once}"


def test_the_step_that_emptied_the_pair_is_named():
    for target, arguments, words in (
        (Ratings.from_triples(["i0"], ["u0"], [5]), {}, ["no user id occurs in both", "'u0' and 'i0'", "swapped"]),
        (Ratings.from_triples(["u0"], ["x"], [5]), {}, ["no user has more than 5 positives in both"]),
        (block(2.0), {}, ["no target rating is at least 3", "--threshold none"]),
        (block(users=5), {}, ["no common user has an item with more than 5 positives"]),
        (block(), {"core": 8}, ["no user has 8 ratings in both domains"]),
    ):
        with pytest.raises(InputError) as refusal:
            prepare(block(), target, **arguments)
        assert all(word in str(refusal.value) for word in words), refusal.value
    for arguments in ({"core": 0}, {"core": True}, {"threshold": float("nan")}):
        with pytest.raises(ParameterError):
            prepare(block(), block(), **arguments)


def test_a_pair_has_one_list_of_users(refused):
    refused(lambda: DomainPair(block(), block(users=6)))
    shown = "DomainPair(7 users; source: 6 items, 42 rated; target: 6 items, 42 rated)"
    assert repr(DomainPair(block(), block())) == shown


def test_a_saved_pair_reads_back(tmp_path):
    rng = np.random.default_rng(2)
    pair = prepare(*(ratings_of(random_cells(rng, 20, 15, 400, p)) for p in "st"), core=2)
    pair = DomainPair(pair.source, pair.target.positives())
    save_pair(pair, tmp_path)
    source, target = read(tmp_path / "source.parquet"), read(tmp_path / "target.parquet")
    assert read_ids(tmp_path / "users.txt") == pair.users == source.ratings.users == target.ratings.users
    assert cells(source.ratings) == cells(pair.source)
    assert (source.ratings.has_values, target.ratings.has_values) == (True, False)
    assert source.ratings.filtered_by == target.ratings.filtered_by == pair.source.filtered_by
    with pytest.raises(OutputError):
        save_pair(pair, tmp_path)


USERS = tuple("abcdef")


def rated_by(columns: dict[str, str]) -> Ratings:
    """From each item's raters."""
    cells = [(user, item) for item, raters in columns.items() for user in raters]
    rated = Ratings.from_triples(*zip(*cells, strict=True))
    return rated.select(users=USERS, items=tuple(columns))


@given(st.lists(st.sets(st.integers(0, 5)), min_size=1), st.lists(st.sets(st.integers(0, 5)), min_size=1))
def test_every_twin_is_found_and_nothing_else(left, right):
    def side(columns: list[set[int]], stars: float) -> Ratings:
        dense = np.array([[stars * float(user in raters) for raters in columns] for user in range(6)])
        return Ratings(sp.csr_array(dense), USERS, tuple(f"i{at}" for at in range(len(columns))))

    wanted = tuple(f"i{at}" for at, raters in enumerate(left) if len(raters) >= 3 and raters in right)
    assert DomainPair(side(left, 5.0), side(right, 1.0)).duplicate_items() == wanted


def test_leaving_them_out_touches_the_source_alone_and_is_disclosed():
    source, target = rated_by({"disc": "abc", "other": "def"}), rated_by({"1": "abc", "2": "ad"})
    left = DomainPair(source.disclosing("a 3-core"), target).without_duplicates()
    assert left.target is target
    assert left.users == USERS
    assert left.source.items == ("other",)
    assert left.source.matrix.toarray().ravel().tolist() == [0, 0, 0, 1, 1, 1]
    rule = "without items rated by the same users as an item of the other domain"
    assert left.source.filtered_by == f"a 3-core, {rule}"
    assert DomainPair(source, target).without_duplicates().source.filtered_by == rule
    assert left.without_duplicates() is left
    with pytest.raises(InputError, match="nothing is left of the source"):
        DomainPair(rated_by({"x": "abc"}), rated_by({"1": "abc"})).without_duplicates()
