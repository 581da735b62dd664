"""The frame around every page: head, navigation, footer, the style sheet, and pages that say what went wrong."""

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from fastapi.responses import HTMLResponse, Response

from pricdr import __version__
from pricdr.pages import style_sheet
from pricdr.pages.figures import environment
from pricdr.pages.palette import ACCENT, PAPER

_PACKAGE: Final = "pricdr.serving.pages"
_FAULTS: Final = {
    400: "This cannot be read",
    401: "A key is needed",
    403: "This key is not enough",
    404: "There is nothing here",
    405: "This cannot be done here",
    413: "That is too much",
    415: "This cannot be read",
    422: "This cannot be answered",
    429: "Too many questions",
    500: "Something went wrong",
    503: "The server is busy",
}


@dataclass(frozen=True)
class Place:
    """An entry of the navigation."""

    path: str
    name: str


PLACES: Final = (
    Place("/page", "Find a user"),
    Place("/page/model", "Model card"),
    Place("/page/certificate", "Certificate"),
    Place("/page/frontier", "Frontier"),
)


def page(template: str, title: str, *, at: str = "", status: int = 200, **values: Any) -> HTMLResponse:  # noqa: ANN401
    """Return a page made from one of the templates here.

    Args:
        template: its name, without the endings.
        title: the heading of the page.
        at: the path of the navigation's entry that the page belongs to.
        status: of the answer.
        values: what the template shows; all of it is escaped.
    """
    made = environment(_PACKAGE).get_template(f"{template}.html.j2")
    frame = {"title": title, "at": at, "places": PLACES, "version": __version__}
    return HTMLResponse(made.render(**{"warning": "", **frame, **values}), status)


def error_page(status: int, message: str) -> HTMLResponse:
    """Return a page that says what went wrong, in one sentence, and the way back; ``message`` holds no id."""
    sentence = message[:1].upper() + message[1:].rstrip(".")
    return page("error", _FAULTS.get(status, "This did not work"), status=status, sentence=f"{sentence}.")


@cache
def style() -> str:
    """Return the style sheet: that of all pages, and what only forms and navigation need."""
    own = environment(_PACKAGE).get_template("serve.css.j2").render()
    return f"{style_sheet()}\n{own}"


def style_response() -> Response:
    """Return the style sheet as an answer."""
    return Response(style(), media_type="text/css")


def icon_response() -> Response:
    """Return the icon: a shield, in the colours of the pages."""
    drawing = environment(_PACKAGE).get_template("icon.svg.j2").render(accent=ACCENT.light, paper=PAPER.light)
    return Response(drawing, media_type="image/svg+xml")
