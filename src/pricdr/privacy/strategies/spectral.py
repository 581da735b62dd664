"""``spectral``: taste directions learnt from the source's own ratings, inside the mechanism."""

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, ClassVar, Final, Self

import numpy as np

from pricdr.arrays import Float64Array, IntArray, IntegerArray
from pricdr.data.blocks import Matrix, Transposed
from pricdr.data.csr import CSR, sp, with_values
from pricdr.data.ids import Ids
from pricdr.errors import ParameterError, require_at_most_scale, require_count, require_not_negative, require_positive
from pricdr.privacy.accounting import Unit
from pricdr.privacy.mechanism import Entries, Run, Secrets
from pricdr.privacy.steps import MAX_ITEMS, MAX_RATINGS, Declared, Step, SumKind, UserGroup
from pricdr.privacy.strategies.random_projections import unit_gaussian_rows
from pricdr.privacy.strategies.rounds import LearntInRounds, spread
from pricdr.privacy.sums import directions, noisy_sums, whole_guide
from pricdr.randomness import Stream

SHARES: Final = (0.1, 0.1, 0.2, 0.6)  # of μ², by round: the last round's rows are what is published, so it gets most
WIDE: Final = 16  # columns of the first rounds: a random start needs some room to find what matters
MEDIUM: Final = 8
MAX_ROUNDS: Final = 8
MIN_FLOOR: Final = 1e-6
BUCKET_CAP: Final = 16
"""Ratings of one user that count in one bucket. A cap on single entries moves no further than the entries do."""


def into_buckets(entries: Matrix, items: Ids, buckets: int, stream: Stream, *, cap: int) -> tuple[Matrix, IntArray]:
    """Return the same ratings over hashed items, a user's in one bucket added up to ``cap`` at most, and the buckets.

    The hash is keyed, and which items exist shows nowhere: every bucket has a row and noise.
    """
    bucket_of = np.array([int.from_bytes(stream.address(item)[:8], "big") % buckets for item in items], dtype=np.int64)

    def hashed(block: CSR) -> CSR:
        shape = block.shape[0], buckets
        summed = sp.csr_array((block.data, bucket_of[block.indices], block.indptr), shape=shape, copy=True)
        summed.sum_duplicates()
        return with_values(summed, np.minimum(summed.data, cap))

    return entries.converted(hashed, buckets), bucket_of


class LearnFrom(Enum):
    """Whose ratings directions are learnt from."""

    LISTED = "listed"
    ALL = "all"
    """Users outside the list give the first round its item vectors; they get no rows."""


_LEARNT: Final = ("buckets", "item_rounds", "count_weight", "user_prior", "floor")  # the item model's: public, too


