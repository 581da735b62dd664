"""What a notebook shows: small pieces of HTML that need nothing else, for light and dark pages.

Classes say what is to be shown, as plain text; here it becomes markup. Everything passes through templates that
escape it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from jinja2 import Template


@dataclass(frozen=True)
class Table:
    """Rows of text under a caption; the first ``names`` columns say what a row is about, and the others are figures."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    names: int = 1


class Reported(Protocol):
    """How far one piece of work has come."""

    @property
    def what(self) -> str:
        """What is done."""
        ...

    @property
    def done(self) -> float:
        """How many pieces of it are finished."""
        ...

    @property
    def total(self) -> int:
        """Of so many; 0 where nobody can say."""
        ...

    @property
    def note(self) -> str:
        """How it goes."""
        ...


def summary_html(
    title: str,
    facts: Mapping[str, str],
    *,
    tables: Sequence[Table] = (),
    notes: Sequence[str] = (),
    warning: str = "",
) -> str:
    """Return what a notebook shows of an object.

    >>> summary_html("Ratings", {"users": "<b>2</b>"}).count("&lt;b&gt;2")
    1
    """
    return _template("summary").render(title=title, facts=facts, tables=tables, notes=notes, warning=warning)


def progress_html(reports: Sequence[Reported], elapsed: str, *, over: bool = False) -> str:
    """Return bars for work under way; where it is ``over``, none of them moves."""
    return _template("progress").render(reports=reports, elapsed=elapsed, over=over)


@cache
def _template(name: str) -> "Template":
    # Loaded when something is shown: ratings and releases in memory need numpy alone.
    from pricdr.markup import template_environment

    return template_environment().get_template(f"notebook/{name}.html.j2")
