"""Figures: a drawing in SVG, its caption, and its figures in words for those who cannot see it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from jinja2 import Environment
from markupsafe import Markup

from pricdr.markup import template_environment
from pricdr.pages import palette
from pricdr.pages.tables import Table


@dataclass(frozen=True)
class Figure:
    """A drawing that readers can look into, link to and download."""

    id: str
    caption: str
    in_words: str
    """For those who cannot see the drawing: what it shows, with its figures."""
    svg: Markup
    """Made by a template (:func:`draw`) or by ``charts``, which escape whatever they are given."""
    series: Sequence[str] = ()
    """What readers can hide in it."""
    table: Table | None = None
    """The same figures as a table, folded away."""
    note: str = ""
    """A sentence behind the caption."""

    template: ClassVar[str] = "blocks/figure.html.j2"


@cache
def environment(package: str = "pricdr") -> Environment:
    """Return the environment of all templates of pages, with the colours under their names.

    ``package`` may have templates of its own, which come first.
    """
    shared = template_environment(package)
    shared.filters["px"] = _pixels
    shared.filters["size_class"] = size_class
    shared.globals.update({name: colour.light for name, colour in palette.GROUND.items()})
    return shared


def draw(template: str, **values: Any) -> Markup:  # noqa: ANN401 - whatever the template shows
    """Return a drawing from a template in ``figures``; values are escaped there."""
    return Markup(environment().get_template(f"figures/{template}.svg.j2").render(**values))


def size_class(width: float) -> str:
    """Return what the style sheet calls a drawing that must not shrink to a phone: its letters would be too small.

    >>> size_class(400), size_class(500), size_class(700)
    ('', 'broad', 'broader')
    """
    return "" if width <= 430 else "broad" if width <= 540 else "broader"


def _pixels(value: float, digits: int = 1) -> str:
    return f"{value:.{digits}f}"
