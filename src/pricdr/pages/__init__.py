"""Pages for people: one set of templates for everything that is written as HTML.

A page is a :class:`Page` of sections; a section holds paragraphs (plain text), tables, figures and the other blocks;
:func:`render` returns one file that loads nothing. ``pricdr.pages.charts`` draws charts with altair, which is an extra;
without it a figure is its words.
"""

from pricdr.pages.charts import Dot, dot_plot
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
    render,
    style_sheet,
)
from pricdr.pages.tables import Cell, Column, Row, Table, table

__all__ = [
    "Page",
    "Section",
    "render",
    "style_sheet",
    "Block",
    "Bullets",
    "Columns",
    "Commands",
    "Content",
    "Details",
    "Facts",
    "Note",
    "Cell",
    "Column",
    "Row",
    "Table",
    "table",
    "Dot",
    "Figure",
    "dot_plot",
]
