"""``RatingsTable``: rows of ratings, each checked, in a table of DuckDB; what every format becomes.

A row is good or bad by itself. Nothing is taken from other rows, and nothing of what DuckDB can guess is used: column
types, dialects, which rows to skip.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pricdr.data.ids import CONTROLS_IN_RE2, LONGEST_ID, id_fault
from pricdr.data.reading.fields import literal
from pricdr.data.reading.report import BadRows
from pricdr.data.reading.text_files import named, refusal, shorten
from pricdr.data.reading.times import finite_number, seconds_of
from pricdr.errors import DiskSpaceError, MemoryLimitError
from pricdr.memory import VARIABLE, format_bytes
from pricdr.parallel import cores

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from pricdr.data.workspace import Workspace

_GOOD, _BAD, _BLANK = range(3)
_SHOWN: Final = 5
_DISK_FAULTS: Final = ("No space left on device", "Disk quota exceeded", "File too large", "max_temp_directory_size")
"""What DuckDB says where a disk is full."""
_SMALLEST_MEMORY: Final = 64 * 10**6
"""DuckDB needs about 10 MB for each thread; the rest goes to disk."""


@contextmanager
def connected(
    workspace: "Workspace", files: Sequence[Path], memory: int, *, on_disk: bool = False
) -> Iterator["DuckDBPyConnection"]:
    """Yield a connection that can read these files, write to the workspace, and do nothing else outside."""
    import duckdb

    config: dict[str, Any] = {
        "threads": cores(),
        "memory_limit": f"{max(memory, _SMALLEST_MEMORY)}B",
        "temp_directory": str(workspace.folder / "spilled"),
        "autoload_known_extensions": False,
        "autoinstall_known_extensions": False,
        "python_enable_replacements": False,
        "pandas_analyze_sample": 0,
        "force_compression": "uncompressed",  # rows are read once or twice: compressing them takes longer than that
    }
    database = str(workspace.folder / "ratings.db") if on_disk else ":memory:"
    connection = duckdb.connect(database, config=config)
    try:
        readable = [file for file in files if has_utf8_name(file)]
        paths = sorted({path for file in readable for path in (str(file.absolute()), escaped(file))})
        connection.execute(f"SET allowed_paths = [{', '.join(map(literal, paths))}]")
        connection.execute(f"SET allowed_directories = [{literal(str(workspace.folder))}]")
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET enable_progress_bar = false")  # it would be written to standard output
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        yield connection
    finally:
        connection.close()


def has_utf8_name(file: Path) -> bool:
    """Return whether DuckDB can take the name of a file; any other file is copied first."""
    try:
        str(file.absolute()).encode()
    except UnicodeEncodeError:
        return False
    return True


def escaped(file: Path) -> str:
    """Return the absolute path of a file as DuckDB takes it: otherwise it would read a1.csv for a[1].csv."""
    return "".join(f"[{mark}]" if mark in "[*?" else mark for mark in str(file.absolute()))


@contextmanager
def explained(what: Path | str, workspace: "Workspace", memory: int) -> Iterator[None]:
    """Turn errors of DuckDB into one line of ours: its own messages quote rows."""
    import duckdb

    try:
        yield
    except (duckdb.Error, MemoryError) as error:
        text = str(error)
        if sign := next((sign for sign in _DISK_FAULTS if sign in text), None):
            reason = sign if sign != "max_temp_directory_size" else "No space left on device"
            hint = "choose another disk with --temp-dir"
            raise DiskSpaceError(f"cannot sort in {workspace.folder.parent}: {reason}: {hint}") from None
        if isinstance(error, duckdb.OutOfMemoryException | MemoryError):
            need = f"{named(what)}: reading it needs more memory than the limit of {format_bytes(memory)}"
            raise MemoryLimitError(f"{need}: raise it with the environment variable {VARIABLE}") from None
        raise refusal(what, f"cannot be read ({type(error).__name__})") from None


@dataclass(frozen=True)
class Source:
    """The rows of one file, or of a part of other input, as SQL."""

    name: Path | str
    """What messages call it."""
    rows: str
    """A relation, each row of which becomes a row of the table."""
    numbered: str
    """The same relation with a column ``n``: the number of the line, or of the row, from 1."""
    roles: Mapping[str, str]
    """SQL expressions for ``user``, ``item``, ``rating`` and ``time`` (in seconds), as far as there are columns."""
    record: tuple[str, ...]
    """The columns of a row that ``fault`` needs."""
    fault: Callable[..., str]
    """Says what is wrong with a bad row, to follow its place."""
    blank: str = "false"
    """Whether a row is a blank line."""
    valid: str = "true"
    """Whether a row can be taken apart."""
    lines_before: int | None = None
    """How many lines come before the first row; None where rows are not lines."""
    rows_before: int = 0
    blank_before: int = 0
    """How many blank lines come before the header."""


@dataclass
class RatingsTable:
    """Checked rows in the table ``rows`` (user, item, value, seconds, kind); a row that is not good is all NULL."""

    connection: "DuckDBPyConnection"
    name: Path | str
    has_values: bool = False
    has_times: bool = False
    time_asked: bool = False
    bad_rows: BadRows | None = None
    """Collects bad rows, which are skipped; without it the first is refused."""
    rows: int = 0
    """All rows, bad ones included."""
    blank_lines: int = 0
    filtered_by: str | None = None
    size: int | None = None
    files: int = 1
    empty_files: int = 0
    _counted: dict[int, int] = field(default_factory=lambda: {_BAD: 0, _BLANK: 0})

    def __post_init__(self) -> None:
        self.connection.execute(
            'CREATE TABLE rows ("user" VARCHAR, item VARCHAR, value DOUBLE, seconds DOUBLE, kind INT1)'
        )

    def add(self, source: Source, *, several: bool = False) -> int:
        """Add the rows of a source and return their number; a bad one is refused or skipped."""
        roles = source.roles
        self.has_values |= "rating" in roles
        self.has_times |= "time" in roles
        columns = ", ".join(f"{roles.get(role, 'NULL')} AS {name}" for role, name in _NAMES.items())
        taken = f"SELECT {source.blank} AS blank, {source.valid} AS valid, {columns} FROM {source.rows}"
        # In two steps: DuckDB evaluates an expression in a CASE once for each time that it is written.
        judged = f"SELECT *, {self._good(roles)} AS good FROM ({taken})"
        values = ", ".join(f"CASE WHEN good THEN {name} END" for name in ("u", "i", "v"))
        seconds = "CASE WHEN isfinite(s) THEN s ELSE '-infinity'::DOUBLE END"
        kind = f"CASE WHEN blank THEN {_BLANK} WHEN good THEN {_GOOD} ELSE {_BAD} END"
        (added,) = self._fetch(f"INSERT INTO rows SELECT {values}, {seconds}, {kind} FROM ({judged})")
        counts = self.connection.execute("SELECT kind, count(*) FROM rows WHERE kind > 0 GROUP BY kind").fetchall()
        before, self._counted = self._counted, {_BAD: 0, _BLANK: 0, **dict(counts)}
        blank, bad = (self._counted[kind] - before[kind] for kind in (_BLANK, _BAD))
        if bad:
            self._report(source, bad, columns, several=several)
        self.rows += added - blank
        self.blank_lines += blank + source.blank_before
        return int(added - blank)

    def require_few_bad(self) -> None:
        """Refuse the ratings if too many rows are bad, or all of them."""
        if self.bad_rows is not None:
            self.bad_rows.require_few(self.name, self.rows)
        if self.rows == self._counted[_BAD]:
            raise refusal(self.name, "no row of it can be used")

    def _good(self, roles: Mapping[str, str]) -> str:
        checks = ["valid"]
        for name in ("u", "i"):
            checks += [
                f"{name} <> ''",
                f"length({name}) <= {LONGEST_ID}",
                f"NOT regexp_matches({name}, {literal(CONTROLS_IN_RE2)})",
            ]
        checks += ["isfinite(v)"] * ("rating" in roles) + ["isfinite(s)"] * self.time_asked
        return f"coalesce({' AND '.join(checks)}, false)"

    def _report(self, source: Source, bad: int, columns: str, *, several: bool) -> None:
        """Refuse the first bad row, or note the first few of them."""
        record = ", ".join(f"{expression} AS record{at}" for at, expression in enumerate(source.record))
        taken = (
            f"SELECT n, {source.blank} AS blank, {source.valid} AS valid, {columns}, {record} FROM {source.numbered}"
        )
        shown = ", ".join(f"record{at}" for at in range(len(source.record)))
        wrong = f"NOT blank AND NOT {self._good(source.roles)}"
        found = self.connection.execute(
            f"SELECT n, {shown} FROM ({taken}) WHERE {wrong} ORDER BY n LIMIT {_SHOWN}"
        ).fetchall()
        own = BadRows(1.0)
        for number, *values in found:
            row, line = number - 1, None
            if source.lines_before is not None:
                blank = f"SELECT count(*) FROM {source.numbered} WHERE n < {number} AND ({source.blank})"
                row, line = number - 1 - source.lines_before - self._fetch(blank)[0], number
            row += source.rows_before
            at = f"row {row + 1}" if line is None else f"row {row + 1} (line {line})"
            fault = f"{at}{source.fault(*values)}"
            if self.bad_rows is None:
                raise refusal(source.name, fault)
            own.add(row, fault)
        own.count = bad
        assert self.bad_rows is not None
        self.bad_rows.absorb(own, before=self.rows - source.rows_before, file=named(source.name) if several else None)

    def _fetch(self, sql: str) -> tuple[Any, ...]:
        found = self.connection.execute(sql).fetchone()
        assert found is not None
        return found


_NAMES: Final = {"user": "u", "item": "i", "rating": "v", "time": "s"}


def values_fault(values: Mapping[str, Any], *, time_asked: bool) -> str:
    """Return what is wrong with the values of a row, to follow its place.

    >>> values_fault({"user": "a", "item": "", "rating": 4.0}, time_asked=False)
    ': the item id is empty'
    """
    for role in ("user", "item"):
        name = values[role]
        fault = "is empty (null)" if name is None else id_fault(name)
        if fault is not None:
            return f": the {role} id {fault}"
    if "rating" in values:
        rating = values["rating"]
        if rating is None or rating == "":
            return ": the rating is empty"
        number = finite_number(rating) if isinstance(rating, str) else float(rating)
        if number is None or not isfinite(number):
            return f": the rating {shorten(rating)} is not a finite number"
    if time_asked and seconds_of(values.get("time")) is None:
        rule = "is not a time (a number, or a date such as 2024-05-31 or 2024-05-31T12:00:00Z)"
        return f": the time {shorten(values.get('time'))} {rule}"
    return " cannot be used"
