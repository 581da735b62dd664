"""Read files of every accepted format into ``Ratings``, with a summary; refusals are one line."""

import os
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir

import numpy as np

from pricdr.data.csr import entry_rows
from pricdr.data.ids import Ids, id_fault
from pricdr.data.ratings import Ratings
from pricdr.data.reading.columns import AMAZON_2014, AMAZON_2018, Columns
from pricdr.data.reading.inputs import AnyPath, find_inputs
from pricdr.data.reading.options import ReadOptions
from pricdr.data.reading.query import Query
from pricdr.data.reading.read import encode, opened_table
from pricdr.data.reading.repeats import Floats, Repeats
from pricdr.data.reading.report import MOST_BAD_ROWS, BadRows, Summary, stars_of
from pricdr.data.reading.text_files import (
    STANDARD_INPUT,
    explaining_os_errors,
    file_refusal,
    named,
    read_text,
    refusal,
    shorten,
)
from pricdr.data.tables import write_ratings
from pricdr.data.workspace import Workspace
from pricdr.memory import require_memory
from pricdr.progress import Progress, shown

__all__ = [
    "AMAZON_2014",
    "AMAZON_2018",
    "Columns",
    "RatingsFile",
    "read_ids",
    "read_ratings",
    "read_ratings_file",
    "write_ratings",
]

_SAMPLE = 1 << 16
"""Bytes of a list from which its number of ids is estimated."""
_BYTES_PER_LISTED_ID = 220
"""Memory that an id takes while a list is read and checked for repeats, besides three copies of its letters."""


@dataclass(frozen=True)
class RatingsFile:
    """The ratings of one file and how they were read: for their owner's screen, never for a release."""

    ratings: Ratings
    file: Path | str
    """The file that was read, or a text that names another origin."""
    rows: int
    """All rows, bad ones included."""
    repeats: Repeats
    """How rows that repeat a (user, item) pair were merged."""
    dropped: tuple[tuple[str, int], ...]
    """The reasons why rows were left out, and how many."""
    rating_range: tuple[float, float] | None
    """Smallest and largest rating in the file, before any threshold."""
    bad_rows: BadRows | None = None
    """The rows that were skipped, where that was allowed."""
    half_steps: bool = False
    """Whether all ratings are whole or half numbers."""
    times: Floats | None = None
    """The time of each rating, in the order of ``ratings.matrix.data``, where it was asked for and is known."""
    files: int = 1
    """The number of files that were read together."""
    empty_files: int = 0
    """The number of files that have a schema and no rows."""

    @property
    def has_values(self) -> bool:
        """Return whether there was a rating column; otherwise every value is 1."""
        return self.ratings.has_values

    @property
    def duplicates(self) -> int:
        """Return how many rows repeat a (user, item) pair and were merged into one."""
        return self.repeats.rows

    @property
    def raters(self) -> Ids:
        """Return all users who occur in the ratings."""
        return self.ratings.users

    @property
    def all_below(self) -> bool:
        """Return whether the threshold leaves no rating."""
        return not len(self.ratings)

    def counted(self, listed: Ids | None, universe: Ids | None) -> int:
        """Return the number of ratings of these users and items; None means all of them."""
        ratings = self.ratings
        users, items = (
            np.ones(len(ids), dtype=bool)
            if wanted is None
            else np.fromiter(map(set(wanted).__contains__, ids), dtype=bool, count=len(ids))
            for ids, wanted in ((ratings.users, listed), (ratings.items, universe))
        )
        counts = users[entry_rows(ratings.matrix)] & items[ratings.matrix.indices]
        return int(counts.sum())

    @property
    def stars(self) -> tuple[float, float] | None:
        """Return the fewest and the most stars where the ratings look like stars, see :func:`stars_of`."""
        return stars_of(self.rating_range, self.half_steps)

    def summary(self) -> str:
        """Return a few lines for people.

        >>> r = Ratings.from_triples(["a"], ["x"], [4.0])
        >>> reading = RatingsFile(r, Path("r.csv"), 3, Repeats(1, True, 0), (("rated below 3", 1),), (2.0, 4.0))
        >>> print(reading.summary())
        r.csv: 3 rows, 1 users, 1 items, 1 ratings
          duplicates: 1 rows repeat a (user, item) pair; the latest counts, by the time column
          dropped: 1 rated below 3
          ratings range from 2 to 4
        """
        return str(
            Summary(
                file=self.file,
                rows=self.rows,
                users=len(self.ratings.users),
                items=len(self.ratings.items),
                ratings=len(self.ratings),
                repeats=self.repeats,
                dropped=self.dropped,
                rating_range=self.rating_range,
                has_values=self.has_values,
                bad_rows=self.bad_rows,
                files=self.files,
                empty_files=self.empty_files,
            )
        )


