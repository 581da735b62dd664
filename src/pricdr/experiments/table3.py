"""Table 3 of the paper, counted from the raw files: users, items and ratings of every task after preprocessing."""

import json
from collections.abc import Iterator
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import TypeAdapter

from pricdr.data.pairs import DomainPair
from pricdr.data.ratings import Ratings
from pricdr.errors import InputError, MissingDataError, ParameterError, plain
from pricdr.experiments.known_files import find_files
from pricdr.experiments.records import RECORD, Flag, Line, Text, Whole, from_json
from pricdr.experiments.results import Provenance, provenance
from pricdr.files import replace_file
from pricdr.progress import Progress, silent
from pricdr.untrusted import read_bounded

if TYPE_CHECKING:
    from pricdr.data.reading.read import MemoryReading


@dataclass(frozen=True)
class Counts:
    """The figures of one row of Table 3."""

    __pydantic_config__ = RECORD

    users: Whole
    source_items: Whole
    source_ratings: Whole
    target_items: Whole
    target_ratings: Whole

    def __post_init__(self) -> None:
        for figure in astuple(self):
            if figure < 0:
                raise ParameterError(f"counts must be 0 or more, got {figure}")

    @property
    def densities(self) -> tuple[float, float]:
        """The shares of all (user, item) pairs that are rated, in the source and in the target.

        >>> ["{:.2%}".format(one) for one in Counts(924, 3_916, 50_429, 4_228, 50_157).densities]
        ['1.39%', '1.28%']
        """
        sides = ((self.source_ratings, self.source_items), (self.target_ratings, self.target_items))
        source, target = (ratings / max(1, self.users * items) for ratings, items in sides)
        return source, target


@dataclass(frozen=True)
class PaperTask:
    """Two domains, where their raw files lie, and how they are prepared."""

    company: str
    source: str
    target: str
    folder: str
    """In the folder of data sets (PRICDR_DATA)."""
    source_file: str
    """A file in that folder, or a domain of the paper: see ``pricdr.experiments.known_files``."""
    target_file: str
    counts: Counts | None = None
    """What the paper's Table 3 says; None for data that is not the paper's."""
    stand_in: bool = False
    """Whether this is other data than that of the paper's task of the same name."""
    threshold: float | None = 3.0
    core: int | None = None
    """The K of a joint K-core; without it, the paper's five steps."""
    filtered: bool = False
    """Whether the files are taken as they are."""

    @property
    def name(self) -> str:
        """Return the task as the paper's tables call it."""
        return f"{self.company} {self.source}→{self.target}"

    @property
    def preprocessing(self) -> str:
        """Return, for people, what is done to the raw files."""
        if self.filtered:
            return "taken as it is"
        rated = "all ratings" if self.threshold is None else f"rating ≥ {self.threshold:g}"
        return f"{rated}, {'the five steps' if self.core is None else f'joint {self.core}-core'}"


PAPER_TASKS: Final = (
    PaperTask(
        *("Amazon", "Music", "Book", "amazon", "CDs_and_Vinyl", "Books"),
        Counts(16_367, 18_467, 233_251, 23_988, 291_325),
    ),
    PaperTask(
        *("Amazon", "Movie", "Music", "amazon", "Movies_and_TV", "CDs_and_Vinyl"),
        Counts(15_914, 19_794, 416_228, 20_058, 280_398),
    ),
    PaperTask(
        *("Amazon", "Movie", "Book", "amazon", "Movies_and_TV", "Books"),
        Counts(29_476, 24_091, 591_258, 41_884, 579_131),
    ),
    PaperTask("Douban", "Book", "Music", "douban_raw", "book", "music", Counts(924, 3_916, 50_429, 4_228, 50_157)),
    PaperTask("Douban", "Movie", "Book", "douban_raw", "movie", "book", Counts(1_574, 9_471, 744_983, 6_139, 85_602)),
    PaperTask("Douban", "Movie", "Music", "douban_raw", "movie", "music", Counts(1_055, 9_386, 557_989, 4_981, 60_626)),
)
"""In the order of the paper's Table 3."""

OTHER_DATA: Final = (
    PaperTask(
        *("Amazon", "Movie", "Music", "amazon_movie_music", "movie.csv.gz", "music.csv.gz"), stand_in=True, core=5
    ),
    PaperTask(
        *("Amazon", "Movie", "Book", "amazon_movie_book_implicit", "movie.csv.gz", "book.csv.gz"),
        stand_in=True,
        threshold=None,
        filtered=True,
    ),
    PaperTask(
        *("Amazon", "Electronics", "Cell phones", "amazon_electronics_cell", "electronic.csv.gz", "cell.csv.gz"),
        threshold=None,
        core=3,
    ),
)
"""What the experiments run on beside the paper's tasks."""

_MAX_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class FileFacts:
    """What was read from one raw file."""

    __pydantic_config__ = RECORD

    name: Line
    """With the folder it lies in."""
    rows: Whole
    repeated: Whole
    """Rows that repeat a (user, item) pair, of which one counts."""


@dataclass(frozen=True)
class Preprocessing:
    """What another preprocessing of the same raw files would give."""

    __pydantic_config__ = RECORD

    words: Line
    """The preprocessing, for people."""
    counts: Counts


@dataclass(frozen=True, kw_only=True)
class Table3Row:
    """One task: the paper's figures, and those that were counted."""

    __pydantic_config__ = RECORD

    title: Line
    paper_task: Text
    """The task of the paper that it is or stands in for; empty where it is neither."""
    source: Line
    target: Line
    stand_in: Flag
    """Whether this is other data than the paper's of that name."""
    preprocessing: Line
    paper: Counts | None
    """The paper's figures; None for other data, which they say nothing about."""
    measured: Counts | None
    """What was counted; None where the data is not present."""
    missing: Text = ""
    """Why nothing was counted."""
    expected: tuple[Line, ...] = ()
    """Then: which files would do, for each domain that is not there."""
    files: tuple[FileFacts, ...] = ()
    readings: tuple[Preprocessing, ...] = ()

    @property
    def agrees(self) -> bool | None:
        """Return whether what was counted is what the paper says, to the digit; None where one of them is not there."""
        return None if self.paper is None or self.measured is None else self.paper == self.measured


