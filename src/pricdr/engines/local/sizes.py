"""Estimate the memory of ``--engine local`` from sizes alone, to show and check it before the work begins."""

from dataclasses import dataclass
from typing import Final

from pricdr.engines.local.matrix import BLOCK_ENTRIES, BYTES_PER_ENTRY, LARGE
from pricdr.memory import in_words, memory_limit, require_memory
from pricdr.parallel import cores
from pricdr.privacy.estimate import Estimate

EXPANSION: Final = 25
"""Bytes of memory that publishing takes for every byte of the files. For Parquet, the densest format, 18 were measured
(``benchmarks/scale.py``, 10 M ratings); a user list in another order takes more, since ratings are then held twice."""
LARGEST_BUFFER: Final = 256 * 10**6
SMALLEST_BUFFER: Final = 8 * 10**6
BYTES_PER_ID: Final = 250
"""For an id as text, its code, its position and its count, besides two copies of its letters."""
_PROGRAM: Final = 150 * 10**6
"""For the program and its libraries."""


def sort_buffer() -> int:
    """Return the bytes that sorting may take: an eighth of the memory limit, from 8 MB to 256 MB."""
    return max(SMALLEST_BUFFER, min(LARGEST_BUFFER, memory_limit() // 8))


def block_bytes() -> int:
    """Return the bytes of the blocks that all cores process at the same time."""
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
        """Return the memory that a release takes.

        Args:
            work: the estimate from the steps of the strategy.
            ids: users and items together, listed or not.
            letters: bytes of all these ids as text.
        """
        # Rows that nothing is learnt from are kept in a file if they are large.
        rows = work.user_rows if work.learns else min(work.user_rows, LARGE)
        return cls(work.item_rows, rows, block_bytes(), sort_buffer(), BYTES_PER_ID * ids + 2 * letters)

    @property
    def total(self) -> int:
        """All bytes. Sorting ends before the first block is read, so only the larger of the two counts."""
        return _PROGRAM + self.ids + max(self.buffer, self._computing)

    @property
    def _computing(self) -> int:
        """Bytes of the steps of the strategy, once the rows are sorted."""
        return self.item_rows + self.user_rows + self.blocks

    def sentence(self) -> str:
        """Return a sentence about it for people."""
        parts = {"item vectors": self.item_rows, "users' rows": self.user_rows, "blocks of users": self.blocks}
        shown = ", ".join(f"{what} {in_words(size)}" for what, size in parts.items())
        return (
            f"needs about {in_words(self.total)} of memory, however many ratings there are: the program "
            f"{in_words(_PROGRAM)}, ids {in_words(self.ids)}, and the larger of {in_words(self.buffer)} to sort and "
            f"{in_words(self._computing)} to compute ({shown})"
        )

    def require(self) -> None:
        """Refuse a release that needs more memory than the limit."""
        require_memory(self.total, "publishing with --engine local")
