"""The options that say how ratings are read: one group, the same for every command that reads them."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar

import typer

from pricdr.cli.console import say, warn
from pricdr.cli.ratings_input import RatingsInput, give_parameters, shown
from pricdr.errors import InputError, ParameterError

if TYPE_CHECKING:
    from pricdr.data.blocks import RatingsSource
    from pricdr.data.reading.formats import ReadOptions
    from pricdr.data.reading.read import MemoryReading

Result = TypeVar("Result")
_PARAMETER = "reading"


class FormatName(StrEnum):
    """The format of a file, where its name does not show it."""

    CSV = "csv"
    TSV = "tsv"
    INTER = "inter"
    DAT = "dat"
    JSONL = "jsonl"
    PARQUET = "parquet"


@dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """What the user says about the format of the ratings. Each field becomes an option of the command."""

    columns: Annotated[
        str | None,
        typer.Option(
            help="user=NAME,item=NAME[,rating=NAME][,time=NAME], or positions where there is no header (.dat has four: "
            "1, 2, 3, 4), or amazon-2014|amazon-2018."
        ),
    ] = None
    delimiter: Annotated[
        str | None,
        typer.Option(help="The separator of fields in a text file, such as ; or | or tab.  [default: by its name]"),
    ] = None
    encoding: Annotated[
        str | None, typer.Option(help="The character encoding of a text file, such as latin-1.  [default: utf-8]")
    ] = None
    format: Annotated[
        FormatName | None,
        typer.Option(help="The format of the files.  [default: by their names; csv for standard input]"),
    ] = None
    skip_bad_rows: Annotated[
        bool,
        typer.Option("--skip-bad-rows", help="Leave out rows that cannot be read, and count them on screen."),
    ] = False
    most_bad_rows: Annotated[
        float | None,
        typer.Option(help="skip-bad-rows: refuse a file with a larger share of bad rows.  [default: 0.01]"),
    ] = None

    def __post_init__(self) -> None:
        if self.most_bad_rows is not None and not self.skip_bad_rows:
            raise ParameterError("--most-bad-rows needs --skip-bad-rows")

    def given(self) -> list[str]:
        """Return the names of the options that were given, such as ``--columns``."""
        return [f"--{name.replace('_', '-')}" for name in self._arguments()]

    def _arguments(self) -> dict[str, Any]:
        """Return the options that were given, as arguments of the readers, which have the same names."""
        values = {option.name: (getattr(self, option.name), option.default) for option in fields(self)}
        return {name: value for name, (value, default) in values.items() if value != default}

    def read(self, path: RatingsInput, threshold: float | None = None, *, with_times: bool = False) -> "MemoryReading":
        """Read files of ratings, or the rows of a query, and show that it is working meanwhile."""
        from pricdr.cli.console import working
        from pricdr.data.reading.read import read_ratings_file

        with working(f"reading {shown(path)}"):
            return read_ratings_file(path, threshold=threshold, with_times=with_times, **self._arguments())

    def options(self, *, need_rating: bool) -> "ReadOptions":
        """Return the options as the readers take them."""
        from pricdr.data.reading.formats import ReadOptions

        return ReadOptions.of(need_rating=need_rating, **self._arguments())

    def read_some(self, path: RatingsInput, threshold: float | None, *, with_times: bool = False) -> "MemoryReading":
        """Read ratings that will count as likes, show a summary, and refuse the file if no rating is left.

        Not for publishing: the refusal would reveal something about the ratings.
        """
        reading = self.read(path, threshold, with_times=with_times)
        if threshold is not None and not len(reading.ratings):
            raise InputError(f"{shown(path)}: no rating is at least {threshold:g}")
        say(*reading.summary().split("\n"))
        warn_of_stars(reading)
        return reading


DEFAULT_READING = ReadingOptions()
"""No option given: the default of the parameter that :func:`reads_ratings` fills in."""


class Rated(Protocol):
    """Ratings that were read, and whether they look like stars."""

    @property
    def ratings(self) -> "RatingsSource":
        """The ratings."""
        ...

    @property
    def stars(self) -> tuple[float, float] | None:
        """The fewest and the most stars; None where ratings do not look like stars."""
        ...


def warn_of_stars(reading: Rated) -> None:
    """Warn where ratings look like stars and, without a threshold, all of them count as likes."""
    from pricdr.data.reading.report import stars_caution

    if text := stars_caution(reading.ratings, reading.stars):
        warn(text)


def reads_ratings(command: Callable[..., Result]) -> Callable[..., Result]:
    """Return a command whose parameter ``reading`` is filled from the options of :class:`ReadingOptions`."""
    signature = inspect.signature(command, eval_str=True)
    options = inspect.signature(ReadingOptions, eval_str=True).parameters.values()

    @wraps(command)
    def with_options(**arguments: Any) -> Result:  # noqa: ANN401
        own = {option.name: arguments.pop(option.name) for option in options}
        return command(**arguments, **{_PARAMETER: ReadingOptions(**own)})

    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        parameters += options if parameter.name == _PARAMETER else [parameter]
    give_parameters(with_options, parameters)
    return with_options
