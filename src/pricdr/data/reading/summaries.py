"""Summarise what was read in a few lines: for its owner's screen, never for a release."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pricdr.data.reading.bad_rows import BadRows
from pricdr.data.reading.repeats import Repeats
from pricdr.data.reading.text_files import named
from pricdr.errors import printable


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The sizes of ratings, and how many rows were merged or left out."""

    file: Path | str
    rows: int
    users: int
    items: int
    ratings: int | None
    """None where rows were only counted, not merged."""
    repeats: Repeats
    dropped: Sequence[tuple[str, int]]
    rating_range: tuple[float, float] | None
    has_values: bool
    bad_rows: BadRows | None = None
    files: int = 1
    empty_files: int = 0
    counted: str = ""
    """Says whose ratings were counted, where that is not all of them."""

    def __str__(self) -> str:
        """Return the summary, a few lines."""
        merged = "repeated pairs not merged yet" if self.ratings is None else f"{self.ratings:,} ratings{self.counted}"
        counts = f"{self.rows:,} rows, {self.users:,} users, {self.items:,} items, {merged}"
        files = f"{self.files:,} files, " if self.files > 1 else ""
        lines = [f"{named(self.file)}: {files}{counts}"]
        if self.empty_files:
            lines.append(f"files without rows: {self.empty_files:,}")
        if self.bad_rows is not None and self.bad_rows.count:
            lines.append(f"skipped: {self.bad_rows.count:,} bad rows; the first:")
            lines += [f"  {printable(fault)}" for fault in self.bad_rows.first]
        if self.repeats.rows:
            lines.append(f"duplicates: {self.repeats.rows:,} rows repeat a (user, item) pair; {self._rule()}")
        if self.dropped:
            lines.append("dropped: " + ", ".join(f"{count:,} {reason}" for reason, count in self.dropped))
        if self.rating_range is None:
            lines.append("no rating column read: each row counts as 1")
        else:
            lines.append("ratings range from {:g} to {:g}".format(*self.rating_range))
        return "\n  ".join(lines)

    def _rule(self) -> str:
        """Return the rule by which one row of a repeated pair counts."""
        if not self.has_values:
            return "they count once"
        if not self.repeats.by_time:
            return "the largest value counts (there is no time column)"
        untimed = f"; {self.repeats.untimed:,} without a readable time count as the earliest"
        return "the latest counts, by the time column" + (untimed if self.repeats.untimed else "")
