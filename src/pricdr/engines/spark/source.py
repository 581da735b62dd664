"""Where the ratings are, and whether every row of them can be used: the rules of files, checked on executors."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import polars as pl

from pricdr import __version__
from pricdr.data.ids import CONTROLS, LONGEST_ID, id_fault
from pricdr.data.reading.columns import Columns, find_named
from pricdr.data.reading.parquet import FILTERED
from pricdr.data.reading.text_files import refusal, shorten
from pricdr.data.reading.times import to_seconds
from pricdr.engines.spark.failures import explained
from pricdr.engines.spark.session import MASTER, SHUFFLES, is_local, n_cores

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

TABLE: Final = "table:"
"""What a location begins with that names a table of Spark's catalogue."""
_CHECKED: Final = "user string, item string, value double, seconds double, fault string"
_NUMBERS: Final = ("tinyint", "smallint", "int", "bigint")
_FOOTERS_AT_A_TIME: Final = 16


@dataclass(frozen=True, eq=False)
class Source:
    """Rows that were checked: ``user``, ``item``, ``value`` and ``seconds``, and what was found on the way."""

    location: str
    checked: "DataFrame"
    """Persisted: every pass sees the same rows, though somebody writes to the table."""
    has_values: bool
    has_times: bool
    filtered_by: str | None
    rows: int
    rating_range: tuple[float, float] | None
    half_steps: bool
    kept: "list[DataFrame]"
    """Whatever was persisted of these rows."""

    def release(self) -> None:
        """Let executors forget everything that was made of these rows."""
        for frame in (self.checked, *self.kept):
            frame.unpersist()

    @property
    def session(self) -> "SparkSession":
        """The session that it was opened in."""
        return self.checked.sparkSession

    def __repr__(self) -> str:
        """Show where, not what."""
        return f"Source({self.location!r}, {self.rows:,} rows)"


def opened_source(session: "SparkSession", location: str, columns: Columns | None, *, need_rating: bool) -> Source:
    """Return the rows at ``location``: a path or URL of Parquet, or ``table:`` and a name. Every row is checked."""
    from pyspark import StorageLevel
    from pyspark.sql import functions as sql

    with explained(f"read {location}"):
        frame = _frame(session, location)
        kinds = dict(frame.dtypes)
    found = find_named(cast(Any, location), list(kinds), columns, need_rating=need_rating)
    places = {role: frame.columns[at] for role, at in found._asdict().items() if at is not None}
    asked = columns is not None and columns.time is not None
    if "time" in places and not asked and not _may_be_times(kinds[places["time"]]):
        del places["time"]
    for role, name in places.items():
        _require_kind(location, role, name, kinds[name])
    picked = frame.select(*(_picked(frame, role, name).alias(role) for role, name in places.items()))
    with explained(f"read {location}"):
        checked = picked.mapInArrow(_checker(time_asked=asked), _CHECKED).persist(StorageLevel.DISK_ONLY)
        whole = sql.rint(2 * sql.col("value")) == 2 * sql.col("value")
        row = checked.agg(
            sql.count("*").alias("rows"),
            sql.min("fault").alias("fault"),
            sql.min("value").alias("least"),
            sql.max("value").alias("most"),
            sql.min(whole).alias("half_steps"),
        ).first()
    assert row is not None
    try:
        if row.fault is not None:
            raise refusal(location, f"a row: {row.fault}")
        if not row.rows:
            raise refusal(location, "it has columns and no rows")
        filtered_by = _filter_of(frame, location)
        session.conf.set(SHUFFLES, str(max(2 * n_cores(session), row.rows >> 20)))
    except BaseException:
        checked.unpersist()
        raise
    return Source(
        location=location,
        checked=checked,
        has_values="rating" in places,
        has_times="time" in places,
        filtered_by=filtered_by,
        rows=row.rows,
        rating_range=None if row.least is None else (row.least, row.most),
        half_steps=bool(row.half_steps),
        kept=[],
    )


def require_no_text_file(location: str) -> None:
    """Refuse the name of a text file, before Spark is started for it."""
    if Path(location).suffix.lower() in (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".dat", ".inter", ".gz"):
        raise refusal(location, "--engine spark reads Parquet or a table (table:catalog.db.name), not text files")


def _frame(session: "SparkSession", location: str) -> "DataFrame":
    if location.startswith(TABLE):
        return session.table(location.removeprefix(TABLE))
    master = session.sparkContext.getConf().get(MASTER, "") or ""
    if is_local(master) and not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", location):
        # A path on this machine stays one, whatever file system Hadoop's settings name as the default.
        location = Path(location).absolute().as_uri()
    return session.read.parquet(location)


def _may_be_times(kind: str) -> bool:
    return kind in (*_NUMBERS, "float", "double", "string", "date", "timestamp", "timestamp_ntz") or _is_decimal(kind)


def _is_decimal(kind: str) -> bool:
    return kind.startswith("decimal")


