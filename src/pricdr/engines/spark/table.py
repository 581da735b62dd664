"""Open a table or Parquet in Spark, and check every row on executors, by the same rules as for files."""

import re
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from pricdr.data.ids import CONTROLS_IN_RE2, MAX_ID_LENGTH, Ids
from pricdr.data.reading.columns import Columns, find_named
from pricdr.data.reading.formats import DATE, FILTERED, NUMBER, values_fault
from pricdr.data.reading.text_files import file_refusal, refusal, shorten
from pricdr.engines.spark.session import SHUFFLES, explained, is_local

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TABLE: Final = "table:"
"""The prefix of a location that names a table in Spark's catalogue."""
_INFINITE: Final = "double('infinity')"
_WHOLE: Final = ("tinyint", "smallint", "int", "bigint")
_NUMBERS: Final = (*_WHOLE, "float", "double", "decimal")
_KINDS: Final = {
    "user": ((*_WHOLE, "string"), "ids must be text or whole numbers"),
    "item": ((*_WHOLE, "string"), "ids must be text or whole numbers"),
    "rating": (_NUMBERS, "ratings must be numbers"),
    "time": ((*_NUMBERS, "string", "date", "timestamp", "timestamp_ntz"), "times must be dates, numbers or text"),
}
_TIMES: Final = {"decimal": "double", "date": "timestamp"}
"""What the kinds of a time column are read as; the others as they are."""
_FOOTERS_AT_A_TIME: Final = 16


@dataclass(frozen=True, eq=False)
class CheckedRows:
    """Checked rows (``user``, ``item``, ``value`` and ``seconds``), and figures about them."""

    location: str
    frame: "DataFrame"
    """Persisted: every pass sees the same rows, even if somebody writes to the table."""
    has_values: bool
    has_times: bool
    filtered_by: str | None
    count: int
    rating_range: tuple[float, float]
    half_steps: bool
    kept: "list[DataFrame]" = field(default_factory=list)
    """Other frames of these rows that were persisted."""

    def release(self) -> None:
        """Remove everything that was persisted of these rows from the executors."""
        for frame in (self.frame, *self.kept):
            frame.unpersist()

    def ids(self, role: str) -> Ids:
        """Return all ids of a column, sorted by their UTF-8 bytes, as in memory."""
        with explained(f"list the {role}s of {self.location}"):
            distinct = self.frame.select(role).distinct().toArrow()
        # Python compares text by code points, which is also the order of UTF-8 bytes.
        return tuple(sorted(distinct.column(role).to_pylist()))

    def __repr__(self) -> str:
        """Show the location and the number of rows, never the rows."""
        return f"CheckedRows({self.location!r}, {self.count:,} rows)"


