"""Rows in rounds: each round's rows guide the next, and the last round's rows are published.

A round adds up users' items along directions that their raters give them (:mod:`pricdr.privacy.sums`). Repeated, that
is power iteration on the ratings with noise in every round: what many users share grows, everything else fades.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from pricdr.arrays import BoolArray, Float32Array, Float64Array, IntegerArray
from pricdr.data.csr import sp
from pricdr.data.ratings import Ids
from pricdr.errors import InputError, ParameterError, require_at_most_scale, require_not_negative, require_share
from pricdr.privacy.accounting import Unit
from pricdr.privacy.mechanism import Entries, Run, Secrets
from pricdr.privacy.steps import MAX_ITEMS, MAX_RATINGS, Declared, Step
from pricdr.privacy.strategies.base import Strategy
from pricdr.privacy.sums import GUIDE_STEPS, directions, noisy_sums, user_totals, whole_guide

MAX_COLUMNS: Final = 4096
_LARGEST: Final = 1e100  # numbers beyond this would overflow in a sum of squares
_FLOOR: Final = 1e-3  # the least share of a direction's variance that is taken for signal
_TINY: Final = 1e-6  # a share of the largest variance: directions with a smaller one are amplified no further


def guide(
    rows: Float64Array,
    dim: int,
    *,
    sigma: float,
    percentile: float = 50.0,
    present: BoolArray | None = None,
    rotated: bool = True,
) -> IntegerArray:
    """Return guide rows of ``dim`` columns from noisy rows: centred, whitened, clipped to norm 1, in whole steps.

    Each leading principal direction is scaled to the root of the share of its variance that is not noise, of standard
    deviation ``sigma``; rows beyond the ``percentile`` of their norms are clipped to it. Where there are fewer columns
    than ``dim``, the rest are zeros; so are rows of users who are not ``present``, and rows most of which are alike.
    Not ``rotated``, they are whitened symmetrically, which leaves columns as much what they were as it can.
    """
    there = np.ones(len(rows), dtype=bool) if present is None else present
    largest = max(float(rows.max(initial=0.0)), -float(rows.min(initial=0.0)))  # nan where there is one
    if not largest <= _LARGEST or not 0 <= sigma < _LARGEST:
        raise InputError("a guide must hold finite numbers below 1e100")
    if not there.any():
        raise InputError("the guide has no row for any listed user")
    known = rows[there].astype(np.float64, copy=False)  # the selection is a copy already
    known -= known.mean(axis=0)
    values, vectors = np.linalg.eigh(known.T @ known / len(known))
    values, vectors = values[::-1][:dim], vectors[:, ::-1][:, :dim]
    out = np.zeros((len(rows), dim))
    if values[0] > 0:
        above = np.maximum(values, _TINY * values[0])
        # The share of each variance that is more than noise; where none is, all count alike.
        signal = np.maximum((values - sigma**2) / above, _FLOOR) if values[0] > sigma**2 else np.ones_like(values)
        white = known @ (vectors * np.sqrt(signal / above))
        white = white if rotated else white @ vectors.T
        scale = float(np.percentile(np.sqrt(np.einsum("ij,ij->i", white, white)), percentile))
        if scale > 0:
            white /= scale
            out[there, : white.shape[1]] = white
    return whole_guide(out)


def matched(rows: Float64Array, owners: Ids, users: Ids) -> tuple[Float64Array, BoolArray]:
    """Return the rows of ``users``, in their order, and which of them have one; rows of other users are left out."""
    if rows.ndim != 2 or rows.shape[1] > MAX_COLUMNS:  # before anything of their size is made
        raise InputError(f"a guide has a row per user and at most {MAX_COLUMNS:,} columns, got shape {rows.shape}")
    position_of = {user: position for position, user in enumerate(owners)}
    if len(position_of) != len(owners) or len(owners) != len(rows):
        raise InputError("a guide must have one row per user")
    positions = np.array([position_of.get(user, -1) for user in users], dtype=np.int64)
    present = positions >= 0
    out = np.zeros((len(users), rows.shape[1]))
    out[present] = rows[positions[present]]
    return out, present


COUNT_WEIGHT: Final = 0.3  # weight of the column that counts ratings in a centring step
_CLEAR: Final = 5.0  # standard deviations of noise by which a count must exceed zero to be divided by


@dataclass(frozen=True, kw_only=True, eq=False)
class LearntInRounds(Strategy):
    """A strategy of rounds. A subclass says how many and how wide they are, and what guides the first."""

    learns: ClassVar[bool] = True

    centring: float = 0.01
    """The part of a round's share that pays for centring its guide; 0 leaves centring out."""
    item_prior: float = 5.0
    """n₀: items with few raters get short vectors."""
    percentile: float = 50.0
    """A guide's rows are clipped at this percentile of their norms."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_share(centring=self.centring)
        require_not_negative(item_prior=self.item_prior)
        require_at_most_scale(item_prior=self.item_prior)
        if not 0 < self.percentile <= 100:
            raise ParameterError(f"percentile must lie in (0, 100], got {self.percentile!r}")

    @property
    @abstractmethod
    def rounds(self) -> tuple[tuple[float, int], ...]:
        """Each round's share of μ², and the columns of its guide, and so of its rows; the last are the release's."""

    @abstractmethod
    def start(self, entries: Entries, run: Run) -> IntegerArray:
        """Return the first round's guide."""

    def steps(self, declared: Declared) -> tuple[Step, ...]:
        """Return a centring step and a step of rows per round."""
        steps = []
        for number, (share, width) in enumerate(self.rounds, 1):
            last, centring = number == len(self.rounds), share * self.centring
            if centring:
                centre = Step(
                    name=f"centre of round {number}",
                    purpose="finds the mean of the guide over all ratings, to take it out",
                    sensitivity=declared.change * (1 + COUNT_WEIGHT**2) ** 0.5,
                    share=centring,
                    rows=1,
                    numbers=width + 1,
                    moved=width + 1,
                    most=MAX_RATINGS,
                    spread=_spread(declared, given=True),
                    published=False,
                )
                steps.append(centre)
            rows = Step(
                name=self._rows(number),
                purpose="adds up each user's items, along directions that their raters gave them"
                + ("" if last else ", to guide the next round"),
                sensitivity=declared.change,
                share=share - centring,
                rows=declared.users,
                numbers=width,
                moved=width * declared.users,
                # A user's ratings add up to the clip in every period.
                most=declared.periods if declared.unit is Unit.USER_PERIOD else MAX_ITEMS,
                spread=_spread(declared),
                learnt=True,
                published=last,
            )
            steps.append(rows)
        return tuple(steps)

    def _rows(self, number: int) -> str:
        return "rows" if number == len(self.rounds) else f"rows of round {number}"

    def publish(self, entries: Entries, run: Run) -> Float32Array:
        """Return the last round's rows; everything learnt about items is erased."""
        prior = self.item_prior * entries.bounds.largest**2  # stated for ratings that count as 1
        with Secrets() as secrets:
            along = self.start(entries, run)
            for number in range(1, len(self.rounds) + 1):
                name = self._rows(number)
                if self.centring:
                    along = _centred(along, number, entries, run)
                items = directions(entries.listed, along, value=entries.value, prior=prior, secrets=secrets)
                rows = noisy_sums(entries.listed, items, run, name, value=entries.value, secrets=secrets)
                if number < len(self.rounds):
                    _, width = self.rounds[number]  # of the next
                    along = guide(rows, width, sigma=run.step(name).grid.sigma, percentile=self.percentile)
            return rows.astype(np.float32)


