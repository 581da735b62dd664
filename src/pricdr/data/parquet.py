"""Parquet: what ``prepare`` writes and what any other tool wrote."""

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import polars as pl

from pricdr.data.columns import Columns, find_named
from pricdr.data.contents import reading, refusal, shorten
from pricdr.data.ratings import Ratings
from pricdr.data.tables import Table
from pricdr.files import write_new

FILTERED = "pricdr.filtered"
"""The metadata key that carries ``Ratings.filtered_by`` from file to file."""


def read_parquet(file: Path, columns: Columns | None, *, need_rating: bool) -> Table:
    """The user, item and rating columns of a Parquet file; whole numbers become text."""
    with reading(file), file.open("rb"):
        pass  # what the system has to say comes before what polars has to say
    with _understanding(file):
        # No globs and no hive folders: the name is a name, whatever it holds.
        scan = pl.scan_parquet(file.absolute(), glob=False, hive_partitioning=False)
        schema = scan.collect_schema()
        rows = scan.select(pl.len()).collect().item()
        with file.open("rb") as raw:
            metadata = pl.read_parquet_metadata(raw)
    names, types = schema.names(), schema.dtypes()
    found = find_named(file, names, columns, need_rating=need_rating)
    places = {role: at for role, at in found._asdict().items() if at is not None}
    for role, at in places.items():
        _require_type(file, role, names[at], types[at])
    if rows == 0:
        raise refusal(file, "the file has columns and no rows")
    getters = {role: _getter(file, role, at) for role, at in places.items()}
    return Table(file, rows, getters, filtered_by=metadata.get(FILTERED))


def write_ratings(path: Path, ratings: Ratings, *, metadata: Mapping[str, str] | None = None) -> None:
    """Write ``ratings`` as Parquet: ``user``, ``item`` and, where they mean something, ``rating``.

    The same ratings give the same bytes. Users and items without a rating have no row in it.

    Args:
        path: A file that does not exist yet.
        ratings: What to write, in the order of its users and items.
        metadata: Further key-value metadata; ``filtered_by`` is added under ``pricdr.filtered``.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_ratings(Path(folder) / "r.parquet", Ratings.from_triples(["007"], ["x"]))
    ...     pl.read_parquet(Path(folder) / "r.parquet").rows(named=True)
    [{'user': '007', 'item': 'x'}]
    """
    matrix = ratings.matrix
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    columns = {
        "user": pl.Series(ratings.users, dtype=pl.String).gather(rows),
        "item": pl.Series(ratings.items, dtype=pl.String).gather(matrix.indices),
    }
    if ratings.has_values:
        columns["rating"] = pl.Series(matrix.data)
    filtered = {} if ratings.filtered_by is None else {FILTERED: ratings.filtered_by}
    buffer = io.BytesIO()
    pl.DataFrame(columns).write_parquet(buffer, metadata={**(metadata or {}), **filtered})
    write_new(path, buffer.getvalue())


@contextmanager
def _understanding(file: Path) -> Iterator[None]:
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, OverflowError) as error:
        # A panic is how the decoder meets some corrupt footers.
        reason = (str(error).splitlines() or [""])[0]
        raise refusal(file, f"not a whole Parquet file: {shorten(reason, 120)}") from error


def _require_type(file: Path, role: str, name: str, dtype: pl.DataType) -> None:
    if role == "rating":
        if not dtype.is_numeric():
            raise refusal(file, f"the rating column {shorten(name)} holds {dtype}; ratings must be numbers")
    elif not (dtype.is_integer() or dtype in (pl.String, pl.Categorical, pl.Enum)):
        rule = "ids must be text or whole numbers"
        raise refusal(file, f"the {role} column {shorten(name)} holds {dtype}; {rule}")


def _getter(file: Path, role: str, place: int) -> Callable[[], pl.Series]:
    def get() -> pl.Series:
        with _understanding(file):
            # By position and without its name: polars would take ^user$ for a pattern.
            frame = pl.read_parquet(file.absolute(), columns=[place], glob=False, hive_partitioning=False)
        column = frame.to_series().alias("")
        if role == "rating":
            return column
        nulls = column.is_null()
        if nulls.any():
            raise refusal(file, f"row {(nulls.arg_max() or 0) + 1}: the {role} id is empty (null)")
        return column.cast(pl.String)

    return get
