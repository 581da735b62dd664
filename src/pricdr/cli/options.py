"""Options that several commands share."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from pricdr.errors import ParameterError

if TYPE_CHECKING:
    from pricdr.data.readers import Reading
    from pricdr.privacy.strategies import Strategy

ColumnsOption: TypeAlias = Annotated[
    str | None,
    typer.Option(help="user=NAME,item=NAME[,rating=NAME], or positions, or amazon-2014|amazon-2018."),
]


class DeviceName(StrEnum):
    """Where to train."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


DeviceOption: TypeAlias = Annotated[DeviceName, typer.Option(help="auto takes a GPU where there is one.")]


class StrategyName(StrEnum):
    """How item rows are built."""

    JLT = "jlt"
    SJLT = "sjlt"


class UnitName(StrEnum):
    """What is protected."""

    RATING = "rating"
    USER = "user"


def parse_strategy(name: StrategyName, dim: str, density: float | None) -> "Strategy":
    """The strategy that the options describe."""
    from pricdr.privacy.strategies import JLT, SJLT

    try:
        columns = None if dim == "auto" else int(dim)
    except ValueError as error:
        raise ParameterError(f"--dim must be a whole number of at least 1, or auto, got {dim!r}") from error
    sparse = SJLT(dim=columns) if density is None else SJLT(dim=columns, density=density)
    return sparse if name is StrategyName.SJLT else JLT(dim=columns)


def read_ratings(path: Path, columns: str | None, threshold: float | None = None) -> "Reading":
    """Read a file of ratings, with a sign of life while that takes."""
    from pricdr.cli.console import working
    from pricdr.data.readers import read

    with working(f"reading {path}"):
        return read(path, columns=columns, threshold=threshold)
