"""Encode ids as small whole numbers, in the order of their first occurrence, the same in every batch."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from pricdr.errors import InputError

Codes: TypeAlias = npt.NDArray[np.uint32]
Positions: TypeAlias = npt.NDArray[np.int32]


class IdCodes:
    """The codes of all users, or of all items. Memory grows with them, not with the rows they occur in."""

    def __init__(self) -> None:
        # Not polars' global categories: their codes would depend on what else the process has read.
        self._categories = pl.Categories.random()
        # polars forgets categories as soon as no column uses them.
        self._anchor = pl.Series([], dtype=pl.String).cast(pl.Categorical(self._categories))
        self._rows = np.zeros(0, dtype=np.int64)

    def of(self, ids: pl.Series | Sequence[str]) -> Codes:
        """Return the code of every id; new ids get the next codes."""
        column = ids if isinstance(ids, pl.Series) else pl.Series(ids, dtype=pl.String)
        codes = column.cast(pl.Categorical(self._categories)).to_physical().to_numpy()
        if len(codes) and int(codes.max()) >= len(self._rows):
            grown = np.zeros(max(int(codes.max()) + 1, 2 * len(self._rows)), dtype=np.int64)
            grown[: len(self._rows)] = self._rows
            self._rows = grown
        return codes

    def count(self, codes: Codes) -> None:
        """Count one more row for each of these codes."""
        np.add.at(self._rows, codes, 1)

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """The number of rows counted for each code."""
        return self._rows

    def __len__(self) -> int:
        return len(self._categories.to_series())

    def letters(self) -> int:
        """Return the size of all ids as text, in bytes."""
        return int(self._categories.to_series().str.len_bytes().sum())

    def names(self) -> pl.Series:
        """Return the ids that occur in a row, sorted by their UTF-8 bytes, as in all engines."""
        names = self._categories.to_series()
        return names.filter(pl.Series(self._rows[: len(names)] > 0)).sort()

    def positions(self, ids: Sequence[str]) -> Positions:
        """Return for every code the position of its id in ``ids``, or -1 if it is not among them."""
        codes = self.of(ids)
        positions = np.full(len(self._rows), -1, dtype=np.int32)
        positions[codes] = np.arange(len(codes), dtype=np.int32)
        if int((positions >= 0).sum()) != len(codes):
            repeated = next(name for at, name in enumerate(ids) if positions[codes[at]] != at)
            raise InputError(f"the list names {repeated!r} more than once")
        return positions
