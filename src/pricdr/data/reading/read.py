"""Read ratings of every format: each row checked in SQL by itself, repeated pairs merged, a matrix made of them.

Whether a row is good, and what it says, depends on that row alone: nothing of what DuckDB can guess is used.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from pricdr.arrays import BoolArray, Float64Array, IntArray
from pricdr.data.blocks import RatingsSource
from pricdr.data.csr import csr_of_cells, kept_entries
from pricdr.data.ids import CONTROLS_IN_RE2, MAX_ID_LENGTH, Ids
from pricdr.data.ratings import Ratings, require_filter, require_threshold
from pricdr.data.reading.columns import (
    AMAZON_2014 as AMAZON_2014,
    AMAZON_2018 as AMAZON_2018,
    HINT,
    Columns as Columns,
)
from pricdr.data.reading.formats import (
    MAX_BAD_ROWS,
    Format,
    PartitionValues,
    ReadOptions,
    Source,
    delimited_source,
    escaped,
    json_source,
    literal,
    parquet_source,
    values_fault,
)
from pricdr.data.reading.inputs import AnyPath, InputFile, InputFiles, Query, find_inputs, naming_in_logs
from pricdr.data.reading.text_files import copy_bytes, copy_text, file_refusal, named, refusal, shorten
from pricdr.data.workspace import Workspace
from pricdr.errors import DiskSpaceError, InputError, MemoryLimitError, ParameterError, printable
from pricdr.memory import VARIABLE, format_bytes, memory_limit, require_memory
from pricdr.parallel import cores
from pricdr.progress import Progress, shown, silent

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from pricdr.data.periods import PeriodRatings, Window

_GOOD, _BAD, _BLANK, _OUTSIDE = range(4)
_SHOWN: Final = 5
_ELSEWHEN: Final = "of other days than those of the period, or without a time"
_RULE: Final = "files that are read together need one schema"
_DISK_FAULTS: Final = ("No space left on device", "Disk quota exceeded", "File too large", "max_temp_directory_size")
_MIN_MEMORY: Final = 64 * 10**6
"""DuckDB needs about 10 MB for each thread; the rest goes to disk."""
_BYTES_PER_ROW: Final = 60
"""Memory for a row while repeated pairs are merged and the matrix is made."""


@contextmanager
def connected(
    workspace: Workspace, files: Sequence[Path], memory: int, *, on_disk: bool = False
) -> Iterator["DuckDBPyConnection"]:
    """Yield a connection that can read these files, write to the workspace, and do nothing else outside."""
    import duckdb

    config: dict[str, Any] = {
        "threads": cores(),
        "memory_limit": f"{max(memory, _MIN_MEMORY)}B",
        "temp_directory": str(workspace.folder / "spilled"),
        "autoload_known_extensions": False,
        "autoinstall_known_extensions": False,
        "python_enable_replacements": False,
        "pandas_analyze_sample": 0,
        "force_compression": "uncompressed",  # rows are read once or twice: compressing them takes longer than that
    }
    database = str(workspace.folder / "ratings.db") if on_disk else ":memory:"
    readable = [file for file in files if has_utf8_name(file)]
    paths = sorted({path for file in readable for path in (str(file.absolute()), escaped(file))})
    with closing(duckdb.connect(database, config=config)) as connection:
        for setting in (
            f"allowed_paths = [{', '.join(map(literal, paths))}]",
            f"allowed_directories = [{literal(str(workspace.folder))}]",
            "TimeZone = 'UTC'",
            "enable_progress_bar = false",  # it would be written to standard output
            "enable_external_access = false",
            "lock_configuration = true",
        ):
            connection.execute(f"SET {setting}")
        yield connection


def has_utf8_name(file: Path) -> bool:
    """Return whether DuckDB can take the name of a file; any other file is copied first."""
    return not re.search("[\ud800-\udfff]", str(file.absolute()))


@contextmanager
def explained(what: Path | str, workspace: Workspace, memory: int) -> Iterator[None]:
    """Turn errors of DuckDB into one line of ours: its own messages quote rows."""
    import duckdb

    try:
        yield
    except (duckdb.Error, MemoryError) as error:
        text = str(error)
        if sign := next((sign for sign in _DISK_FAULTS if sign in text), None):
            reason = sign if sign != "max_temp_directory_size" else "No space left on device"
            hint = "choose another disk with temp-dir in --config"
            raise DiskSpaceError(f"cannot sort in {workspace.folder.parent}: {reason}: {hint}") from None
        if isinstance(error, duckdb.OutOfMemoryException | MemoryError):
            need = f"{named(what)}: reading it needs more memory than the limit of {format_bytes(memory)}"
            raise MemoryLimitError(f"{need}: raise it with the environment variable {VARIABLE}") from None
        raise refusal(what, f"cannot be read ({type(error).__name__})") from None


@dataclass(kw_only=True)
class RowReport:
    """What was found in all rows."""

    name: Path | str
    rows: int = 0
    """All rows, bad ones included."""
    bad: int = 0
    """The rows that were skipped, where that was allowed."""
    first_bad: tuple[str, ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)
    """The reasons why rows were left out, and how many."""
    rating_range: tuple[float, float] | None = None
    """Smallest and largest rating, before any threshold."""
    half_steps: bool = False
    """Whether all ratings are whole or half numbers, as stars are."""
    files: int = 1
    empty_files: int = 0
    """The number of files that have columns and no rows."""
    unused: tuple[str, ...] = ()


@dataclass
class RatingsTable:
    """Checked rows in the table ``rows`` (user, item, value, seconds, kind); a row that is not good is all NULL."""

    connection: "DuckDBPyConnection"
    report: RowReport
    options: ReadOptions
    has_values: bool = False
    has_times: bool = False
    filtered_by: str | None = None
    _inserted: int = 0
    _first: Source | None = None
    _disclosing: Source | None = None

    def __post_init__(self) -> None:
        columns = '"user" VARCHAR, item VARCHAR, value DOUBLE, seconds DOUBLE, kind INT1'
        self.connection.execute(f"CREATE TABLE rows ({columns})")

    def add(self, source: Source) -> int:
        """Add the rows of a source and return their number; a bad one is refused or skipped."""
        self._require_one_schema(source)
        if self.options.window is not None and "time" not in source.roles:
            raise file_refusal(source.name, f"a period needs a time for every row, and there is no time column; {HINT}")
        self.has_values |= "rating" in source.roles
        self.has_times |= "time" in source.roles
        window = self.options.window
        # By its own time alone, before anything else is done with a row: no row outside can change what is read.
        inside = "true" if window is None else f"coalesce({window.inside}, false)"
        values = ", ".join(f"CASE WHEN good AND {inside} THEN {name} END" for name in ('"user"', "item", "value"))
        seconds = "CASE WHEN isfinite(seconds) THEN seconds ELSE '-infinity'::DOUBLE END"
        kind = f"CASE WHEN blank THEN {_BLANK} WHEN NOT good THEN {_BAD} WHEN {inside} THEN {_GOOD} ELSE {_OUTSIDE} END"
        (added,) = self._fetch(f"INSERT INTO rows SELECT {values}, {seconds}, {kind} FROM {self._judged(source)}")
        others = f"SELECT kind, count(*) FROM rows WHERE rowid >= {self._inserted} AND kind <> {_GOOD} GROUP BY kind"
        counts: dict[int, int] = dict(self.connection.execute(others).fetchall())
        report, rows = self.report, int(added - counts.get(_BLANK, 0))
        if _BAD in counts:
            self._explain(source)
        self._inserted += added
        report.rows += rows
        report.bad += counts.get(_BAD, 0)
        if outside := counts.get(_OUTSIDE, 0):
            report.dropped = {**report.dropped, _ELSEWHEN: report.dropped.get(_ELSEWHEN, 0) + outside}
        if blank := added - rows + max(0, (source.lines_before or 0) - 1):  # those before a header too
            report.dropped = {**report.dropped, "blank lines": report.dropped.get("blank lines", 0) + blank}
        return rows

    def _require_one_schema(self, source: Source) -> None:
        """Refuse a file with other columns than the first, in any order, or with another filter on counts."""
        self._first = first = self._first or source
        if differing := first.schema.items() ^ source.schema.items():
            column = min(differing)[0]
            expected, actual = first.schema.get(column), source.schema.get(column)
            fault = f"column {shorten(column)} holds {actual}, in {named(first.name)} {expected}"
            if expected is None or actual is None:
                has, there = ("no", "one") if actual is None else ("a", "none")
                fault = f"it has {has} column {shorten(column)}, and {named(first.name)} has {there}"
            # Without the names: where a header is missing they are a row.
            logged = f"its columns are not those of the first file; {_RULE}"
            raise file_refusal(source.name, f"{fault}; {_RULE}", logged=logged)
        if source.filtered_by is not None:
            self._disclosing = other = self._disclosing or source
            self.filtered_by = other.filtered_by
            if source.filtered_by != other.filtered_by:
                fault = f"it says that it was filtered by {shorten(source.filtered_by, 60)}, {named(other.name)} by "
                logged = "it was filtered in another way than the first file"
                raise file_refusal(source.name, fault + shorten(other.filtered_by, 60), logged=logged)

    def _judged(self, source: Source, also: str = "") -> str:
        """Return the rows of a source with their values, and whether they are good."""
        columns = ", ".join(f'{source.roles.get(role, ("NULL",))[0]} AS "{name}"' for role, name in _VALUES.items())
        if self.options.window is not None:
            columns += f", trim(coalesce({source.roles['time'][1]}::VARCHAR, '')) AS moment"
        taken = f"SELECT {source.blank} AS blank, {source.valid} AS valid, {columns}{also} FROM {source.rows}"
        checks = ["valid"] + ["isfinite(value)"] * ("rating" in source.roles)
        if self.options.window is not None:  # whoever has no time is in no period
            checks.append("(coalesce(isfinite(seconds), false) OR moment = '')")
        elif self.options.time_asked:
            checks.append("isfinite(seconds)")
        for name in ('"user"', "item"):
            controls = f"NOT regexp_matches({name}, {literal(CONTROLS_IN_RE2)})"
            checks += [f"{name} <> ''", f"length({name}) <= {MAX_ID_LENGTH}", controls]
        # In two steps: DuckDB evaluates an expression in a CASE once for each time that it is written.
        return f"(SELECT *, coalesce({' AND '.join(checks)}, false) AS good FROM ({taken}))"

    def _explain(self, source: Source) -> None:
        """Refuse the first bad row, or note the first few of them."""
        quoted = [f", {text} AS {role}" for role, (_, text) in source.roles.items() if role in ("rating", "time")]
        judged = self._judged(source, f", n, {source.record} AS record{''.join(quoted)}")
        wanted = f"SELECT * FROM {judged} WHERE NOT blank AND NOT good ORDER BY n LIMIT {_SHOWN}"
        found = self.connection.execute(wanted)
        columns = [column for column, *_ in found.description or ()]
        for values in found.fetchall():
            bad = dict(zip(columns, values, strict=True))
            row, line = bad["n"], ""
            if source.lines_before is not None:
                (blank,) = self._fetch(f"SELECT count(*) FROM {source.rows} WHERE n < {row} AND ({source.blank})")
                row, line = row - source.lines_before - blank, f" (line {row})"
            fault = source.explain(bad["record"])
            if fault is None:
                fault = values_fault(bad, time_asked=self._time_asked) if bad["valid"] else " cannot be used"
            fault = f"row {row}{line}{fault}"
            if not self.options.skip_bad_rows:
                raise refusal(source.name, fault)
            if len(self.report.first_bad) < _SHOWN:
                self.report.first_bad += (fault if self.report.files == 1 else f"{named(source.name)}: {fault}",)

    @property
    def _time_asked(self) -> bool:
        return self.options.time_asked or self.options.window is not None

    def finished(self) -> RowReport:
        """Return what was found in all rows; refuse them if too many are bad, or all."""
        report, most = self.report, self.options.most_bad_rows
        if report.bad > most * report.rows:
            are = "is" if report.bad == 1 else "are"
            limit = f"more than {100 * most:.3g}% (most-bad-rows)"
            fault = f"{report.bad:,} of {report.rows:,} rows {are} bad, {limit}; the first: {report.first_bad[0]}"
            raise refusal(report.name, fault)
        if report.rows == report.bad:
            raise refusal(report.name, "no row of it can be used")
        figures = "min(value), max(value), bool_and(value * 2 = round(value * 2))"
        low, high, halves = self._fetch(f"SELECT {figures} FROM rows")
        report.rating_range, report.half_steps = None if low is None else (low, high), bool(halves)
        report.unused = self._first.unused if self._first is not None else ()
        return report

    def _fetch(self, sql: str) -> tuple[Any, ...]:
        found = self.connection.execute(sql).fetchone()
        assert found is not None
        return found


_VALUES: Final = {"user": "user", "item": "item", "rating": "value", "time": "seconds"}
"""The column of the value of each role."""


@contextmanager
def opened_table(
    given: InputFiles | Query,
    options: ReadOptions,
    workspace: Workspace,
    *,
    memory: int | None = None,
    on_disk: bool = False,
    progress: Progress = silent,
) -> Iterator[RatingsTable]:
    """Yield all rows of files or of a query, checked; DuckDB may use ``memory`` bytes, or keep rows ``on_disk``."""
    memory = memory_limit() if memory is None else memory
    files = [file.path for file in given.files] if isinstance(given, InputFiles) else []
    name = given.path if isinstance(given, InputFiles) else str(given)
    with explained(name, workspace, memory), connected(workspace, files, memory, on_disk=on_disk) as connection:
        table = RatingsTable(connection, RowReport(name=name), options)
        if isinstance(given, InputFiles):
            with naming_in_logs(given.path, several=given.several):
                _add_files(table, given, workspace, progress)
        else:
            from pricdr.data.frames import add_query

            add_query(table, given)
        yield table


def _add_files(table: RatingsTable, inputs: InputFiles, workspace: Workspace, progress: Progress) -> None:
    table.report.files, done = len(inputs.files), 0
    first, *others = [table.options.kind(file.path) for file in inputs.files]
    for file, kind in zip(inputs.files[1:], others, strict=True):
        if kind is not first:
            fault, rule = f"it is {kind}, and", f"is {first}; {_RULE}"
            logged = f"{fault} the first file {rule}"
            raise file_refusal(file.path, f"{fault} {named(inputs.files[0].path)} {rule}", logged=logged)
    columns = table.options.columns
    wanted = () if columns is None else columns.given.values()
    for file in inputs.files:
        file.require_unchanged()
        # The columns that folders name, as far as the caller asks for them.
        folders = {name: value for name, value in file.partition_values.items() if name in wanted}
        if first is not Format.PARQUET:
            _add_text(table, file, first, folders, workspace)
        else:
            content = file.path
            if file.state is None or not has_utf8_name(content):  # a pipe: reading Parquet starts at its end
                content = workspace.folder / "copy.parquet"
                with workspace.explained():
                    copy_bytes(file.path, content)
            source = parquet_source(file.path, content, table.options, folders, table.connection)
            table.report.empty_files += not table.add(source)
        file.require_unchanged()
        done += file.size or 0
        progress(f"reading {named(inputs.path)}", done, inputs.size or 0, f"{table.report.rows:,} rows")
    if table.report.empty_files == table.report.files:
        subject = "the files have" if inputs.several else "the file has"
        raise file_refusal(inputs.path, f"{subject} columns and no rows")


def _add_text(
    table: RatingsTable, file: InputFile, kind: Format, folders: PartitionValues, workspace: Workspace
) -> None:
    """Add a text file as it is if DuckDB can read it, and otherwise a copy: making it says what is wrong, and where."""
    import duckdb

    options, name, copy = table.options, file.path, workspace.folder / "copy"
    plain = file.state is not None and options.encoding == "utf-8" and name.suffix.lower() != ".gz"
    for content in [name] * (plain and has_utf8_name(name)) + [copy]:
        if content is copy:
            with workspace.explained(), copy.open("wb") as opened:
                copy_text(name, opened, encoding=options.encoding, substitute=options.skip_bad_rows)
        try:
            if kind is Format.JSONL:
                source = json_source(name, content, options, folders, table.connection)
            else:
                source = delimited_source(name, content, kind, options, folders)
            if not table.add(source):
                has = "has a header and no rows" if source.lines_before else "is empty"
                raise file_refusal(name, f"the file {has}")
            break
        except (duckdb.InvalidInputException, InputError) as error:
            # Not UTF-8, a NUL, a line too long, line ends that differ; or a bare carriage return in the first line.
            if content is copy or (isinstance(error, InputError) and not options.skip_bad_rows):
                raise
    copy.unlink(missing_ok=True)


class Repeats(NamedTuple):
    """How rows that repeat a pair were merged."""

    rows: int
    """Rows beyond the first of each pair."""
    by_time: bool
    """Whether there was a time column, so that the latest row of a pair counts."""
    untimed: int
    """Rows of repeated pairs whose time cannot be read: they count as the earliest."""


R = TypeVar("R", bound=RatingsSource)


@dataclass(kw_only=True)
class Reading(RowReport, Generic[R]):
    """Ratings that were read, wherever they are kept, and how they were read."""

    ratings: R
    raters: Ids | None
    """All users who occur in the rows; None where they stay on a cluster."""
    n_raters: int
    n_ratings: int | None
    """How many ratings count, of listed users and items where a list was given; None before repeats are merged."""
    of_listed: bool = False
    """Whether only ratings of listed users and items are among them."""
    all_below: bool = False
    """Whether there are ratings, and all of them are below the threshold."""
    repeats: Repeats
    times: Float64Array | None = None
    """The time of each rating, in the order of the matrix, where it was asked for: NaN where it cannot be read."""

    def summary(self) -> str:
        """Return a few lines for people."""
        counted = "repeated pairs not merged yet" if self.n_ratings is None else f"{self.n_ratings:,} ratings"
        counted += " of listed users and items" if self.of_listed and self.n_ratings is not None else ""
        files = f"{self.files:,} files, " if self.files > 1 else ""
        ids = f"{self.n_raters:,} users, {len(self.ratings.items):,} items"
        lines = [f"{named(self.name)}: {files}{self.rows:,} rows, {ids}, {counted}"]
        if self.empty_files:
            lines.append(f"files without rows: {self.empty_files:,}")
        if self.bad:
            lines.append(f"skipped: {self.bad:,} bad rows; the first:")
            lines += [f"  {printable(fault)}" for fault in self.first_bad]
        if self.repeats.rows:
            rule = "the latest counts, by the time column"
            if not self.ratings.has_values:
                rule = "they count once"
            elif not self.repeats.by_time:
                rule = "the largest value counts (there is no time column)"
            elif self.repeats.untimed:
                rule += f"; {self.repeats.untimed:,} without a readable time count as the earliest"
            lines.append(f"duplicates: {self.repeats.rows:,} rows repeat a (user, item) pair; {rule}")
        if self.dropped:
            lines.append("dropped: " + ", ".join(f"{count:,} {reason}" for reason, count in self.dropped.items()))
        if self.unused:
            more = f" and {len(self.unused) - _SHOWN:,} more" if len(self.unused) > _SHOWN else ""
            lines.append(f"columns not used: {', '.join(map(shorten, self.unused[:_SHOWN]))}{more}")
        values = "ratings range from {:g} to {:g}".format(*self.rating_range) if self.rating_range else None
        lines.append(values or "no rating column read: each row counts as 1")
        return "\n  ".join(lines)


MemoryReading: TypeAlias = Reading[Ratings]


def last_of_each(keys: IntArray, seconds: Float64Array | None) -> tuple[BoolArray, int]:
    """Return a mask of the last row of every pair, and how many rows of repeated pairs have no time.

    Rows come sorted by their keys, by time (minus infinity where it cannot be read), then by value. So the latest row
    counts, then the largest value; one row changes one entry of the matrix: the guarantee of a release relies on it.
    """
    last = np.ones(len(keys), dtype=bool)
    last[:-1] = keys[1:] != keys[:-1]
    alone = last.copy()
    alone[1:] &= last[:-1]
    return last, 0 if seconds is None else int(np.isneginf(seconds[~alone]).sum())


def create_ids(connection: "DuckDBPyConnection", table: str, ids: Sequence[str]) -> None:
    """Create a temporary table of ids, and of their positions as codes."""
    given = {"id": np.array([*ids, None], dtype=object)[:-1], "code": np.arange(len(ids), dtype=np.int32)}
    connection.register("given", given)
    connection.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT id::VARCHAR AS id, code FROM given")
    connection.unregister("given")


def number_ids(connection: "DuckDBPyConnection") -> tuple[Ids, Ids]:
    """Number all users and all items in tables of their own, sorted by their UTF-8 bytes, and return them."""
    ids = []
    for table, column in (("users", '"user"'), ("items", "item")):
        distinct = f"SELECT DISTINCT {column} AS id FROM rows WHERE kind = {_GOOD}"
        numbered = f"SELECT id, (row_number() OVER (ORDER BY id) - 1)::INTEGER AS code FROM ({distinct})"
        connection.execute(f"CREATE TABLE {table} AS {numbered} ORDER BY code")
        ids.append(tuple(connection.execute(f"SELECT id FROM {table} ORDER BY code").fetchnumpy()["id"].tolist()))
    return ids[0], ids[1]


def sorted_pairs(users: str, items: str, n_items: int, columns: Sequence[str], window: "Window | None" = None) -> str:
    """Return SQL for the good rows of ids in these tables, sorted by pair, time and value: keys, and columns.

    In periods of a ``window`` a pair is one of a user in a period and an item.
    """
    key = f"{users}.code::BIGINT * {n_items} + {items}.code"
    if window is not None and window.days is not None:
        key = f"({users}.code::BIGINT * {window.periods} + {window.period}) * {n_items} + {items}.code"
    joined = f'rows JOIN {users} ON {users}.id = rows."user" JOIN {items} ON {items}.id = rows.item'
    order = ["key", *(name for name in ("seconds", "value") if name in columns)]
    return f"SELECT {', '.join([f'{key} AS key', *columns])} FROM {joined} ORDER BY {', '.join(order)}"


@dataclass(kw_only=True)
class _Merged:
    """The rows of a table, repeated pairs merged."""

    report: RowReport
    users: Ids
    items: Ids
    rows: IntArray
    """Of each pair, the position of its user, or of the user's period."""
    columns: IntArray
    values: Float64Array
    seconds: Float64Array | None
    repeats: Repeats


