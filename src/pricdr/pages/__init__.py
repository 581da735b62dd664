"""Pages for people: one set of templates for everything that is written as HTML.

A page is a :class:`Page` of sections; a section holds paragraphs (plain text), tables, figures and the other blocks;
:func:`render` returns one file that loads nothing. Charts with altair are in ``pricdr.pages.charts``, apart: altair is
an extra.
"""

from pricdr.pages.blocks import (
    Block,
    Bullets,
    Columns,
    Commands,
    Content,
    Details,
    Facts,
    Link,
    Note,
    Paragraph,
    Strong,
)
from pricdr.pages.dots import Dot, dot_plot
from pricdr.pages.figures import Figure
from pricdr.pages.page import Page, Section, render, style_sheet
from pricdr.pages.palette import Palette
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
    "Link",
    "Note",
    "Paragraph",
    "Strong",
    "Cell",
    "Column",
    "Row",
    "Table",
    "table",
    "Dot",
    "Figure",
    "Palette",
    "dot_plot",
]
