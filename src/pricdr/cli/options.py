"""Options that several commands share."""

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

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


def refuse_unused_key(given: Path | None, why: str) -> None:
    """Refuse --public-key where there is nothing that it could check; a pinned variable is for other commands too."""
    if given is not None and str(given) != os.environ.get(_PINNED):
        raise ParameterError(f"--public-key {given} has nothing to check here: {why}")


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


DEFAULT_UNIT: Final = UnitName.RATING
"""What is protected where nobody says, in every command: the unit of the paper."""
UnitOption: TypeAlias = Annotated[UnitName, typer.Option(help="Protect one rating, or all ratings of one user.")]


def read_ratings_file(path: Path, columns: str | None, threshold: float | None = None) -> "RatingsFile":
    """Read a file of ratings, with a sign of life while that takes."""
    from pricdr.cli.console import working
    from pricdr.data.reading import readers

    with working(f"reading {path}"):
        return readers.read_ratings_file(path, columns=columns, threshold=threshold)


def read_some_ratings(path: Path, columns: str | None, threshold: float | None) -> "RatingsFile":
    """Read ratings and refuse the file if none is left. Not for publishing: a refusal gives away what was rated."""
    reading = read_ratings_file(path, columns, threshold)
    if threshold is not None and not len(reading.ratings):
        raise InputError(f"{path}: no rating is at least {threshold:g}")
    return reading