def _require_kind(location: str, role: str, name: str, kind: str) -> None:
    """Require the types that a Parquet file may have for any engine."""
    number = kind in (*_NUMBERS, "float", "double") or _is_decimal(kind)
    if role == "rating" and not number:
        raise refusal(location, f"the rating column {shorten(name)} holds {kind}; ratings must be numbers")
    if role == "time" and not _may_be_times(kind):
        rule = "times must be dates, numbers or text"
        raise refusal(location, f"the time column {shorten(name)} holds {kind}; {rule}")
    if role in ("user", "item") and kind not in (*_NUMBERS, "string"):
        rule = "ids must be text or whole numbers"
        raise refusal(location, f"the {role} column {shorten(name)} holds {kind}; {rule}")


def _picked(frame: "DataFrame", role: str, name: str) -> "Column":
    column = frame["`{}`".format(name.replace("`", "``"))]  # a dot in a name is no path
    if role in ("user", "item"):
        return column.cast("string")
    if role == "rating" or _is_decimal(dict(frame.dtypes)[name]):
        return column.cast("double")
    return column


def _checker(*, time_asked: bool) -> Any:  # noqa: ANN401
    version = __version__

    def checked(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        from pricdr.engines.spark import source

        source.require_version(version)
        for batch in batches:
            yield source.checked_batch(batch, time_asked=time_asked)

    return checked


def require_version(driver: str) -> None:
    """Refuse an executor whose pricdr is another than the driver's: its noise might be too."""
    if driver != __version__:
        raise RuntimeError(f"executors have pricdr {__version__}, the driver has {driver}: install the same")


def checked_batch(batch: "pa.RecordBatch", *, time_asked: bool) -> "pa.RecordBatch":
    """Return rows as numbers and text; the first that cannot be used has a fault, in the words of files."""
    import pyarrow as pa

    rows = batch.num_rows
    names = batch.schema.names
    faults: list[tuple[int, str]] = []
    texts = {role: _text(role, batch.column(names.index(role)), faults) for role in ("user", "item")}
    values = np.ones(rows)
    if "rating" in names:
        numbers = pl.Series(batch.column(names.index("rating")))
        values = numbers.fill_null(np.nan).to_numpy()
        _note(faults, ~np.isfinite(values), lambda at: f"the rating {_shown_rating(numbers[at])}")
        # -0 equals 0, so rows of a pair may come in either order; as bytes they would be two different blocks.
        values = values + 0.0
    seconds = np.zeros(rows)
    if "time" in names:
        times = pl.Series(batch.column(names.index("time")))
        read = to_seconds(times)
        if time_asked:
            rule = "is no time (a number, or a date such as 2024-05-31 or 2024-05-31T12:00:00Z)"
            _note(faults, read.is_null().to_numpy(), lambda at: f"the time {shorten(times[at])} {rule}")
        seconds = read.fill_null(-np.inf).to_numpy()
    noted: list[str | None] = [None] * rows
    if faults:
        at, fault = min(faults)
        noted[at] = fault
    columns = [texts["user"], texts["item"], values, seconds, pa.array(noted, pa.string())]
    return pa.RecordBatch.from_arrays([pa.array(one) for one in columns], ["user", "item", "value", "seconds", "fault"])


def _shown_rating(value: float | None) -> str:
    return "is empty" if value is None else f"{shorten(value)} is not a finite number"


def _text(role: str, column: "pa.Array", faults: list[tuple[int, str]]) -> "pa.Array":
    import pyarrow as pa

    try:
        column.validate(full=True)
    except pa.ArrowInvalid:  # Spark does not look at what bytes of text say
        _note(faults, np.arange(len(column)) == 0, lambda _: f"the {role} id is not text in UTF-8")
        return pa.array([""] * len(column), pa.string())
    ids = pl.Series(column)
    wrong = (ids == "") | ids.str.contains(CONTROLS) | (ids.str.len_chars() > LONGEST_ID)
    bad = wrong.fill_null(True).to_numpy()
    _note(faults, bad, lambda at: f"the {role} id {'is empty (null)' if ids[at] is None else id_fault(ids[at])}")
    return column


def _note(faults: list[tuple[int, str]], bad: Any, fault: Any) -> None:  # noqa: ANN401
    if bad.any():
        at = int(bad.argmax())
        faults.append((at, fault(at)))


def _filter_of(frame: "DataFrame", location: str) -> str | None:
    """Return the filter on counts that the Parquet files disclose; all of them must say the same."""
    session = frame.sparkSession
    jvm, conf = cast(Any, session)._jvm, cast(Any, session)._jsc.hadoopConfiguration()
    with explained(f"list the files of {location}"):
        files = [file for file in frame.inputFiles() if not location.startswith(TABLE) or ".parquet" in file]

    def disclosed(file: str) -> str | None:
        path = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(file))
        opened = jvm.org.apache.parquet.hadoop.util.HadoopInputFile.fromPath(path, conf)
        reader = jvm.org.apache.parquet.hadoop.ParquetFileReader.open(opened)
        try:
            text: str | None = reader.getFileMetaData().getKeyValueMetaData().get(FILTERED)
            return text
        finally:
            reader.close()

    with explained(f"read the footers of {location}"), ThreadPoolExecutor(_FOOTERS_AT_A_TIME) as pool:
        found = set(pool.map(disclosed, files))
    if len(found) > 1:
        raise refusal(location, "its files went through different filters on counts (pricdr prepare): publish one kind")
    return found.pop() if found else None
