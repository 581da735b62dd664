"""Read public item features: one row per item, numeric columns or a column of tags."""

import os
from pathlib import Path
from tempfile import gettempdir
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pricdr.data.features import MOST_COLUMNS, ItemFeatures
from pricdr.data.ids import Ids
from pricdr.data.reading.fields import CSV, TSV, literal
from pricdr.data.reading.formats import INTEGERS, broken_parquet
from pricdr.data.reading.table import connected, escaped
from pricdr.data.reading.text_files import explaining_os_errors, refusal, shorten
from pricdr.data.tables import read_delimited
from pricdr.data.workspace import Workspace
from pricdr.errors import InputError
from pricdr.memory import memory_limit

_DIALECTS: Final = {".csv": CSV, ".tsv": TSV}
_NUMBERS: Final = (*INTEGERS, "FLOAT", "DOUBLE")
TAGS: Final = "tags"
"""The name of a column of tags, which are separated by bars: ``war|history``."""


def read_features(path: str | os.PathLike[str]) -> ItemFeatures:
    """Read the item features in a CSV, TSV (also .gz) or Parquet file with a column ``item``.

    The others are numbers, or there is one called ``tags``: text, tags separated by ``|``.
    """
    file = Path(path)
    columns = _columns(file)
    if "item" not in columns:
        names = shorten(", ".join(columns), 100)
        raise refusal(file, f"item features need a column called item, found {names}")
    items = _items(file, columns.pop("item"))
    if not columns:
        raise refusal(file, f"item features need numeric columns beside item, or one called {TAGS}")
    if len(columns) > MOST_COLUMNS:
        raise refusal(file, f"item features can have at most {MOST_COLUMNS:,} columns, got {len(columns):,}")
    try:
        if list(columns) == [TAGS]:
            tags = [[tag.strip() for tag in (text or "").split("|") if tag.strip()] for text in columns[TAGS]]
            return ItemFeatures.of_tags(items, list(map(tuple, tags)))
        numbers = [_numbers(file, name, values) for name, values in columns.items()]
        return ItemFeatures(items, np.column_stack(numbers))
    except InputError as error:
        if str(error).startswith(str(file)):
            raise
        raise refusal(file, str(error)) from error


def _items(file: Path, names: list[Any]) -> Ids:
    if not names:
        raise refusal(file, "item features need a row at least, and there is only a header")
    rows: dict[str, int] = {}
    for row, name in enumerate(names, start=1):
        if name is None or name == "":
            raise refusal(file, f"row {row}: every row of item features names its item")
        # Two rows of one item could contradict each other, and none would be the right one.
        if rows.setdefault(name, row) != row:
            raise refusal(file, f"row {row}: item {shorten(name)} has a row already")
    return tuple(rows)


def _numbers(file: Path, column: str, values: list[Any]) -> npt.NDArray[np.float64]:
    name, numbers = shorten(column), np.empty(len(values))
    for row, value in enumerate(values):
        if value is None or value == "":
            raise refusal(file, f"row {row + 1}: column {name} is empty, a number is needed in every row")
        try:
            numbers[row] = float(value)
        except ValueError as error:
            rule = f"a number in every row (or be the only one, {TAGS})"
            raise refusal(file, f"row {row + 1}: column {name} must hold {rule}, not {shorten(value)}") from error
        if not np.isfinite(numbers[row]):
            raise refusal(file, f"row {row + 1}: column {name} holds {numbers[row]}, a finite number is needed")
    return numbers


def _columns(file: Path) -> dict[str, list[Any]]:
    """Return the columns of a file by their names: text, or numbers where the file has types."""
    suffixes = [suffix for suffix in file.suffixes if suffix != ".gz"]
    kind = suffixes[-1].lower() if suffixes else ""
    if kind == ".parquet":
        return _parquet_columns(file)
    if kind in _DIALECTS:
        return read_delimited(file, _DIALECTS[kind], "item features")
    raise refusal(file, "item features are read from .csv, .tsv (also .gz) or .parquet")


def _parquet_columns(file: Path) -> dict[str, list[Any]]:
    import duckdb

    with explaining_os_errors(file), file.open("rb"):
        pass
    relation = f"read_parquet([{literal(escaped(file))}], hive_partitioning = false)"
    with Workspace.opened(Path(gettempdir())) as workspace, connected(workspace, [file], memory_limit()) as connection:
        try:
            described = connection.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
        except duckdb.Error:
            raise broken_parquet(file) from None
        if len(described) > MOST_COLUMNS + 1:
            raise refusal(file, f"item features can have at most {MOST_COLUMNS:,} columns, got {len(described) - 1:,}")
        for name, kind, *_ in described:
            _require_kind(file, name, kind)
        wanted = ", ".join(
            f"c{at}" if kind in _NUMBERS and name != "item" else f"c{at}::VARCHAR AS c{at}"
            for at, (name, kind, *_) in enumerate(described)
        )
        names = ", ".join(f"c{at}" for at in range(len(described)))
        try:
            rows = connection.execute(f"SELECT {wanted} FROM {relation} AS given({names})").fetchall()
        except duckdb.Error:
            raise broken_parquet(file) from None
    return {name: [row[at] for row in rows] for at, (name, *_) in enumerate(described)}


def _require_kind(file: Path, name: str, kind: str) -> None:
    text = kind == "VARCHAR" or kind.startswith("ENUM")
    if name == "item":
        if not text and kind not in INTEGERS:
            raise refusal(file, f"column item must hold ids, text or whole numbers, not {kind}")
    elif name == TAGS:
        if not text and kind != '"NULL"':
            raise refusal(file, f"column {TAGS} must be text, tags separated by bars, not {kind}")
    elif kind not in _NUMBERS:
        raise refusal(file, f"column {shorten(name)} must hold a number in every row (or be the only one, {TAGS})")
