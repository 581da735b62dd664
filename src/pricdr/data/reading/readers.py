"""From files to ``Ratings``: every accepted format, one summary, one line for every refusal."""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np

from pricdr.data.ids import Ids, id_fault
from pricdr.data.ratings import Ratings
from pricdr.data.reading.bad_rows import MOST_BAD_ROWS, BadRows
from pricdr.data.reading.columns import AMAZON_2014, AMAZON_2018, Columns
from pricdr.data.reading.delimited import CSV, INTER, MOVIELENS, TSV, parse_delimiter, read_delimited
from pricdr.data.reading.jsonlines import read_json_lines
from pricdr.data.reading.parquet import read_parquet, write_ratings
from pricdr.data.reading.raw_ratings import Floats, RawRatings, encode, to_ratings
from pricdr.data.reading.repeats import Repeats
from pricdr.data.reading.text_files import read_lines, read_text, refusal, require_encoding, shorten
from pricdr.errors import ParameterError, printable
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

AnyPath: TypeAlias = str | os.PathLike[str]
_DELIMITED = {".csv": CSV, ".tsv": TSV, ".inter": INTER, ".dat": MOVIELENS}
_JSON = (".jsonl", ".ndjson", ".json")
_MOST_STARS = 10


@dataclass(frozen=True)
class RatingsFile:
    """The ratings of one file and how they were read: for the screen of their owner, never for a release."""

    ratings: Ratings
    file: Path
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
        """Return everybody who occurs in the ratings."""
        return self.ratings.users

    @property
    def all_below(self) -> bool:
        """Return whether the threshold leaves no rating."""
        return not len(self.ratings)

    def counted(self, listed: Ids | None, universe: Ids | None) -> int:
        """Return how many ratings of these users and items there are; None stands for all of them."""
        ratings = self.ratings
        users, items = (
            np.ones(len(ids), dtype=bool)
            if wanted is None
            else np.fromiter(map(set(wanted).__contains__, ids), dtype=bool, count=len(ids))
            for ids, wanted in ((ratings.users, listed), (ratings.items, universe))
        )
        counts = np.repeat(users, np.diff(ratings.matrix.indptr)) & items[ratings.matrix.indices]
        return int(counts.sum())

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
        lines = [f"{printable(str(self.file))}: {counts}, {len(self.ratings):,} ratings"]
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
    path: AnyPath,
    *,
    columns: Columns | str | None = None,
    threshold: float | None = None,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    skip_bad_rows: bool = False,
    most_bad_rows: float = MOST_BAD_ROWS,
    with_times: bool = False,
) -> RatingsFile:
    r"""Read one file of ratings, and count what was merged or left out; its name says its format.

    Of a (user, item) pair that occurs more than once, the latest row counts where there is a time column, and otherwise
    the largest value.

    Args:
        path: ``.csv``, ``.tsv``, ``.inter``, ``.dat`` (``::``), ``.jsonl``/``.ndjson``/``.json`` (also with
            ``.gz``), or ``.parquet``; with a ``delimiter`` any other name is delimited text too.
        columns: Which columns to read; found by name when not given.
        threshold: Keep only pairs rated at least this; users and items with none of those stay, unrated, even if that
            is all of them. The rating column is then required.
        delimiter: What separates the fields of delimited text, where that is not what the name says.
        encoding: How a text file writes its characters.
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
    file = Path(path)
    bad_rows = BadRows(most_bad_rows) if skip_bad_rows else None
    form = _Form(
        Columns.parse(columns) if isinstance(columns, str) else columns,
        None if delimiter is None else parse_delimiter(delimiter),
        require_encoding(encoding),
        bad_rows,
    )
    raw = form.raw_ratings(file, need_rating=threshold is not None)
    rows = raw.rows + (0 if bad_rows is None else bad_rows.count)
    dropped = [("blank lines", raw.blank_lines)] if raw.blank_lines else []
    encoded = encode(raw, need_times=with_times)
    ratings, times = to_ratings(encoded, raw), encoded.times_in_order()
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
        rows=rows,
        repeats=encoded.repeats,
        dropped=tuple(dropped),
        rating_range=encoded.range,
        bad_rows=bad_rows,
        half_steps=encoded.half_steps,
        times=times,
    )


def read_ratings(
    path: AnyPath,
    *,
    columns: Columns | str | None = None,
    threshold: float | None = None,
    delimiter: str | None = None,
    encoding: str = "utf-8",
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


@dataclass(frozen=True)
class _Form:
    """What the caller says about how a file is written."""

    columns: Columns | None
    delimiter: str | None
    encoding: str
    bad_rows: BadRows | None

    def raw_ratings(self, file: Path, *, need_rating: bool) -> RawRatings:
        kinds = [suffix.lower() for suffix in file.suffixes[-2:]]
        kind = kinds[-2] if len(kinds) == 2 and kinds[-1] == ".gz" else "".join(kinds[-1:])
        if kind == ".parquet" and kinds[-1] == kind:
            self._require_text_file(file, "Parquet")
            return read_parquet(file, self.columns, need_rating=need_rating, bad_rows=self.bad_rows)
        if kind in _JSON:
            if self.delimiter is not None:
                raise ParameterError(f"--delimiter is for delimited text, and {file.name!r} is JSON lines")
            text = read_lines(file, encoding=self.encoding, substitute=self.bad_rows is not None)
            return read_json_lines(file, text, self.columns, need_rating=need_rating, bad_rows=self.bad_rows)
        if self.delimiter is not None:
            dialect = replace(_DELIMITED.get(kind, CSV) if kind != ".dat" else CSV, separator=self.delimiter)
        elif kind in _DELIMITED:
            dialect = _DELIMITED[kind]
        else:
            accepted = ", ".join((*_DELIMITED, *_JSON))
            rule = f"accepted are {accepted} (each also with .gz) and .parquet, or say --delimiter"
            raise refusal(file, f"unknown kind of file; {rule}")
        content = self._text(file)
        return read_delimited(file, content, dialect, self.columns, need_rating=need_rating, bad_rows=self.bad_rows)

    def _text(self, file: Path) -> bytes:
        return read_text(file, encoding=self.encoding, substitute=self.bad_rows is not None)

    def _require_text_file(self, file: Path, kind: str) -> None:
        for option, given in (("--delimiter", self.delimiter is not None), ("--encoding", self.encoding != "utf-8")):
            if given:
                raise ParameterError(f"{option} is for text files, and {file.name!r} is {kind}")
