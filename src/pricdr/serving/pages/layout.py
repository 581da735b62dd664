"""The layout of every page: head, navigation, footer and style sheet; and the error pages."""

from dataclasses import dataclass
from functools import cache
from typing import Final

from fastapi.responses import HTMLResponse, Response

from pricdr import __version__
from pricdr.pages import style_sheet
from pricdr.pages.figures import environment
from pricdr.pages.palette import ACCENT, PAPER

_PACKAGE: Final = "pricdr.serving.pages"
_ERROR_TITLES: Final = {
    400: "Bad request",
    401: "A key is required",
    403: "This key has no access",
    404: "Page not found",
    405: "Not supported",
    413: "Too much data",
    415: "Unsupported format",
    422: "Invalid input",
    429: "Too many requests",
    500: "Something went wrong",
    503: "The server is busy",
}


@dataclass(frozen=True)
class NavLink:
    """A link in the navigation."""

    path: str
    name: str


NAVIGATION: Final = (
    NavLink("/page", "Find a user"),
    NavLink("/page/model", "Model card"),
    NavLink("/page/certificate", "Certificate"),
    NavLink("/page/frontier", "Frontier"),
)


def page(template: str, title: str, *, active: str = "", status: int = 200, **values: object) -> HTMLResponse:
    """Return a page rendered from one of the templates.

    Args:
        template: the name of the template, without its extensions.
        title: the heading of the page.
        active: the path of the navigation link that is highlighted.
        status: the HTTP status.
        values: the variables of the template; all of them are escaped.
    """
    frame = {"title": title, "active": active, "navigation": NAVIGATION, "version": __version__}
    text = environment(_PACKAGE).get_template(f"{template}.html.j2").render(**{"warning": "", **frame, **values})
    return HTMLResponse(text, status)


def error_page(status: int, message: str) -> HTMLResponse:
    """Return a page with an error message and a link back; ``message`` must not contain an id."""
    sentence = message[:1].upper() + message[1:].rstrip(".")
    return page("error", _ERROR_TITLES.get(status, "Something went wrong"), status=status, sentence=f"{sentence}.")


@cache
def style() -> str:
    """Return the shared style sheet of all pages, and the rules that only the served page needs."""
    own = environment(_PACKAGE).get_template("serve.css.j2").render()
    return f"{style_sheet()}\n{own}"


def style_response() -> Response:
    """Return the style sheet as a response."""
    return Response(style(), media_type="text/css")


def icon_response() -> Response:
    """Return the icon: a shield, in the colours of the pages."""
    svg = environment(_PACKAGE).get_template("icon.svg.j2").render(accent=ACCENT.light, paper=PAPER.light)
    return Response(svg, media_type="image/svg+xml")
