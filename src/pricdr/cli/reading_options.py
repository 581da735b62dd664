"""How a file of ratings is read: one group of options, the same for every command that reads one."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar

import typer

from pricdr.cli.console import say, warn
from pricdr.cli.ratings_input import RatingsInput, shown
from pricdr.errors import InputError, ParameterError

if TYPE_CHECKING:
    from pricdr.data.blocks import RatingsSource
    from pricdr.data.reading.batches import RatingsStream
    from pricdr.data.reading.readers import RatingsFile

Result = TypeVar("Result")
_PARAMETER = "reading"


class FormatName(StrEnum):
    """How a file is written, where its name does not say it."""

    CSV = "csv"
    TSV = "tsv"
    INTER = "inter"
    DAT = "dat"
    JSONL = "jsonl"
    PARQUET = "parquet"


@dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """What the user says about how files of ratings are written. A field becomes an option of the command."""

    columns: Annotated[
        str | None,
        typer.Option(help="user=NAME,item=NAME[,rating=NAME][,time=NAME], or positions, or amazon-2014|amazon-2018."),
    ] = None
    delimiter: Annotated[
        str | None,
        typer.Option(help="What separates the fields of a text file, such as ; or | or tab.  [default: by its name]"),
    ] = None
    encoding: Annotated[
        str | None, typer.Option(help="How a text file writes its characters, such as latin-1.  [default: utf-8]")
    ] = None
    format: Annotated[
        FormatName | None,
        typer.Option(help="What the files are.  [default: by their names; csv for standard input]"),
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
            raise ParameterError("--most-bad-rows belongs to --skip-bad-rows")

    def given(self) -> list[str]:
        """Return the options that were given, as the command line writes them."""
        values = ((one.name, getattr(self, one.name) != one.default) for one in fields(self))
        return [f"--{name.replace('_', '-')}" for name, differs in values if differs]

    def read(self, path: RatingsInput, threshold: float | None = None, *, with_times: bool = False) -> "RatingsFile":
        """Read files of ratings, or what a query selects, with a sign of life while that takes."""
        from pricdr.cli.console import working
        from pricdr.data.reading import readers

        chosen = {name: getattr(self, name) for name in ("delimiter", "encoding", "format", "most_bad_rows")}
        with working(f"reading {shown(path)}"):
            return readers.read_ratings_file(
                path,
                columns=self.columns,
                threshold=threshold,
                with_times=with_times,
                skip_bad_rows=self.skip_bad_rows,
                **{name: value for name, value in chosen.items() if value is not None},
            )

    def stream(self, path: RatingsInput, *, need_rating: bool) -> "RatingsStream":
        """Open ratings to be read in bounded memory."""
        from pricdr.data.reading.batches import open_stream

        chosen = {name: getattr(self, name) for name in ("delimiter", "encoding", "format", "most_bad_rows")}
        return open_stream(
            path,
            columns=self.columns,
            need_rating=need_rating,
            skip_bad_rows=self.skip_bad_rows,
            **{name: value for name, value in chosen.items() if value is not None},
        )

    def read_some(self, path: RatingsInput, threshold: float | None, *, with_times: bool = False) -> "RatingsFile":
        """Read ratings that will count as likes, and refuse the file if none is left; say what was read.

        Not for publishing: a refusal gives away what was rated.
        """
        reading = self.read(path, threshold, with_times=with_times)
        if threshold is not None and not len(reading.ratings):
            raise InputError(f"{shown(path)}: no rating is at least {threshold:g}")
        say(*reading.summary().split("\n"))
        warn_of_stars(reading)
        return reading


DEFAULT_READING = ReadingOptions()
"""Files that their names describe: the default of the parameter that :func:`reads_ratings` fills in."""


class Rated(Protocol):
    """Ratings that were read, and whether they look like stars."""

    @property
    def ratings(self) -> "RatingsSource":
        """The ratings."""
        ...

    @property
    def stars(self) -> tuple[float, float] | None:
        """The fewest and the most stars; None where they look like none."""
        ...


def warn_of_stars(reading: Rated) -> None:
    """Warn where ratings look like stars and all of them count as likes, since no threshold was given.

    Not where ``prepare`` filtered them: their threshold was chosen there.
    """
    if reading.ratings.threshold is None and reading.ratings.filtered_by is None and reading.stars is not None:
        fewest, most = reading.stars
        rule = "without --threshold each row counts as a like"
        warn(f"ratings from {fewest:g} to {most:g} look like stars: {rule}, also one of {fewest:g}")


def reads_ratings(command: Callable[..., Result]) -> Callable[..., Result]:
    """Return a command whose parameter ``reading`` is made of the options of :class:`ReadingOptions`."""
    signature = inspect.signature(command, eval_str=True)
    options = inspect.signature(ReadingOptions, eval_str=True).parameters.values()

    @wraps(command)
    def with_options(**arguments: Any) -> Result:  # noqa: ANN401
        own = {option.name: arguments.pop(option.name) for option in options}
        return command(**arguments, **{_PARAMETER: ReadingOptions(**own)})

    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        parameters += options if parameter.name == _PARAMETER else [parameter]
    keyword_only = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
    # typer reads both: the signature for the parameters, the annotations for their types.
    vars(with_options).update(
        __signature__=signature.replace(parameters=keyword_only),
        __annotations__={one.name: one.annotation for one in keyword_only},
    )
    return with_options
