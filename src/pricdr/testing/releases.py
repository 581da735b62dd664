"""Releases with given rows, for tests of what reads them."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from pricdr._publish import publish
from pricdr.data.ratings import Ids, Ratings
from pricdr.privacy.accounting import Guarantee
from pricdr.release import Release
from pricdr.strategies import JLT


def release_with_rows(rows: npt.NDArray[np.float32], users: Sequence[str]) -> Release:
    """Return a release of these rows. Its certificate is that of a private one, of no ratings; the rows are not its."""
    return replace(_release_of_nothing(tuple(users), rows.shape[1]), matrix=rows.astype(np.float32))


@lru_cache(maxsize=64)
def _release_of_nothing(users: Ids, dim: int) -> Release:
    nobody = Ratings.from_triples([users[0]], ["i"]).only(np.zeros(1, dtype=bool))
    return publish(nobody, Guarantee(epsilon=1, delta=1e-6), strategy=JLT(dim=dim), users=users)
