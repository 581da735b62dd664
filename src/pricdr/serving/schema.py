"""What requests and answers look like: the source of the OpenAPI document."""

import re
from typing import Annotated, Any, Final

from fastapi import Path, Query
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from pricdr.data.ids import LONGEST_ID
from pricdr.models.recommendations import Basis
from pricdr.serving.snapshot import LARGEST_K

MOST_USERS: Final = 1000
"""Users of one batch."""
LARGEST_BATCH_K: Final = 100
"""Items for each user of a batch: a hundred thousand in all, some megabytes."""
_ID_PATTERN: Final = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]+$"
"""What ``data/ids.py`` says of ids, as OpenAPI writes it."""

Id = Annotated[str, Field(min_length=1, max_length=LONGEST_ID, pattern=_ID_PATTERN, examples=["alice"])]
UserPath = Annotated[
    str,
    Path(
        min_length=1, max_length=LONGEST_ID, pattern=_ID_PATTERN, description="The id of a user; it may hold slashes."
    ),
]
ItemPath = Annotated[
    str,
    Path(
        min_length=1, max_length=LONGEST_ID, pattern=_ID_PATTERN, description="The id of an item; it may hold slashes."
    ),
]


def _whole_number(k: object) -> object:
    """Refuse what Python would take for a number and nobody else: signs, spaces, digits of other scripts."""
    if isinstance(k, str) and not re.fullmatch("[0-9]{1,9}", k):
        raise PydanticCustomError("whole_number", "it must be a whole number")
    return k


def _json_number(k: object) -> object:
    """Take 16.0 for 16, as JSON Schema does: JSON has one kind of numbers."""
    return int(k) if isinstance(k, float) and k.is_integer() else k


K = Annotated[
    Annotated[int, Field(ge=1, le=LARGEST_K)], BeforeValidator(_whole_number), Query(description="How many items.")
]


class RecommendedItem(BaseModel):
    """One recommended item."""

    item: str
    score: float
    rank: Annotated[int, Field(ge=1)]


class UserRecommendations(BaseModel):
    """The best unseen items of a user, best first, and what they rest on."""

    user: str
    basis: Annotated[
        Basis,
        Field(
            description="history: the user's own ratings; release: the row that the source published; both; "
            "popularity: what everybody gets whom the model knows nothing about."
        ),
    ]
    model: Annotated[str, Field(description="The fingerprint of the model that answered.")]
    items: list[RecommendedItem]


class BatchRequest(BaseModel):
    """Users to recommend to."""

    model_config = ConfigDict(extra="forbid", strict=True)

    users: Annotated[list[Id], Field(min_length=1, max_length=MOST_USERS)]
    k: Annotated[int, Field(ge=1, le=LARGEST_BATCH_K), BeforeValidator(_json_number)] = 10

    @model_validator(mode="before")
    @classmethod
    def _require_known_fields(cls, fields: object) -> object:
        """Refuse other fields once: pydantic would make an error of each, and a body has room for 100,000."""
        if isinstance(fields, dict) and not fields.keys() <= cls.model_fields.keys():
            raise PydanticCustomError("extra_forbidden", "there is a field that does not belong here")
        return fields


class BatchAnswer(BaseModel):
    """What is recommended to each user, in the order they were asked for."""

    model: str
    recommendations: list["BatchRecommendations"]


class BatchRecommendations(BaseModel):
    """The best unseen items of one user of a batch."""

    user: str
    basis: Basis
    items: list[RecommendedItem]


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
        str | None, Field(description="Set while the newest model folder cannot be used and an older one answers.")
    ] = None


class Error(BaseModel):
    """Why a request was refused."""

    error: str


_RETRY: Final = {
    "Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 1}, "required": True}
}


def responses(ok: type[BaseModel] | None, *statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return what OpenAPI says of an operation that may answer with these statuses, beside those of the gate."""
    every = {
        400: "The address or the request cannot be read.",
        401: "No API key that is valid.",
        403: "The API key lacks the scope.",
        404: "The item is not known, or the model cannot compare items.",
        408: "The body came too slowly.",
        413: "The body is too large.",
        421: "The Host header names another server.",
        422: "A value is outside its rule.",
        429: "More answers a second than the key may have.",
        500: "A fault of the server.",
        503: "The server is busy or stopping.",
    }
    found: dict[int | str, dict[str, Any]] = {}
    if ok is not None:
        found[200] = {"model": ok, "description": (ok.__doc__ or "").partition("\n")[0]}
    for status in sorted({400, 421, 500, *statuses}):
        found[status] = {"model": Error, "description": every[status]}
        if status in {429, 503}:
            found[status]["headers"] = _RETRY
    return found
