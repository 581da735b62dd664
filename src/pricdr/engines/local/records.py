"""Store rows of ratings on disk in fixed width: the codes of user and item, and value and time if they matter."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pricdr.engines.local.workspace import ColumnFile, Workspace

Floats: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Records:
    """Some rows, column by column."""

    users: npt.NDArray[Any]
    items: npt.NDArray[Any]
    values: Floats | None
    seconds: Floats | None
    """The time of each row, -inf where it cannot be read."""

    def __len__(self) -> int:
        return len(self.users)

    def take(self, rows: npt.NDArray[Any] | slice) -> "Records":
        """Return some of the rows, by positions, a mask or a slice."""
        values = None if self.values is None else self.values[rows]
        seconds = None if self.seconds is None else self.seconds[rows]
        return Records(self.users[rows], self.items[rows], values, seconds)

    def followed_by(self, others: "Records") -> "Records":
        """Return these rows and then the others, which have the same columns."""
        return Records(
            np.concatenate((self.users, others.users)),
            np.concatenate((self.items, others.items)),
            None if self.values is None or others.values is None else np.concatenate((self.values, others.values)),
            None if self.seconds is None or others.seconds is None else np.concatenate((self.seconds, others.seconds)),
        )


@dataclass(frozen=True)
class Layout:
    """The columns that rows have besides user and item."""

    values: bool
    seconds: bool

    @property
    def width(self) -> int:
        """The bytes of a row."""
        return 8 + 8 * self.values + 8 * self.seconds


class RecordFile:
    """Rows on disk, one file for each column."""

    def __init__(self, workspace: Workspace, name: str, layout: Layout) -> None:
        self.layout = layout
        kinds = [("users", np.uint32), ("items", np.uint32)]
        columns = {kind: workspace.column(f"{name}-{kind}", dtype) for kind, dtype in kinds}
        for kind in ("values", "seconds"):
            if getattr(layout, kind):
                columns[kind] = workspace.column(f"{name}-{kind}", np.float64)
        self._columns: dict[str, ColumnFile] = columns

    def __len__(self) -> int:
        return len(self._columns["users"])

    def append(self, rows: Records) -> None:
        """Append rows."""
        for kind, column in self._columns.items():
            column.append(getattr(rows, kind))

    def write(self, position: int, rows: Records) -> None:
        """Write rows from ``position`` on."""
        for kind, column in self._columns.items():
            column.write(position, getattr(rows, kind))

    def read(self, start: int, stop: int) -> Records:
        """Return the rows from ``start`` up to ``stop``."""
        columns = {kind: column.read(start, stop) for kind, column in self._columns.items()}
        return Records(columns["users"], columns["items"], columns.get("values"), columns.get("seconds"))

    def chunks(self, start: int, stop: int, rows: int) -> Iterator[Records]:
        """Yield the rows from ``start`` up to ``stop``, at most ``rows`` at a time."""
        for at in range(start, stop, rows):
            yield self.read(at, min(at + rows, stop))

    def delete(self) -> None:
        """Delete the files."""
        for column in self._columns.values():
            column.delete()
