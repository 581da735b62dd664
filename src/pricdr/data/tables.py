"""Tables: columns to Parquet and CSV and back, through DuckDB, and out of here as a data frame of what is installed."""

import errno
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from pricdr.arrays import IntArray
from pricdr.data.csr import entry_rows
from pricdr.data.ratings import Ratings
from pricdr.data.reading.formats import FILTERED, Dialect, broken_parquet, escaped, identifier, literal, width_fault
from pricdr.data.reading.read import connected, create_ids, has_utf8_name
from pricdr.data.reading.text_files import explaining_os_errors, read_text, refusal, shorten
from pricdr.data.workspace import Workspace
from pricdr.errors import InputError, MissingExtraError, OutputError
from pricdr.files import new_file
from pricdr.memory import memory_limit

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Columns: TypeAlias = Mapping[str, npt.NDArray[Any]]
"""The columns of a table by name: text as objects, numbers, truth values; in a data frame also rows of a matrix."""
Library: TypeAlias = Literal["polars", "pandas", "pyarrow"]
_LIBRARIES: Final[tuple[Library, ...]] = ("polars", "pandas", "pyarrow")
_DISK_FAULTS: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)


def texts(names: Sequence[str], positions: npt.NDArray[Any] | slice = slice(None)) -> npt.NDArray[Any]:
    """Return a column of text: the names at these positions."""
    column: npt.NDArray[Any] = np.empty(len(names), dtype=object)
    column[:] = names
    return column[positions]


def columns_of(ratings: Ratings) -> Columns:
    """Return one row per rated pair: ``user`` and ``item`` as text and, where values mean something, ``rating``."""
    matrix = ratings.matrix
    pairs = {"user": texts(ratings.users, entry_rows(matrix)), "item": texts(ratings.items, matrix.indices)}
    return {**pairs, "rating": matrix.data} if ratings.has_values else pairs


def write_ratings(path: Path, ratings: Ratings, *, metadata: Mapping[str, str] | None = None) -> None:
    """Write rated pairs as Parquet: ``user``, ``item``, perhaps ``rating``; the same ratings give the same bytes."""
    filtered = {} if ratings.filtered_by is None else {FILTERED: ratings.filtered_by}
    write_table(path, columns_of(ratings), metadata={**(metadata or {}), **filtered})


def write_table(
    path: Path,
    given: Columns | Sequence[Path],
    *,
    select: str = "*",
    metadata: Mapping[str, str] | None = None,
    mode: int = 0o644,
    folder: Path | None = None,
) -> int:
    """Write columns, or all rows of Parquet files, to a new file, and return the number of rows.

    It is CSV if its name ends in .csv and else Parquet; the same table gives the same bytes, whatever the memory and
    the number of cores. ``select`` is SQL for what becomes of the columns. Until it is complete, it is kept in a
    private ``folder`` (by default in one of its own).
    """
    import duckdb

    rows, files = ("given", []) if isinstance(given, Mapping) else (_parquet(given), given)
    pairs = ", ".join(f"{literal(key)}: {literal(value)}" for key, value in (metadata or {}).items())
    form = "FORMAT csv, HEADER" if path.suffix == ".csv" else "FORMAT parquet, COMPRESSION zstd"
    options = form + (f", KV_METADATA {{{pairs}}}" if pairs else "")
    opened = Workspace.opened(Path(gettempdir())) if folder is None else nullcontext(Workspace(folder))
    with (
        opened as workspace,
        new_file(path, mode=mode) as file,
        connected(workspace, files, memory_limit()) as connection,
    ):
        written = workspace.folder / "written"
        try:
            if isinstance(given, Mapping):
                connection.register("given", dict(given))
            copy = f"COPY (SELECT {select} FROM {rows}) TO {literal(str(written))} ({options})"
            done = connection.execute(copy).fetchone()
        except (duckdb.Error, MemoryError) as error:  # its own messages quote rows
            faults = [os.strerror(code) for code in _DISK_FAULTS if os.strerror(code) in str(error)]
            reason = next(iter(faults), f"{type(error).__name__} in {workspace.folder}")
            raise OutputError(f"cannot write {path}: {reason}") from None
        with written.open("rb") as content:
            shutil.copyfileobj(content, file, 1 << 20)
    return int(done[0]) if done else 0


