"""Tests that mutation testing asked for: each one fails under a change of the code that no other test noticed."""

import numpy as np
import pytest

from pricdr import JLT, Bounds, Guarantee, Ratings, publish
from pricdr.errors import VerificationError
from pricdr.release.certificate import rounded_up
from pricdr.release.matrix_check import check_matrix

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
    half = np.rint(release.matrix / certificate.grid / 2) * certificate.grid
    with pytest.raises(VerificationError, match="less noise than sigma states"):
        check_matrix(half.astype(np.float32), certificate)


def test_a_repeated_row_of_four_numbers_is_refused():
    """Rows that no check of differences pairs: four numbers on this grid never meet by chance."""
    release = _release(users=4, dim=4, bounds=Bounds())
    repeated = release.matrix.copy()
    repeated[3] = repeated[0]
    with pytest.raises(VerificationError, match="same row twice"):
        check_matrix(repeated, release.certificate)


def test_figures_are_rounded_up_from_a_billionth_above():
    assert rounded_up(4.0 * (1 + 0.9e-9)) == 4.0
    assert rounded_up(4.0 * (1 + 1.5e-9)) == 4.00001