def checked_rows(session: "SparkSession", location: str, columns: Columns | None, *, need_rating: bool) -> CheckedRows:
    """Return the rows at ``location``, each checked: a path or URL of Parquet, or ``table:`` and a name."""
    from pyspark import StorageLevel

    with explained(f"read {location}"):
        frame = _frame(session, location)
        kinds = {name: kind.partition("(")[0] for name, kind in frame.dtypes}
    found_at = find_named(location, list(kinds), columns, need_rating=need_rating)
    names = {role: frame.columns[at] for role, at in found_at.items()}
    time_asked = columns is not None and columns.time is not None
    if "time" in names and not time_asked and kinds[names["time"]] not in _KINDS["time"][0]:
        del names["time"]
    for role, name in names.items():
        accepted, rule = _KINDS[role]
        if kinds[name] not in accepted:
            raise file_refusal(location, f"the {role} column {shorten(name)} holds {kinds[name]}; {rule}")
    time_kind = kinds.get(names.get("time", ""), "")
    types = {"user": "string", "item": "string", "rating": "double", "time": _TIMES.get(time_kind, time_kind)}
    quoted = {role: "`{}`".format(name.replace("`", "``")) for role, name in names.items()}  # a dot is no path
    rows = frame.selectExpr(*(f"CAST({name} AS {types[role]}) AS {role}" for role, name in quoted.items()))
    with explained(f"read {location}"):
        rows = rows.selectExpr(*_checks(names, text_times=time_kind == "string", time_asked=time_asked))
        rows = rows.persist(StorageLevel.DISK_ONLY)
        figures = ("count(*) n", "count_if(bad) bad", "min(value) least", "max(value) most")
        found: Any = rows.selectExpr(*figures, "min(rint(2 * value) = 2 * value) half_steps").first()
    try:
        if found.bad and (bad := rows.filter("bad").first()) is not None:
            raise refusal(location, f"a row{values_fault(bad.asDict(), time_asked=time_asked)}")
        if not found.n:
            raise file_refusal(location, "it has columns and no rows")
        filtered_by = _filter_of(frame, location)
        session.conf.set(SHUFFLES, str(max(2 * session.sparkContext.defaultParallelism, found.n >> 20)))
    except BaseException:
        rows.unpersist()
        raise
    return CheckedRows(
        location,
        rows,
        has_values="rating" in names,
        has_times="time" in names,
        filtered_by=filtered_by,
        count=found.n,
        rating_range=(found.least, found.most),
        half_steps=found.half_steps,
    )


def require_no_text_file(location: str) -> None:
    """Refuse the name of a text file, before Spark is started."""
    if Path(location).suffix.lower() in (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".dat", ".inter", ".gz"):
        raise file_refusal(location, "--engine spark reads Parquet or a table (table:catalog.db.name), not text files")


def _frame(session: "SparkSession", location: str) -> "DataFrame":
    if location.startswith(TABLE):
        return session.table(location.removeprefix(TABLE))
    if is_local(session.sparkContext.master or "") and not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", location):
        # A path on this machine stays local, whatever default file system Hadoop's settings name.
        location = Path(location).absolute().as_uri()
    return session.read.parquet(location)


def _checks(roles: Collection[str], *, text_times: bool, time_asked: bool) -> list[str]:
    """Return the columns of checked rows in SQL: what works read, whether a row cannot be used, and what it holds."""
    # -0 equals 0, so rows of a pair may be in either order; as bytes the blocks would differ.
    value = "rating + 0d" if "rating" in roles else "1d"
    seconds = "double(time)" if "time" in roles else "0d"
    if text_times:
        text = "trim(BOTH ' \\t\\n\\u000b\\f\\r' FROM time)"
        moment = f"CASE WHEN {text} RLIKE r'^{DATE}$' THEN unix_micros(try_cast({text} AS timestamp)) / 1e6d END"
        seconds = f"CASE WHEN {text} RLIKE r'^{NUMBER}$' THEN try_cast({text} AS double) ELSE {moment} END"
    finite = f"abs({{}}) < {_INFINITE}"  # to Spark, NaN is larger than any number
    wrong = [
        f"NOT is_valid_utf8({role}) OR {role} = '' OR char_length({role}) > {MAX_ID_LENGTH} OR "
        f"{role} RLIKE r'{CONTROLS_IN_RE2}'"
        for role in ("user", "item")
    ]
    wrong += [f"NOT {finite.format('rating')}"] * ("rating" in roles)
    wrong += [f"NOT {finite.format(f'({seconds})')}"] * time_asked
    return [
        "user",
        "item",
        f"{value} AS value",
        f"CASE WHEN {finite.format(f'({seconds})')} THEN {seconds} + 0d ELSE -{_INFINITE} END AS seconds",
        f"coalesce({' OR '.join(wrong)}, true) AS bad",
        *(role for role in ("rating", "time") if role in roles),
    ]


def _filter_of(frame: "DataFrame", location: str) -> str | None:
    """Return the filter on counts that the Parquet files disclose; all of them must disclose the same."""
    session = cast(Any, frame.sparkSession)
    jvm, conf = session._jvm, session._jsc.hadoopConfiguration()
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