@contextmanager
def opened_parquet(file: Path) -> Iterator[tuple["DuckDBPyConnection", str]]:
    """Yield a connection, and a Parquet file as a relation in SQL; a file that turns out to be damaged is refused."""
    import duckdb

    with explaining_os_errors(file), file.open("rb"):
        pass
    with Workspace.opened(Path(gettempdir())) as workspace, connected(workspace, [file], memory_limit()) as connection:
        readable = file if has_utf8_name(file) else shutil.copyfile(file, workspace.folder / "read.parquet")
        try:
            yield connection, _parquet([readable])
        except duckdb.Error:
            raise broken_parquet(file) from None


def read_positions(file: Path, columns: Mapping[str, Sequence[str]]) -> list[IntArray]:
    """Return columns of ids as positions in these lists of distinct ids; any other id is refused."""
    found = []
    with opened_parquet(file) as (connection, relation):
        for column, ids in columns.items():
            create_ids(connection, "ids", ids)
            rows = f"SELECT {identifier(column)}::VARCHAR AS id, row_number() OVER () AS n FROM {relation}"
            connection.execute(f"CREATE OR REPLACE TEMP TABLE found AS SELECT * FROM ({rows}) LEFT JOIN ids USING (id)")
            if unknown := connection.execute("SELECT id FROM found WHERE code IS NULL ORDER BY n LIMIT 1").fetchone():
                raise InputError(f"{file} names the {column} {unknown[0]!r:.60}, which is not in the ratings")
            codes = connection.execute("SELECT code FROM found ORDER BY n").fetchnumpy()["code"]
            found.append(np.asarray(codes, dtype=np.int64))
    return found


def require_whole(file: Path) -> None:
    """Refuse a Parquet file that is damaged: every value of it is read."""
    with opened_parquet(file) as (connection, relation):
        connection.execute(f"SELECT max(COLUMNS(*)) FROM {relation}").fetchone()


def _parquet(files: Sequence[Path]) -> str:
    return f"read_parquet([{', '.join(literal(escaped(file)) for file in files)}], hive_partitioning = false)"


def read_delimited(file: Path, dialect: Dialect, what: str) -> dict[str, list[str]]:
    """Read a small text file with a header as columns of text; errors call its content ``what``."""
    rows: list[list[str]] = []
    for number, line in enumerate(read_text(file).decode().split("\n"), start=1):
        if line.strip("\r"):
            fields = dialect.split(line.removesuffix("\r"))
            split = [] if isinstance(fields, str) else fields
            fault = width_fault(len(split), len(rows[0]), header=True) if split and rows else None
            if not split or fault:
                raise refusal(file, f"{what} cannot be read: line {number} {fault or fields}")
            rows.append(split)
    header, *rows = rows
    if repeated := [name for name in header if header.count(name) > 1]:
        raise refusal(file, f"the header names {shorten(repeated[0])} more than once")
    return {name: [row[at] for row in rows] for at, name in enumerate(header)}


def to_frame(columns: Columns, library: Library | None = None) -> Any:  # noqa: ANN401 - of whatever library there is
    """Return a data frame of polars, pandas or pyarrow, the first one installed or ``library``; NaN becomes missing."""
    installed = [name for name in _LIBRARIES if library in (name, None) and find_spec(name)]
    if not installed:
        named = "polars, pandas or pyarrow, none of which is" if library is None else f"{library}, which is not"
        hint = f"pip install {library or _LIBRARIES[0]}"
        raise MissingExtraError(f"to_frame needs {named} installed: {hint}", name=library or _LIBRARIES[0])
    if installed[0] == "polars":
        import polars as pl

        data = {name: values.tolist() if values.dtype == object else values for name, values in columns.items()}
        kinds = {name: pl.String for name, values in columns.items() if values.dtype == object}
        return pl.DataFrame(data, schema_overrides=kinds, nan_to_null=True)
    if installed[0] == "pandas":
        import pandas as pd

        return pd.DataFrame({name: list(values) if values.ndim > 1 else values for name, values in columns.items()})
    import pyarrow as pa

    return pa.table({name: _arrow(values) for name, values in columns.items()})


def _arrow(values: npt.NDArray[Any]) -> Any:  # noqa: ANN401 - of pyarrow, which has no types
    import pyarrow as pa

    if values.ndim > 1:
        return pa.FixedSizeListArray.from_arrays(values.ravel(), values.shape[1])
    return pa.array(values, type=pa.string() if values.dtype == object else None, from_pandas=True)