def read_ratings_file(
    path: AnyPath | Query,
    *,
    columns: Columns | str | None = None,
    threshold: float | None = None,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    format: str | None = None,
    skip_bad_rows: bool = False,
    most_bad_rows: float = MOST_BAD_ROWS,
    with_times: bool = False,
) -> RatingsFile:
    r"""Read one or many files of ratings, and count what was merged or left out; file names show the format.

    Files that are read together have one schema, and give the same result as one file with all their rows. If a (user,
    item) pair occurs more than once, the latest row counts, and among equal times, or without times, the largest value.
    No row decides how another is read: JSON lines must have a user, an item and a rating each, ``.dat`` files four
    fields, unless ``columns`` says otherwise.

    Args:
        path: ``.csv``, ``.tsv``, ``.inter``, ``.dat`` (``::``), ``.jsonl``/``.ndjson``/``.json`` (also with
            ``.gz``), or ``.parquet``; with a ``delimiter`` any other name is delimited text too. A folder means all
            files in it and in its subfolders (``country=de``), a pattern (``ratings/*.parquet``) all files that match,
            and ``-`` standard input. Or a :class:`~pricdr.data.reading.query.Query`.
        columns: The columns to read; found by name by default.
        threshold: Keep only pairs rated at least this; users and items without such a pair stay, unrated, even if that
            is all of them. The rating column is then required.
        delimiter: The separator of fields in delimited text, where the file name does not show it.
        encoding: The character encoding of a text file.
        format: The format of the files, where their names do not show it; standard input is CSV by default.
        skip_bad_rows: Leave out rows that cannot be used (too short, an empty id, a rating that is not a number)
            instead of refusing the file; they are counted.
        most_bad_rows: The largest share of rows that may be bad; with more the file is still refused.
        with_times: Also return the time of each rating.

    Raises:
        InputError: The file cannot be used; the message names the file, the place, the value and the rule.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "r.csv"
    ...     _ = file.write_text("user,item,rating\nbob,x,5\nal,y,2\nbob,x,1\n")
    ...     content = read_ratings_file(file, threshold=3)
    >>> content.ratings.users, content.duplicates, content.dropped, content.rating_range
    (('al', 'bob'), 1, (('rated below 3', 1),), (1.0, 5.0))
    """
    options = ReadOptions.of(
        columns=columns,
        delimiter=delimiter,
        encoding=encoding,
        format=format,
        skip_bad_rows=skip_bad_rows,
        most_bad_rows=most_bad_rows,
        need_rating=threshold is not None,
    )
    given = path if isinstance(path, Query) else find_inputs(Path(path))
    with Workspace.opened(Path(gettempdir())) as workspace, opened_table(given, options, workspace) as table:
        encoded = encode(table, need_times=with_times)
    ratings, times = encoded.ratings, encoded.times
    dropped = [("blank lines", table.blank_lines)] if table.blank_lines else []
    # After merging, so that the same row of a pair decides, whatever the threshold is.
    if threshold is not None:
        everything = ratings
        ratings = everything.at_least(threshold)
        times = None if times is None else times[everything.matrix.data >= threshold]
        below = len(everything) - len(ratings)
        dropped += [(f"rated below {threshold:g}", below)] if below else []
    return RatingsFile(
        ratings=ratings,
        file=table.name,
        rows=table.rows,
        repeats=encoded.repeats,
        dropped=tuple(dropped),
        rating_range=encoded.figures.range,
        bad_rows=table.bad_rows,
        half_steps=encoded.figures.half_steps,
        times=times,
        files=table.files,
        empty_files=table.empty_files,
    )


def read_ratings(
    path: AnyPath | Query,
    *,
    columns: Columns | str | None = None,
    threshold: float | None = None,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    format: str | None = None,
    skip_bad_rows: bool = False,
    most_bad_rows: float = MOST_BAD_ROWS,
    progress: Progress | bool = False,
) -> Ratings:
    r"""Return the ratings in a file; see :func:`read_ratings_file` for formats and arguments.

    ``progress=True`` shows that the file is being read.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "r.csv"
    ...     _ = file.write_text("user;item\n007;x\n")
    ...     read_ratings(file, delimiter=";").users
    ('007',)
    """
    with shown(progress, f"reading {path}"):
        return read_ratings_file(
            path,
            columns=columns,
            threshold=threshold,
            delimiter=delimiter,
            encoding=encoding,
            format=format,
            skip_bad_rows=skip_bad_rows,
            most_bad_rows=most_bad_rows,
        ).ratings


def read_ids(path: AnyPath) -> tuple[str, ...]:
    r"""Read the ids of ``users.txt`` or ``items.txt``: one per line, byte for byte, in the order of the file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "users.txt"
    ...     _ = file.write_bytes(b"007\r\n bob\n")
    ...     read_ids(file)
    ('007', ' bob')
    """
    file = Path(path)
    if file == STANDARD_INPUT:
        raise file_refusal(file, "a list of ids must be a file; only ratings are read from there")
    _require_room_for_ids(file)
    # An id may consist of spaces: ids are kept byte for byte.
    ids = read_text(file, blanks_count=True).rstrip(b"\r\n").decode().split("\n")
    line_of: dict[str, int] = {}
    for line, raw in enumerate(ids, start=1):
        name = raw.removesuffix("\r")
        if name == "":  # a list that lost a line would shift every row after it
            raise refusal(file, f"line {line} is blank; every line must hold one id")
        if fault := id_fault(name):
            raise refusal(file, f"line {line}: the id {fault}")
        if line_of.setdefault(name, line) != line:
            raise refusal(file, f"line {line} repeats the id {shorten(name)} of line {line_of[name]}")
    return tuple(line_of)


def _require_room_for_ids(file: Path) -> None:
    """Refuse a list that would take more memory than the limit, estimated from its size and its first lines."""
    with explaining_os_errors(file), file.open("rb") as opened:
        size = os.fstat(opened.fileno()).st_size
        start = opened.read(_SAMPLE)
    ids = size * max(1, start.count(b"\n")) // max(1, len(start))
    require_memory(_BYTES_PER_LISTED_ID * ids + 3 * size, f"{named(file)}: a list of about {ids:,} ids")
