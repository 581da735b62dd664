"""release.parquet is written piece by piece, and has the bytes of a frame that is written whole."""

import io
from itertools import pairwise

import numpy as np
import polars as pl
import pytest

from pricdr.release.folder import _row_groups, _write_matrix


@pytest.mark.parametrize("rows", [1, 3, 122_880, 130_000, 170_001, 300_001, 500_003])
def test_the_bytes_are_those_of_a_whole_frame(rows):
    rng = np.random.default_rng(rows)
    users = tuple(f"user {n}" for n in range(rows))
    matrix = rng.standard_normal((rows, 2)).astype(np.float32)
    whole, pieces = io.BytesIO(), io.BytesIO()
    frame = pl.DataFrame({"user": pl.Series(users), "vector": pl.Series(matrix)})
    frame.write_parquet(whole, compression="uncompressed", statistics=False)
    _write_matrix(pieces, matrix, users)
    assert pieces.getvalue() == whole.getvalue()


@pytest.mark.parametrize("rows", [0, 1, 100, 200_000, 10_000_019])
def test_row_groups_cover_every_row_once(rows):
    groups = list(_row_groups(rows))
    assert groups[0].start == 0
    assert groups[-1].stop == rows
    assert all(one.stop == two.start for one, two in pairwise(groups))
    assert max(group.stop - group.start for group in groups) < 2 * 122_880
