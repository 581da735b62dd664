"""Options that several commands share."""

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from pricdr.errors import InputError, ParameterError

if TYPE_CHECKING:
    from pricdr.data.reading.readers import RatingsFile
    from pricdr.privacy.guarantee import Guarantee
    from pricdr.privacy.strategies import Strategy

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


class StrategyName(StrEnum):
    """The steps from ratings to published rows."""

    SPECTRAL = "spectral"
    GUIDED = "guided"
    FEATURES = "features"
    JLT = "jlt"
    SJLT = "sjlt"


class UnitName(StrEnum):
    """What is protected."""

    RATING = "rating"
    USER = "user"


def _parse_dim(name: StrategyName, dim: str | None, guarantee: "Guarantee") -> int | None:
    """A number of columns; None leaves it open: jlt and sjlt then pay for the choice, features look at their table."""
    from pricdr.privacy.strategies.dims import auto_dim, default_dim

    projection = name in (StrategyName.JLT, StrategyName.SJLT)
    if dim is None and projection:
        return 200
    if dim in (None, "auto"):
        if projection or name is StrategyName.FEATURES:
            return None
        return default_dim(guarantee) if dim is None else auto_dim(guarantee)
    try:
        return int(dim)
    except ValueError as error:
        raise ParameterError(f"--dim must be a whole number of at least 1, or auto, got {dim!r}") from error


def parse_strategy(name: StrategyName, dim: str | None, density: float | None, guarantee: "Guarantee") -> "Strategy":
    """The strategy that these options describe; a guide or item features are added where there are any."""
    from pricdr.privacy.strategies import JLT, SJLT, Features, Guided, Spectral

    columns = _parse_dim(name, dim, guarantee)
    if name in (StrategyName.JLT, StrategyName.SJLT):
        sparse = SJLT(dim=columns) if density is None else SJLT(dim=columns, density=density)
        return sparse if name is StrategyName.SJLT else JLT(dim=columns)  # a density is checked either way
    if density is not None:
        raise ParameterError(f"--density belongs to --strategy sjlt, not to {name.value}")
    if name is StrategyName.FEATURES:
        return Features(dim=columns)
    return Guided(dim=columns) if name is StrategyName.GUIDED else Spectral(dim=columns)


def read_ratings_file(path: Path, columns: str | None, threshold: float | None = None) -> "RatingsFile":
    """Read a file of ratings, with a sign of life while that takes."""
    from pricdr.cli.console import working
    from pricdr.data.reading import readers

    with working(f"reading {path}"):
        return readers.read_ratings_file(path, columns=columns, threshold=threshold)


def read_some_ratings(path: Path, columns: str | None, threshold: float | None) -> "RatingsFile":
    """Read ratings and refuse the file if none is left. Not for publishing, where a refusal tells what was rated."""
    reading = read_ratings_file(path, columns, threshold)
    if threshold is not None and not len(reading.ratings):
        raise InputError(f"{path}: no rating is at least {threshold:g}")
    return reading
