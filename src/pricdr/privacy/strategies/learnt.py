"""What the strategies share that learn directions from the ratings."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from pricdr.privacy.guarantee import Guarantee, Unit
from pricdr.privacy.run import Entries, Run, Secrets
from pricdr.privacy.steps import Declared, Kind, Step
from pricdr.privacy.strategies.base import FloatArray
from pricdr.privacy.sums import Float64Array, IntegerArray, directions, noisy_sums

FEW: Final = 4
MANY: Final = 8
ENOUGH_FOR_MANY: Final = 4.0
"""The ε from which on eight numbers per user carry more than four."""


def dim_for(guarantee: Guarantee) -> int:
    """How many numbers per user are worth their noise at this ε.

    >>> dim_for(Guarantee(epsilon=2, delta=1e-6)), dim_for(Guarantee(epsilon=4, delta=1e-6))
    (4, 8)
    """
    return MANY if guarantee.epsilon >= ENOUGH_FOR_MANY else FEW


def spread(declared: Declared) -> int:
    """Most units of ratings that a neighbouring change moves behind one number; see :class:`Step`."""
    return declared.bounds.levels if declared.unit is Unit.RATING else 2 * declared.bounds.most_units


def row_step(
    name: str, purpose: str, declared: Declared, dim: int, share: float, *, kind: Kind, published: bool
) -> Step:
    """A step that gives every listed user a row."""
    return Step(
        name=name,
        purpose=purpose,
        sensitivity=declared.change,
        share=share,
        rows=declared.users,
        numbers=dim,
        moved=dim * (1 if kind is Kind.GIVEN else declared.users),
        spread=spread(declared),
        kind=kind,
        published=published,
    )


@dataclass(frozen=True)
class InnerRows:
    """Rows by directions that the users' own ratings give to items, along a guide."""

    prior: float
    """n₀: items with few raters get short rows."""

    def publish(self, name: str, entries: Entries, guide: IntegerArray, run: Run, secrets: Secrets) -> Float64Array:
        """One noisy row per listed user; everything learnt about items on the way is kept for erasing."""
        items = directions(
            entries.listed,
            guide,
            value=entries.value,
            prior=self.prior * entries.bounds.largest**2,
            secrets=secrets,
        )
        return user_rows(name, entries, items, run, secrets)


def user_rows(name: str, entries: Entries, items: Float64Array, run: Run, secrets: Secrets) -> Float64Array:
    """One noisy row per listed user: the sum of its items' vectors."""
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


def as_published(rows: Float64Array) -> FloatArray:
    """As release files hold them."""
    return rows.astype(np.float32)
