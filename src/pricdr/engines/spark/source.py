"""Open the ratings in Spark and check every row on executors, by the same rules as for files."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from pricdr import __version__
from pricdr.data.ids import CONTROLS_IN_RE2, LONGEST_ID, id_fault
from pricdr.data.reading.columns import Columns, find_named
from pricdr.data.reading.formats import FILTERED
from pricdr.data.reading.text_files import file_refusal, refusal, shorten
from pricdr.data.reading.times import to_seconds
from pricdr.engines.spark.failures import explained
from pricdr.engines.spark.session import MASTER, SHUFFLES, is_local, n_cores

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

TABLE: Final = "table:"
"""The prefix of a location that names a table in Spark's catalogue."""
_CHECKED: Final = "user string, item string, value double, seconds double, fault string"
_NUMBERS: Final = ("tinyint", "smallint", "int", "bigint")
_FOOTERS_AT_A_TIME: Final = 16


@dataclass(frozen=True, eq=False)
class Source:
    """Checked rows (``user``, ``item``, ``value`` and ``seconds``), and figures about them."""

    location: str
    checked: "DataFrame"
    """Persisted: every pass sees the same rows, even if somebody writes to the table."""
    has_values: bool
    has_times: bool
    filtered_by: str | None
    rows: int
    rating_range: tuple[float, float] | None
    half_steps: bool
    kept: "list[DataFrame]"
    """Other frames of these rows that were persisted."""

    def release(self) -> None:
        """Remove everything that was persisted of these rows from the executors."""
        for frame in (self.checked, *self.kept):
            frame.unpersist()

    @property
    def session(self) -> "SparkSession":
        """The session in which it was opened."""
        return self.checked.sparkSession

    def __repr__(self) -> str:
        """Show the location and the number of rows, never the rows."""
        return f"Source({self.location!r}, {self.rows:,} rows)"


def opened_source(session: "SparkSession", location: str, columns: Columns | None, *, need_rating: bool) -> Source:
    """Return the rows at ``location``, each checked: a path or URL of Parquet, or ``table:`` and a name."""
    from pyspark import StorageLevel
    from pyspark.sql import functions as sql

    with explained(f"read {location}"):
        frame = _frame(session, location)
        kinds = dict(frame.dtypes)
    positions = find_named(cast(Any, location), list(kinds), columns, need_rating=need_rating)
    names = {role: frame.columns[at] for role, at in positions._asdict().items() if at is not None}
    time_asked = columns is not None and columns.time is not None
    if "time" in names and not time_asked and not _may_be_times(kinds[names["time"]]):
        del names["time"]
    for role, name in names.items():
        _require_kind(location, role, name, kinds[name])
    selected = frame.select(*(_selected(frame, role, name).alias(role) for role, name in names.items()))
    with explained(f"read {location}"):
        checked = selected.mapInArrow(_checker(time_asked=time_asked), _CHECKED).persist(StorageLevel.DISK_ONLY)
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
            raise file_refusal(location, "it has columns and no rows")
        filtered_by = _filter_of(frame, location)
        session.conf.set(SHUFFLES, str(max(2 * n_cores(session), row.rows >> 20)))
    except BaseException:
        checked.unpersist()
        raise
    return Source(
        location=location,
        checked=checked,
        has_values="rating" in names,
        has_times="time" in names,
        filtered_by=filtered_by,
        rows=row.rows,
        rating_range=None if row.least is None else (row.least, row.most),
        half_steps=bool(row.half_steps),
        kept=[],
    )


def require_no_text_file(location: str) -> None:
    """Refuse the name of a text file, before Spark is started."""
    if Path(location).suffix.lower() in (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".dat", ".inter", ".gz"):
        raise file_refusal(location, "--engine spark reads Parquet or a table (table:catalog.db.name), not text files")


def _frame(session: "SparkSession", location: str) -> "DataFrame":
    if location.startswith(TABLE):
        return session.table(location.removeprefix(TABLE))
    master = session.sparkContext.getConf().get(MASTER, "") or ""
    if is_local(master) and not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", location):
        # A path on this machine stays local, whatever default file system Hadoop's settings name.
        location = Path(location).absolute().as_uri()
    return session.read.parquet(location)


def _may_be_times(kind: str) -> bool:
    return kind in (*_NUMBERS, "float", "double", "string", "date", "timestamp", "timestamp_ntz") or _is_decimal(kind)


def _is_decimal(kind: str) -> bool:
    return kind.startswith("decimal")


def _require_kind(location: str, role: str, name: str, kind: str) -> None:
    """Refuse a column of a type that no engine accepts in Parquet."""
    number = kind in (*_NUMBERS, "float", "double") or _is_decimal(kind)
    if role == "rating" and not number:
        raise file_refusal(location, f"the rating column {shorten(name)} holds {kind}; ratings must be numbers")
    if role == "time" and not _may_be_times(kind):
        rule = "times must be dates, numbers or text"
        raise file_refusal(location, f"the time column {shorten(name)} holds {kind}; {rule}")
    if role in ("user", "item") and kind not in (*_NUMBERS, "string"):
        rule = "ids must be text or whole numbers"
        raise file_refusal(location, f"the {role} column {shorten(name)} holds {kind}; {rule}")


