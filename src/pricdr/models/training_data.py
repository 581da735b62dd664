"""What a model is fitted on: the target's ratings and rows of the source, over one list of users."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from pricdr.arrays import BoolArray, Float32Array
from pricdr.data.csr import CSR, sp
from pricdr.data.ratings import Ids, Ratings
from pricdr.errors import InputError, printable
from pricdr.memory import require_memory
from pricdr.models.fitted import FittedModel, Vectors

if TYPE_CHECKING:
    from pricdr.release import Release
    from pricdr.release.series import Series


def unshared_ids(target_users: Sequence[str], release_users: Sequence[str]) -> str:
    """Return a few ids of each side that the other does not have, cut short; the target knows those of both parties."""
    shown = []
    for users, others in ((target_users, set(release_users)), (release_users, set(target_users))):
        alone = islice((user for user in users if user not in others), 3)
        shown.append(", ".join(repr(printable(user[:30])) for user in alone) or "none")
    return "only in the target: {}; only in the release: {} (are they ids of the same kind?)".format(*shown)


# The most numbers per row of a narrow release, few because each was chosen: none is left out, reconstructed or aligned,
# which is what a wide release of poor numbers needs against overfitting.
NARROW: Final = 32
_LONGEST: Final = 10.0  # in median lengths: longer release rows are shortened, so that a few cannot flatten the others

_SQUARES_FIT: Final = 1e15  # in single precision up to here; the scale of a release is taken out anyway


class SourceRows(NamedTuple):
    """One source's part of the rows: that of a release, or all of the plaintext ratings."""

    columns: slice
    present: BoolArray  # which users have a row of it


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Target ratings and rows of the sources for the same users: the target's first, then the releases' others."""

    target: Ratings
    source: Float32Array | CSR | None  # rows of releases (dense) or ratings (sparse); zero where there is none
    sources: tuple[SourceRows, ...] = ()  # of ``source``: one for each release
    others: Ids = ()  # the users of the releases whom the target does not have

    @classmethod
    def of(cls, target: Ratings, *releases: "Release | Series") -> "TrainingData":
        """Return the target's ratings beside the rows of releases, if any; those of each, or its sum, standardised."""
        at = {user: position for position, user in enumerate(target.users)}
        for release in releases:
            if not any(user in at for user in release.users):
                raise InputError(
                    f"none of the release's {len(release.users):,} users is among the target's {len(target.users):,}: "
                    f"is it a release over another user list? {unshared_ids(target.users, release.users)}"
                )
        others = tuple(dict.fromkeys(user for release in releases for user in release.users if user not in at))
        at |= {user: position for position, user in enumerate(others, len(target.users))}
        # Before anything is allocated: a row for everyone here and in the evidence test, and for those listed the
        # copies that centring and shortening make.
        width = sum(release.matrix.shape[1] for release in releases)
        cells = (2 * len(at) + 5 * max((len(release.users) for release in releases), default=0)) * width
        require_memory(4 * cells, f"releases of {width:,} numbers a row, for {len(at):,} users,")
        rows, sources, start = np.zeros((len(at), width), dtype=np.float32), [], 0
        for release in releases:
            places, own = np.array([at[user] for user in release.users]), standardised(release.matrix)
            part = SourceRows(slice(start, start := start + own.shape[1]), np.zeros(len(at), dtype=bool))
            rows[places, part.columns] = own
            part.present[places] = True
            sources.append(part)
        return cls(target, rows if releases else None, tuple(sources), others)

    @classmethod
    def plaintext(cls, target: Ratings, source: Ratings) -> "TrainingData":
        """NOT PRIVATE: the source's ratings as they are; both are over the users of either side."""
        own = set(target.users)
        if not own & set(source.users):
            raise InputError(
                f"none of the source's {len(source.users):,} users is among the target's {len(target.users):,}: "
                "are these the same people?"
            )
        everyone = target.users + tuple(user for user in source.users if user not in own)
        matrix = source.select(users=everyone).matrix
        return cls(target.select(users=everyone), matrix, (SourceRows(slice(None), np.diff(matrix.indptr) > 0),))

    def only(self, kept: Collection[int]) -> "TrainingData":
        """Return the data with these of the sources alone, given by number, for the same users."""
        if len(kept) == len(self.sources):
            return self
        source: Any = self.source
        rows, sources, start = [], [], 0
        for part in (self.sources[number] for number in sorted(kept)):
            rows.append(source[:, part.columns])
            sources.append(SourceRows(slice(start, start := start + rows[-1].shape[1]), part.present))
        return replace(self, source=np.hstack(rows) if rows else None, sources=tuple(sources))

    @cached_property
    def covered(self) -> BoolArray:
        """Return which users have a row of which source: users x sources."""
        return np.array([part.present for part in self.sources], dtype=bool).reshape(-1, len(self.users)).T

    @cached_property
    def present(self) -> BoolArray:
        """Return which users have a row of any source."""
        return np.asarray(self.covered.any(axis=1))

    @property
    def narrow(self) -> bool:
        """Return whether every release is narrow."""
        return not self.is_plaintext and all(part.columns.stop - part.columns.start <= NARROW for part in self.sources)

    @property
    def users(self) -> Ids:
        """Return everyone who is served."""
        return self.target.users + self.others

    @property
    def items(self) -> Ids:
        """Return the target's items."""
        return self.target.items

    @cached_property
    def ratings(self) -> CSR:
        """Return the target's ratings, one row for everyone."""
        empty = sp.csr_array((len(self.others), len(self.items)))
        return sp.vstack([self.target.matrix, empty], format="csr") if self.others else self.target.matrix

    @cached_property
    def warm(self) -> BoolArray:
        """Return which users have a history."""
        return np.diff(self.ratings.indptr) > 0

    @property
    def is_plaintext(self) -> bool:
        """Return whether the source is there as it is: NOT PRIVATE."""
        return isinstance(self.source, sp.csr_array)

    def arrays(self) -> list[Any]:
        """Return all that a training learns from, to tell it from any other."""
        source: Any = self.source
        rows = [] if source is None else [source.indptr, source.indices] if self.is_plaintext else [source]
        return [self.ratings.indptr, self.ratings.indices, self.present, *rows]

    def model(self, method: str, users: Vectors, items: Vectors, bias: Float32Array, **more: Any) -> FittedModel:  # noqa: ANN401
        """Return a model of these vectors, with the ratings they were learnt from; ``more`` are further fields."""
        about = {"seen": self.ratings, "in_release": self.covered, **more}
        return FittedModel(method, self.users, self.items, users, items, bias, **about)


def unit_rows(rows: Float32Array) -> Float32Array:
    """Return rows at length 1, or 0: their length is mostly how much users rated, their direction is what they like."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0), dtype=np.float32)


def standardised(matrix: Float32Array) -> Float32Array:
    """Return release rows centred, none longer than ten times the median length, and of length 1 on average."""
    # Measured from the median: a single far row moves the mean, and then every row is far from it.
    largest = float(np.abs(matrix).max(initial=0.0))
    if largest > _SQUARES_FIT:
        matrix = matrix / np.float32(largest)
    around = matrix - np.median(matrix, axis=0)
    lengths = np.linalg.norm(around, axis=1)
    longest = _LONGEST * float(np.median(lengths))
    if lengths.max(initial=0.0) > longest > 0:
        matrix = around * np.minimum(1.0, longest / np.maximum(lengths, 1e-12)).astype(np.float32)[:, None]
    centred = np.asarray(matrix - matrix.mean(axis=0), dtype=np.float32)
    # A release says nothing by its scale: noise and the number of ratings set it.
    return centred / max(float(np.linalg.norm(centred, axis=1).mean()), 1e-12)
