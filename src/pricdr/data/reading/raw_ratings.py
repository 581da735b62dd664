"""Columns of text and numbers on their way to being ``Ratings``: checked, encoded, merged."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from pricdr.data.ids import CONTROLS, LONGEST_ID, id_fault
from pricdr.data.ratings import Ratings
from pricdr.data.reading.text_files import refusal, shorten
from pricdr.errors import InputError

Codes: TypeAlias = npt.NDArray[np.int32]
Floats: TypeAlias = npt.NDArray[np.float64]


@dataclass
class RawRatings:
    """The rows of one file or data frame, before anything is known about their values."""

    file: Path | str
    """Where the rows come from; text where that is no file."""
    rows: int
    columns: dict[str, "ColumnLoader"]
    """``user``, ``item`` (as :class:`CodedIds`) and perhaps ``rating`` (text or numbers), each loaded once."""
    line: Callable[[int], int | None] = field(default=lambda row: None)
    """The line in the file of a row counted from 0, where that is known."""
    blank_lines: int = 0
    filtered_by: str | None = None

    def take_ids(self, role: str) -> "CodedIds":
        """Load a column of ids and forget it: the strings of one column at a time are memory enough."""
        column = self.columns.pop(role)()
        return column if isinstance(column, CodedIds) else CodedIds.of(column)

    def take_ratings(self) -> pl.Series:
        """Load the ratings, and forget them likewise."""
        column = self.columns.pop("rating")()
        assert isinstance(column, pl.Series)
        return column

    def place(self, row: int) -> str:
        """Return a row, counted from 0, as people count it."""
        line = self.line(row)
        return f"row {row + 1}" if line is None else f"row {row + 1} (line {line})"


def in_memory(series: pl.Series) -> "ColumnLoader":
    """Return a loader of a column that is in memory already."""
    return lambda: series


class CodedIds(NamedTuple):
    """A column of text as positions into its distinct values, sorted by their UTF-8 bytes."""

    codes: Codes
    names: pl.Series

    @classmethod
    def of(cls, column: pl.Series) -> "CodedIds":
        """Encode a column in memory, which has no nulls."""
        names = column.unique().sort()
        # Enum over the sorted ids: the codes of a Categorical differ from run to run.
        return cls(column.cast(pl.Enum(names)).to_physical().to_numpy().astype(np.int32), names)


ColumnLoader: TypeAlias = Callable[[], CodedIds | pl.Series]


class EncodedRatings(NamedTuple):
    """Distinct (user, item) pairs as positions into sorted ids, and their values."""

    rows: Codes
    columns: Codes
    values: Floats | None
    users: pl.Series
    items: pl.Series
    duplicates: int
    range: tuple[float, float] | None


def encode(raw: RawRatings) -> EncodedRatings:
    """Check every id and value of ``raw`` and turn it into positions.

    Ids are sorted by their UTF-8 bytes, so the same rows give the same positions in any order, anywhere.

    >>> columns = {"user": ["b", "a"], "item": ["x", "x"], "rating": ["1", "2.5"]}
    >>> raw = RawRatings(Path("r.csv"), 2, {name: in_memory(pl.Series(c)) for name, c in columns.items()})
    >>> rows, _, values, users, *_ = encode(raw)
    >>> rows.tolist(), values.tolist(), users.to_list()
    ([1, 0], [1.0, 2.5], ['a', 'b'])
    """
    rows, users = _encode_ids(raw, "user")
    columns, items = _encode_ids(raw, "item")
    values = _numbers(raw) if "rating" in raw.columns else None
    spread = None if values is None else (float(values.min()), float(values.max()))
    merged = _merge(rows, columns, values, len(items))
    return EncodedRatings(*merged, users, items, raw.rows - len(merged[0]), spread)


def to_ratings(encoded: EncodedRatings, raw: RawRatings) -> Ratings:
    """Return the ratings of checked rows, with the filter that their file discloses."""
    values = np.ones(len(encoded.rows)) if encoded.values is None else encoded.values
    ratings = Ratings.from_codes(
        encoded.rows,
        encoded.columns,
        values,
        tuple(encoded.users.to_list()),
        tuple(encoded.items.to_list()),
        has_values=encoded.values is not None,
    )
    if raw.filtered_by is None:
        return ratings
    try:
        return ratings.disclosing(raw.filtered_by)
    except InputError as error:
        raise refusal(raw.file, str(error)) from error


def _encode_ids(raw: RawRatings, role: str) -> CodedIds:
    ids = raw.take_ids(role)
    names = ids.names
    wrong = (names == "") | names.str.contains(CONTROLS) | (names.str.len_chars() > LONGEST_ID)
    if wrong.any():
        row = int(wrong.to_numpy()[ids.codes].argmax())
        value = names[int(ids.codes[row])]
        raise refusal(raw.file, f"{raw.place(row)}: the {role} id {id_fault(value)}")
    return ids


def _numbers(raw: RawRatings) -> Floats:
    column = raw.take_ratings()
    text = column.dtype == pl.String
    # Not strictly, so that the row of the first bad value can be named.
    numbers = (column.str.strip_chars() if text else column).cast(pl.Float64, strict=False)
    wrong = ~numbers.is_finite().fill_null(False)
    if wrong.any():
        row = wrong.arg_max() or 0
        value = column[row]
        shown = "is empty" if value is None or value == "" else f"{shorten(value)} is not a finite number"
        raise refusal(raw.file, f"{raw.place(row)}: the rating {shown}")
    return numbers.to_numpy()


def _merge(rows: Codes, columns: Codes, values: Floats | None, n_items: int) -> tuple[Codes, Codes, Floats | None]:
    """Keep the largest value of every repeated (user, item) pair."""
    keys = rows.astype(np.int64) * n_items + columns
    # A sort is the cheapest way to learn that nothing repeats, as in most files.
    ordered = np.sort(keys)
    repeated = ordered[1:] == ordered[:-1]
    if not repeated.any():
        return rows, columns, values
    if values is None:
        kept, largest = np.unique(keys), None
    else:
        pairs = pl.DataFrame({"key": keys, "value": values})
        best = pairs.group_by("key").agg(pl.col("value").max()).sort("key")
        kept, largest = best["key"].to_numpy(), best["value"].to_numpy()
    at_row, at_column = np.divmod(kept, n_items)
    return at_row.astype(np.int32), at_column.astype(np.int32), largest