def _merged(table: RatingsTable) -> _Merged:
    report, connection = table.finished(), table.connection
    good = report.rows - report.bad
    require_memory(_BYTES_PER_ROW * good, f"{named(report.name)}: {good:,} rows in memory")
    users, items = number_ids(connection)
    columns = ["value"] * table.has_values + ["seconds"] * table.has_times
    n_items = max(1, len(items))  # a period may be without a row
    sql = sorted_pairs("users", "items", n_items, columns, table.options.window)
    found = connection.execute(sql).fetchnumpy()
    keys = np.asarray(found["key"])
    values, seconds = (np.asarray(found[name]) if name in found else None for name in ("value", "seconds"))
    keep, untimed = last_of_each(keys, seconds)
    rows, columns_at = np.divmod(keys[keep], n_items)
    return _Merged(
        report=report,
        users=users,
        items=items,
        rows=rows,
        columns=columns_at,
        values=np.ones(len(rows)) if values is None else values[keep],
        seconds=None if seconds is None else seconds[keep],
        repeats=Repeats(int(len(keys) - keep.sum()), table.has_times, untimed),
    )


def _reading(merged: _Merged, ratings: R, below: int, times: Float64Array | None = None) -> Reading[R]:
    report = merged.report
    if below:
        report.dropped = {**report.dropped, f"rated below {ratings.threshold:g}": below}
    return Reading(
        ratings=ratings,
        raters=merged.users,
        n_raters=len(merged.users),
        n_ratings=len(ratings),
        all_below=0 < len(merged.rows) == below,
        repeats=merged.repeats,
        times=times,
        **vars(report),
    )


