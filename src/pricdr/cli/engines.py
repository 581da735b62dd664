"""Choose where ratings are kept while they are published: on this machine, or on a cluster."""

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PosixPath
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from pricdr.cli.console import progress_bar, say, working
from pricdr.cli.ratings import RatingsInput, ReadingOptions, shown, warn_of_stars
from pricdr.data.reading.text_files import STANDARD_INPUT
from pricdr.errors import InputFileError, ParameterError

if TYPE_CHECKING:
    from pricdr.data.ids import Ids
    from pricdr.data.reading.read import Reading


class AddressOrPath(PosixPath):
    """A path that keeps its original text: for Spark it may be an address, s3a://bucket/ratings, or a table."""

    def __init__(self, text: str) -> None:
        self.text = str(text)


def as_written(path: Path) -> str:
    """Return a path as it was written on the command line: an address keeps both of its slashes."""
    return path.text if isinstance(path, AddressOrPath) else str(path)


class EngineName(StrEnum):
    """Where ratings are kept while they are published."""

    DUCKDB = "duckdb"
    SPARK = "spark"


EngineOption: TypeAlias = Annotated[
    EngineName,
    typer.Option(
        help="Where ratings are kept meanwhile: on this machine, in memory or sorted on disk if the files are large "
        "(duckdb), or on a Spark cluster (extra spark). The release is the same."
    ),
]


@dataclass(frozen=True)
class EngineInput:
    """The ratings to publish, and where they are kept meanwhile."""

    given: RatingsInput
    reading: ReadingOptions
    engine: EngineName
    temp_dir: Path | None
    spark_conf: tuple[str, ...]
    out: Path
    """The release folder: rows are kept beside it, unless ``temp_dir`` names another folder."""
    threshold: float | None
    values: bool

    def read(
        self,
        listed: "Ids | None",
        universe: "Ids | None",
        lifetime: ExitStack,
        *,
        count_only: bool = False,
    ) -> "Reading[Any]":
        """Read the ratings; those on disk stay there until ``lifetime`` ends, and are not sorted yet.

        Args:
            listed: the users who get a row, if there is a list.
            universe: the items that count, if there is a list.
            lifetime: closes files and sessions when it ends.
            count_only: whether rows are only counted.
        """
        from pricdr.data.workspace import sweep

        if self.spark_conf and self.engine is not EngineName.SPARK:
            raise ParameterError(f"spark-conf is for --engine spark, and the engine is {self.engine.value}")
        if self.temp_dir is not None and self.engine is not EngineName.DUCKDB:
            raise ParameterError(f"temp-dir is for --engine duckdb, and the engine is {self.engine.value}")
        reading: Reading[Any]
        if self.engine is EngineName.SPARK:
            reading = self._on_spark(listed, universe, lifetime)
        elif self._are_large():
            reading = self._on_disk(listed, universe, lifetime, count_only=count_only)
        else:
            if not count_only:
                sweep(self.out.absolute().parent)  # a killed run that sorted on disk leaves ratings in plaintext
            reading = self.reading.read(self.given, self.threshold)
        if self.values and not reading.has_values:
            raise InputFileError(shown(self.given), "--values needs a rating column, and there is none")
        if not self.values:
            warn_of_stars(reading)
        return reading

    def _are_large(self) -> bool:
        """Return whether the files are too large for the memory limit, and say so."""
        from pricdr.data.reading.inputs import find_inputs
        from pricdr.engines.outofcore import EXPANSION
        from pricdr.memory import VARIABLE, format_bytes, memory_limit

        size = find_inputs(self.given).size if isinstance(self.given, Path) else None
        limit = memory_limit()
        if size is None or size * EXPANSION <= limit:
            return False
        say(
            f"out of core: {format_bytes(size)} of files may take {format_bytes(size * EXPANSION)} in memory, and the "
            f"limit is {format_bytes(limit)} ({VARIABLE} changes it)"
        )
        return True

    def _on_spark(self, listed: "Ids | None", universe: "Ids | None", lifetime: ExitStack) -> "Reading[Any]":
        from pricdr.engines.spark.ratings import open_ratings
        from pricdr.engines.spark.session import parse_settings

        if not isinstance(self.given, Path) or self.given == STANDARD_INPUT:
            raise ParameterError("--engine spark reads Parquet or a table (table:NAME), not queries or standard input")
        others = [option.removeprefix("--") for option in self.reading.given() if option != "--columns"]
        if others:
            raise ParameterError(f"{others[0]} is for files, and --engine spark reads Parquet or a table")
        opened = open_ratings(
            as_written(self.given),
            columns=self.reading.columns,
            threshold=self.threshold,
            users=listed,
            items=universe,
            settings=parse_settings(self.spark_conf),
        )
        with working(f"reading {as_written(self.given)}"):
            return lifetime.enter_context(opened)

    def _on_disk(
        self, listed: "Ids | None", universe: "Ids | None", lifetime: ExitStack, *, count_only: bool
    ) -> "Reading[Any]":
        from pricdr.data.workspace import Workspace
        from pricdr.engines.outofcore import read_on_disk, sort_memory
        from pricdr.memory import format_bytes

        beside = Path(tempfile.gettempdir()) if count_only else self.out.absolute().parent  # a dry run makes no folder
        workspace = lifetime.enter_context(Workspace.opened(beside if self.temp_dir is None else self.temp_dir))
        say(
            f"out of core: ratings are kept in {workspace.folder} (in plaintext, readable only by you, removed at "
            f"the end) and sorted with {format_bytes(sort_memory())} of memory"
        )
        with progress_bar(f"reading {shown(self.given)}") as progress:
            return read_on_disk(
                self.given,
                self.reading.options(need_rating=self.threshold is not None),
                workspace,
                users=listed,
                items=universe,
                keep_values=self.values,
                threshold=self.threshold,
                progress=progress,
            )
