"""``ItemFeatures``: what the public knows about items, as numbers, kept apart from any ratings; and reading it."""

import os
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pricdr.arrays import Float64Array
from pricdr.data.ratings import Ids, position_of
from pricdr.data.reading.formats import CSV, INTEGERS, TSV
from pricdr.data.reading.text_files import refusal, shorten
from pricdr.data.tables import opened_parquet, read_delimited
from pricdr.errors import InputError

TAGS: Final = "tags"
"""The name of a column of tags, which are separated by bars: ``war|history``."""
MAX_COLUMNS: Final = 4096
_DIALECTS: Final = {".csv": CSV, ".tsv": TSV}
_ITEM: Final = "item"
_NUMBERS: Final = (*INTEGERS, "FLOAT", "DOUBLE")
_NUMBER_RULE: Final = f"a finite number is needed in every row (or be the only column, {TAGS})"
_KINDS: Final = {
    _ITEM: ((*INTEGERS, "VARCHAR", "ENUM"), "ids must be text or whole numbers"),
    TAGS: (("VARCHAR", "ENUM", '"NULL"'), "tags must be text, separated by bars"),
}
"""The types in Parquet of the columns that are no numbers, and the rule."""
_LARGEST: Final = 1e100
_ROUNDING: Final = 1e-12
"""Of the largest number: a row that is nearer to the mean than this differs from it by rounding alone."""


@dataclass(frozen=True, eq=False)
class ItemFeatures:
    """One row of finite numbers per item."""

    items: Ids
    rows: Float64Array

    def __post_init__(self) -> None:
        if self.rows.ndim != 2 or self.rows.shape[0] != len(self.items) or not self.rows.size:
            raise InputError(f"item features of shape {self.rows.shape} do not fit {len(self.items):,} items")
        if len(set(self.items)) != len(self.items):
            raise InputError("item features must have one row per item")
        if self.rows.shape[1] > MAX_COLUMNS:
            raise InputError(f"item features can have at most {MAX_COLUMNS:,} columns, got {self.rows.shape[1]:,}")
        if not np.isfinite(self.rows).all() or np.abs(self.rows).max() > _LARGEST:
            raise InputError("item features must be finite numbers below 1e100")

    @classmethod
    def of_tags(cls, items: Ids, tags: list[tuple[str, ...]]) -> "ItemFeatures":
        """Make a column for each tag, the 4,096 most frequent at most; a tag weighs more the fewer items have it."""
        counts = Counter(chain.from_iterable(map(set, tags)))
        # By frequency, then by name: the same tags in any order of rows.
        at = position_of(tuple(sorted(counts, key=lambda tag: (-counts[tag], tag))[:MAX_COLUMNS]))
        if not at:
            raise InputError("the item features hold no tag")
        rows = np.zeros((len(items), len(at)))
        for row, own in enumerate(tags):
            for tag in at.keys() & own:
                rows[row, at[tag]] = 1 + np.log(len(items) / counts[tag])
        return cls(items, rows)

    def leading(self, dim: int) -> npt.NDArray[np.float32]:
        """Project the centred features onto their ``dim`` leading principal directions, and scale rows to norm 1.

        Of a row of zeros nothing is known: it has no part in the mean, and stays. One that equals the mean becomes one.
        """
        known = self.rows.any(axis=1)
        largest = float(np.abs(self.rows).max()) or 1.0
        scaled = self.rows[known] / largest  # so that squares neither overflow nor vanish
        centred = scaled - scaled.mean(axis=0) if len(scaled) else scaled
        if dim < self.rows.shape[1]:
            _, vectors = np.linalg.eigh(centred.T @ centred)
            centred = centred @ vectors[:, ::-1][:, :dim]
        norms = np.sqrt(np.einsum("ij,ij->i", centred, centred))[:, None]
        rows = np.zeros((len(self.items), min(dim, self.rows.shape[1])), dtype=np.float32)
        rows[known] = np.divide(centred, norms, out=np.zeros_like(centred), where=norms > _ROUNDING)
        return rows


def read_features(path: str | os.PathLike[str]) -> ItemFeatures:
    """Read the item features in a CSV, TSV (also .gz) or Parquet file with a column ``item``.

    The others are numbers, or there is one called ``tags``: text, tags separated by ``|``.
    """
    file = Path(path)
    kind = next((suffix for suffix in reversed(file.suffixes) if suffix != ".gz"), "").lower()
    if kind == ".parquet":
        columns = _parquet_columns(file)
    elif kind in _DIALECTS:
        columns = read_delimited(file, _DIALECTS[kind], "item features")
    else:
        raise refusal(file, "item features are read from .csv, .tsv (also .gz) or .parquet")
    if _ITEM not in columns:
        raise refusal(file, f"item features need a column called {_ITEM}, found {shorten(', '.join(columns), 100)}")
    items = _items(file, columns.pop(_ITEM))
    if not columns:
        raise refusal(file, f"item features need numeric columns beside {_ITEM}, or one called {TAGS}")
    numbers = [] if list(columns) == [TAGS] else [_numbers(file, name, values) for name, values in columns.items()]
    try:
        if numbers:
            return ItemFeatures(items, np.column_stack(numbers))
        tags = [tuple(filter(None, map(str.strip, (text or "").split("|")))) for text in columns[TAGS]]
        return ItemFeatures.of_tags(items, tags)
    except InputError as error:
        raise refusal(file, str(error)) from error


def _items(file: Path, names: list[Any]) -> Ids:
    if not names:
        raise refusal(file, "item features need a row at least, and there is only a header")
    rows: dict[str, int] = {}
    for row, name in enumerate(names, start=1):
        if name is None or name == "":
            raise refusal(file, f"row {row}: every row of item features names its item")
        # Two rows of one item could contradict each other, and none would be the right one.
        if rows.setdefault(str(name), row) != row:
            raise refusal(file, f"row {row}: item {shorten(name)} has a row already")
    return tuple(rows)


def _numbers(file: Path, column: str, values: list[Any]) -> npt.NDArray[np.float64]:
    numbers = np.full(len(values), np.nan)
    for row, value in enumerate(values):
        with suppress(ValueError, TypeError):
            numbers[row] = float(value)
        if not np.isfinite(numbers[row]):
            shown = "is empty" if value in (None, "") else f"holds {shorten(value)}"
            raise refusal(file, f"row {row + 1}: column {shorten(column)} {shown}; {_NUMBER_RULE}")
    return numbers


def _parquet_columns(file: Path) -> dict[str, list[Any]]:
    with opened_parquet(file) as (connection, relation):
        described = connection.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
        if len(described) > MAX_COLUMNS + 1:
            raise refusal(file, f"item features can have at most {MAX_COLUMNS:,} columns, got {len(described) - 1:,}")
        for name, kind, *_ in described:
            accepted, rule = _KINDS.get(name, (_NUMBERS, _NUMBER_RULE))
            if kind.partition("(")[0] not in accepted:
                raise refusal(file, f"column {shorten(name)} holds {kind}; {rule}")
        rows = connection.execute(f"SELECT * FROM {relation}").fetchall()
    return {name: [row[at] for row in rows] for at, (name, *_) in enumerate(described)}
