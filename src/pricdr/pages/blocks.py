"""What a section is made of, beside tables and figures: text with links, lists, facts, commands, columns.

A block names the template that draws it. A plain text is a paragraph.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeAlias


class Block(Protocol):
    """A piece of a section: its template finds it under the name ``block``."""

    template: ClassVar[str]


Content: TypeAlias = Sequence[Block | str]
"""Blocks in the order in which they are shown."""


@dataclass(frozen=True)
class Link:
    """A link to another part of the page, by its id."""

    text: str
    to: str


@dataclass(frozen=True)
class Strong:
    """Words to point out."""

    text: str


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of words, links and words to point out."""

    parts: Sequence[str | Link | Strong]

    template: ClassVar[str] = "blocks/paragraph.html.j2"


@dataclass(frozen=True)
class Note:
    """A paragraph that nobody may overlook: what is not private, what stands in for other data, what is missing."""

    text: str

    template: ClassVar[str] = "blocks/note.html.j2"


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    items: Sequence[str | Paragraph]

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
