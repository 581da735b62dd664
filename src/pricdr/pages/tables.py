"""Tables that readers can sort, filter and copy. Everything in one is text; the first column names the row."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final

from pricdr.errors import ParameterError

_NUMBER: Final = re.compile(r"[^\d+−-]{0,2}([+−-]?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?)", re.IGNORECASE)
"""A number at the beginning of a cell, perhaps behind a sign such as < or ~."""


@dataclass(frozen=True)
class Column:
    """A column: what its head says, and what that means."""

    name: str
    help: str = ""
    """An explanation, shown to those who point at the head or move there with the keyboard."""
    numeric: bool = True
    """Whether cells are aligned and sorted as numbers."""


@dataclass(frozen=True)
class Cell:
    """One cell: what it shows, and what it tells those who look closer."""

    text: str
    sort: float | str | None = None
    """What to sort by where it is not what the cell shows: the exact number behind a rounded one."""
    detail: str = ""
    """An interval or a standard error, set smaller; it may move to the next line, but only as a whole."""
    hover: Sequence[str] = ()
    """Lines for those who point at the cell, such as the exact value and the value of each seed."""
    mark: str = ""
    """Why the cell has a letter beside it; the explanations stand below the table."""
    strong: bool = False

    @classmethod
    def of(cls, text: str) -> "Cell":
        """Return a cell with a figure and its interval apart.

        >>> Cell.of("+0.1 [-0.1, +0.3]")
        Cell(text='+0.1', sort=None, detail='[-0.1, +0.3]', hover=(), mark='', strong=False)
        """
        match = re.fullmatch(r"(.*?) (±.*|\[.*\])", text, flags=re.DOTALL)
        return cls(match[1], detail=match[2]) if match else cls(text)

    def sort_key(self, *, numeric: bool) -> str:
        """Return what the page sorts by: a number in full, or text; "" for what comes last.

        >>> Cell("1,234 users").sort_key(numeric=True), Cell("0.12", sort=0.1234567).sort_key(numeric=True)
        ('1234.0', '0.1234567')
        >>> Cell("–").sort_key(numeric=True), Cell("BPR").sort_key(numeric=False)
        ('', 'bpr')
        """
        if isinstance(self.sort, str) or not numeric:
            return (self.sort if isinstance(self.sort, str) else self.text).casefold()
        match = _NUMBER.match(self.text.strip())
        value = float(match[1].replace(",", "").replace("−", "-")) if match and self.sort is None else self.sort
        if value is None or math.isnan(value):
            return ""
        # In the words of the script that compares them.
        return repr(float(value)).replace("inf", "Infinity")


@dataclass(frozen=True)
class Row:
    """A row: its name and its cells. A text stands for ``Cell.of`` it."""

    cells: Sequence[Cell | str]
    strong: bool = False

    @cached_property
    def drawn(self) -> tuple[Cell, ...]:
        """The cells, those given as text too."""
        return tuple(cell if isinstance(cell, Cell) else Cell.of(cell) for cell in self.cells)


@dataclass(frozen=True)
class Table:
    """A table with a caption."""

    id: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    note: str = ""
    """A sentence below the table."""

    template: ClassVar[str] = "blocks/table.html.j2"

    def __post_init__(self) -> None:
        if widths := {len(row.cells) for row in self.rows} - {len(self.columns)}:
            raise ParameterError(f"table {self.id} has {len(self.columns)} columns, and rows of {widths}")

    @property
    def size_class(self) -> str:
        """What the style sheet calls a table by its columns: a wide one is set smaller on paper, and stacked on phones.

        >>> [Table("t", "", [Column(str(at)) for at in range(width)], []).size_class for width in (4, 5, 10, 16)]
        ['', 'wide', 'wide several', 'wide many']
        """
        width = len(self.columns)
        return ("wide" if width > 4 else "") + (" many" if width >= 16 else " several" if width >= 10 else "")

    @cached_property
    def marks(self) -> dict[str, str]:
        """A letter for each explanation of a cell."""
        explained = dict.fromkeys(cell.mark for row in self.rows for cell in row.drawn if cell.mark)
        return {explanation: chr(ord("a") + at) for at, explanation in enumerate(explained)}


def table(id: str, caption: str, header: Sequence[str], rows: Sequence[Sequence[str]], *, names: int = 1) -> Table:
    """Return a table of plain texts, of which the first ``names`` in a row are words and the others numbers."""
    columns = [Column(name, numeric=at >= names) for at, name in enumerate(header)]
    return Table(id, caption, columns, [Row(cells) for cells in rows])
