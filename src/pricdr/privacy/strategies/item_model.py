"""A private model of items: which way each one points, learnt from noisy sums over the users who rated it.

One round: every user gets a vector from the items it rated, inside and never stored; every item adds up the vectors of
its raters, and noise; what comes out is centred, whitened and scaled to unit rows. The theorem of ``sums`` with users
and items exchanged keeps the sensitivity at b·√(1 + c²), where c weighs a last column that counts raters.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from pricdr.data.blocks import Matrix, Transposed
from pricdr.data.csr import CSR, sp, with_values
from pricdr.data.ids import Ids
from pricdr.errors import ParameterError, require_at_most_scale, require_count, require_not_negative, require_positive
from pricdr.privacy.run import Run, Secrets
from pricdr.privacy.strategies.gaussian import unit_gaussian_rows
from pricdr.privacy.sums import Float64Array, directions, noisy_sums, whole_guide
from pricdr.randomness import Stream

MOST_ROUNDS: Final = 8
LEAST_FLOOR: Final = 1e-6
BUCKET_CAP: Final = 16
"""Ratings of one user that count in one bucket. A cap on single entries moves no further than the entries do."""


@dataclass(frozen=True, kw_only=True)
class ItemModel:
    """The constants of the rounds; see ``docs/mathematics.md``, section 8."""

    dim: int
    rounds: int
    count_weight: float
    """c: weight of the column that counts raters."""
    user_prior: float
    """Added under the root of a user's vector: users with few ratings get short ones."""
    floor: float
    """A share of the largest eigenvalue: directions with a smaller one are amplified no further."""

    def __post_init__(self) -> None:
        require_count(dim=self.dim, rounds=self.rounds)
        if self.rounds > MOST_ROUNDS:
            raise ParameterError(f"an item model has at most {MOST_ROUNDS} rounds, got {self.rounds:,}")
        require_positive(count_weight=self.count_weight)
        require_not_negative(user_prior=self.user_prior)
        require_at_most_scale(count_weight=self.count_weight, user_prior=self.user_prior)
        if not LEAST_FLOOR <= self.floor < 1:
            raise ParameterError(f"floor must lie in [{LEAST_FLOOR:g}, 1), got {self.floor!r}")

    def learn(self, entries: Matrix, value: float, largest: float, run: Run, secrets: Secrets) -> Float64Array:
        """Return a unit row per item (or bucket). They are private: everything in them has passed through noise.

        Args:
            entries: users x items (or buckets), whole units of ``value``.
            value: what one unit counts.
            largest: the most one rating counts.
            run: the settled steps.
            secrets: where sums and users' vectors are kept for erasing.
        """
        rows = unit_gaussian_rows(run.randomness.stream("first item rows"), entries.shape[1], self.dim)
        item_rows = rows.astype(np.float64)
        by_item, prior = Transposed(entries), self.user_prior * largest**2
        for number in range(1, self.rounds + 1):
            name = step_name(number)
            users = directions(by_item, whole_guide(item_rows), value=value, prior=prior, secrets=secrets)
            noisy = noisy_sums(
                by_item,
                secrets.keep(np.column_stack([users, np.full(len(users), self.count_weight)])),
                step=run.step(name),
                grid=run.grid(name),
                value=value,
                noise=run.noise(name),
                secrets=secrets,
                progress=run.progress,
            )
            item_rows = self.rows_from(noisy, run.grid(name).sigma ** 2, last=number == self.rounds)
        return item_rows

    def rows_from(self, noisy: Float64Array, variance: float, *, last: bool) -> Float64Array:
        """Return item rows from noisy sums: centred by the counts, whitened less the noise's own Gram, at norm 1.

        Before the last round, rows that are mostly noise are shortened (Wiener).
        """
        counts = np.maximum(noisy[:, -1] / self.count_weight, 0.0)
        sums = noisy[:, :-1]
        if counts.sum() > 0:
            sums = sums - np.outer(counts, sums.sum(axis=0) / counts.sum())
        # Noise adds the same variance in every direction: without it taken out, whitening would favour noise.
        gram = sums.T @ sums - len(sums) * variance * np.eye(self.dim)
        values, vectors = np.linalg.eigh(gram)
        if not values[-1] > 0:  # nothing but noise: any scale will do
            values = np.ones_like(values)
        scale = 1 / np.sqrt(np.maximum(values, self.floor * values[-1]))
        white = sums @ (vectors * scale)
        squares = np.einsum("ij,ij->i", white, white)
        norms = np.sqrt(np.where(squares > 0, squares, 1.0))
        rows: Float64Array = white / norms[:, None]
        if not last:
            expected = variance * float((scale**2).sum())
            rows *= np.sqrt(np.maximum(0.0, squares - expected) / np.where(squares > 0, squares, 1.0))[:, None]
        return rows


def step_name(number: int) -> str:
    """Return the name of a round's step.

    >>> step_name(1)
    'item sums 1'
    """
    return f"item sums {number}"


def round_shares(rounds: int) -> list[float]:
    """Return the rounds' shares of μ²: each gets twice what the one before got.

    >>> [round(share, 3) for share in round_shares(2)]
    [0.333, 0.667]
    """
    return [2.0**number / (2.0**rounds - 1) for number in range(rounds)]


def into_buckets(
    entries: Matrix, items: Ids, buckets: int, stream: Stream, *, cap: int
) -> tuple[Matrix, npt.NDArray[np.int64]]:
    """Return the same ratings over hashed items, and each item's bucket.

    Ratings of a user in one bucket add up, to ``cap`` units at most. The hash is keyed, and which items exist shows
    nowhere: every bucket has a row and noise.
    """
    bucket_of = np.array([int.from_bytes(stream.address(item)[:8], "big") % buckets for item in items], dtype=np.int64)
    return entries.converted(_IntoBuckets(bucket_of, buckets, cap), buckets), bucket_of


@dataclass(frozen=True, eq=False)
class _IntoBuckets:
    """Hashes the items of a block of users."""

    bucket_of: npt.NDArray[np.int64]
    buckets: int
    cap: int

    def __call__(self, block: CSR) -> CSR:
        """Return the same ratings over buckets."""
        shape = block.shape[0], self.buckets
        summed = sp.csr_array((block.data, self.bucket_of[block.indices], block.indptr), shape=shape, copy=True)
        summed.sum_duplicates()
        return with_values(summed, np.minimum(summed.data, self.cap))
