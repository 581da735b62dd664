"""``DiskMatrix``: a matrix of users x items on disk, on whose blocks works run on all cores."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pricdr.data.blocks import Convert, Numbers, RowWork, SumWork, Total, Whole
from pricdr.data.csr import CSR, sp
from pricdr.engines.local.sorting import SortedEntries
from pricdr.engines.local.workspace import Workspace
from pricdr.parallel import each_slice
from pricdr.progress import Progress, silent

BLOCK_ENTRIES: Final = 1 << 20
"""The most entries of a block with more than one user."""
BYTES_PER_ENTRY: Final = 64
"""Memory for each entry of a block while a work runs on it: index, value, units, and copies of them."""
LARGE: Final = 256 * 10**6
"""An array of rows with more bytes than this is kept in a file."""


class DiskMatrix:
    """Entries on disk, read block by block; every block is converted before a work gets it."""

    def __init__(self, entries: SortedEntries, workspace: Workspace, *converts: Convert, columns: int) -> None:
        self._entries, self._workspace, self._converts = entries, workspace, converts
        self.shape = entries.shape[0], columns

    def rows(
        self, work: RowWork, out: Numbers, *, block_rows: int, what: str = "", progress: Progress = silent
    ) -> None:
        """Fill ``out`` with the results of ``work`` for every user."""

        def fill(part: slice) -> None:
            out[part] = work(self._block(part), part.start)

        each_slice(self._cut(BLOCK_ENTRIES, block_rows), fill, what=what, progress=progress)

    def total(self, work: SumWork, *, what: str = "", progress: Progress = silent) -> Whole:
        """Return the sum of the results of ``work`` over all blocks."""
        total = Total()

        def add(part: slice) -> None:
            total.add(work(self._block(part), part.start))

        # Every block makes a whole sum, one row per item: with fewer entries than items most of it would be zeros.
        slices = self._cut(max(BLOCK_ENTRIES, self.shape[1]), self.shape[0]) or [slice(0, 0)]
        each_slice(slices, add, what=what, progress=progress)
        return total.sum

    def converted(self, convert: Convert, n_columns: int) -> "DiskMatrix":
        """Return the matrix of the converted blocks; each block is converted whenever it is read."""
        return DiskMatrix(self._entries, self._workspace, *self._converts, convert, columns=n_columns)

    def array(self, columns: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return an empty array with one row per user: in memory, or in a file if it is large."""
        shape = self.shape[0], columns
        if shape[0] * columns * np.dtype(dtype).itemsize <= LARGE:
            return np.empty(shape, dtype=dtype)
        return self._workspace.array(shape, dtype)

    def _cut(self, most_entries: int, most_rows: int) -> list[slice]:
        """Return slices with at most ``most_rows`` users and ``most_entries`` entries, or with a single user."""
        starts, users = self._entries.starts, self.shape[0]
        slices, at = [], 0
        while at < users:
            fits = int(np.searchsorted(starts, starts[at] + most_entries, side="right")) - 1
            stop = min(max(fits, at + 1), at + most_rows, users)
            slices.append(slice(at, stop))
            at = stop
        return slices

    def _block(self, part: slice) -> CSR:
        stored = self._entries
        starts = stored.starts[part.start : part.stop + 1]
        first, last = int(starts[0]), int(starts[-1])
        columns = stored.columns.read(first, last)
        values = np.ones(len(columns)) if stored.values is None else stored.values.read(first, last)
        shape = part.stop - part.start, stored.shape[1]
        block = sp.csr_array((values, columns, (starts - first).astype(np.int32)), shape=shape)
        for convert in self._converts:
            block = convert(block)
        return block

    def __repr__(self) -> str:
        """Show sizes only: ratings are private."""
        return f"DiskMatrix({self.shape[0]} users x {self.shape[1]} items)"
