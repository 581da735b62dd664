"""RatingsFile public item features: one row per item, numeric columns or a column of tags."""

import os
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from pricdr.data.features import MOST_COLUMNS, ItemFeatures
from pricdr.data.ratings import Ids
from pricdr.data.reading.parquet import opened, to_series
from pricdr.data.reading.text_files import read_text, refusal, shorten
from pricdr.errors import InputError
from pricdr.untrusted.parquet import As, Column

_SEPARATORS: Final = {".csv": ",", ".tsv": "\t"}
TAGS: Final = "tags"
"""The name of a column of tags, which are separated by bars: ``war|history``."""


def read_features(path: str | os.PathLike[str]) -> ItemFeatures:
    """Read the item features in a CSV, TSV (also .gz) or Parquet file with a column ``item``.

    The others are numbers, or there is one called ``tags``: text, tags separated by ``|``.
    """
    file = Path(path)
    frame = _frame(file)
    if "item" not in frame.columns:
        names = shorten(", ".join(frame.columns), 100)
        raise refusal(file, f"item features need a column called item, found {names}")
    items = _items(file, frame["item"])
    others = [name for name in frame.columns if name != "item"]
    if not others:
        raise refusal(file, f"item features need numeric columns beside item, or one called {TAGS}")
    tags = _tags(file, frame[TAGS]) if others == [TAGS] else None
    if tags is None and len(others) > MOST_COLUMNS:
        raise refusal(file, f"item features can have at most {MOST_COLUMNS:,} columns, got {len(others):,}")
    numbers = [] if tags is not None else [_numbers(file, frame[name]) for name in others]
    try:
        return ItemFeatures.of_tags(items, tags) if tags is not None else ItemFeatures(items, np.column_stack(numbers))
    except InputError as error:
        raise refusal(file, str(error)) from error


def _items(file: Path, column: pl.Series) -> Ids:
    if not len(column):
        raise refusal(file, "item features need a row at least, and there is only a header")
    if not (column.dtype == pl.String or column.dtype.is_integer()):
        raise refusal(file, f"column item must hold ids, text or whole numbers, not {column.dtype}")
    missing = column.is_null() | (column.cast(pl.String) == "")
    if missing.any():
        raise refusal(file, f"row {_first(missing)}: every row of item features names its item")
    # Two rows of one item could contradict each other, and none would be the right one.
    repeated = ~column.is_first_distinct()
    if repeated.any():
        at = _first(repeated)
        raise refusal(file, f"row {at}: item {shorten(column[at - 1])} has a row already")
    return tuple(column.cast(pl.String).to_list())


def _tags(file: Path, column: pl.Series) -> list[tuple[str, ...]]:
    """Return the tags of every item, none where the field is empty."""
    if column.dtype not in (pl.String, pl.Null):
        raise refusal(file, f"column {TAGS} must be text, tags separated by bars, not {column.dtype}")
    texts = column.cast(pl.String).fill_null("").to_list()
    return [tuple(tag.strip() for tag in text.split("|") if tag.strip()) for text in texts]


def _numbers(file: Path, column: pl.Series) -> npt.NDArray[np.float64]:
    name = shorten(column.name)
    if not column.dtype.is_numeric():
        raise refusal(file, f"column {name} must hold a number in every row (or be the only one, {TAGS})")
    if column.null_count():
        raise refusal(file, f"row {_first(column.is_null())}: column {name} is empty, a number is needed in every row")
    numbers = column.cast(pl.Float64).to_numpy()
    bad = ~np.isfinite(numbers)
    if bad.any():
        at = int(bad.argmax())
        raise refusal(file, f"row {at + 1}: column {name} holds {numbers[at]}, a finite number is needed")
    return numbers


def _decoded(file: Path) -> pl.DataFrame:
    """Return the columns of a Parquet file: text or numbers, and ids always as text."""
    with opened(file) as parquet:
        about = parquet.read().columns
        for column in about:
            _require_kind(file, column)
        if len(about) > MOST_COLUMNS + 1:
            raise refusal(file, f"item features can have at most {MOST_COLUMNS:,} columns, got {len(about) - 1:,}")
        wanted = [
            (at, As.TEXT if column.kind == "text" or column.name == "item" else As.NUMBERS)
            for at, column in enumerate(about)
        ]
        decoded = parquet.read(*wanted).decoded
    return pl.DataFrame({column.name: to_series(values) for column, values in zip(about, decoded, strict=True)})


def _require_kind(file: Path, column: Column) -> None:
    if column.name == "item":
        if column.kind not in ("text", "integers"):
            raise refusal(file, f"column item must hold ids, text or whole numbers, not {column.dtype}")
    elif column.name == TAGS:
        if column.kind != "text" and column.dtype != "Null":
            raise refusal(file, f"column {TAGS} must be text, tags separated by bars, not {column.dtype}")
    elif column.kind not in ("integers", "numbers"):
        name = shorten(column.name)
        raise refusal(file, f"column {name} must hold a number in every row (or be the only one, {TAGS})")


def _first(mask: pl.Series) -> int:
    """Return the first row where ``mask`` is true, counted from 1."""
    row = mask.arg_max()
    assert row is not None
    return row + 1


def _frame(file: Path) -> pl.DataFrame:
    suffixes = [suffix for suffix in file.suffixes if suffix != ".gz"]
    kind = suffixes[-1].lower() if suffixes else ""
    try:
        if kind == ".parquet":
            return _decoded(file)
        if kind in _SEPARATORS:
            text = read_text(file)
            header = pl.read_csv(text, separator=_SEPARATORS[kind], has_header=False, n_rows=1, infer_schema=False).row(
                0
            )
            repeated = next((name for name in header if header.count(name) > 1), None)
            if repeated is not None:
                raise refusal(file, f"the header names {shorten(repeated)} more than once")
            kinds = {name: pl.String for name in ("item", TAGS) if name in header}
            # All rows say what a column holds: whole numbers may come first and others later.
            return pl.read_csv(text, separator=_SEPARATORS[kind], schema_overrides=kinds, infer_schema_length=None)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise refusal(file, f"item features cannot be read: {shorten(error, 100)}") from error
    raise refusal(file, "item features are read from .csv, .tsv (also .gz) or .parquet")
