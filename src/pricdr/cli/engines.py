"""Choose where ratings are kept while they are published: in memory, on disk, or on a cluster."""

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias, TypeGuard

import typer

from pricdr.cli.console import progress_bar, say, working
from pricdr.cli.ratings_input import RatingsInput, as_written, shown
from pricdr.cli.reading_options import ReadingOptions, warn_of_stars
from pricdr.data.reading.text_files import STANDARD_INPUT
from pricdr.errors import InputFileError, ParameterError

if TYPE_CHECKING:
    from pricdr.data.ids import Ids
    from pricdr.data.reading.readers import RatingsFile
    from pricdr.engines.local.reading import DiskReading
    from pricdr.engines.local.sizes import Need
    from pricdr.engines.spark.reading import SparkReading
    from pricdr.privacy.estimate import Estimate
    from pricdr.privacy.strategies import Strategy


class EngineName(StrEnum):
    """Where ratings are kept while they are published."""

    MEMORY = "memory"
    LOCAL = "local"
    SPARK = "spark"


EngineOption: TypeAlias = Annotated[
    EngineName | None,
    typer.Option(
        help="Where ratings are kept meanwhile: in memory, sorted on disk (local), or on a Spark cluster (extra "
        "spark). The release is the same.  [default: memory, or local if the files are large]"
    ),
]
TempDirOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        help="engine local: sort in this folder, which holds ratings in plaintext meanwhile.  [default: beside --out]"
    ),
]
SparkConfOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(help="engine spark: a setting, spark.NAME=VALUE; repeatable.  [default: this machine's cores]"),
]


