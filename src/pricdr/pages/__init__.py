"""Pages for people: one HTML file that loads nothing, for a screen, a phone, paper and a screen reader; or Markdown.

A page has sections, a section has blocks, and each block names the template that draws it; a text is a paragraph. The
page allows itself one style sheet and one script, by their hashes, and can be read without the script. Whatever is put
into a template is text, never markup.
"""

import base64
import hashlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pricdr.errors import ParameterError, plain, printable

if TYPE_CHECKING:
    from jinja2 import Environment, Template

# A number at the beginning of a cell, perhaps behind a sign such as < or ~.
_NUMBER: Final = re.compile(r"[^\d+−-]{0,2}([+−-]?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?)", re.IGNORECASE)
_LINK: Final = re.compile(r"\]\s*[(\[:]")  # the end of a bracket that begins a link in Markdown, or defines one


@cache
def template_environment(package: str = "pricdr") -> "Environment":
    """Return the environment of the templates in a package's folder ``templates``, and of those of all pages."""
    # Loaded when something is shown: ratings and releases in memory need numpy alone.
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in dict.fromkeys([package, "pricdr"])]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_shown,
    )


@cache
def text_template(name: str) -> "Template":
    """Return a template of plain text: every value is printable, so it stays on its line, and nothing is escaped."""
    environment = template_environment().overlay(autoescape=False, finalize=lambda value: printable(str(value)))
    return environment.get_template(name)


def _shown(value: Any) -> Any:  # noqa: ANN401 - whatever a template is given
    """Return what a template shows of a value: printable, a number and its % on one line; Jinja escapes it then."""
    if isinstance(value, str) and not hasattr(value, "__html__"):  # a macro's output has been through here already
        return printable(value).replace(" %", "\xa0%")
    return value


class Block:
    """A piece of a section. Its template, ``blocks/KIND.html.j2``, finds it under the name ``block``."""

    @property
    def kind(self) -> str:
        """What the template is called by."""
        return type(self).__name__.lower()


Content: TypeAlias = Sequence[Block | str]


@dataclass(frozen=True)
class Note(Block):
    """A paragraph that nobody may overlook: what is not private, what stands in for other data, what is missing."""

    text: str


@dataclass(frozen=True)
class Bullets(Block):
    """A list of sentences."""

    items: Sequence[str]


@dataclass(frozen=True)
class Facts(Block):
    """Names and what stands for each, such as a commit or a day."""

    facts: Mapping[str, str]


@dataclass(frozen=True)
class Commands(Block):
    """Commands to type, one a line."""

    lines: Sequence[str]


@dataclass(frozen=True)
class SideBySide(Block):
    """Blocks side by side where the page is wide enough, and below one another on a phone: small multiples."""

    blocks: Content


@dataclass(frozen=True)
class Details(Block):
    """Blocks that are folded away until a reader opens them."""

    summary: str
    blocks: Content


@dataclass(frozen=True)
class Figure(Block):
    """A chart as two pictures, for light and for dark pages: as images, in which a browser runs and loads nothing."""

    id: str
    caption: str
    in_words: str
    """What it shows, with its figures: for those who cannot see it, and for all where it could not be drawn."""
    light: str = ""  # in SVG, as the next
    dark: str = ""
    note: str = ""  # a sentence behind the caption

    @property
    def sources(self) -> tuple[str, ...]:
        """The light picture and the dark one as addresses; none where it could not be drawn."""
        pictures = [base64.b64encode(svg.encode()).decode() for svg in (self.light, self.dark) if svg]
        return tuple(f"data:image/svg+xml;base64,{picture}" for picture in pictures)


@dataclass(frozen=True)
class Column:
    """A column of a table: what its head says, and what that means."""

    name: str
    help: str = ""  # an explanation, shown to those who point at the head or move there with the keyboard
    numeric: bool = True  # cells are aligned and sorted as numbers


@dataclass(frozen=True)
class Cell:
    """One cell: what it shows, and what it tells those who look closer."""

    text: str
    sort: float | str | None = None  # what to sort by instead, such as the exact number behind a rounded one
    detail: str = ""  # an interval or a standard error, set smaller; it may move to the next line, but only as a whole
    hover: Sequence[str] = ()  # lines for those who point at the cell, such as the value of each seed
    mark: str = ""  # why the cell has a letter beside it; the explanations stand below the table
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
        """Return what the page sorts by: a number in full, or text; "" for what comes last."""
        if isinstance(self.sort, str) or not numeric:
            return (self.sort if isinstance(self.sort, str) else self.text).casefold()
        match = _NUMBER.match(self.text.strip())
        value = float(match[1].replace(",", "").replace("−", "-")) if match and self.sort is None else self.sort
        # In the words of the script that compares them.
        return "" if value is None or math.isnan(value) else repr(float(value)).replace("inf", "Infinity")


ABSENT: Final = Cell("–")


