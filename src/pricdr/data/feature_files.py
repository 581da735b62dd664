"""Reading public item features: one row per item, numeric columns or a column of tags."""

import os
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from pricdr.data.contents import read_text, reading, refusal, shorten
from pricdr.data.features import ItemFeatures
from pricdr.data.ratings import Ids

_SEPARATORS: Final = {".csv": ",", ".tsv": "\t"}
TAGS: Final = "tags"
"""The name of a column of tags, which are separated by bars: ``war|history``."""


def read_features(path: str | os.PathLike[str]) -> ItemFeatures:
    """The item features in a CSV, TSV (also .gz) or Parquet file with a column ``item``.

    The others are numbers, or there is one called ``tags``: text, tags separated by ``|``.
    """
    file = Path(path)
    frame = _frame(file)
    if "item" not in frame.columns:
        raise refusal(file, f"item features need a column called item, found {', '.join(map(shorten, frame.columns))}")
    if frame.is_empty() or frame["item"].null_count():
        raise refusal(file, "every row of item features names its item, and there must be one")
    items: Ids = tuple(frame["item"].cast(pl.String).to_list())
    others = [name for name in frame.columns if name != "item"]
    if others == [TAGS]:
        column = frame[TAGS].cast(pl.String).fill_null("").to_list()
        split = [tuple(tag.strip() for tag in text.split("|") if tag.strip()) for text in column]
        with reading(file):
            return ItemFeatures.of_tags(items, split)
    if not others:
        raise refusal(file, f"item features need numeric columns beside item, or one called {TAGS}")
    for name in others:
        if not frame[name].dtype.is_numeric() or frame[name].null_count():
            raise refusal(file, f"column {shorten(name)} must hold a number in every row (or be the only one, {TAGS})")
    with reading(file):
        return ItemFeatures(items, np.column_stack([frame[name].cast(pl.Float64).to_numpy() for name in others]))


def _frame(file: Path) -> pl.DataFrame:
    suffixes = [suffix for suffix in file.suffixes if suffix != ".gz"]
    kind = suffixes[-1].lower() if suffixes else ""
    try:
        if kind == ".parquet":
            with reading(file), file.open("rb") as opened:
                return pl.read_parquet(opened)
        if kind in _SEPARATORS:
            text = read_text(file)
            return pl.read_csv(text, separator=_SEPARATORS[kind], schema_overrides={"item": pl.String, TAGS: pl.String})
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise refusal(file, f"item features cannot be read: {shorten(error, 100)}") from error
    raise refusal(file, "item features are read from .csv, .tsv (also .gz) or .parquet")