def encode(table: RatingsTable, *, threshold: float | None = None, with_times: bool = False) -> MemoryReading:
    """Return the rows of a table as ratings in memory, with repeated pairs merged; see :func:`read_ratings_file`."""
    if table.options.window is not None and table.options.window.days is not None:
        raise ParameterError(f"ratings of {table.options.window} are read period by period: read_periods_file")
    merged = _merged(table)
    cells = merged.rows, merged.columns, merged.values
    made = Ratings.from_codes(*cells, merged.users, merged.items, has_values=table.has_values)
    ratings = replace(made, window=table.options.window)
    if table.filtered_by is not None:
        try:
            ratings = ratings.disclosing(table.filtered_by)
        except InputError as error:
            raise refusal(merged.report.name, str(error)) from error
    times, below = None, 0
    if with_times and merged.seconds is not None:
        times = np.where(np.isneginf(merged.seconds), np.nan, merged.seconds)
    # After merging, so that the same row of a pair decides, whatever the threshold is.
    if threshold is not None:
        everything, ratings = ratings, ratings.at_least(threshold)
        times = None if times is None else times[everything.matrix.data >= threshold]
        below = len(everything) - len(ratings)
    return _reading(merged, ratings, below, times)


def encode_periods(table: RatingsTable, *, threshold: float | None = None) -> "Reading[PeriodRatings]":
    """Return the same for a window of periods, with repeated pairs merged within a period alone."""
    from pricdr.data.periods import PeriodRatings  # few ratings have periods

    window, merged = table.options.window, _merged(table)
    assert window is not None, "who asks for periods has declared them"
    require_filter(table.filtered_by)
    if threshold is not None:
        require_threshold(threshold, has_values=table.has_values)
    owners, rows = np.unique(merged.rows, return_inverse=True)
    matrix = csr_of_cells(rows, merged.columns, merged.values, (len(owners), len(merged.items)))
    everything = matrix.nnz
    if threshold is not None:
        matrix = kept_entries(matrix, matrix.data >= threshold)
    ratings = PeriodRatings(
        matrix=matrix,
        owners=owners // window.periods,
        users=merged.users,
        items=merged.items,
        window=window,
        has_values=table.has_values,
        filtered_by=table.filtered_by,
        threshold=threshold,
    )
    return _reading(merged, ratings, everything - matrix.nnz)


