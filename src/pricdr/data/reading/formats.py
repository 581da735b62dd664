"""Each format as a source of rows: what SQL takes from a file, and how a bad row is explained."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pricdr.data.reading.columns import Columns, find_fields, find_named, find_placed, roles_of_objects
from pricdr.data.reading.fields import Dialect, literal, width_fault
from pricdr.data.reading.options import Format, ReadOptions
from pricdr.data.reading.table import Source, escaped, values_fault
from pricdr.data.reading.text_files import LONGEST_LINE, file_refusal, first_line, refusal, shorten
from pricdr.data.reading.times import number_sql, seconds_sql
from pricdr.data.reading.values import judged
from pricdr.errors import InputError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FILTERED: Final = "pricdr.filtered"
"""The metadata key that carries ``Ratings.filtered_by`` from file to file."""
Schema: TypeAlias = tuple[tuple[str, str], ...]
_MOVIELENS: Final = Columns(user=1, item=2, rating=3, time=4)
_IDS: Final = ("user", "item")
_FOLDER: Final = "FOLDER"
"""The type of a column that a partition folder names: text, which may be a number."""
INTEGERS: Final = (
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"),
    *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"),
)


def lines_of(file: Path) -> str:
    """Return a relation with every line of a text file (NULL where it is empty) and its number ``n``, from 1.

    A NUL byte would end the column: no text holds one, so DuckDB refuses a file that does. It also refuses line ends
    that differ, but not in lines that ``skip`` passes over: what comes after them would be lost.
    """
    options = "columns = {'line': 'VARCHAR'}, delim = '\0', quote = '', escape = '', comment = '', header = false"
    exact = f"auto_detect = false, strict_mode = true, compression = 'none', max_line_size = {LONGEST_LINE}"
    lines = f"read_csv([{literal(escaped(file))}], {options}, {exact})"
    return f"(SELECT line, row_number() OVER () AS n FROM {lines})"


def text_source(
    name: Path,
    file: Path,
    kind: Format,
    options: ReadOptions,
    partitions: Mapping[str, str | None],
    connection: "DuckDBPyConnection",
) -> tuple[Source, Schema]:
    """Return the rows of a text file (``file`` may be a copy of ``name``), and its columns."""
    found = first_line(file, name, substitute=options.skip_bad_rows)
    if found is None:
        raise file_refusal(name, "the file is empty")
    if kind is Format.JSONL:
        return _json_source(name, lines_of(file), options, partitions, connection), ()
    first, number = found
    dialect = options.dialect(kind)
    columns = _MOVIELENS if options.columns is None and dialect.headerless else options.columns
    placed = columns is not None and columns.by_position
    fields = dialect.split(first)
    if isinstance(fields, str):
        if not (placed and options.skip_bad_rows):
            raise refusal(name, f"line {number} {fields}")
        fields = []
    if columns is not None and placed:
        positions = find_placed(name, fields, columns, need_rating=options.need_rating, lenient=options.skip_bad_rows)
        width, before = 1 + max(at for at in positions if at is not None), 0
    elif dialect.headerless:
        raise file_refusal(name, "a .dat file has no header: give --columns as positions (user=1,item=2,rating=3)")
    else:
        names = _untyped(fields, columns) if dialect.typed_header else fields
        positions = find_named(name, [*names, *partitions], columns, need_rating=options.need_rating)
        width, before = len(fields), number
    at = {role: position for role, position in positions._asdict().items() if position is not None}
    constants = list(partitions.values())
    texts = {
        role: f"f[{place + 1}]" if place < width or placed else _constant(constants[place - width])
        for role, place in at.items()
    }
    fits = f"len(f) {'>=' if placed else '='} {width}"
    lines = f"(SELECT line, n, {dialect.sql()} AS f FROM {lines_of(file)} WHERE n > {before})"

    def values(found: list[str]) -> dict[str, Any]:
        return {role: found[place] if place < width else constants[place - width] for role, place in at.items()}

    fault = partial(_line_fault, dialect, width, values, header=not placed, time_asked=options.time_asked)
    source = Source(
        name,
        lines,
        lines,
        _roles(texts),
        ("line",),
        fault,
        blank="line IS NULL",
        valid=fits,
        lines_before=before,
        blank_before=max(0, before - 1),
    )
    return source, () if placed else tuple((name, "text") for name in fields)


def _roles(texts: Mapping[str, str]) -> dict[str, str]:
    """Return SQL expressions for text: ids as they are, ratings and times as numbers."""
    convert = {"rating": number_sql, "time": seconds_sql}
    return {role: convert.get(role, str)(text) for role, text in texts.items()}


def _constant(value: str | None) -> str:
    return "NULL::VARCHAR" if value is None else literal(value)


def _line_fault(
    dialect: Dialect,
    width: int,
    values: Callable[[list[str]], dict[str, Any]],
    line: str,
    *,
    header: bool,
    time_asked: bool,
) -> str:
    fields = dialect.split(line)
    if isinstance(fields, str):
        return f" {fields}"
    fault = width_fault(len(fields), width, header=header)
    return values_fault(values(fields), time_asked=time_asked) if fault is None else f" {fault}"


def _untyped(header: list[str], columns: Columns | None) -> list[str]:
    """Return the names in ``name:type``, except where the caller gave a column with its type."""
    names = () if columns is None else (columns.user, columns.item, columns.rating, columns.time)
    return [name if name in names else name.rpartition(":")[0] or name for name in header]


def _json_source(
    name: Path, lines: str, options: ReadOptions, partitions: Mapping[str, str | None], connection: "DuckDBPyConnection"
) -> Source:
    """Return the rows of JSON lines: which field is which is found in each object by itself."""
    required, optional = roles_of_objects(name, options.columns, need_rating=options.need_rating)
    constants = {
        role: partitions[wanted]
        for role, wanted in {**required, **optional}.items()
        if wanted is not None and wanted in partitions
    }
    required = {role: wanted for role, wanted in required.items() if role not in constants}
    optional = {role: wanted for role, wanted in optional.items() if role not in constants}
    taken = frozenset(partitions)
    roles = (*required, *optional)
    # Most files have few sets of fields: each is looked up once.
    keys = "CASE WHEN json_valid(line) THEN json_keys(line) END"
    connection.execute("CREATE OR REPLACE TEMP TABLE objects (keys VARCHAR[], paths VARCHAR[])")
    for (fields,) in connection.execute(f"SELECT DISTINCT {keys} FROM {lines}").fetchall():
        if fields is not None and isinstance(found := find_fields(tuple(fields), required, optional, taken), dict):
            paths = [_pointer(found[role]) if role in found else None for role in roles]
            connection.execute("INSERT INTO objects VALUES (?, ?)", [fields, paths])
    columns = []
    for at, role in enumerate(roles, start=1):
        value, kind = f"json_extract_string(line, paths[{at}])", f"json_type(line, paths[{at}])"
        columns += [f"{value} AS t_{role}", f"{kind} AS k_{role}"]
    taken_apart = (
        f"(SELECT *, {', '.join(columns)} FROM (SELECT *, {keys} AS k FROM {{}}) LEFT JOIN objects ON objects.keys = k)"
    )
    number = "k_{0} IN ('BIGINT', 'UBIGINT', 'DOUBLE', 'HUGEINT')"
    of_role = {role: _constant(value) for role, value in constants.items()}
    for role in roles:
        if role in _IDS:
            whole = f"k_{role} = 'VARCHAR' OR ({number.format(role)} AND regexp_full_match(t_{role}, '-?[0-9]+'))"
            of_role[role] = f"CASE WHEN {whole} THEN t_{role} END"
        elif role == "rating":
            of_role[role] = f"CASE WHEN {number.format(role)} THEN t_{role} END"
        else:
            of_role[role] = f"CASE WHEN k_{role} = 'VARCHAR' OR {number.format(role)} THEN t_{role} END"

    def fault(line: str) -> str:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            return f" is not a JSON object: {shorten(line.strip())}; every line must hold one"
        fields = find_fields(tuple(record), required, optional, taken)
        if isinstance(fields, str):
            return f" {fields}"
        try:
            values = {role: judged(role, record[fields[role]] if role in fields else None) for role in roles}
        except ValueError as error:
            return f": {error}"
        return values_fault({**constants, **values}, time_asked=options.time_asked)

    return Source(
        name,
        taken_apart.format(lines),
        taken_apart.format(lines),
        _roles(of_role),
        ("line",),
        fault,
        blank=r"line IS NULL OR regexp_full_match(line, '[ \t\r\n]*')",
        valid="paths IS NOT NULL",
        lines_before=0,
    )


def _pointer(name: str) -> str:
    return "/" + name.replace("~", "~0").replace("/", "~1")


def parquet_source(
    name: Path, file: Path, options: ReadOptions, partitions: Mapping[str, str | None], connection: "DuckDBPyConnection"
) -> tuple[Source | None, Schema, str | None]:
    """Return the rows of a Parquet file, None if it has none; its columns, and the filter that it discloses."""
    import duckdb

    path = f"[{literal(escaped(file))}]"
    relation = f"read_parquet({path}, hive_partitioning = false, union_by_name = false)"
    if not file.stat().st_size:
        raise file_refusal(name, "the file is empty")
    try:
        kinds = [kind for _, kind, *_ in connection.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()]
        header = _top_names(connection.execute(f"SELECT name, num_children FROM parquet_schema({path})").fetchall())
        metadata = dict(connection.execute(f"SELECT key, value FROM parquet_kv_metadata({path})").fetchall())
        (rows,) = connection.execute(f"SELECT count(*) FROM {relation}").fetchone() or (0,)
        filtered = metadata.get(FILTERED.encode())
        filtered_by = None if filtered is None else filtered.decode()
    except (duckdb.Error, UnicodeDecodeError):
        raise broken_parquet(name) from None
    schema = tuple(zip(header, kinds, strict=True))
    positions = find_named(name, [*header, *partitions], options.columns, need_rating=options.need_rating)
    columns = {role: at for role, at in positions._asdict().items() if at is not None}
    constants = list(partitions.values())
    typed = {}
    for role, at in columns.items():
        typed[role] = (f"c{at}", kinds[at]) if at < len(header) else (_constant(constants[at - len(header)]), _FOLDER)
    # By position: DuckDB gives other names to columns that differ only in their case.
    names = ", ".join(f"c{at}" for at in range(len(header)))
    own = {f"c{at}": header[at] for at in columns.values() if at < len(header)}
    source = typed_source(name, f"(SELECT * FROM {relation} AS given({names}))", typed, own, options)
    return source if rows else None, schema, filtered_by


def broken_parquet(name: Path) -> InputError:
    """Return the refusal of a file that is not Parquet; a log gets no details."""
    return file_refusal(name, "cannot be read as Parquet: truncated, damaged, or of another format")


def _top_names(elements: list[tuple[str, int | None]]) -> list[str]:
    """Return the names of the columns, from a schema that lists nested fields too, each after its parent."""
    names, inside = [], [elements[0][1] or 0]
    for name, children in elements[1:]:
        while not inside[-1]:
            inside.pop()
        inside[-1] -= 1
        if len(inside) == 1:
            names.append(name)
        inside.append(children or 0)
    return names


def typed_source(
    name: Path | str,
    relation: str,
    columns: Mapping[str, tuple[str, str]],
    names: Mapping[str, str],
    options: ReadOptions,
    before: int = 0,
) -> Source:
    """Return the rows of a relation whose columns have types; each role has a column and its type.

    Args:
        name: What messages call it.
        relation: As SQL.
        columns: For each role an SQL expression and its type.
        names: The names of the columns, by their expressions, for messages.
        options: How ratings are read.
        before: The number of rows in earlier relations of the same input.
    """
    columns = dict(columns)
    if "time" in columns and not _may_be_times(columns["time"][1]) and not options.time_asked:
        del columns["time"]
    roles, record = {}, []
    for role, (column, kind) in columns.items():
        require_kind(name, role, kind, names.get(column))
        text = kind in ("VARCHAR", _FOLDER) or kind.startswith("ENUM")
        if role in _IDS:
            roles[role] = f"{column}::VARCHAR"
        elif text:
            roles[role] = (number_sql if role == "rating" else seconds_sql)(f"{column}::VARCHAR")
        elif _is_number(kind):
            roles[role] = f"{column}::DOUBLE + 0.0"
        else:
            roles[role] = f"epoch({column}::TIMESTAMP)" if kind.startswith("DATE") else f"epoch_us({column}) / 1e6"
        record.append(f"{column}::VARCHAR" if role != "rating" or text else f"{column}::DOUBLE")

    def fault(*values: Any) -> str:  # noqa: ANN401
        return values_fault(dict(zip(columns, values, strict=True)), time_asked=options.time_asked)

    numbered = f"(SELECT *, row_number() OVER () AS n FROM {relation})"
    return Source(name, relation, numbered, roles, tuple(record), fault, rows_before=before)


def _is_number(kind: str) -> bool:
    return kind in (*INTEGERS, "FLOAT", "DOUBLE") or kind.startswith("DECIMAL")


def _may_be_times(kind: str) -> bool:
    return _is_number(kind) or kind == "DATE" or kind.startswith(("TIMESTAMP", "VARCHAR", "ENUM", _FOLDER))


def require_kind(name: Path | str, role: str, kind: str, column: str | None) -> None:
    """Refuse a column of a type that cannot hold ids, ratings or times."""
    which = f"the {role} column{'' if column is None else f' {shorten(column)}'} holds {kind}"
    if role == "rating":
        if not _is_number(kind) and kind != _FOLDER:
            raise file_refusal(name, f"{which}; ratings must be numbers")
    elif role == "time":
        if not _may_be_times(kind):
            raise file_refusal(name, f"{which}; times must be dates, numbers or text")
    elif kind not in (*INTEGERS, "VARCHAR", _FOLDER) and not kind.startswith("ENUM"):
        hint = (
            " (1.0 is neither: cast it)"
            if kind in ("FLOAT", "DOUBLE")
            else " (cast it to text)"
            if kind == "BLOB"
            else ""
        )
        raise file_refusal(name, f"{which}; ids must be text or whole numbers{hint}")
