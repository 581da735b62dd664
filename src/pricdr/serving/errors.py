"""How a request is refused: one shape for every error, and never a word of what the client sent.

Whoever reads the page gets a page, everybody else JSON.
"""

import json
from functools import lru_cache
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

_RULES: Final = {
    "string_pattern_mismatch": "an id holds no line break and no other control character",
    "string_unicode": "an id must be text that UTF-8 can hold",
    "string_too_long": "an id has at most 1,000 characters",
    "string_too_short": "an id must not be empty",
    "json_invalid": "this is not JSON",
    "extra_forbidden": "there is a field that does not belong here",
    "missing": "it is missing",
}
"""What pydantic calls a fault, and what we say; its own words where they are plain enough."""
_PLACES: Final = frozenset({"body", "k", "user", "users", "item"})
"""What an error may name: never a word that the client chose."""
_SENTENCES: Final = {
    400: "the body is not JSON that can be read",  # FastAPI's own refusal: too deep, or a number without end
    404: "there is nothing at this address",
    405: "this address does not take this method",
}


class Refusal(Exception):  # noqa: N818 - most refusals are no fault of anybody
    """An answer other than what was asked for."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def error_body(message: str) -> bytes:
    """Return the body of every error.

    >>> error_body("k must be at least 1")
    b'{"error":"k must be at least 1"}'
    """
    return json.dumps({"error": message}, separators=(",", ":")).encode()


def error_content(path: str, status: int, message: str) -> tuple[bytes, str]:
    """Return the body of an error and its media type, for whoever asked for ``path``."""
    return _error_page(status, message) if is_page(path) else (error_body(message), "application/json")


def is_page(path: str) -> bool:
    """Return whether a path is for people.

    >>> is_page("/page/user"), is_page("/pages")
    (True, False)
    """
    return path in {"/", "/page"} or path.startswith("/page/")


@lru_cache(maxsize=64)  # a server that is busy says the same to everybody
def _error_page(status: int, message: str) -> tuple[bytes, str]:
    from pricdr.serving.pages import error_page  # which needs this module

    page = error_page(status, message)
    return bytes(page.body), page.headers["content-type"]


def add_handlers(app: FastAPI) -> None:
    """Let ``app`` answer every fault in the one shape."""

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return _response(request, 422, sentence(error.errors()[0]))

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        message = _SENTENCES.get(error.status_code, str(error.detail))
        return _response(request, error.status_code, message, dict(error.headers or {}))

    @app.exception_handler(Refusal)
    async def turned_away(request: Request, error: Refusal) -> Response:
        return _response(request, error.status, error.message, error.headers)


def sentence(fault: dict[str, Any]) -> str:
    """Return one line about a fault that pydantic found: where it is, and the rule."""
    places = [str(part) for part in fault["loc"] if part in _PLACES]
    message = _RULES.get(fault["type"], fault["msg"][:1].lower() + fault["msg"][1:])
    return f"{places[-1]}: {message}" if places else message


def _response(request: Request, status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    body, kind = error_content(request.scope["path"], status, message)
    return Response(body, status, headers, media_type=kind)
