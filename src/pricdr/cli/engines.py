"""Where ratings are kept while they are published: in memory, on disk, or on a cluster. Chosen, and said why."""

from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from pricdr.cli.console import progress_bar, say
from pricdr.errors import ParameterError

if TYPE_CHECKING:
    from pricdr.data.ids import Ids
    from pricdr.data.reading.batches import RatingsStream
    from pricdr.engines.local.reading import DiskReading
    from pricdr.privacy.estimate import Estimate


class EngineName(StrEnum):
    """Where ratings are kept while they are published."""

    MEMORY = "memory"
    LOCAL = "local"
    SPARK = "spark"


EngineOption: TypeAlias = Annotated[
    EngineName | None,
    typer.Option(
        help="Where ratings are kept meanwhile: in memory, sorted on disk (local), or on a Spark cluster (extra "
        "spark). The release is the same.  [default: memory, or local where the files are large]"
    ),
]
TempDirOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        help="engine local: sort in this folder, which holds ratings in plaintext meanwhile.  [default: beside --out]"
    ),
]


def choose_engine(asked: EngineName | None, size: int | None) -> EngineName:
    """Return the engine that was asked for, or the one that suits ratings of ``size`` bytes; say it where that is not
    memory."""
    from pricdr.engines.local.sizes import EXPANSION
    from pricdr.memory import VARIABLE, in_words, memory_limit

    limit = memory_limit()
    if asked is not None:
        return asked
    if size is None or size * EXPANSION <= limit:
        return EngineName.MEMORY
    say(
        f"engine local: {in_words(size)} of files may take {in_words(size * EXPANSION)} in memory, and the limit is "
        f"{in_words(limit)} ({VARIABLE}); --engine memory insists"
    )
    return EngineName.LOCAL


@dataclass(frozen=True)
class DiskOptions:
    """How ratings are sorted on disk."""

    out: Path
    temp_dir: Path | None
    threshold: float | None
    values: bool
    dry_run: bool

    @property
    def folder(self) -> Path:
        """Return where the private folder of the sort is made."""
        return self.out.absolute().parent if self.temp_dir is None else self.temp_dir

    def read(
        self,
        stream: "RatingsStream",
        listed: "Ids | None",
        universe: "Ids | None",
        *,
        keep_others: bool,
        lifetime: ExitStack,
    ) -> "DiskReading":
        """Return the ratings of a stream on disk, where they stay until ``lifetime`` ends; not sorted yet."""
        from pricdr.engines.local.reading import DiskReading
        from pricdr.engines.local.sizes import sort_buffer
        from pricdr.engines.local.spilling import spill
        from pricdr.engines.local.workspace import Workspace

        workspace = lifetime.enter_context(Workspace.opened(self.folder))
        if not self.dry_run:
            workspace.require_space(stream.size or 0, "keeping the rows")
        with progress_bar(f"reading {stream.name}") as progress:
            spilled = spill(
                stream,
                workspace,
                buffer_bytes=sort_buffer(),
                listed=listed,
                keep_others=keep_others,
                keep_values=self.values,
                count_only=self.dry_run,
                threshold=self.threshold,
                progress=progress,
            )
        return DiskReading(stream, spilled, spilled.ratings.select(listed, universe), None)


def say_memory(reading: "DiskReading", work: "Estimate") -> None:
    """Say what memory a release takes, and refuse one that takes more than the limit."""
    from pricdr.engines.local.sizes import Need

    ratings = reading.ratings
    letters = ratings.user_codes.letters() + ratings.item_codes.letters()
    need = Need.of(work, ids=len(ratings.user_codes) + len(ratings.item_codes), letters=letters)
    say(f"engine local {need.sentence()}")
    need.require()


def sort(reading: "DiskReading") -> "DiskReading":
    """Return the same ratings, sorted: whatever can fail on the disk fails here, before anything is spent."""
    from dataclasses import replace

    with progress_bar("sorting") as progress:
        entries = reading.selected.sorted(progress)
    return replace(reading, counts=entries.counts)


def refuse_temp_dir(temp_dir: Path | None, engine: EngineName) -> None:
    """Refuse a folder for sorting where nothing is sorted on disk."""
    if temp_dir is not None and engine is not EngineName.LOCAL:
        raise ParameterError(f"--temp-dir belongs to --engine local, and the engine is {engine.value}")
