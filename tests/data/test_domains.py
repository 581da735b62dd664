"""Twins: products that both domains list, whose hidden target ratings still lie in the source."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from pricdr.data.pairs import DomainPair
from pricdr.data.ratings import Ratings
from pricdr.errors import InputError

USERS = tuple("abcdef")


def ratings_of(columns: dict[str, str], values: bool = False) -> Ratings:
    """From each item's raters."""
    cells = [(user, item) for item, raters in columns.items() for user in raters]
    rated = Ratings.from_triples(*zip(*cells, strict=True), [5.0 if values else 1.0] * len(cells))
    return rated.select(users=USERS, items=tuple(columns))


def test_duplicate_items_have_exactly_the_same_raters_whatever_the_stars_and_the_ids():
    source = ratings_of({"disc": "abc", "close": "abcd", "other": "def"}, values=True)
    target = ratings_of({"1": "abc", "2": "abce", "3": "cde"})
    assert DomainPair(source, target).duplicate_items() == ("disc",)


def test_one_or_two_common_raters_are_chance():
    pair = DomainPair(ratings_of({"x": "ab", "y": "c", "none": ""}), ratings_of({"1": "ab", "2": "c", "none": ""}))
    assert pair.duplicate_items() == ()
    assert pair.without_duplicates() is pair


@given(st.lists(st.sets(st.integers(0, 5)), min_size=1), st.lists(st.sets(st.integers(0, 5)), min_size=1))
def test_every_twin_is_found_and_nothing_else(left, right):
    def side(columns: list[set[int]]) -> Ratings:
        dense = np.array([[float(user in raters) for raters in columns] for user in range(6)])
        return Ratings(sp.csr_array(dense), USERS, tuple(f"i{at}" for at in range(len(columns))))

    wanted = tuple(f"i{at}" for at, raters in enumerate(left) if len(raters) >= 3 and raters in right)
    assert DomainPair(side(left), side(right)).duplicate_items() == wanted


def test_leaving_them_out_touches_the_source_alone_and_is_disclosed():
    source, target = ratings_of({"disc": "abc", "other": "def"}), ratings_of({"1": "abc", "2": "ad"})
    left = DomainPair(source.disclosing("a 3-core"), target).without_duplicates()
    assert left.target is target
    assert left.users == USERS
    assert left.source.items == ("other",)
    assert left.source.matrix.toarray().ravel().tolist() == [0, 0, 0, 1, 1, 1]
    rule = "without items rated by the same users as an item of the other domain"
    assert left.source.filtered_by == f"a 3-core, {rule}"
    assert DomainPair(source, target).without_duplicates().source.filtered_by == rule
    assert left.without_duplicates() is left


def test_a_source_of_duplicate_items_only_is_refused():
    with pytest.raises(InputError, match="nothing is left of the source"):
        DomainPair(ratings_of({"x": "abc"}), ratings_of({"1": "abc"})).without_duplicates()
