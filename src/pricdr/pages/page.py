"""A page: one HTML file that loads nothing, for a screen, a phone, paper and a screen reader.

A page has sections, a section has blocks, and each block names the template that draws it. A plain text is a paragraph.
The page allows itself one style sheet and one script, by their hashes; without the script everything is still there to
read.
"""

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import ClassVar, Protocol, TypeAlias

from jinja2 import Environment
from markupsafe import Markup

from pricdr.errors import ParameterError
from pricdr.markup import template_environment
from pricdr.pages.tables import Table


class Block(Protocol):
    """A piece of a section: its template finds it under the name ``block``."""

    template: ClassVar[str]


Content: TypeAlias = Sequence[Block | str]
"""Blocks in the order in which they are shown."""


@dataclass(frozen=True)
class Note:
    """A paragraph that nobody may overlook: what is not private, what stands in for other data, what is missing."""

    text: str

    template: ClassVar[str] = "blocks/note.html.j2"


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    items: Sequence[str]

    template: ClassVar[str] = "blocks/bullets.html.j2"


@dataclass(frozen=True)
class Facts:
    """Names and what stands for each, such as a commit or a day."""

    facts: Mapping[str, str]

    template: ClassVar[str] = "blocks/facts.html.j2"


@dataclass(frozen=True)
class Commands:
    """Commands to type, one a line."""

    lines: Sequence[str]

    template: ClassVar[str] = "blocks/commands.html.j2"


@dataclass(frozen=True)
class Columns:
    """Blocks side by side where the page is wide enough, and below one another on a phone: small multiples."""

    blocks: Content

    template: ClassVar[str] = "blocks/columns.html.j2"


@dataclass(frozen=True)
class Details:
    """Blocks that are folded away until a reader opens them."""

    summary: str
    blocks: Content

    template: ClassVar[str] = "blocks/details.html.j2"


@dataclass(frozen=True)
class Figure:
    """A chart as two pictures, for light pages and for dark ones; ``pricdr.pages.charts`` makes them.

    Pictures are shown as images, in which a browser runs and loads nothing, whatever they are drawn from.
    """

    id: str
    caption: str
    in_words: str
    """What it shows, with its figures: for those who cannot see it, and for all where it could not be drawn."""
    light: str = ""
    """In SVG."""
    dark: str = ""
    note: str = ""
    """A sentence behind the caption."""

    template: ClassVar[str] = "blocks/figure.html.j2"

    @property
    def sources(self) -> tuple[str, ...]:
        """The light picture and the dark one as addresses; none where it could not be drawn."""
        pictures = [base64.b64encode(svg.encode()).decode() for svg in (self.light, self.dark) if svg]
        return tuple(f"data:image/svg+xml;base64,{picture}" for picture in pictures)


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it; a section within a section has a smaller heading."""

    heading: str
    blocks: "Content | Sequence[Section]" = ()
    id: str = ""
    """What a link to it names; by default made from the heading."""

    template: ClassVar[str] = "blocks/section.html.j2"

    @cached_property
    def anchor(self) -> str:
        """The id, given or made.

        >>> Section("RQ4: what ε buys (Douban)").anchor
        'rq4-what-ε-buys-douban'
        """
        return self.id or re.sub(r"[^\w]+", "-", self.heading.casefold()).strip("-") or "section"


@dataclass(frozen=True)
class Page:
    """A title, what comes first, and sections."""

    title: str
    sections: Sequence[Section] = ()
    lead: Content = ()
    """Above all sections: the answer in a few sentences."""
    footer: Sequence[str] = ()


def render(page: Page) -> str:
    """Return the whole HTML page.

    >>> render(Page("R&D", [Section("a < b", ["c < d"])])).count("c &lt; d")
    1
    """
    _require_unique_ids(page)
    style, script = style_sheet(), _asset("page.js")
    return (
        page_environment()
        .get_template("page.html.j2")
        .render(page=page, style=style, style_hash=_hash(style), script=script, script_hash=_hash(script))
    )


@cache
def page_environment(package: str = "pricdr") -> Environment:
    """Return the environment of the templates of pages; ``package`` may have some of its own, which come first."""
    return template_environment(package)


def style_sheet() -> Markup:
    """Return the style sheet of all pages."""
    return _asset("page.css")


def _asset(name: str) -> Markup:
    """Return the style sheet or the script: our own text, in which nothing from outside is put."""
    return Markup(page_environment().get_template(name).render().strip())


def _hash(text: str) -> str:
    """Return what a Content-Security-Policy calls an inline script or style by."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _inside(blocks: Sequence[Block | str]) -> Iterator[Block]:
    """Yield all blocks, also those within sections, columns and details."""
    for block in blocks:
        if not isinstance(block, str):
            yield block
            if isinstance(block, Section | Columns | Details):
                yield from _inside(block.blocks)


def _require_unique_ids(page: Page) -> None:
    """Refuse two parts with one id: a link would lead to the first of them, whichever was meant."""
    named: set[str] = set()
    for block in _inside([*page.lead, *page.sections]):
        if isinstance(block, Section | Table | Figure):
            name = block.anchor if isinstance(block, Section) else block.id
            if name in named or not re.fullmatch(r"[\w-]+", name):
                rule = "is there twice" if name in named else "must be letters, digits, _ and -"
                raise ParameterError(f"page {page.title}: the id {name!r} {rule}")
            named.add(name)
