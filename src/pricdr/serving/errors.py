"""Error responses: all of one shape, and none repeats anything that the client sent.

Below ``/page`` an error is an HTML page, everywhere else JSON.
"""

import json
from functools import lru_cache
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

_RULES: Final = {
    "string_pattern_mismatch": "an id must not contain line breaks or other control characters",
    "string_unicode": "an id must be valid Unicode text",
    "string_too_long": "an id has at most 1,000 characters",
    "string_too_short": "an id must not be empty",
    "json_invalid": "this is not JSON",
    "extra_forbidden": "unknown field",
    "missing": "required but missing",
}
"""Our messages for pydantic's error types; for all others, pydantic's own message is used."""
_LOCATIONS: Final = frozenset({"body", "k", "user", "users", "item"})
"""The names that an error may mention: never a word that the client chose."""
_MESSAGES: Final = {
    400: "the body is not JSON that can be read",  # from FastAPI: nested too deep, or a number too long
    404: "there is nothing at this address",
    405: "this address does not support this method",
}


class Refusal(Exception):  # noqa: N818 - most refusals are not errors of the program
    """A request that is answered with an error status."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def error_body(message: str) -> bytes:
    """Return the JSON body of an error.

    >>> error_body("k must be at least 1")
    b'{"error":"k must be at least 1"}'
    """
    return json.dumps({"error": message}, separators=(",", ":")).encode()


def error_content(path: str, status: int, message: str) -> tuple[bytes, str]:
    """Return the body of an error and its media type: HTML if ``path`` is a page, otherwise JSON."""
    return _error_page(status, message) if is_page(path) else (error_body(message), "application/json")


def is_page(path: str) -> bool:
    """Return whether a path is a page for people.

    >>> is_page("/page/user"), is_page("/pages")
    (True, False)
    """
    return path in {"/", "/page"} or path.startswith("/page/")


@lru_cache(maxsize=64)  # a busy server sends the same page to everybody
def _error_page(status: int, message: str) -> tuple[bytes, str]:
    from pricdr.serving.pages import error_page  # which imports this module

    page = error_page(status, message)
    return bytes(page.body), page.headers["content-type"]


def add_handlers(app: FastAPI) -> None:
    """Make ``app`` answer every error in the same shape."""

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return _response(request, 422, describe(error.errors()[0]))

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        message = _MESSAGES.get(error.status_code, str(error.detail))
        return _response(request, error.status_code, message, dict(error.headers or {}))

    @app.exception_handler(Refusal)
    async def refused(request: Request, error: Refusal) -> Response:
        return _response(request, error.status, error.message, error.headers)


def describe(error: dict[str, Any]) -> str:
    """Return one line about an error that pydantic found: where it is, and the rule it breaks."""
    locations = [str(part) for part in error["loc"] if part in _LOCATIONS]
    message = _RULES.get(error["type"], error["msg"][:1].lower() + error["msg"][1:])
    return f"{locations[-1]}: {message}" if locations else message


def _response(request: Request, status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    body, media_type = error_content(request.scope["path"], status, message)
    return Response(body, status, headers, media_type=media_type)
