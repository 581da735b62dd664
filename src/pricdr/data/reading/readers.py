"""From files to ``Ratings``: every accepted format, one summary, one line for every refusal."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from pricdr.data.ids import id_fault
from pricdr.data.ratings import Ratings
from pricdr.data.reading.columns import AMAZON_2014, AMAZON_2018, Columns
from pricdr.data.reading.delimited import CSV, INTER, MOVIELENS, TSV, read_delimited
from pricdr.data.reading.jsonlines import read_json_lines
from pricdr.data.reading.parquet import read_parquet, write_ratings
from pricdr.data.reading.raw_ratings import RawRatings, encode, to_ratings
from pricdr.data.reading.text_files import read_text, refusal, shorten
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

AnyPath: TypeAlias = str | os.PathLike[str]
_DELIMITED = {".csv": CSV, ".tsv": TSV, ".inter": INTER, ".dat": MOVIELENS}
_JSON = (".jsonl", ".ndjson", ".json")


@dataclass(frozen=True)
class RatingsFile:
    """The ratings of one file and how they were read: for the screen of their owner, never for a release."""

    ratings: Ratings
    file: Path
    rows: int
    duplicates: int
    """Rows that repeat a (user, item) pair and were merged into one."""
    dropped: tuple[tuple[str, int], ...]
    """Why rows were left out, and how many."""
    rating_range: tuple[float, float] | None
    """Smallest and largest rating in the file, before any threshold."""

    @property
    def has_values(self) -> bool:
        """Return whether there was a rating column; otherwise every value is 1."""
        return self.ratings.has_values

    def summary(self) -> str:
        """Return a few lines for people.

        >>> r = Ratings.from_triples(["a"], ["x"], [4.0])
        >>> print(RatingsFile(r, Path("r.csv"), 3, 1, (("rated below 3", 1),), (2.0, 4.0)).summary())
        r.csv: 3 rows, 1 users, 1 items, 1 ratings
          duplicates: 1 rows repeat a (user, item) pair; the largest value counts
          dropped: 1 rated below 3
          ratings range from 2 to 4
        """
        counts = f"{self.rows:,} rows, {len(self.ratings.users):,} users, {len(self.ratings.items):,} items"
        lines = [f"{printable(str(self.file))}: {counts}, {len(self.ratings):,} ratings"]
        if self.duplicates:
            rule = "the largest value counts" if self.has_values else "they count once"
            lines.append(f"duplicates: {self.duplicates:,} rows repeat a (user, item) pair; {rule}")
        if self.dropped:
            lines.append("dropped: " + ", ".join(f"{count:,} {reason}" for reason, count in self.dropped))
        if self.rating_range is None:
            lines.append("no rating column read: each row counts as 1")
        else:
            lines.append("ratings range from {:g} to {:g}".format(*self.rating_range))
        return "\n  ".join(lines)


def read_ratings_file(
    path: AnyPath, *, columns: Columns | str | None = None, threshold: float | None = None
) -> RatingsFile:
    r"""Read one file of ratings, and count what was merged or left out; its name says its format.

    Args:
        path: ``.csv``, ``.tsv``, ``.inter``, ``.dat`` (``::``), ``.jsonl``/``.ndjson``/``.json`` (also with
            ``.gz``), or ``.parquet``.
        columns: Which columns to read; found by name when not given.
        threshold: Keep only pairs rated at least this; users and items with none of those stay, unrated, even if that
            is all of them. The rating column is then required.

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
    named = Columns.parse(columns) if isinstance(columns, str) else columns
    file = Path(path)
    raw = _raw_ratings(file, named, need_rating=threshold is not None)
    dropped = [("blank lines", raw.blank_lines)] if raw.blank_lines else []
    encoded = encode(raw)
    ratings = to_ratings(encoded, raw)
    # After merging, so that a pair counts if any of its rows is rated high enough.
    if threshold is not None:
        everything = len(ratings)
        ratings = ratings.at_least(threshold)
        dropped += [(f"rated below {threshold:g}", everything - len(ratings))] if everything > len(ratings) else []
    return RatingsFile(
        ratings=ratings,
        file=file,
        rows=raw.rows,
        duplicates=encoded.duplicates,
        dropped=tuple(dropped),
        rating_range=encoded.range,
    )


def read_ratings(
    path: AnyPath,
    *,
    columns: Columns | str | None = None,
    threshold: float | None = None,
    progress: Progress | bool = False,
) -> Ratings:
    r"""Return the ratings in a file, see :func:`read_ratings_file` for what it may hold; ``progress=True`` shows it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "r.csv"
    ...     _ = file.write_text("user,item\n007,x\n")
    ...     read_ratings(file).users
    ('007',)
    """
    with shown(progress, f"reading {path}"):
        return read_ratings_file(path, columns=columns, threshold=threshold).ratings


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


def _raw_ratings(file: Path, columns: Columns | None, *, need_rating: bool) -> RawRatings:
    kinds = [suffix.lower() for suffix in file.suffixes[-2:]]
    kind = kinds[-2] if len(kinds) == 2 and kinds[-1] == ".gz" else "".join(kinds[-1:])
    if kind == ".parquet" and kinds[-1] == kind:
        return read_parquet(file, columns, need_rating=need_rating)
    if kind in _DELIMITED:
        return read_delimited(file, read_text(file), _DELIMITED[kind], columns, need_rating=need_rating)
    if kind in _JSON:
        return read_json_lines(file, read_text(file), columns, need_rating=need_rating)
    accepted = ", ".join((*_DELIMITED, *_JSON))
    raise refusal(file, f"unknown kind of file; accepted are {accepted} (each also with .gz) and .parquet")
