"""A guess at the time and memory that a release takes, from sizes alone: nothing is computed or drawn for it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pricdr.parallel import cores
from pricdr.privacy.steps import CalibratedStep, Kind

_START: Final = 0.05
"""Seconds that even the smallest release takes."""
_BLOCKS: Final = 8 << 20
"""Bytes of the blocks that are being worked on."""
_ALONE: Final = 0.3
"""The part of the work that runs on one core, whatever there is."""


@dataclass(frozen=True)
class _Price:
    """What a step costs, in processor seconds and in bytes; measured, and rounded up (``benchmarks/publish.py``)."""

    number: float
    """For each noisy number."""
    product: float
    """For each rating and column."""
    item: float
    """For each item and column."""
    number_bytes: int
    rating_bytes: int
    item_bytes: int


_GIVEN: Final = _Price(15e-9, 0.6e-9, 50e-9, number_bytes=4, rating_bytes=25, item_bytes=10)
_LEARNT: Final = _Price(100e-9, 3.6e-9, 50e-9, number_bytes=60, rating_bytes=45, item_bytes=60)


@dataclass(frozen=True)
class Estimate:
    """What a release takes beyond reading the ratings. Right within a factor of a few: machines differ."""

    processor_seconds: float
    memory: int
    """Bytes, on top of the ratings themselves."""
    item_rows: int
    """Bytes of what is computed for items, in the step where that is most."""
    user_rows: int
    """Bytes of what is computed for users, likewise."""
    learns: bool
    """Whether any step learns from the ratings: users' rows are then needed again, not only written."""

    @property
    def seconds(self) -> float:
        """Time that passes, on as many cores as this process may use."""
        return self.processor_seconds * (_ALONE + (1 - _ALONE) / cores())


def estimate(settled: Iterable[CalibratedStep], *, ratings: int, items: int) -> Estimate:
    """Return what these steps take for so many ratings of so many items."""
    seconds, memory, item_rows, user_rows, learns = _START, 0, 0, 0, False
    for one in settled:
        step = one.step
        price = _GIVEN if step.kind is Kind.GIVEN else _LEARNT
        learns |= step.kind is not Kind.GIVEN
        columns = step.numbers
        seconds += columns * (price.number * step.rows + price.product * ratings + price.item * items)
        # Steps follow one another, and each gives its memory back.
        of_items, of_users = columns * price.item_bytes * items, columns * price.number_bytes * step.rows
        memory = max(memory, of_items + of_users + price.rating_bytes * ratings)
        item_rows, user_rows = max(item_rows, of_items), max(user_rows, of_users)
    return Estimate(seconds, memory + _BLOCKS, item_rows, user_rows, learns)
