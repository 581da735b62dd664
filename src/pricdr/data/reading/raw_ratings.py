"""Turn columns of text and numbers into ``Ratings``: check, encode and merge them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from pricdr.data.ids import CONTROLS, LONGEST_ID, id_fault
from pricdr.data.ratings import Ratings
from pricdr.data.reading.bad_rows import BadRows
from pricdr.data.reading.repeats import Repeats, merge
from pricdr.data.reading.text_files import refusal, shorten
from pricdr.data.reading.times import to_seconds
from pricdr.errors import InputError

Codes: TypeAlias = npt.NDArray[np.int32]
Floats: TypeAlias = npt.NDArray[np.float64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]


@dataclass
class RawRatings:
    """The rows of one file or data frame, not checked yet."""

    file: Path | str
    """The file that the rows come from, or a text that names another origin."""
    rows: int
    columns: dict[str, "ColumnLoader"]
    """``user``, ``item`` (as :class:`CodedIds`) and perhaps ``rating`` and ``time`` (text or numbers), each loaded
    once."""
    line: Callable[[int], int | None] = field(default=lambda row: None)
    """The line in the file of a row counted from 0, where that is known."""
    number: Callable[[int], int] = field(default=lambda row: row)
    """The number of a row in the file, both counted from 0; they differ after rows that were skipped."""
    blank_lines: int = 0
    schema: "Schema" = ()
    """The name and type of every column of the file, to compare it with other files."""
    filtered_by: str | None = None
    time_asked: bool = False
    """Whether the caller named the time column, so that a time that cannot be read makes a row bad."""
    bad_rows: BadRows | None = None
    """Collects bad rows, which are skipped; without it the first one is refused."""
    coded: bool = True
    """Whether ids are encoded when they are loaded; a stream keeps them as text."""
    done: int = 0
    """In a stream: about how many bytes of all files have been read, including these rows."""

    def take_ids(self, role: str) -> "CodedIds":
        """Load a column of ids and forget it, so that only one column of strings is in memory at a time."""
        column = self.columns.pop(role)()
        if isinstance(column, CodedIds):
            return column
        return CodedIds.of(column) if self.coded else CodedIds.of_rows(column)

    def take(self, role: str) -> pl.Series | None:
        """Load the ratings or the times, and forget them; None where there is no such column."""
        load = self.columns.pop(role, None)
        column = None if load is None else load()
        assert not isinstance(column, CodedIds)
        return column

    def place(self, row: int) -> str:
        """Return the place of a row, counted from 0, for messages: its number from 1, and its line."""
        return place(self.number(row), self.line(row))


def place(row: int, line: int | None) -> str:
    """Return a row of a file, counted from 0, for messages: its number from 1, and its line where that is known."""
    return f"row {row + 1}" if line is None else f"row {row + 1} (line {line})"


def constant(value: str | None, rows: int) -> "ColumnLoader":
    """Return a loader of a column with the same value in every row."""
    return lambda: pl.repeat(value, rows, dtype=pl.String, eager=True)


def in_memory(series: pl.Series) -> "ColumnLoader":
    """Return a loader of a column that is in memory already."""
    return lambda: series


Schema: TypeAlias = tuple[tuple[str, str], ...]
Beside: TypeAlias = Mapping[str, str | None]
"""Columns that partition folders add to a file, each with one value, as far as the caller asks for them."""
NOTHING_BESIDE: Final[Beside] = MappingProxyType({})


class CodedIds(NamedTuple):
    """A column of text as positions into its distinct values, sorted by their UTF-8 bytes; -1 where it is null."""

    codes: Codes
    names: pl.Series

    @classmethod
    def of(cls, column: pl.Series) -> "CodedIds":
        """Encode a column in memory."""
        names = column.drop_nulls().unique().sort()
        # Enum over the sorted ids: the codes of a Categorical differ from run to run.
        codes = column.cast(pl.Enum(names)).to_physical().cast(pl.Int64).fill_null(-1)
        return cls(codes.to_numpy().astype(np.int32), names)

    @classmethod
    def of_rows(cls, column: pl.Series) -> "CodedIds":
        """Return a column unencoded: each row is its own value, to be checked and passed on as text."""
        codes = np.arange(len(column), dtype=np.int32)
        return cls(np.where(column.is_null(), -1, codes) if column.null_count() else codes, column)

    def only(self, keep: BoolArray) -> "CodedIds":
        """Return the rows where ``keep`` is true, and the values that occur in them."""
        used, codes = np.unique(self.codes[keep], return_inverse=True)
        return CodedIds(codes.astype(np.int32), self.names.gather(used))


ColumnLoader: TypeAlias = Callable[[], CodedIds | pl.Series]


class CheckedRows(NamedTuple):
    """Rows, each checked; pairs may repeat."""

    users: CodedIds
    items: CodedIds
    values: Floats | None
    times: pl.Series | None
    """As they were read."""


class EncodedRatings(NamedTuple):
    """Distinct (user, item) pairs as positions into sorted ids, and their values."""

    rows: Codes
    columns: Codes
    values: Floats | None
    users: pl.Series
    items: pl.Series
    repeats: Repeats
    range: tuple[float, float] | None
    half_steps: bool
    """Whether all values are whole or half numbers, as stars are."""
    times: Floats | None
    """The time of each pair, NaN where it cannot be read; None without a time column, or where not needed."""

    def times_in_order(self) -> Floats | None:
        """Return the times in the order of the matrix: by user, then by item."""
        return None if self.times is None else self.times[np.lexsort((self.columns, self.rows))]


def encode(raw: RawRatings, *, need_times: bool = False) -> EncodedRatings:
    """Check every id and value of ``raw`` and encode ids as positions; bad rows are refused or skipped.

    Ids are sorted by their UTF-8 bytes, so the same rows give the same positions, in any order and on any machine.

    >>> columns = {"user": ["b", "a"], "item": ["x", "x"], "rating": ["1", "2.5"]}
    >>> raw = RawRatings(Path("r.csv"), 2, {name: in_memory(pl.Series(c)) for name, c in columns.items()})
    >>> rows, _, values, users, *_ = encode(raw)
    >>> rows.tolist(), values.tolist(), users.to_list()
    ([1, 0], [1.0, 2.5], ['a', 'b'])
    """
    return encode_rows(check(raw), raw.file, need_times=need_times)


def check(raw: RawRatings) -> CheckedRows:
    """Check every id and value of ``raw``; bad rows are refused or skipped, which may leave no row."""
    faults = _Faults(raw)
    users, items = (faults.checked_ids(role) for role in ("user", "item"))
    values = faults.checked_ratings()
    times = faults.checked_times()
    if (keep := faults.skipped()) is not None:
        users, items = users.only(keep), items.only(keep)
        values = None if values is None else values[keep]
        times = None if times is None else times.filter(pl.Series(keep))
    return CheckedRows(users, items, values, times)


def joined(parts: Sequence[CheckedRows]) -> CheckedRows:
    """Return the rows of several files, one after another, over the ids of all of them."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    return CheckedRows(
        _joined_ids([part.users for part in parts]),
        _joined_ids([part.items for part in parts]),
        None if first.values is None else np.concatenate([part.values for part in parts if part.values is not None]),
        None if first.times is None else pl.concat([part.times for part in parts if part.times is not None]),
    )