@dataclass(frozen=True)
class Table(Block):
    """A table that readers can sort, filter and copy. Everything in it is text; the first cell of a row names it."""

    id: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell | str]]  # a text stands for ``Cell.of`` it
    note: str = ""  # a sentence below the table
    strong: str = ""  # the name of the row to point out

    def __post_init__(self) -> None:
        if widths := {len(row) for row in self.rows} - {len(self.columns)}:
            raise ParameterError(f"table {self.id} has {len(self.columns)} columns, and rows of {widths}")

    @cached_property
    def drawn(self) -> list[list[Cell]]:
        """The rows, cells that were given as text too."""
        return [[cell if isinstance(cell, Cell) else Cell.of(cell) for cell in row] for row in self.rows]

    @property
    def size_class(self) -> str:
        """What the style sheet calls it: a wide one is set smaller on paper, and stacked on phones."""
        width = len(self.columns)
        return ("wide" if width > 4 else "") + (" many" if width >= 16 else " several" if width >= 10 else "")

    @cached_property
    def marks(self) -> dict[str, str]:
        """A letter for each explanation of a cell."""
        explained = dict.fromkeys(cell.mark for row in self.drawn for cell in row if cell.mark)
        return {explanation: chr(ord("a") + at) for at, explanation in enumerate(explained)}


def table(id: str, caption: str, header: Sequence[str], rows: Sequence[Sequence[str]], *, names: int = 1) -> Table:
    """Return a table of plain texts, of which the first ``names`` in a row are words and the others numbers."""
    columns = [Column(name, numeric=at >= names) for at, name in enumerate(header)]
    return Table(id, caption, columns, rows)


@dataclass(frozen=True)
class Section(Block):
    """A heading and what stands under it; a section within a section has a smaller heading."""

    heading: str
    blocks: "Content | Sequence[Section]" = ()
    id: str = ""

    @property
    def anchor(self) -> str:
        """What a link to it names: the id, or one made of the heading."""
        return self.id or re.sub(r"[^\w]+", "-", self.heading.casefold()).strip("-") or "section"


@dataclass(frozen=True)
class Page:
    """A title, what comes first, and sections."""

    title: str
    sections: Sequence[Section] = ()
    lead: Content = ()  # above all sections: the answer in a few sentences
    footer: Sequence[str] = ()


_BLOCKS: Final[Mapping[str, Callable[[list[str]], Content]]] = {
    "-": lambda lines: [Bullets(lines)],
    "$": lambda lines: [Commands(lines)],
    "=": lambda lines: [Facts(dict(line.split(" | ", 1) for line in lines))],
    ".": list,
    "!": lambda lines: [Note(line) for line in lines],
}
"""What becomes of lines that stand together, by their sign."""


def sections_of(template: str, blocks: Mapping[str, Content], **values: object) -> list[Section]:
    """Return the sections of a page whose words are in a text template; the sign of a line says what it is.

    ``# id | heading`` begins a section. ``.`` is a paragraph, ``!`` a note, ``-`` a bullet, ``$`` a command and
    ``= name | value`` a fact; ``@ name`` stands for ``blocks`` of that name. A value is printable, so it stays on its
    line, and cannot change what the line is.
    """
    text = text_template(template).render(values)
    sections: list[Section] = []
    shown: list[Block | str] = []
    signed = [line.partition(" ")[::2] for line in text.splitlines() if line.strip()]
    for sign, group in groupby(signed, key=itemgetter(0)):
        lines = [line for _, line in group]
        if sign == "#":
            for id, heading in (line.split(" | ", 1) for line in lines):
                sections.append(Section(heading, shown := [], id))
        else:
            shown += [block for line in lines for block in blocks[line]] if sign == "@" else _BLOCKS[sign](lines)
    return sections


def render(page: Page) -> str:
    """Return the whole HTML page."""
    inline = {"style": page_asset("page.css"), "script": page_asset("page.js")}
    for name, text in [*inline.items()]:  # a Content-Security-Policy allows them by their hashes
        inline[f"{name}_hash"] = f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
    return template_environment().get_template("page.html.j2").render(page=page, **inline)


def page_asset(name: str) -> str:
    """Return the style sheet of all pages, page.css, or their script, page.js."""
    return template_environment().get_template(name).render().strip()


def markdown(page: Page) -> str:
    """Return the whole page as Markdown: the same blocks; a figure is its words, and nothing is folded away."""
    from markupsafe import Markup

    # Each text is escaped by ``text``; commands are indented, not fenced, so that no line of them can end the block.
    words = {"text": lambda text: Markup(_markdown_text(text)), "line": lambda text: Markup(printable(text))}
    found = template_environment().get_template("page.md.j2").render(page=page, **words)
    return re.sub(r"\n{3,}", "\n\n", found).strip() + "\n"


def _markdown_text(text: str) -> str:
    """Return text that Markdown shows as it is; an interval keeps its brackets, since what follows them makes a link.

    >>> print(_markdown_text("+0.1 [-0.1, +0.3]"), _markdown_text("[a](b)"))
    +0.1 [-0.1, +0.3] &#91;a](b)
    """
    shown = plain(text)
    return shown if _LINK.search(text) else shown.replace("&#91;", "[")


def notebook(template: str, **shown: Any) -> str:  # noqa: ANN401 - what the template shows
    """Return one of the templates for notebooks, filled in."""
    return template_environment().get_template(f"notebook/{template}.html.j2").render(shown)


def summary_html(
    title: str, facts: Mapping[str, str], *, tables: Sequence[Table] = (), notes: Sequence[str] = (), warning: str = ""
) -> str:
    """Return what a notebook shows of an object: HTML that needs nothing else, for light and dark pages."""
    return notebook("summary", title=title, facts=facts, tables=tables, notes=notes, warning=warning)
