"""From files to ``Ratings``: every accepted format, one summary, one line for every refusal."""

from dataclasses import dataclass
from pathlib import Path

from pricdr.data.ids import id_fault
from pricdr.data.ratings import Ratings
from pricdr.data.reading.all_rows import read_all, read_query
from pricdr.data.reading.bad_rows import MOST_BAD_ROWS, BadRows
from pricdr.data.reading.columns import AMAZON_2014, AMAZON_2018, Columns
from pricdr.data.reading.formats import Form
from pricdr.data.reading.inputs import AnyPath, find_inputs
from pricdr.data.reading.parquet import write_ratings
from pricdr.data.reading.query import Query
from pricdr.data.reading.raw_ratings import Floats, encode_rows, to_ratings
from pricdr.data.reading.repeats import Repeats
from pricdr.data.reading.text_files import named, read_text, refusal, shorten
from pricdr.errors import printable
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

_MOST_STARS = 10


@dataclass(frozen=True)
class RatingsFile:
    """The ratings of one file and how they were read: for the screen of their owner, never for a release."""

    ratings: Ratings
    file: Path | str
    """What was read; text where that is no file."""
    rows: int
    """All rows, bad ones included."""
    repeats: Repeats
    """What became of rows that repeat a (user, item) pair."""
    dropped: tuple[tuple[str, int], ...]
    """Why rows were left out, and how many."""
    rating_range: tuple[float, float] | None
    """Smallest and largest rating in the file, before any threshold."""
    bad_rows: BadRows | None = None
    """The rows that were skipped, where that was allowed."""
    half_steps: bool = False
    """Whether all ratings are whole or half numbers."""
    times: Floats | None = None
    """When each rating was made, in the order of ``ratings.matrix.data``, where that was asked for and is known."""
    files: int = 1
    """How many files were read together."""
    empty_files: int = 0
    """How many of them have a schema and no rows."""

    @property
    def has_values(self) -> bool:
        """Return whether there was a rating column; otherwise every value is 1."""
        return self.ratings.has_values

    @property
    def duplicates(self) -> int:
        """Return how many rows repeat a (user, item) pair and were merged into one."""
        return self.repeats.rows

    @property
    def stars(self) -> tuple[float, float] | None:
        """Return the fewest and the most stars where the ratings look like stars, of which the fewest are no like.

        None where even the fewest are more than half of the most: somebody left out the others before.
        """
        if self.rating_range is None or not self.half_steps:
            return None
        fewest, most = self.rating_range
        looks_like_stars = 0 <= fewest < most <= _MOST_STARS
        return self.rating_range if looks_like_stars and fewest <= most / 2 else None

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
        counts = f"{self.rows:,} rows, {len(self.ratings.users):,} users, {len(self.ratings.items):,} items"
        files = f"{self.files:,} files, " if self.files > 1 else ""
        lines = [f"{named(self.file)}: {files}{counts}, {len(self.ratings):,} ratings"]
        if self.empty_files:
            lines.append(f"files without rows: {self.empty_files:,}")
        if self.bad_rows is not None and self.bad_rows.count:
            lines.append(f"skipped: {self.bad_rows.count:,} bad rows; the first:")
            lines += [f"  {printable(fault)}" for fault in self.bad_rows.first]
        if self.duplicates:
            lines.append(f"duplicates: {self.duplicates:,} rows repeat a (user, item) pair; {self._rule()}")
        if self.dropped:
            lines.append("dropped: " + ", ".join(f"{count:,} {reason}" for reason, count in self.dropped))
        if self.rating_range is None:
            lines.append("no rating column read: each row counts as 1")
        else:
            lines.append("ratings range from {:g} to {:g}".format(*self.rating_range))
        return "\n  ".join(lines)

    def _rule(self) -> str:
        """Say which row of a repeated pair counts."""
        if not self.has_values:
            return "they count once"
        if not self.repeats.by_time:
            return "the largest value counts (there is no time column)"
        untimed = f"; {self.repeats.untimed:,} without a readable time count as the earliest"
        return "the latest counts, by the time column" + (untimed if self.repeats.untimed else "")


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
    r"""Read one or many files of ratings, and count what was merged or left out; their names say their format.

    Files that are read together have one schema, and give what one file with all their rows would give. Of a (user,
    item) pair that occurs more than once, the latest row counts where there is a time column, and otherwise the largest
    value.

    Args:
        path: ``.csv``, ``.tsv``, ``.inter``, ``.dat`` (``::``), ``.jsonl``/``.ndjson``/``.json`` (also with
            ``.gz``), or ``.parquet``; with a ``delimiter`` any other name is delimited text too. A folder stands for
            all files in it and in its folders (``country=de``), a pattern (``ratings/*.parquet``) for those that match,
            and ``-`` for standard input. Or a :class:`~pricdr.Query`.
        columns: Which columns to read; found by name when not given.
        threshold: Keep only pairs rated at least this; users and items with none of those stay, unrated, even if that
            is all of them. The rating column is then required.
        delimiter: What separates the fields of delimited text, where that is not what the name says.
        encoding: How a text file writes its characters.
        format: What the files are, where their names do not say it; standard input is CSV otherwise.
        skip_bad_rows: Leave out rows that cannot be used (too short, an empty id, a rating that is no number) instead
            of refusing the file; they are counted.
        most_bad_rows: The share of the rows that may be bad; with more the file is refused all the same.
        with_times: Also return when each rating was made.

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
    form = Form.of(columns, delimiter, encoding, format, skip_bad_rows=skip_bad_rows, need_rating=threshold is not None)
    bad_rows = BadRows(most_bad_rows) if skip_bad_rows else None
    file: Path | str
    if isinstance(path, Query):
        file, content = str(path), read_query(path, form, bad_rows)
    else:
        file = Path(path)
        content = read_all(find_inputs(file), form, bad_rows)
    dropped = [("blank lines", content.blank_lines)] if content.blank_lines else []
    encoded = encode_rows(content.checked, file, need_times=with_times)
    ratings, times = to_ratings(encoded, file, content.filtered_by), encoded.times_in_order()
    # After merging, so that of a pair one row decides, whatever the threshold is.
    if threshold is not None:
        everything = ratings
        ratings = everything.at_least(threshold)
        times = None if times is None else times[everything.matrix.data >= threshold]
        below = len(everything) - len(ratings)
        dropped += [(f"rated below {threshold:g}", below)] if below else []
    return RatingsFile(
        ratings=ratings,
        file=file,
        rows=content.rows,
        repeats=encoded.repeats,
        dropped=tuple(dropped),
        rating_range=encoded.range,
        bad_rows=bad_rows,
        half_steps=encoded.half_steps,
        times=times,
        files=content.files,
        empty_files=content.empty_files,
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
    r"""Return the ratings in a file, see :func:`read_ratings_file` for what it may hold and what the arguments mean.

    ``progress=True`` shows that it is being read.

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
    r"""Read the ids of ``users.txt`` or ``items.txt``: one a line, byte for byte, in the order of the file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "users.txt"
    ...     _ = file.write_bytes(b"007\r\n bob\n")
    ...     read_ids(file)
    ('007', ' bob')
    """
    file = Path(path)
    # An id may consist of blanks: ids are kept byte for byte.
    ids = read_text(file, blanks_count=True).rstrip(b"\r\n").decode().split("\n")
    at: dict[str, int] = {}
    for line, raw in enumerate(ids, start=1):
        name = raw.removesuffix("\r")
        if name == "":  # a list that lost a line would shift every row after it
            raise refusal(file, f"line {line} is blank; every line must hold one id")
        if fault := id_fault(name):
            raise refusal(file, f"line {line}: the id {fault}")
        if at.setdefault(name, line) != line:
            raise refusal(file, f"line {line} repeats the id {shorten(name)} of line {at[name]}")
    return tuple(at)
