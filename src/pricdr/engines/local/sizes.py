"""What ``--engine local`` takes, by sizes alone: stated, and held against the limit, before the work begins."""

from dataclasses import dataclass
from typing import Final

from pricdr.engines.local.matrix import BLOCK_ENTRIES, BYTES_PER_ENTRY, LARGE
from pricdr.memory import in_words, memory_limit, require_memory
from pricdr.parallel import cores
from pricdr.privacy.estimate import Estimate

EXPANSION: Final = 25
"""Bytes that publishing takes in memory for every byte of the files. For Parquet, the densest of them, 18 were measured
(``benchmarks/scale.py``, 10 M ratings); a user list in another order takes more, since ratings are then held twice."""
LARGEST_BUFFER: Final = 256 << 20
SMALLEST_BUFFER: Final = 8 << 20
BYTES_PER_ID: Final = 250
"""For an id as text, its code, its position and its count, beside two copies of its letters."""
_PROGRAM: Final = 150 << 20
"""The program itself and its libraries."""


def sort_buffer() -> int:
    """Return the bytes that sorting may take: an eighth of the limit, up to 256 MB."""
    return max(SMALLEST_BUFFER, min(LARGEST_BUFFER, memory_limit() // 8))


def block_bytes() -> int:
    """Return the bytes of the blocks that all cores work on at a time."""
    return cores() * BLOCK_ENTRIES * BYTES_PER_ENTRY


@dataclass(frozen=True)
class Need:
    """The memory that a release takes, part by part."""

    item_rows: int
    user_rows: int
    blocks: int
    buffer: int
    ids: int

    @classmethod
    def of(cls, work: Estimate, *, ids: int, letters: int) -> "Need":
        """Return what a release takes that has ``work`` to do.

        Args:
            work: by the steps of the strategy.
            ids: users and items together, listed or not.
            letters: bytes of all these ids as text.
        """
        # Rows that nothing is learnt from are written to a file where they are many.
        rows = work.user_rows if work.learns else min(work.user_rows, LARGE)
        return cls(work.item_rows, rows, block_bytes(), sort_buffer(), BYTES_PER_ID * ids + 2 * letters)

    @property
    def total(self) -> int:
        """Bytes in all. Sorting is over when the first block is read, so the larger of the two counts."""
        return _PROGRAM + self.ids + max(self.buffer, self.item_rows + self.user_rows + self.blocks)

    def sentence(self) -> str:
        """Return it for people."""
        parts = {
            "item vectors": self.item_rows,
            "users' rows": self.user_rows,
            "blocks of users": self.blocks,
            "sort buffer": self.buffer,
            "ids": self.ids,
        }
        shown = ", ".join(f"{what} {in_words(size)}" for what, size in parts.items())
        return f"needs about {in_words(self.total)} of memory, however many ratings there are: {shown}"

    def require(self) -> None:
        """Refuse it where that is more than the limit."""
        require_memory(self.total, "publishing with --engine local")
