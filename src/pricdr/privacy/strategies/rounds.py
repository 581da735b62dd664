"""Rows in rounds: each round's rows guide the next, and the last round's rows are published.

A round adds up users' items along directions that their raters give them (:mod:`pricdr.privacy.sums`). Repeated, that
is power iteration on the ratings with noise in every round: what many users share grows, everything else fades.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from pricdr.data.csr import sp
from pricdr.errors import ParameterError, require_at_most_scale, require_not_negative
from pricdr.privacy.accounting import Unit
from pricdr.privacy.guide import guide
from pricdr.privacy.run import Entries, Run, Secrets, erasing
from pricdr.privacy.steps import MOST_RATINGS, Declared, Kind, Step
from pricdr.privacy.sums import (
    GUIDE_STEPS,
    Float64Array,
    IntegerArray,
    directions,
    noisy_sums,
    user_totals,
    whole_guide,
)

COUNT_WEIGHT: Final = 0.3
"""Weight of the column that counts ratings in a centring step."""
_CLEAR: Final = 5.0
"""Standard deviations of noise by which a count must exceed zero to be divided by."""


@dataclass(frozen=True, kw_only=True)
class Rounds:
    """The constants of a strategy in rounds."""

    shares: tuple[float, ...]
    """The share of μ² that each round gets."""
    widths: tuple[int, ...]
    """Columns of each round's guide, and so of its rows; the last is the release's."""
    centring: float
    """The part of a round's share that pays for centring its guide; 0 leaves centring out."""
    item_prior: float
    """n₀: items with few raters get short vectors."""
    percentile: float
    """A guide's rows are clipped at this percentile of their norms."""

    def __post_init__(self) -> None:
        require_not_negative(centring=self.centring, item_prior=self.item_prior)
        require_at_most_scale(item_prior=self.item_prior)
        if len(self.shares) != len(self.widths) or not self.shares or min(self.shares) <= 0 or min(self.widths) < 1:
            raise ParameterError(f"rounds need positive shares and widths, got {self.shares} and {self.widths}")
        if abs(sum(self.shares) - 1) > 1e-9 or self.centring >= 1:
            raise ParameterError(
                f"shares must add up to 1 and centring leave something: {self.shares}, {self.centring}"
            )
        if not 0 < self.percentile <= 100:
            raise ParameterError(f"percentile must lie in (0, 100], got {self.percentile!r}")

    def steps(self, declared: Declared, *, first_given: bool = False) -> tuple[Step, ...]:
        """Return a centring step and a step of rows per round; ``first_given``: the first sums given item vectors."""
        steps = []
        for number, (share, width) in enumerate(zip(self.shares, self.widths, strict=True), 1):
            given = first_given and number == 1
            last = number == len(self.shares)
            centring = 0.0 if given else share * self.centring
            if centring:
                steps.append(_centring_step(number, declared, width, centring))
            name = _rows(number, last=last)
            steps.append(_row_step(name, declared, width, share - centring, given=given, last=last))
        return tuple(steps)

    def publish(self, entries: Entries, start: IntegerArray, run: Run, secrets: Secrets) -> Float64Array:
        """Return the last round's rows; ``start`` guides the first."""
        return self._from(1, entries, start, run, secrets)

    def publish_from(self, entries: Entries, items: Float64Array, run: Run, secrets: Secrets) -> Float64Array:
        """Return the last round's rows, where the first of several rounds adds up given item vectors."""
        first = user_rows(_rows(1, last=False), entries, items, run, secrets)
        return self._from(2, entries, self._guide(first, 2, run), run, secrets)

    def _from(self, number: int, entries: Entries, along: IntegerArray, run: Run, secrets: Secrets) -> Float64Array:
        while True:
            last = number == len(self.shares)
            if self.centring:
                along = _centred(along, number, entries, run)
            prior = self.item_prior * entries.bounds.largest**2  # stated for ratings that count as 1
            items = directions(entries.listed, along, value=entries.value, prior=prior, secrets=secrets)
            rows = user_rows(_rows(number, last=last), entries, items, run, secrets)
            if last:
                return rows
            number += 1
            along = self._guide(rows, number, run)

    def _guide(self, rows: Float64Array, number: int, run: Run) -> IntegerArray:
        """Return the guide of a round, from the rows of the one before."""
        sigma = run.grid(_rows(number - 1, last=False)).sigma
        return guide(rows, self.widths[number - 1], sigma=sigma, percentile=self.percentile)


def user_rows(name: str, entries: Entries, items: Float64Array, run: Run, secrets: Secrets) -> Float64Array:
    """Return one noisy row per listed user: the sum of its items' vectors."""
    return noisy_sums(
        entries.listed,
        items,
        step=run.step(name),
        grid=run.grid(name),
        value=entries.value,
        noise=run.noise(name),
        secrets=secrets,
        progress=run.progress,
    )


def spread(declared: Declared) -> int:
    """Return how many units of ratings can lie behind one number that a change touches; see :class:`Step`.

    A user's units before and after both count, twice what is needed: that covers sums of squares beyond 2^53.
    """
    return declared.bounds.levels if declared.unit is Unit.RATING else 2 * declared.bounds.most_units


def _rows(number: int, *, last: bool) -> str:
    return "rows" if last else f"rows of round {number}"


def _row_step(name: str, declared: Declared, width: int, share: float, *, given: bool, last: bool) -> Step:
    along = "given vectors" if given else "along directions that their raters gave them"
    return Step(
        name=name,
        purpose=f"adds up each user's items, {along}" + ("" if last else ", to guide the next round"),
        sensitivity=declared.change,
        share=share,
        rows=declared.users,
        numbers=width,
        moved=width * (1 if given else declared.users),
        spread=spread(declared),
        kind=Kind.GIVEN if given else Kind.LEARNT,
        published=last,
    )


def _centring_step(number: int, declared: Declared, width: int, share: float) -> Step:
    return Step(
        name=f"centre of round {number}",
        purpose="finds the mean of the guide over all ratings, to take it out",
        sensitivity=declared.change * (1 + COUNT_WEIGHT**2) ** 0.5,
        share=share,
        rows=1,
        numbers=width + 1,
        moved=width + 1,
        spread=spread(declared),
        most=MOST_RATINGS,
        kind=Kind.GIVEN,
        published=False,
    )


def _centred(along: IntegerArray, number: int, entries: Entries, run: Run) -> IntegerArray:
    """Return the guide less its mean over all ratings, clipped again.

    Without it every item's direction would hold what active users have in common, and less of what sets items apart.
    """
    name = f"centre of round {number}"
    # One row: how much each user rated in all. A rating moves one of its entries, whose vector has norm √(1 + c²).
    with erasing() as inner:  # as long as the guide, and of no use afterwards
        totals = inner.keep(user_totals(entries.listed).reshape(1, -1))
        vectors = np.column_stack([along / GUIDE_STEPS, np.full(len(along), COUNT_WEIGHT)])
        one_row = sp.csr_array(totals)
        inner.keep(one_row.data)
        sums = noisy_sums(
            one_row,
            vectors,
            step=run.step(name),
            grid=run.grid(name),
            value=entries.value,
            noise=run.noise(name),
            secrets=inner,
        )[0]
    count = sums[-1] / COUNT_WEIGHT
    if count <= _CLEAR * run.grid(name).sigma / COUNT_WEIGHT:  # too few ratings to tell their mean from noise
        return along
    return whole_guide(along / GUIDE_STEPS - sums[:-1] / count)
