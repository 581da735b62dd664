"""A page: one HTML file that loads nothing, for a screen, a phone, paper and a screen reader.

Sections hold blocks; each block names the template that draws it. The page allows itself one style sheet and one
script, by their hashes, and without the script everything is still there to read.
"""

import base64
import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from markupsafe import Markup

from pricdr.errors import ParameterError
from pricdr.pages import palette
from pricdr.pages.blocks import Block, Columns, Content, Details
from pricdr.pages.figures import Figure, environment
from pricdr.pages.tables import Table


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it; a section within a section has a smaller heading."""

    heading: str
    blocks: "Content | Sequence[Section]" = ()
    id: str = ""
    """What a link to it names; by default made from the heading."""
    hides: str = "methods"
    """What the series of its tables and figures are called where readers choose which to see."""

    template: ClassVar[str] = "blocks/section.html.j2"

    @property
    def anchor(self) -> str:
        """The id, given or made."""
        return self.id or slug(self.heading)

    @cached_property
    def series(self) -> tuple[str, ...]:
        """What readers can hide in it: the series of all its tables and figures, each once."""
        found = (block.series for block in inside(self.blocks) if isinstance(block, Table | Figure))
        return tuple(dict.fromkeys(name for names in found for name in names))


@dataclass(frozen=True)
class Page:
    """A title, what comes first, and sections."""

    title: str
    sections: Sequence[Section] = ()
    lead: Content = ()
    """Above all sections: the answer in a few sentences."""
    contents: bool = False
    """Whether to list the sections with links to them."""
    footer: Sequence[str] = ()


def render(page: Page) -> str:
    """Return the whole HTML page.

    >>> render(Page("R&D", [Section("a < b", ["c < d"])])).count("c &lt; d")
    1
    """
    _require_unique_ids(page)
    templates = environment()
    style = style_sheet()
    script = _asset("page.js")
    return templates.get_template("page.html.j2").render(
        page=page, style=style, style_hash=_hash(style), script=script, script_hash=_hash(script)
    )


def style_sheet() -> Markup:
    """Return the style sheet of all pages."""
    return _asset("page.css.j2", colours=palette.ALL, ground=palette.GROUND, caution=palette.CAUTION)


def slug(text: str) -> str:
    """Return a text as an id.

    >>> slug("RQ4: what ε buys (Douban)")
    'rq4-what-ε-buys-douban'
    """
    return re.sub(r"[^\w]+", "-", text.casefold()).strip("-") or "section"


def inside(blocks: Sequence[Block | str]) -> Iterator[Block]:
    """Yield all blocks, also those within sections, columns, details and figures."""
    for block in blocks:
        if isinstance(block, str):
            continue
        yield block
        if isinstance(block, Section | Columns | Details):
            yield from inside(block.blocks)
        elif isinstance(block, Figure) and block.table is not None:
            yield block.table


def _require_unique_ids(page: Page) -> None:
    """Refuse two parts with one id: a link would lead to the first of them, whichever was meant."""
    named: set[str] = set()
    for block in inside([*page.lead, *page.sections]):
        if isinstance(block, Section | Table | Figure):
            name = block.anchor if isinstance(block, Section) else block.id
            if name in named or not re.fullmatch(r"[\w-]+", name):
                rule = "is there twice" if name in named else "must be letters, digits, _ and -"
                raise ParameterError(f"page {page.title}: the id {name!r} {rule}")
            named.add(name)


def _asset(name: str, **values: object) -> Markup:
    """Return the style sheet or the script: our own text, in which nothing from outside is put."""
    return Markup(environment().get_template(name).render(**values).strip())


def _hash(text: str) -> str:
    """Return what a Content-Security-Policy calls an inline script or style by."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