def read_ratings_file(
    path: AnyPath | Query,
    *,
    threshold: float | None = None,
    with_times: bool = False,
    **options: Any,  # noqa: ANN401 - of read_ratings
) -> MemoryReading:
    """Read one or many files of ratings, and count what was merged or left out; file names show the format.

    Files that are read together have one schema, and give the same result as one file with all their rows. If a (user,
    item) pair occurs more than once, the latest row counts, and among equal times, or without times, the largest value.
    No row decides how another is read: JSON lines must have a user, an item and a rating each, ``.dat`` files four
    fields, unless ``columns`` says otherwise. ``with_times`` also returns the time of each rating.
    """
    with _table(path, threshold, options) as table:
        return encode(table, threshold=threshold, with_times=with_times)


def read_periods_file(
    path: AnyPath | Query,
    *,
    threshold: float | None = None,
    **options: Any,  # noqa: ANN401 - of read_ratings
) -> "Reading[PeriodRatings]":
    """Read the same for the unit user-period, whose ``window`` is cut into periods; the memory must hold them."""
    with _table(path, threshold, options) as table:
        return encode_periods(table, threshold=threshold)


@contextmanager
def _table(path: AnyPath | Query, threshold: float | None, options: Mapping[str, Any]) -> Iterator[RatingsTable]:
    parsed = ReadOptions.of(need_rating=threshold is not None, **options)
    given = path if isinstance(path, Query) else find_inputs(Path(path))
    with Workspace.opened(Path(gettempdir())) as workspace, opened_table(given, parsed, workspace) as table:
        yield table