def _joined_ids(parts: Sequence[CodedIds]) -> CodedIds:
    all_names = pl.concat([part.names for part in parts])
    names = all_names.unique().sort()
    # All parts in one cast: a cast for each would index all names again, which takes parts times users.
    codes = all_names.cast(pl.Enum(names)).to_physical().to_numpy().astype(np.int32)
    by_part = np.split(codes, np.cumsum([len(part.names) for part in parts])[:-1])
    return CodedIds(np.concatenate([new[part.codes] for new, part in zip(by_part, parts, strict=True)]), names)


def encode_rows(rows: CheckedRows, file: Path | str, *, need_times: bool = False) -> EncodedRatings:
    """Merge the repeated pairs of checked rows; refuse ``file`` if there is no row."""
    users, items, values, times = rows
    if not len(users.codes):
        raise refusal(file, "no row of it can be used")
    # Without ratings all rows of a pair are the same, and it does not matter which is the latest.
    pairs = merge(users.codes, items.codes, values, times, len(items.names))
    spread = None if values is None else (float(values.min()), float(values.max()))
    half_steps = values is not None and bool((np.rint(2 * values) == 2 * values).all())
    kept_times = None
    if need_times and times is not None:
        kept_times = to_seconds(times.filter(pl.Series(pairs.kept))).fill_null(np.nan).to_numpy()
    return EncodedRatings(
        pairs.rows,
        pairs.columns,
        pairs.values,
        users.names,
        items.names,
        pairs.repeats,
        spread,
        half_steps,
        kept_times,
    )


