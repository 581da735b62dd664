"""Ratings as input of a command: files named by an argument or a query, and the settings that say how to read them."""

import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, TypeAlias

from typer import Option

from pricdr.cli.console import progress_bar, say, warn
from pricdr.cli.options import config_option
from pricdr.data.reading.inputs import Query
from pricdr.data.reading.text_files import STANDARD_INPUT, named
from pricdr.errors import InputError, ParameterError

if TYPE_CHECKING:
    from pricdr.data.periods import PeriodRatings, Window
    from pricdr.data.ratings import Ratings
    from pricdr.data.reading.read import MemoryReading, Reading

RatingsInput: TypeAlias = Path | Query
FormatName: TypeAlias = Literal["csv", "tsv", "inter", "dat", "jsonl", "parquet"]
FILES: Final = "a file, a folder, a quoted pattern, or -"

ColumnsOption: TypeAlias = Annotated[
    str | None,
    Option(help="user=NAME,item=NAME[,rating=NAME][,time=NAME]; positions without a header; amazon-2014|amazon-2018."),
]


@dataclass(frozen=True, kw_only=True)
class ReadingSettings:
    """How ratings are read: ``--columns``, and what only ``--config`` sets. The documentation shows these texts."""

    __pydantic_config__: ClassVar[dict[str, bool]] = {"strict": True, "use_attribute_docstrings": True}

    columns: str | None = None
    delimiter: str | None = None
    """The separator of fields in a text file, such as ; or | or tab; by the file's name unless set."""
    encoding: str | None = None
    """The character encoding of a text file, such as latin-1; utf-8 unless set."""
    format: FormatName | None = None
    """The format of the files; by their names unless set, csv for standard input."""
    skip_bad_rows: bool = False
    """Leave out rows that cannot be read, and count them on screen."""
    most_bad_rows: float | None = None
    """skip-bad-rows: refuse a file with a larger share of bad rows; 0.01 unless set."""

    def arguments(self) -> dict[str, Any]:
        """Return what was given, as arguments of the readers, which have the same names."""
        if self.most_bad_rows is not None and not self.skip_bad_rows:
            raise ParameterError("most-bad-rows needs skip-bad-rows")
        every = {each.name: getattr(self, each.name) for each in fields(ReadingSettings)}
        return {name: value for name, value in every.items() if value is not None and value is not False}

    def given(self) -> dict[str, object]:
        """Return what was given, as the user wrote it: ``--columns``, ``delimiter``."""
        names = {"columns": "--columns"}
        return {names.get(name, name.replace("_", "-")): value for name, value in self.arguments().items()}

    def read(self, path: RatingsInput, threshold: float | None = None, *, with_times: bool = False) -> "MemoryReading":
        """Read files of ratings, or the rows of a query, and show that it is working meanwhile."""
        from pricdr.data.reading.read import read_ratings_file

        with progress_bar(f"reading {shown(path)}"):
            return read_ratings_file(path, threshold=threshold, with_times=with_times, **self.arguments())

    def read_window(
        self, path: RatingsInput, threshold: float | None, window: "Window | None"
    ) -> "Reading[Ratings] | Reading[PeriodRatings]":
        """Read the rows of a window, period by period where it has several."""
        from pricdr.data.reading.read import read_periods_file, read_ratings_file

        read = read_ratings_file if window is None or window.days is None else read_periods_file
        with progress_bar(f"reading {shown(path)}"):
            return read(path, threshold=threshold, window=window, **self.arguments())

    def read_some(self, path: RatingsInput, threshold: float | None, *, with_times: bool = False) -> "MemoryReading":
        """Read likes, show a summary, and refuse a file without any: not for publishing, which would reveal that."""
        reading = self.read(path, threshold, with_times=with_times)
        if reading.all_below and threshold is not None:
            raise InputError(f"{shown(path)}: no rating is at least {threshold:g}")
        say(*reading.summary().split("\n"))
        warn_of_stars(reading)
        return reading


@dataclass(frozen=True, kw_only=True)
class InputSettings(ReadingSettings):
    """The same for ratings that may come from a database."""

    from_: str | None = None
    """Instead of files: a database, postgresql://user:password@host/name or sqlite:///file, or env:NAME, a variable
    that holds it."""
    query: str | None = None
    """from: what to read, such as "SELECT user_id, item_id, stars FROM ratings"."""

    def files_or_query(self, path: Path | None, name: str) -> RatingsInput | None:
        """Return the ratings that the argument called ``name`` gives, or from and query; None where neither does."""
        if path is not None and re.match(r"\w*(sql|postgres)\w*:/", str(path)):
            rule = "set it as from in --config"
            raise ParameterError(f"{name} is the address of a database (not shown because of its password): {rule}")
        if (self.from_ is None) != (self.query is None):
            raise ParameterError("from and query go together in --config: a database, and what to read from it")
        if self.from_ is None or self.query is None:
            return path
        if path is not None:
            raise ParameterError(f"give {name} or from in --config, not both: got {path} as well")
        return Query.of(self.from_, self.query)

    def require_ratings(self, path: Path | None, name: str) -> RatingsInput:
        """Return the same, where one of the two must be given."""
        ratings = self.files_or_query(path, name)
        if ratings is None:
            raise ParameterError(f"Missing argument '{name}': give it, or from and query in --config")
        return ratings


ConfigOption: TypeAlias = Annotated[ReadingSettings | None, config_option(ReadingSettings)]
InputConfigOption: TypeAlias = Annotated[InputSettings | None, config_option(InputSettings)]


def shown(ratings: RatingsInput) -> str:
    """Return the name of ratings for messages; a query is never shown with its address."""
    return named(ratings if isinstance(ratings, Path) else str(ratings))


def require_one_stream(*paths: RatingsInput | None) -> None:
    """Refuse standard input for more than one of these: it can be read only once."""
    if paths.count(STANDARD_INPUT) > 1:
        raise ParameterError("standard input (-) can be read only once: give a file for the other")


def warn_of_stars(reading: "Reading[Any]") -> None:
    """Warn where ratings look like stars and, without a threshold, all of them count as likes."""
    from pricdr.data.ratings import stars_caution

    if text := stars_caution(reading.ratings, reading.rating_range, half_steps=reading.half_steps):
        warn(text)