def _spread(declared: Declared, *, given: bool = False) -> int:
    """Return how many units of ratings can lie behind one number that a change touches; for a user, twice as many."""
    if declared.unit is Unit.RATING:
        return declared.bounds.levels
    # Of vectors that change, another user may have rated the items in every period. Twice, more than is needed: that
    # covers sums of squares beyond 2^53.
    return 2 * declared.bounds.most_units * (1 if given else declared.periods)


def _centred(along: IntegerArray, number: int, entries: Entries, run: Run) -> IntegerArray:
    """Return the guide less its mean over all ratings, which holds what active users have in common; clipped again."""
    name = f"centre of round {number}"
    # One row: how much each user rated in all. A rating moves one of its entries, whose vector has norm √(1 + c²).
    with Secrets() as inner:  # as long as the guide, and of no use afterwards
        totals = inner.keep(user_totals(entries.listed).reshape(1, -1))
        vectors = np.column_stack([along / GUIDE_STEPS, np.full(len(along), COUNT_WEIGHT)])
        one_row = sp.csr_array(totals)
        inner.keep(one_row.data)
        sums = noisy_sums(one_row, vectors, run, name, value=entries.value, secrets=inner)[0]
    count = sums[-1] / COUNT_WEIGHT
    if count <= _CLEAR * run.step(name).grid.sigma / COUNT_WEIGHT:  # too few ratings to tell their mean from noise
        return along
    return whole_guide(along / GUIDE_STEPS - sums[:-1] / count)
