"""Options that several commands share."""

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from pricdr.errors import InputError, ParameterError

if TYPE_CHECKING:
    from pricdr.data.reading.readers import RatingsFile

ColumnsOption: TypeAlias = Annotated[
    str | None,
    typer.Option(help="user=NAME,item=NAME[,rating=NAME], or positions, or amazon-2014|amazon-2018."),
]
_PINNED = "PRICDR_PUBLIC_KEY"


def _require_pinned(given: Path | None) -> Path | None:
    """Refuse an empty variable: a script that lost its key's name would go on without asking for a signature."""
    if given is None and os.environ.get(_PINNED) == "":
        raise ParameterError(f"{_PINNED} is set and empty: let it name a public key (a PEM file), or unset it")
    return given


PublicKeyOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(envvar=_PINNED, callback=_require_pinned, help="Require a signature by this key (a PEM file)."),
]


class DeviceName(StrEnum):
    """Where to train."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


DeviceOption: TypeAlias = Annotated[DeviceName, typer.Option(help="auto takes a GPU where there is one.")]


class UnitName(StrEnum):
    """What is protected."""

    RATING = "rating"
    USER = "user"


def read_ratings_file(
    path: Path, columns: str | None, threshold: float | None = None, *, with_times: bool = False
) -> "RatingsFile":
    """Read a file of ratings, with a sign of life while that takes."""
    from pricdr.cli.console import working
    from pricdr.data.reading import readers

    with working(f"reading {path}"):
        return readers.read_ratings_file(path, columns=columns, threshold=threshold, with_times=with_times)


def read_some_ratings(
    path: Path, columns: str | None, threshold: float | None, *, with_times: bool = False
) -> "RatingsFile":
    """Read ratings and refuse the file if none is left. Not for publishing: a refusal gives away what was rated."""
    reading = read_ratings_file(path, columns, threshold, with_times=with_times)
    if threshold is not None and not len(reading.ratings):
        raise InputError(f"{path}: no rating is at least {threshold:g}")
    return reading
