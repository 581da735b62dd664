"""What a model is fitted on: the target's ratings and the release, over one list of users."""

import hashlib
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from pricdr.data.ratings import CSR, Ids, Ratings
from pricdr.errors import InputError

Float32Array = npt.NDArray[np.float32]
BoolArray = npt.NDArray[np.bool_]


class ReleaseRows(Protocol):
    """What a model needs of a :class:`pricdr.Release`: the noisy rows and whose they are."""

    @property
    def matrix(self) -> Float32Array:
        """Users x dim."""
        ...

    @property
    def users(self) -> Ids:
        """One id per row."""
        ...


@dataclass(frozen=True, eq=False)
class Inputs:
    """Target ratings and release rows, row by row for the same users: the target's first, then the release's others."""

    users: Ids
    items: Ids
    ratings: CSR
    release: Float32Array | None
    """Centred, and scaled to rows of norm 1 on average; zero where a user has no row."""
    in_release: BoolArray

    @classmethod
    def of(cls, target: Ratings, release: ReleaseRows | None = None) -> "Inputs":
        """Line up ``target`` with the rows of a release; post-processing a release costs no privacy."""
        if release is None:
            none = np.zeros(len(target.users), dtype=bool)
            return cls(target.users, target.items, target.matrix, None, none)
        matrix, users = release.matrix, release.users
        at = {user: position for position, user in enumerate(target.users)}
        if not any(user in at for user in users):
            raise InputError(
                f"none of the release's {len(users):,} users is among the target's {len(target.users):,}: "
                "is it a release over another user list?"
            )
        newcomers = tuple(user for user in users if user not in at)
        at |= {user: len(target.users) + position for position, user in enumerate(newcomers)}
        everyone = target.users + newcomers
        places = np.array([at[user] for user in users])
        rows = np.zeros((len(everyone), matrix.shape[1]), dtype=np.float32)
        centred = matrix - matrix.mean(axis=0)
        rows[places] = centred / max(float(np.linalg.norm(centred, axis=1).mean()), 1e-12)
        present = np.zeros(len(everyone), dtype=bool)
        present[places] = True
        empty = sp.csr_array((len(newcomers), len(target.items)))
        stacked = sp.vstack([target.matrix, empty], format="csr") if newcomers else target.matrix
        return cls(everyone, target.items, stacked, rows, present)

    def fingerprint(self) -> str:
        """SHA-256 of everything that is trained on: tells whether a killed run may be resumed with it."""
        digest = hashlib.sha256()
        for ids in (self.users, self.items):
            digest.update("\n".join(ids).encode() + b"\0")
        arrays = [self.ratings.indptr.astype("<i8"), self.ratings.indices.astype("<i8"), self.in_release]
        for part in arrays if self.release is None else [*arrays, self.release]:
            digest.update(np.ascontiguousarray(part).tobytes())
        return digest.hexdigest()