@dataclass(frozen=True, kw_only=True)
class Spectral(LearntInRounds):
    """Rounds from a random start: users' noisy rows guide the next round, and the last round's are published.

    With ``LearnFrom.ALL`` the start is an item model that the users outside the list pay for, with their whole budget:
    nobody is in both groups. Its constants are in ``docs/mathematics.md``, section 8.
    """

    name: ClassVar[str] = "spectral"
    summary: ClassVar[str] = "taste directions learnt from the ratings, inside the promise"
    constants: ClassVar[tuple[str, ...]] = ("centring", "item_prior", "percentile")

    learn_from: LearnFrom = LearnFrom.LISTED
    buckets: int = 1 << 16
    """How many buckets items are hashed into where the item universe is not declared."""
    item_rounds: int = 2
    count_weight: float = 0.3
    """c: weight of the column that counts raters."""
    user_prior: float = 4.0
    """Added under the root of a user's vector: users with few ratings get short ones."""
    floor: float = 0.02
    """A share of the largest eigenvalue: directions with a smaller one are amplified no further."""

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            object.__setattr__(self, "learn_from", LearnFrom(self.learn_from))
        except ValueError as error:
            raise ParameterError(f"learn_from must be listed or all, got {self.learn_from!r}") from error
        require_count(buckets=self.buckets, item_rounds=self.item_rounds)
        for what, value, most in (("buckets", self.buckets, MAX_ITEMS), ("item_rounds", self.item_rounds, MAX_ROUNDS)):
            if value > most:
                raise ParameterError(f"{what} must be at most {most:,}, got {value:,}")
        require_positive(count_weight=self.count_weight)
        require_not_negative(user_prior=self.user_prior)
        require_at_most_scale(count_weight=self.count_weight, user_prior=self.user_prior)
        if not MIN_FLOOR <= self.floor < 1:
            raise ParameterError(f"floor must lie in [{MIN_FLOOR:g}, 1), got {self.floor!r}")

    @property
    def learns_from_unlisted(self) -> bool:
        """Whether users outside the list give the first round its item vectors."""
        return self.learn_from is LearnFrom.ALL

    @property
    def rounds(self) -> tuple[tuple[float, int], ...]:
        """Four rounds."""
        dim = self.dim or 1
        return tuple(zip(SHARES, (max(WIDE, dim), max(WIDE, dim), max(MEDIUM, dim), dim), strict=True))

    def parameters(self) -> dict[str, float]:
        """Return every constant of the method; shares and widths of the rounds are in the steps."""
        if not self.learns_from_unlisted:
            return super().parameters()
        return {"learn_from_all": 1.0, **super().parameters(), **{name: float(getattr(self, name)) for name in _LEARNT}}

    @classmethod
    def described(cls, dim: int, parameters: dict[str, float]) -> Self:
        """Return the strategy that a certificate describes."""
        if "learn_from_all" not in parameters:
            return super().described(dim, parameters)
        others = {name: value for name, value in parameters.items() if name in cls.constants}
        model: dict[str, Any] = {name: type(getattr(cls, name))(parameters[name]) for name in _LEARNT}
        return replace(super().described(dim, others), learn_from=LearnFrom.ALL, **model)

    def steps(self, declared: Declared) -> tuple[Step, ...]:
        """Return the steps of the rounds, after those of an item model where users outside the list take part."""
        return *(self._item_steps(declared) if self.learns_from_unlisted else ()), *super().steps(declared)

    def start(self, entries: Entries, run: Run, secrets: Secrets) -> IntegerArray | Float64Array:
        """Return random rows; or a vector per item from an item model: its own, or that of its bucket."""
        _, width = self.rounds[0]
        if not self.learns_from_unlisted:
            # A random start costs nothing, and must not depend on the ratings: the theorem asks for that.
            rows = unit_gaussian_rows(run.randomness.stream("start"), len(entries.users), width)
            return whole_guide(rows.astype(np.float64))
        others, bucket_of = entries.unlisted, None
        assert others is not None
        if not entries.universe_declared:
            stream, cap = run.randomness.stream("buckets"), BUCKET_CAP * entries.most
            others, bucket_of = into_buckets(others, entries.items, self.buckets, stream, cap=cap)
        rows = unit_gaussian_rows(run.randomness.stream("first item rows"), others.shape[1], width)
        vectors = self._learn_items(others, rows.astype(np.float64), entries, run, secrets)
        return vectors if bucket_of is None else vectors[bucket_of]

    def _learn_items(
        self, ratings: Matrix, item_rows: Float64Array, entries: Entries, run: Run, secrets: Secrets
    ) -> Float64Array:
        """Return a unit row per item or bucket, from those of the first round; all in them has passed through noise."""
        by_item, prior = Transposed(ratings), self.user_prior * entries.bounds.largest**2
        for number in range(1, self.item_rounds + 1):
            name = f"item sums {number}"
            users = directions(by_item, whole_guide(item_rows), value=entries.value, prior=prior, secrets=secrets)
            noisy = noisy_sums(
                by_item,
                secrets.keep(np.column_stack([users, np.full(len(users), self.count_weight)])),
                run,
                name,
                value=entries.value,
                secrets=secrets,
            )
            item_rows = self._rows_from(noisy, run.step(name).grid.sigma ** 2, last=number == self.item_rounds)
        return item_rows

    def _rows_from(self, noisy: Float64Array, variance: float, *, last: bool) -> Float64Array:
        """Return item rows from noisy sums: centred by the counts, whitened less the noise's own Gram, at norm 1."""
        counts = np.maximum(noisy[:, -1] / self.count_weight, 0.0)
        sums = noisy[:, :-1]
        if counts.sum() > 0:
            sums = sums - np.outer(counts, sums.sum(axis=0) / counts.sum())
        # Noise adds the same variance in every direction: without it taken out, whitening would favour noise.
        gram = sums.T @ sums - len(sums) * variance * np.eye(sums.shape[1])
        values, vectors = np.linalg.eigh(gram)
        if not values[-1] > 0:  # nothing but noise: any scale will do
            values = np.ones_like(values)
        scale = 1 / np.sqrt(np.maximum(values, self.floor * values[-1]))
        white = sums @ (vectors * scale)
        squares = np.einsum("ij,ij->i", white, white)
        positive = np.where(squares > 0, squares, 1.0)
        rows: Float64Array = white / np.sqrt(positive)[:, None]
        if not last:  # rows that are mostly noise are shortened (Wiener)
            expected = variance * float((scale**2).sum())
            rows *= np.sqrt(np.maximum(0.0, squares - expected) / positive)[:, None]
        return rows

    def _item_steps(self, declared: Declared) -> list[Step]:
        # Ratings of one user add up in a bucket; where a clip bounds a user's sum, it bounds that too.
        several = BUCKET_CAP if declared.items is None and declared.unit is Unit.RATING else 1
        rows = self.buckets if declared.items is None else declared.items
        numbers = self.rounds[0][1] + 1
        return [
            Step(
                name=f"item sums {number}",
                purpose=f"learns which way items point, round {number} of {self.item_rounds}",
                sensitivity=declared.change * (1 + self.count_weight**2) ** 0.5,
                share=2.0 ** (number - 1) / (2.0**self.item_rounds - 1),  # each gets twice what the one before got
                rows=rows,
                numbers=numbers,
                moved=rows * numbers,
                most=MAX_RATINGS,
                spread=spread(declared) * several,
                kind=SumKind.COUNTED,
                published=False,
                payer=UserGroup.UNLISTED,
            )
            for number in range(1, self.item_rounds + 1)
        ]