@dataclass(frozen=True)
class EngineInput:
    """The ratings to publish, and where they are kept meanwhile."""

    given: RatingsInput
    reading: ReadingOptions
    engine: EngineName | None
    temp_dir: Path | None
    spark_conf: list[str] | None
    out: Path
    """The release folder: rows are kept beside it, unless ``temp_dir`` names another folder."""
    threshold: float | None
    values: bool

    def read(
        self,
        listed: "Ids | None",
        universe: "Ids | None",
        strategy: "Strategy",
        lifetime: ExitStack,
        *,
        count_only: bool = False,
    ) -> "RatingsFile | DiskReading | SparkReading":
        """Read the ratings; those on disk stay there until ``lifetime`` ends, and are not sorted yet.

        Args:
            listed: the users who get a row, if there is a list.
            universe: the items that count, if there is a list.
            strategy: decides whether rows of other users are needed too.
            lifetime: closes files and sessions when it ends.
            count_only: whether rows are only counted.
        """
        from pricdr.engines.local.workspace import sweep

        engine = self._chosen()
        if self.spark_conf and engine is not EngineName.SPARK:
            raise ParameterError(f"--spark-conf is for --engine spark, and the engine is {engine.value}")
        if self.temp_dir is not None and engine is not EngineName.LOCAL:
            raise ParameterError(f"--temp-dir is for --engine local, and the engine is {engine.value}")
        reading: RatingsFile | DiskReading | SparkReading
        if engine is EngineName.MEMORY:
            if not count_only:
                sweep(self.out.absolute().parent)  # a killed run of --engine local leaves ratings in plaintext
            reading = self.reading.read(self.given, self.threshold)
        elif engine is EngineName.SPARK:
            reading = self._on_spark(listed, universe, lifetime)
        else:
            keep_others = strategy.learns_from_unlisted
            reading = self._on_disk(listed, universe, lifetime, keep_others=keep_others, count_only=count_only)
        if self.values and not reading.has_values:
            raise InputFileError(shown(self.given), "--values needs a rating column, and there is none")
        if not self.values:
            warn_of_stars(reading)
        return reading

    def _chosen(self) -> EngineName:
        """Return the engine that was asked for, or the one that suits the size of the files, and explain the choice."""
        from pricdr.data.reading.inputs import find_inputs
        from pricdr.engines.local.sizes import EXPANSION
        from pricdr.memory import VARIABLE, in_words, memory_limit

        if self.engine is not None:
            return self.engine
        size = find_inputs(self.given).size if isinstance(self.given, Path) else None
        limit = memory_limit()
        if size is None or size * EXPANSION <= limit:
            return EngineName.MEMORY
        say(
            f"engine local: {in_words(size)} of files may take {in_words(size * EXPANSION)} in memory, and the limit "
            f"is {in_words(limit)} ({VARIABLE} changes it); --engine memory overrides this"
        )
        return EngineName.LOCAL

    def _on_spark(self, listed: "Ids | None", universe: "Ids | None", lifetime: ExitStack) -> "SparkReading":
        from pricdr.engines.spark.reading import open_ratings
        from pricdr.engines.spark.session import parse_settings

        if not isinstance(self.given, Path) or self.given == STANDARD_INPUT:
            raise ParameterError("--engine spark reads Parquet or a table (table:NAME), not queries or standard input")
        others = [option for option in self.reading.given() if option != "--columns"]
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
        self,
        listed: "Ids | None",
        universe: "Ids | None",
        lifetime: ExitStack,
        *,
        keep_others: bool,
        count_only: bool,
    ) -> "DiskReading":
        from pricdr.engines.local.reading import DiskReading
        from pricdr.engines.local.sizes import sort_buffer
        from pricdr.engines.local.spilling import spill
        from pricdr.engines.local.workspace import Workspace
        from pricdr.memory import in_words

        stream = self.reading.stream(self.given, need_rating=self.threshold is not None)
        beside = Path(tempfile.gettempdir()) if count_only else self.out.absolute().parent  # a dry run makes no folder
        folder = beside if self.temp_dir is None else self.temp_dir
        workspace = lifetime.enter_context(Workspace.opened(folder))
        if not count_only:
            workspace.require_space(stream.size or 0, "sorting")  # checked more exactly once the rows are counted
            say(
                f"engine local: ratings are kept in {workspace.folder} (in plaintext, readable only by you, removed at "
                f"the end) and sorted with {in_words(sort_buffer())} of memory"
            )
        with progress_bar(f"reading {shown(self.given)}") as progress:
            spilled = spill(
                stream,
                workspace,
                buffer_bytes=sort_buffer(),
                listed=listed,
                keep_others=keep_others,
                keep_values=self.values,
                count_only=count_only,
                threshold=self.threshold,
                progress=progress,
            )
        return DiskReading(stream, spilled, spilled.ratings.select(listed, universe), None)


def is_on_disk(reading: "RatingsFile | DiskReading | SparkReading") -> TypeGuard["DiskReading"]:
    """Return whether the ratings are kept on disk."""
    from pricdr.engines.local.reading import DiskReading

    return isinstance(reading, DiskReading)


def is_on_spark(reading: "RatingsFile | DiskReading | SparkReading") -> TypeGuard["SparkReading"]:
    """Return whether Spark keeps the ratings."""
    from pricdr.engines.spark.reading import SparkReading

    return isinstance(reading, SparkReading)


def needed_memory(reading: "DiskReading", work: "Estimate") -> "Need":
    """Return the memory that publishing takes, part by part."""
    from pricdr.engines.local.sizes import Need

    codes = reading.ratings.user_codes, reading.ratings.item_codes
    return Need.of(work, ids=sum(map(len, codes)), letters=sum(part.letters() for part in codes))


def require_memory(reading: "DiskReading", work: "Estimate") -> None:
    """Show the memory that publishing takes, and refuse it above the limit."""
    need = needed_memory(reading, work)
    say(f"engine local {need.sentence()}")
    need.require()


def sort(reading: "DiskReading") -> "DiskReading":
    """Return the same ratings, sorted: a disk that fails does so here, before anything is spent."""
    with progress_bar("sorting") as progress:
        entries = reading.selected.sorted(progress)
    return replace(reading, counts=entries.counts)
