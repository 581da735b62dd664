"""Write ratings as Parquet, and read columns of text from files that this software wrote."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pricdr.data.csr import entry_rows
from pricdr.data.ratings import Ratings
from pricdr.data.reading.fields import identifier, literal
from pricdr.data.reading.formats import FILTERED, broken_parquet
from pricdr.data.reading.table import connected, escaped
from pricdr.data.reading.text_files import explaining_os_errors
from pricdr.data.workspace import Workspace
from pricdr.files import write_new
from pricdr.memory import memory_limit

if TYPE_CHECKING:
    import polars as pl

__all__ = ["FILTERED", "Text", "read_text_columns", "write_frame", "write_ratings"]


def write_ratings(path: Path, ratings: Ratings, *, metadata: Mapping[str, str] | None = None) -> None:
    """Write ``ratings`` as Parquet: ``user``, ``item`` and, where there are values, ``rating``.

    The same ratings give the same bytes. Users and items without a rating have no row in it.

    Args:
        path: A file that does not exist yet.
        ratings: The ratings to write, in the order of their users and items.
        metadata: Further key-value metadata; ``filtered_by`` is added under ``pricdr.filtered``.

    >>> import tempfile
    >>> from pricdr import read_ratings
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_ratings(Path(folder) / "r.parquet", Ratings.from_triples(["007"], ["x"]))
    ...     read_ratings(Path(folder) / "r.parquet").users
    ('007',)
    """
    filtered = {} if ratings.filtered_by is None else {FILTERED: ratings.filtered_by}
    matrix = ratings.matrix
    columns: dict[str, npt.NDArray[Any]] = {
        "user": np.array(ratings.users, dtype=object)[entry_rows(matrix)],
        "item": np.array(ratings.items, dtype=object)[matrix.indices],
    }
    if ratings.has_values:
        columns["rating"] = matrix.data
    write_columns(path, columns, {**(metadata or {}), **filtered})


def write_columns(path: Path, columns: Mapping[str, npt.NDArray[Any]], metadata: Mapping[str, str]) -> None:
    """Write columns of text (objects) and numbers as Parquet to a new file."""
    pairs = ", ".join(f"{literal(key)}: {literal(value)}" for key, value in metadata.items())
    options = "FORMAT parquet, COMPRESSION zstd" + (f", KV_METADATA {{{pairs}}}" if pairs else "")
    with Workspace.opened(Path(gettempdir())) as workspace, connected(workspace, [], memory_limit()) as connection:
        written = workspace.folder / "written.parquet"
        connection.register("columns", dict(columns))
        connection.execute(f"COPY (SELECT * FROM columns) TO {literal(str(written))} ({options})")
        write_new(path, written.read_bytes())


class Text(NamedTuple):
    """A column of text: its distinct values, and the position in them of every row, -1 where it is null."""

    values: tuple[str, ...]
    codes: npt.NDArray[np.int64]


def read_text_columns(file: Path, columns: Sequence[str]) -> list[Text]:
    """Read text columns of a file that this software wrote, as distinct values and positions in them."""
    import duckdb

    with explaining_os_errors(file), file.open("rb"):
        pass
    texts = []
    with Workspace.opened(Path(gettempdir())) as workspace, connected(workspace, [file], memory_limit()) as connection:
        relation = f"read_parquet([{literal(escaped(file))}], hive_partitioning = false)"
        try:
            for column in columns:
                rows = f"SELECT {identifier(column)}::VARCHAR AS id, row_number() OVER () AS n FROM {relation}"
                connection.execute(f"CREATE OR REPLACE TABLE texts AS {rows}")
                distinct = "SELECT DISTINCT id FROM texts WHERE id IS NOT NULL"
                numbered = f"(SELECT id, row_number() OVER (ORDER BY id) - 1 AS code FROM ({distinct})) AS numbered"
                values = connection.execute(f"SELECT id FROM {numbered} ORDER BY code").fetchnumpy()["id"]
                coded = f"SELECT coalesce(code, -1) AS code FROM texts LEFT JOIN {numbered} USING (id) ORDER BY n"
                codes = connection.execute(coded).fetchnumpy()["code"]
                texts.append(Text(tuple(values.tolist()), np.asarray(codes)))
        except duckdb.Error:
            raise broken_parquet(file) from None
    return texts


def write_frame(path: Path, frame: "pl.DataFrame") -> None:
    """Write a table into a folder that is being staged."""
    with path.open("wb") as file:  # not by its name: polars requires names in UTF-8
        frame.write_parquet(file)
