"""The shape of requests and answers, which the OpenAPI document is generated from."""

import re
from typing import Annotated, Any, Final

from fastapi import Path, Query
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from pricdr.data.ids import LONGEST_ID
from pricdr.models.recommend import Basis
from pricdr.serving.snapshot import MAX_K

DEFAULT_K: Final = 10
MAX_USERS: Final = 1000
"""Users in one batch."""
MAX_BATCH_K: Final = 100
"""Items for each user of a batch: at most 100,000 items in all, some megabytes."""
_RULE: Final = {"min_length": 1, "max_length": LONGEST_ID, "pattern": r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]+$"}
"""The rule of ``data/ids.py``, as a regular expression for OpenAPI."""


def _whole_number(k: object) -> object:
    """Refuse what only Python would accept as a number: signs, spaces, digits of other scripts."""
    if isinstance(k, str) and not re.fullmatch("[0-9]{1,9}", k):
        raise PydanticCustomError("whole_number", "must be a whole number")
    return k


def _json_number(k: object) -> object:
    """Accept 16.0 as 16, as JSON Schema does: JSON has only one kind of number."""
    return int(k) if isinstance(k, float) and k.is_integer() else k


Id = Annotated[str, Field(**_RULE, examples=["alice"])]
UserPath = Annotated[str, Path(**_RULE, description="The id of a user; may contain slashes.")]
ItemPath = Annotated[str, Path(**_RULE, description="The id of an item; may contain slashes.")]
K = Annotated[
    Annotated[int, Field(ge=1, le=MAX_K)], BeforeValidator(_whole_number), Query(description="How many items.")
]


class RecommendedItem(BaseModel):
    """One recommended item."""

    item: str
    score: float
    rank: Annotated[int, Field(ge=1)]


class BatchRecommendations(BaseModel):
    """The best unseen items of one user, best first, and what they are based on."""

    user: str
    basis: Annotated[
        Basis,
        Field(
            description="history: the user's own ratings; release: the user's row in the source's release; both; "
            "popularity: nothing about the user, who gets the most popular items."
        ),
    ]
    items: list[RecommendedItem]


class UserRecommendations(BatchRecommendations):
    """The best unseen items of a user, best first, and what they are based on."""

    model: Annotated[str, Field(description="The fingerprint of the model that answered.")]


class BatchRequest(BaseModel):
    """Users to recommend to."""

    model_config = ConfigDict(extra="forbid", strict=True)

    users: Annotated[list[Id], Field(min_length=1, max_length=MAX_USERS)]
    k: Annotated[int, Field(ge=1, le=MAX_BATCH_K), BeforeValidator(_json_number)] = DEFAULT_K

    @model_validator(mode="before")
    @classmethod
    def _require_known_fields(cls, fields: object) -> object:
        """Refuse unknown fields with one error: pydantic would report each, and a body has room for 100,000."""
        if isinstance(fields, dict) and not fields.keys() <= cls.model_fields.keys():
            raise PydanticCustomError("extra_forbidden", "unknown field")
        return fields


class BatchAnswer(BaseModel):
    """The recommendations of each user, in the order of the request."""

    model: str
    recommendations: list[BatchRecommendations]


class SimilarAnswer(BaseModel):
    """The items most like one item, by the cosine of their vectors."""

    item: str
    model: str
    items: list[RecommendedItem]


class Health(BaseModel):
    """The process is alive."""

    status: Annotated[str, Field(examples=["alive"])]


class Readiness(BaseModel):
    """Whether requests are answered, and from which model."""

    ready: bool
    model: str
    users: int
    items: int
    refused: Annotated[
        str | None, Field(description="Set while the newest model folder cannot be used and an older model is served.")
    ] = None


class Error(BaseModel):
    """Why a request was refused."""

    error: str


_DESCRIPTIONS: Final = {
    400: "The address or the request cannot be read.",
    401: "No valid API key.",
    403: "The API key lacks the scope.",
    404: "The item is unknown, or the model cannot compare items.",
    408: "The body arrived too slowly.",
    413: "The body is too large.",
    421: "The Host header names another server.",
    422: "A value breaks its rule.",
    500: "An error of the server.",
    503: "The server is busy or stopping.",
}
_RETRY: Final = {
    "Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 1}, "required": True}
}


def responses(ok: type[BaseModel] | None, *statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI responses of an operation: these statuses, and those that every request may get."""
    documented: dict[int | str, dict[str, Any]] = {}
    if ok is not None:
        documented[200] = {"model": ok, "description": (ok.__doc__ or "").partition("\n")[0]}
    for status in sorted({400, 421, 500, *statuses}):
        documented[status] = {"model": Error, "description": _DESCRIPTIONS[status]}
    if 503 in documented:
        documented[503]["headers"] = _RETRY
    return documented