def read_ratings(
    path: AnyPath | Query,
    *,
    columns: Columns | str | None = None,
    threshold: float | None = None,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    format: str | None = None,
    skip_bad_rows: bool = False,
    most_bad_rows: float = MAX_BAD_ROWS,
    window: "Window | None" = None,
    progress: Progress | bool = False,
) -> Ratings:
    r"""Return the ratings in one or many files; see :func:`read_ratings_file` for the rules.

    Args:
        path: ``.csv``, ``.tsv``, ``.inter``, ``.dat`` (``::``), ``.jsonl``/``.ndjson``/``.json`` (also with
            ``.gz``), or ``.parquet``; with a ``delimiter`` any other name is delimited text too. A folder means all
            files in it and in its subfolders (``country=de``), a pattern (``ratings/*.parquet``) all files that match,
            and ``-`` standard input. Or a :class:`~pricdr.data.reading.inputs.Query`.
        columns: The columns to read; found by name by default.
        threshold: Keep only pairs rated at least this; users and items without such a pair stay, unrated, even if that
            is all of them. The rating column is then required.
        delimiter: The separator of fields in delimited text, where the file name does not show it.
        encoding: The character encoding of a text file.
        format: The format of the files, where their names do not show it; standard input is CSV by default.
        skip_bad_rows: Leave out rows that cannot be used (too short, an empty id, a rating that is not a number)
            instead of refusing the file; they are counted.
        most_bad_rows: The largest share of rows that may be bad; with more the file is still refused.
        window: Read only rows of these days, before repeated pairs are merged; a time column is then required. Numbers
            in it are seconds since 1970, and dates without a zone are in UTC.
        progress: Whether to show that the file is being read.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "r.csv"
    ...     _ = file.write_text("user;item\n007;x\n")
    ...     read_ratings(file, delimiter=";").users
    ('007',)
    """
    options: dict[str, Any] = {"columns": columns, "delimiter": delimiter, "encoding": encoding, "format": format}
    options |= {"skip_bad_rows": skip_bad_rows, "most_bad_rows": most_bad_rows, "window": window}
    with shown(progress, f"reading {path}"):
        return read_ratings_file(path, threshold=threshold, **options).ratings