@dataclass(frozen=True)
class Table3:
    """The paper's six tasks in its order, then other data."""

    __pydantic_config__ = RECORD

    rows: tuple[Table3Row, ...]
    provenance: Provenance


def measure(root: Path, *, progress: Progress = silent) -> Table3:
    """Return Table 3, counted from the raw files under ``root``, the folder of data sets.

    A task whose files are absent keeps its row and says so.

    Raises:
        InputError: a file is there and cannot be used.
    """
    tasks = (*PAPER_TASKS, *OTHER_DATA)
    rows = []
    for at, task in enumerate(tasks):
        progress("tasks", at, len(tasks), task.name)
        rows.append(_row(task, root))
    return Table3(tuple(rows), provenance("cpu"))


def write(path: Path, table: Table3) -> None:
    """Write the table as JSON, in place of one that is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, (json.dumps(asdict(table), indent=1, ensure_ascii=False) + "\n").encode())


def read(path: Path) -> Table3:
    """Return the table that :func:`write` wrote; whatever else is in the file is refused in one line."""
    try:
        return from_json(TypeAdapter(Table3), read_bounded(path, limit=_MAX_BYTES).decode())
    except (ParameterError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a Table 3: {error}") from error


def as_text(table: Table3) -> tuple[list[str], list[list[str]]]:
    """Return the table as text, none of it markup: its header, and the paper's figures and ours, one row each."""
    header = ["task", "", "users", "source items", "source ratings", "density"]
    header += ["target items", "target ratings", "density"]
    rows = []
    for row in table.rows:
        if row.paper is not None:
            rows.append([row.title, "paper", *_figures(row.paper)])
        if row.measured is None:
            rows.append([row.title, row.missing or "not counted", *[""] * 7])
        else:
            verdict = "" if row.agrees is None else ": the same" if row.agrees else ": differs"
            rows.append([row.title, f"ours{verdict} ({row.preprocessing})", *_figures(row.measured)])
        rows += [[row.title, reading.words, *_figures(reading.counts)] for reading in row.readings]
    return header, rows


def markdown(table: Table3) -> str:
    """Return the table in Markdown: the paper's figures and ours, one line each."""
    header, rows = as_text(table)
    lines = [header, ["---", "---", *["---:"] * 7], *([plain(cell) for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def count(pair: DomainPair) -> Counts:
    """Return the users, items and ratings of a pair."""
    sides = (pair.source, pair.target)
    return Counts(len(pair.users), *(figure for side in sides for figure in (len(side.items), len(side))))


def _row(task: PaperTask, root: Path) -> Table3Row:
    row = Table3Row(
        title=f"{task.name} (stand-in)" if task.stand_in else task.name,
        paper_task=task.name if task.stand_in or task.counts is not None else "",
        source=task.source,
        target=task.target,
        stand_in=task.stand_in,
        preprocessing=task.preprocessing,
        paper=task.counts,
        measured=None,
    )
    try:
        files = find_files(root, task.folder, task.source_file, task.target_file)
    except MissingDataError as error:
        return replace(row, missing=str(error), expected=error.expected)
    source, target = (file.read() for file in files)
    pair = _prepared(task, source.ratings, target.ratings)
    return replace(
        row,
        measured=count(pair),
        files=tuple(_facts(one, root) for one in (source, target)),
        readings=tuple(_readings(task, source.ratings, target.ratings, pair)),
    )


def _prepared(task: PaperTask, source: Ratings, target: Ratings) -> DomainPair:
    # Imported here: tables are also read where DuckDB is not installed.
    from pricdr.data.pairs import prepare

    if task.filtered:
        return DomainPair(source.select(users=target.users), target)
    return prepare(source, target, threshold=task.threshold, core=task.core)


def _readings(task: PaperTask, source: Ratings, target: Ratings, pair: DomainPair) -> Iterator[Preprocessing]:
    """Yield what else the paper's words could mean ("filter the users and items with less than 5 interactions").

    For other data: what is left without duplicate items, or by the paper's five steps.
    """
    from pricdr.data.pairs import prepare_core, prepare_paper

    if task.counts is not None:
        # "Less than 5" leaves those with 5 themselves, and a K-core filters until nothing changes.
        one_pass = prepare_paper(source, target, task.threshold, more_than=4)
        yield Preprocessing("5 or more positives per user and item, in one pass", count(one_pass))
        for core in (5, 6):
            iterated = prepare_core(source, target, core=core, threshold=task.threshold)
            yield Preprocessing(f"{core} or more, iterated with the common users (joint {core}-core)", count(iterated))
    elif task.filtered:
        yield Preprocessing("the paper's five steps", count(prepare_paper(source, target, task.threshold)))
    else:
        yield Preprocessing("without source items that repeat a target item", count(pair.without_duplicates()))


def _facts(content: "MemoryReading", root: Path) -> FileFacts:
    return FileFacts(Path(content.name).relative_to(root).as_posix(), content.rows, content.duplicates)


def _figures(counts: Counts) -> list[str]:
    source, target = counts.densities
    return [
        *(f"{one:,}" for one in (counts.users, counts.source_items, counts.source_ratings)),
        f"{source:.2%}",
        *(f"{one:,}" for one in (counts.target_items, counts.target_ratings)),
        f"{target:.2%}",
    ]
