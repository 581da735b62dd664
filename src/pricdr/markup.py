"""HTML from templates, for pages and for notebooks: whatever is put into one is text, never markup."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from pricdr.errors import printable

if TYPE_CHECKING:
    from jinja2 import Environment, Template


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
    """Return what a template shows of a value: printable, a number and its % on one line. Jinja escapes it afterwards.

    A macro's output has been through here already, and its line breaks are its own.
    """
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return printable(value).replace(" %", "\xa0%")
    return value


@dataclass(frozen=True)
class NotebookTable:
    """Rows of text under a caption; the first ``names`` columns say what a row is about, and the others are figures."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    names: int = 1


def summary_html(
    title: str,
    facts: Mapping[str, str],
    *,
    tables: Sequence[NotebookTable] = (),
    notes: Sequence[str] = (),
    warning: str = "",
) -> str:
    """Return what a notebook shows of an object: HTML that needs nothing else, for light and dark pages.

    >>> summary_html("Ratings", {"users": "<b>2</b>"}).count("&lt;b&gt;2")
    1
    """
    return notebook_html("summary", title=title, facts=facts, tables=tables, notes=notes, warning=warning)


def notebook_html(template: str, **shown: Any) -> str:  # noqa: ANN401 - what the template shows
    """Return one of the templates for notebooks, filled in."""
    return template_environment().get_template(f"notebook/{template}.html.j2").render(shown)
