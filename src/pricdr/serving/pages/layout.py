"""The layout of every page: head, navigation, footer and style sheet; and the error pages."""

from functools import cache
from http import HTTPStatus
from typing import Final

from fastapi.responses import HTMLResponse, Response

from pricdr import __version__
from pricdr.pages import style_sheet
from pricdr.pages.page import page_environment

_PACKAGE: Final = "pricdr.serving.pages"
_ERROR_TITLES: Final = {401: "A key is required", 403: "This key has no access", 503: "The server is busy"}
FIND, MODEL, CERTIFICATE, FRONTIER = "/page", "/page/model", "/page/certificate", "/page/frontier"
_NAVIGATION: Final = {FIND: "Find a user", MODEL: "Model card", CERTIFICATE: "Certificate", FRONTIER: "Frontier"}


def page(template: str, title: str, *, active: str = "", status: int = 200, **values: object) -> HTMLResponse:
    """Return a page rendered from one of the templates.

    Args:
        template: the name of the template, without its extensions.
        title: the heading of the page.
        active: the path of the navigation link that is highlighted.
        status: the HTTP status.
        values: the variables of the template; all of them are escaped.
    """
    frame = {"title": title, "active": active, "navigation": _NAVIGATION, "version": __version__, "warning": ""}
    return HTMLResponse(
        page_environment(_PACKAGE).get_template(f"{template}.html.j2").render(**{**frame, **values}), status
    )


def error_page(status: int, message: str) -> HTMLResponse:
    """Return a page with an error message and a link back; ``message`` must not contain an id."""
    title = _ERROR_TITLES.get(status, HTTPStatus(status).phrase)
    return page("error", title, status=status, sentence=f"{message[:1].upper()}{message[1:].rstrip('.')}.")


@cache
def style() -> Response:
    """Return the shared style sheet of all pages, and the rules that only the served page needs."""
    own = page_environment(_PACKAGE).get_template("serve.css.j2").render()
    return Response(f"{style_sheet()}\n{own}", media_type="text/css")


@cache
def icon() -> Response:
    """Return the icon: a shield, in the colours of the pages."""
    svg = page_environment(_PACKAGE).get_template("icon.svg.j2").render(accent="#0a5fc2", paper="#ffffff")
    return Response(svg, media_type="image/svg+xml")
