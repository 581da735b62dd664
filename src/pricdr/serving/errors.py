"""Refusals: one sentence each, as a page below ``/page`` and as JSON elsewhere. None repeats what the client sent."""

from collections.abc import Mapping
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
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
_CHALLENGES: Final = ('Basic realm="pricdr", charset="UTF-8"', 'Bearer realm="pricdr"')
"""In separate headers: Chromium reads one challenge a header, and would not ask for a key if Bearer came first."""


class Refusal(Exception):  # noqa: N818 - most refusals are not errors of the program
    """A request that is answered with an error status."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    def response(self, path: str) -> Response:
        """Return the response to a request for ``path``."""
        if is_page(path):
            from pricdr.serving.pages import error_page  # which imports this module

            response: Response = error_page(self.status, self.message)
        else:
            response = JSONResponse({"error": self.message}, self.status)
        response.headers.update(self.headers)
        for challenge in _CHALLENGES if self.status == 401 else ():
            response.headers.append("www-authenticate", challenge)
        return response


def busy() -> Refusal:
    """Return the refusal of what cannot be answered soon."""
    return Refusal(503, "the server is busy: try again in a second", retry_after="1")


def is_page(path: str) -> bool:
    """Return whether a path is a page for people.

    >>> is_page("/page/user"), is_page("/pages")
    (True, False)
    """
    return path in {"/", "/page"} or path.startswith("/page/")


def add_handlers(app: FastAPI) -> None:
    """Turn what FastAPI refuses into a :class:`Refusal`, which the gate answers."""

    @app.exception_handler(RequestValidationError)
    async def invalid(_request: Request, error: RequestValidationError) -> Response:
        raise Refusal(422, describe(error.errors()[0])) from None

    @app.exception_handler(HTTPException)
    async def http_error(_request: Request, error: HTTPException) -> Response:
        message = _MESSAGES.get(error.status_code, str(error.detail))
        raise Refusal(error.status_code, message, **(error.headers or {})) from None


def describe(error: Mapping[str, Any]) -> str:
    """Return one line about an error that pydantic found: where it is, and the rule it breaks."""
    locations = [str(part) for part in error["loc"] if part in _LOCATIONS]
    message = _RULES.get(error["type"], error["msg"][:1].lower() + error["msg"][1:])
    return f"{locations[-1]}: {message}" if locations else message