def to_ratings(encoded: EncodedRatings, file: Path | str, filtered_by: str | None = None) -> Ratings:
    """Return the ratings of checked rows, with the filter that their ``file`` discloses."""
    values = np.ones(len(encoded.rows)) if encoded.values is None else encoded.values
    ratings = Ratings.from_codes(
        encoded.rows,
        encoded.columns,
        values,
        tuple(encoded.users.to_list()),
        tuple(encoded.items.to_list()),
        has_values=encoded.values is not None,
    )
    if filtered_by is None:
        return ratings
    try:
        return ratings.disclosing(filtered_by)
    except InputError as error:
        raise refusal(file, str(error)) from error


class _Faults:
    """Finds the rows that cannot be used; refuses the first, or collects all of them where they may be skipped."""

    def __init__(self, raw: RawRatings) -> None:
        self._raw = raw
        self._found: list[tuple[BoolArray, Callable[[int], str]]] = []

    def checked_ids(self, role: str) -> CodedIds:
        ids = self._raw.take_ids(role)
        names = ids.names
        wrong = (names == "") | names.str.contains(CONTROLS) | (names.str.len_chars() > LONGEST_ID)
        # One more at the end, which -1 points to: a null is not an id either.
        bad = np.append(wrong.fill_null(True).to_numpy(), True)[ids.codes]

        def fault(row: int) -> str:
            code = int(ids.codes[row])
            return f"the {role} id {'is empty (null)' if code < 0 else id_fault(names[code])}"

        self._add(bad, fault)
        return ids

    def checked_ratings(self) -> Floats | None:
        column = self._raw.take("rating")
        if column is None:
            return None
        # Not a strict cast, so that the row of the first bad value can be named.
        text = column.dtype == pl.String
        numbers = (column.str.strip_chars() if text else column).cast(pl.Float64, strict=False)

        def fault(row: int) -> str:
            value = column[row]
            empty = value is None or value == ""
            return f"the rating {'is empty' if empty else f'{shorten(value)} is not a finite number'}"

        self._add(~numbers.is_finite().fill_null(False).to_numpy(), fault)
        return numbers.to_numpy()

    def checked_times(self) -> pl.Series | None:
        """Return the times unchanged; one that cannot be read is a fault only where the caller named the column."""
        column = self._raw.take("time")
        if column is not None and self._raw.time_asked:
            rule = "is not a time (a number, or a date such as 2024-05-31 or 2024-05-31T12:00:00Z)"
            self._add(to_seconds(column).is_null().to_numpy(), lambda row: f"the time {shorten(column[row])} {rule}")
        return column

    def skipped(self) -> BoolArray | None:
        """Return a mask of the rows that are left without the bad ones; None where all are."""
        raw, total = self._raw, self._raw.rows
        if raw.bad_rows is None:
            return None
        total += raw.bad_rows.count  # those that were skipped when the file was parsed
        bad = np.logical_or.reduce([mask for mask, _ in self._found])
        for row in np.flatnonzero(bad).tolist():
            fault = next(fault for mask, fault in self._found if mask[row])
            raw.bad_rows.add(raw.number(row), f"{raw.place(row)}: {fault(row)}")
        raw.bad_rows.require_few(raw.file, total)
        return ~bad if bad.any() else None

    def _add(self, bad: BoolArray, fault: Callable[[int], str]) -> None:
        if self._raw.bad_rows is None and bad.any():
            row = int(bad.argmax())
            raise refusal(self._raw.file, f"{self._raw.place(row)}: {fault(row)}")
        self._found.append((bad, fault))
