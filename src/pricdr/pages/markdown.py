"""A page as Markdown: the same blocks, readable as they are. A figure is its words; nothing is folded away."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from pricdr.errors import plain, printable
from pricdr.pages.page import (
    Block,
    Bullets,
    Columns,
    Commands,
    Content,
    Details,
    Facts,
    Figure,
    Note,
    Page,
    Section,
)
from pricdr.pages.tables import Cell, Table

_LINK: Final = re.compile(r"\]\s*[(\[:]")
"""Behind which a bracket begins a link, or defines one."""
_TOP: Final = 2
"""The level of a section's heading; that of the title is 1."""


def markdown(page: Page) -> str:
    """Return the whole page as Markdown.

    >>> print(markdown(Page("R|D", [Section("Why", ["Because."])])), end="")
    # R&#124;D
    <BLANKLINE>
    ## Why
    <BLANKLINE>
    Because.
    """
    parts = [f"# {_text(page.title)}", *_written(page.lead, _TOP), *_written(page.sections, _TOP)]
    parts += [_text(line) for line in page.footer]
    return "\n\n".join(parts) + "\n"


def _written(blocks: "Content | Sequence[Section]", level: int) -> Iterator[str]:
    for block in blocks:
        if isinstance(block, str):
            yield _text(block)
        else:
            yield from _block(block, level)


def _block(block: Block, level: int) -> Iterator[str]:
    match block:
        case Section():
            yield f"{'#' * level} {_text(block.heading)}"
            yield from _written(block.blocks, level + 1)
        case Columns() | Details():
            yield from _written(block.blocks, level)
        case Note():
            yield f"> {_text(block.text)}"
        case Bullets():
            yield "\n".join(f"- {_text(one)}" for one in block.items)
        case Facts():
            yield "\n".join(f"- **{_text(name)}:** {_text(value)}" for name, value in block.facts.items())
        case Commands():
            # Indented, not fenced: no line of it can end the block.
            yield "\n".join(f"    {printable(line)}" for line in block.lines)
        case Table():
            yield _table(block)
        case Figure():
            yield f"{_text(block.caption)}: {_text(block.in_words)}"
        case _:
            raise AssertionError(f"{type(block).__name__} has no form in Markdown")


def _text(text: str) -> str:
    """Return text that is shown as it is; an interval keeps its brackets, since only what follows them makes a link.

    >>> _text("+0.1 [-0.1, +0.3]"), _text("[a](b)")
    ('+0.1 [-0.1, +0.3]', '&#91;a](b)')
    """
    shown = plain(text)
    return shown if _LINK.search(text) else shown.replace("&#91;", "[")


def _table(table: Table) -> str:
    header = [_text(column.name) for column in table.columns]
    rows = [[_cell(cell) for cell in row.drawn] for row in table.rows]
    ruler = ["---:" if column.numeric else "---" for column in table.columns]
    lines = [f"| {' | '.join(cells)} |" for cells in (header, ruler, *rows)]
    notes = [f"({letter}) {_text(text)}" for text, letter in table.marks.items()]
    after = [*notes, *([_text(table.note)] if table.note else [])]
    return "\n".join([f"{_text(table.caption)}:", "", *lines, *(["", *after] if after else [])])


def _cell(cell: Cell) -> str:
    return _text(" ".join(part for part in (cell.text, cell.detail) if part))
