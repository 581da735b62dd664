"""Tests that mutation testing asked for: each one fails under a change of the code that no other test noticed."""

import numpy as np
import pytest

from pricdr import Bounds, Guarantee, Ratings, publish
from pricdr.data.features import ItemFeatures
from pricdr.errors import InputError, ParameterError, VerificationError
from pricdr.release.checks import check_matrix
from pricdr.strategies import JLT, Features, Spectral

PROMISE = Guarantee(epsilon=4, delta=1e-6)


def _release(*, users: int, dim: int, bounds: Bounds):
    ratings = Ratings.from_triples(["u0"], ["i0"], [bounds.largest])
    listed = [f"u{at}" for at in range(users)]
    return publish(ratings, PROMISE, strategy=JLT(dim=dim), users=listed, bounds=bounds, insecure_seed=1)


@pytest.mark.parametrize("bound", [1e-3, 1.0, 1e6])
def test_half_of_the_noise_is_refused_whatever_a_rating_counts(bound):
    """What a grid can hide of a vector's length is a part of σ, not of the numbers themselves."""
    release = _release(users=200, dim=8, bounds=Bounds(rating_bound=bound, rating_step=bound))
    certificate = release.certificate
    check_matrix(release.matrix, certificate)
    half = (np.rint(release.matrix / np.float64(certificate.grid) / 2) + 0.0) * certificate.grid
    with pytest.raises(VerificationError, match="less noise than sigma states"):
        check_matrix(half.astype(np.float32), certificate)


def test_a_repeated_row_of_four_numbers_is_refused():
    """Rows that no check of differences pairs: four numbers on this grid never meet by chance."""
    release = _release(users=4, dim=4, bounds=Bounds())
    repeated = release.matrix.copy()
    repeated[3] = repeated[0]
    with pytest.raises(VerificationError, match="same row twice"):
        check_matrix(repeated, release.certificate)


def test_as_many_short_rows_as_chance_allows_pass():
    """All of 36 rows shorter than the median happens once in 2^36 releases, more often than a check may refuse."""
    release = _release(users=36, dim=1, bounds=Bounds())
    certificate = release.certificate
    signs = np.resize([1.0, -1.0], 18)
    short = 0.6 * certificate.sigma * np.concatenate([signs, -signs])[:, None]
    on_the_grid = np.rint(short / certificate.grid) * certificate.grid
    check_matrix(on_the_grid.astype(np.float32), certificate)


@pytest.mark.parametrize(("limit", "says"), [("MAX_ITEMS", "3 items are more"), ("MAX_USERS", "3 users are more")])
def test_more_than_sums_are_exact_for_is_refused(monkeypatch, limit, says):
    ratings = Ratings.from_triples(["a", "b", "c"], ["x", "y", "z"])
    monkeypatch.setattr(f"pricdr._publish.{limit}", 3)
    publish(ratings, PROMISE)
    monkeypatch.setattr(f"pricdr._publish.{limit}", 2)
    with pytest.raises(InputError, match=says):
        publish(ratings, PROMISE)


def test_whoever_is_outside_the_list_and_nobody_else_teaches_the_item_model(monkeypatch):
    """The two groups pay apart: a listed user's ratings in the item model would be paid for by somebody else."""
    seen, original = [], Spectral.publish

    def watched(self, entries, run):
        seen.append(entries)
        return original(self, entries, run)

    monkeypatch.setattr(Spectral, "publish", watched)
    ratings = Ratings.from_triples(["a", "b", "out", "off", "off"], ["x", "y", "z", "x", "y"])
    publish(ratings, PROMISE, strategy=Spectral(learn_from="all"), users=["b", "a"], items=["x", "y", "z"])
    assert seen[0].listed.matrix.toarray().tolist() == [[0, 1, 0], [1, 0, 0]]
    assert sorted(seen[0].unlisted.matrix.toarray().tolist()) == [[0, 0, 1], [1, 1, 0]]


def test_a_release_by_item_features_says_what_its_promise_rests_on_and_does_not_count_on_rows_to_cancel():
    """Two items may have the same features: then a user's ratings add up like t, not like √t."""
    strategy = Features(features=ItemFeatures(("x", "y"), np.eye(2)), dim=2)
    ratings = Ratings.from_triples(["a", "b"], ["x", "y"])
    certificate = publish(ratings, PROMISE, strategy=strategy).certificate
    rests_on = "and the promise rests on their not being made from these ratings."
    assert f"The item features: they were declared public, {rests_on}" in certificate.not_protected
    assert [figure.removed_typically for figure in certificate.whole_user] == [None, None, None]
    with pytest.raises(ParameterError, match="for its own jlt and sjlt"):
        publish(ratings, PROMISE, strategy=strategy, calibration="paper")