def _selected(frame: "DataFrame", role: str, name: str) -> "Column":
    column = frame["`{}`".format(name.replace("`", "``"))]  # so that a dot in a name is not taken for a path
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
    """Refuse an executor with another version of pricdr than the driver: its noise might differ."""
    if driver != __version__:
        raise RuntimeError(f"executors have pricdr {__version__}, the driver has {driver}: install the same version")


def checked_batch(batch: "pa.RecordBatch", *, time_asked: bool) -> "pa.RecordBatch":
    """Return rows as numbers and text; the first row that cannot be used has a fault, worded as for files."""
    import pyarrow as pa

    rows = batch.num_rows
    names = batch.schema.names
    faults: list[tuple[int, str]] = []
    texts = {role: _text(role, batch.column(names.index(role)), faults) for role in ("user", "item")}
    values = np.ones(rows)
    if "rating" in names:
        numbers = batch.column(names.index("rating"))
        values = numbers.cast(pa.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False)
        _note(faults, ~np.isfinite(values), lambda at: f"the rating {_shown_rating(numbers[at].as_py())}")
        # -0 equals 0, so rows of a pair may be in either order; as bytes the blocks would differ.
        values = values + 0.0
    seconds = np.zeros(rows)
    if "time" in names:
        times = batch.column(names.index("time"))
        seconds = _seconds(times)
        if time_asked:
            rule = "is not a time (a number, or a date such as 2024-05-31 or 2024-05-31T12:00:00Z)"
            _note(faults, np.isneginf(seconds), lambda at: f"the time {shorten(times[at].as_py())} {rule}")
    fault_of: list[str | None] = [None] * rows
    if faults:
        at, fault = min(faults)
        fault_of[at] = fault
    columns = [texts["user"], texts["item"], values, seconds, pa.array(fault_of, pa.string())]
    return pa.RecordBatch.from_arrays(list(map(pa.array, columns)), ["user", "item", "value", "seconds", "fault"])


def _seconds(times: "pa.Array") -> "np.ndarray[Any, np.dtype[np.float64]]":
    """Return times as numbers, minus infinity where one cannot be read."""
    import pyarrow as pa

    if pa.types.is_string(times.type) or pa.types.is_large_string(times.type):
        return to_seconds(times.to_pylist())
    plain = times.cast(pa.int32()) if pa.types.is_date32(times.type) else times
    plain = plain.cast(pa.int64()) if pa.types.is_timestamp(times.type) else plain
    seconds = plain.cast(pa.float64()).fill_null(-np.inf).to_numpy(zero_copy_only=False)
    return np.where(np.isfinite(seconds), seconds, -np.inf)


def _shown_rating(value: float | None) -> str:
    return "is empty" if value is None else f"{shorten(value)} is not a finite number"


def _text(role: str, column: "pa.Array", faults: list[tuple[int, str]]) -> "pa.Array":
    import pyarrow as pa

    try:
        column.validate(full=True)
    except pa.ArrowInvalid:  # Spark does not check that text is UTF-8
        _note(faults, np.arange(len(column)) == 0, lambda _: f"the {role} id is not text in UTF-8")
        return pa.array([""] * len(column), pa.string())
    import pyarrow.compute as pc

    controls = pc.match_substring_regex(column, CONTROLS_IN_RE2)
    is_bad = pc.or_(pc.or_(pc.equal(column, ""), controls), pc.greater(pc.utf8_length(column), LONGEST_ID))
    bad = is_bad.fill_null(True).to_numpy(zero_copy_only=False)

    def fault(at: int) -> str:
        name = column[at].as_py()
        return f"the {role} id {'is empty (null)' if name is None else id_fault(name)}"

    _note(faults, bad, fault)
    return column


def _note(faults: list[tuple[int, str]], bad: Any, fault: Any) -> None:  # noqa: ANN401
    if bad.any():
        at = int(bad.argmax())
        faults.append((at, fault(at)))


def _filter_of(frame: "DataFrame", location: str) -> str | None:
    """Return the filter on counts that the Parquet files disclose; all of them must disclose the same."""
    session = frame.sparkSession
    jvm, conf = cast(Any, session)._jvm, cast(Any, session)._jsc.hadoopConfiguration()
    with explained(f"list the files of {location}"):
        files = [file for file in frame.inputFiles() if not location.startswith(TABLE) or ".parquet" in file]

    def filter_in(file: str) -> str | None:
        path = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(file))
        opened = jvm.org.apache.parquet.hadoop.util.HadoopInputFile.fromPath(path, conf)
        reader = jvm.org.apache.parquet.hadoop.ParquetFileReader.open(opened)
        try:
            text: str | None = reader.getFileMetaData().getKeyValueMetaData().get(FILTERED)
            return text
        finally:
            reader.close()

    with explained(f"read the footers of {location}"), ThreadPoolExecutor(_FOOTERS_AT_A_TIME) as pool:
        filters = set(pool.map(filter_in, files))
    if len(filters) > 1:
        fault = "its files went through different filters on counts (pricdr prepare): publish those of one filter"
        raise file_refusal(location, fault)
    return filters.pop() if filters else None
