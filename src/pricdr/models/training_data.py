"""What a model is fitted on: the target's ratings and rows of the source, over one list of users."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np

from pricdr.arrays import BoolArray, Float32Array
from pricdr.data.csr import CSR, sp
from pricdr.data.pairs import DomainPair
from pricdr.data.ratings import Ids, Ratings
from pricdr.errors import InputError, printable
from pricdr.memory import require_memory
from pricdr.models.fitted import FittedModel, Vectors

_LOW: Final = 0.2
_EXAMPLES: Final = 3
_SHOWN: Final = 30
"""The most characters of an id that is shown as an example."""


@dataclass(frozen=True)
class Coverage:
    """Users of the target with and without a row in a release. The target knows the ids of both parties."""

    covered: int
    users: int
    only_target: Ids
    """A few users of the target that are not in the release."""
    only_release: Ids
    """A few users of the release that are not in the target."""

    @classmethod
    def of(cls, target_users: Sequence[str], release_users: Sequence[str]) -> "Coverage":
        """Return the coverage of the target's users by those of a release.

        >>> Coverage.of(("a", "b"), ("b", "c")).sentence()
        'the release covers 1 of 2 users'
        """
        target, release = set(target_users), set(release_users)
        only_target, only_release = (
            tuple([user for user in users if user not in others][:_EXAMPLES])
            for users, others in ((target_users, release), (release_users, target))
        )
        return cls(len(target & release), len(target), only_target, only_release)

    @property
    def is_low(self) -> bool:
        """Whether so few users are covered that the ids may be of different kinds."""
        return self.covered < _LOW * self.users

    def sentence(self) -> str:
        """Return the coverage in words."""
        return f"the release covers {self.covered:,} of {self.users:,} users"

    def examples(self) -> str:
        """Return a few ids of each side that the other does not have, to show how they differ."""
        target, release = (
            ", ".join(repr(printable(user[:_SHOWN])) for user in users) or "none"
            for users in (self.only_target, self.only_release)
        )
        return f"only in the target: {target}; only in the release: {release} (are they ids of the same kind?)"


NARROW: Final = 32
"""The most numbers per row of a narrow release. They are few because each was chosen: none is left out, reconstructed
or aligned, which is what a wide release of poor numbers needs against overfitting."""
_LONGEST: Final = 10.0
"""In median lengths: a longer release row is shortened to this, so that a few cannot flatten all others."""

_SQUARES_FIT: Final = 1e15
"""Up to here sums of squares fit single precision; the scale of a release is taken out anyway."""


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
class TrainingData:
    """Target ratings and rows of the source, row by row for the same users."""

    users: Ids
    items: Ids
    ratings: CSR
    source: Float32Array | CSR | None
    """A release's rows (dense), the plaintext ratings (sparse), or nothing; zero where a user has no row."""
    present: BoolArray
    """Which users have a row of the source."""

    @classmethod
    def target_only(cls, target: Ratings) -> "TrainingData":
        """Return the target's ratings alone."""
        return cls(target.users, target.items, target.matrix, None, np.zeros(len(target.users), dtype=bool))

    @classmethod
    def of(cls, target: Ratings, release: ReleaseRows) -> "TrainingData":
        """Return the target's ratings beside the release's rows: the target's users first, then the release's others.

        Release rows are centred, and scaled to norm 1 on average; one that is far longer than the others is shortened.
        """
        matrix, users = release.matrix, release.users
        at = {user: position for position, user in enumerate(target.users)}
        if not any(user in at for user in users):
            raise InputError(
                f"none of the release's {len(users):,} users is among the target's {len(target.users):,}: "
                f"is it a release over another user list? {Coverage.of(target.users, users).examples()}"
            )
        newcomers = tuple(user for user in users if user not in at)
        at |= {user: len(target.users) + position for position, user in enumerate(newcomers)}
        everyone = target.users + newcomers
        # Before anything is allocated: a row for everyone here and in the evidence test, and for those listed the
        # copies that centring and shortening make.
        cells = (2 * len(everyone) + 5 * len(users)) * matrix.shape[1]
        require_memory(4 * cells, f"a release of {matrix.shape[1]:,} numbers a row, for {len(everyone):,} users,")
        places = np.array([at[user] for user in users])
        rows = np.zeros((len(everyone), matrix.shape[1]), dtype=np.float32)
        centred = _shortened(matrix)
        # A release says nothing by its scale: noise and the number of ratings set it.
        rows[places] = centred / max(float(np.linalg.norm(centred, axis=1).mean()), 1e-12)
        present = np.zeros(len(everyone), dtype=bool)
        present[places] = True
        empty = sp.csr_array((len(newcomers), len(target.items)))
        stacked = sp.vstack([target.matrix, empty], format="csr") if newcomers else target.matrix
        return cls(everyone, target.items, stacked, rows, present)

    def model(
        self,
        method: str,
        user_vectors: Vectors,
        item_vectors: Vectors,
        item_bias: Float32Array,
        **more: Any,  # noqa: ANN401 - fields of FittedModel
    ) -> FittedModel:
        """Return a model of these vectors for these users and items, with the ratings they were learnt from."""
        arrays = {"user_vectors": user_vectors, "item_vectors": item_vectors, "item_bias": item_bias}
        about = {"seen": self.ratings, "in_release": self.present, **more}
        return FittedModel(method=method, users=self.users, items=self.items, **arrays, **about)

    @classmethod
    def plaintext(cls, pair: DomainPair) -> "TrainingData":
        """NOT PRIVATE: the source's ratings as they are."""
        source = pair.source.matrix
        return cls(pair.users, pair.target.items, pair.target.matrix, source, np.diff(source.indptr) > 0)


def unit_rows(rows: Float32Array) -> Float32Array:
    """Return each row at length 1, and rows of zeros as they are.

    The length of a release row is mostly how much its user rated; what the user likes is in its direction.
    """
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0), dtype=np.float32)


def _shortened(matrix: Float32Array) -> Float32Array:
    """Return the rows centred, none of them longer than ten times the median length."""
    # Measured from the median: a single far row moves the mean, and then every row is far from it.
    largest = float(np.abs(matrix).max(initial=0.0))
    if largest > _SQUARES_FIT:
        matrix = matrix / np.float32(largest)
    around = matrix - np.median(matrix, axis=0)
    lengths = np.linalg.norm(around, axis=1)
    longest = _LONGEST * float(np.median(lengths))
    if lengths.max(initial=0.0) > longest > 0:
        matrix = around * np.minimum(1.0, longest / np.maximum(lengths, 1e-12)).astype(np.float32)[:, None]
    return np.asarray(matrix - matrix.mean(axis=0), dtype=np.float32)
