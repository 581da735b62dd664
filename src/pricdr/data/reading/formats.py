"""Each format: its name, how a line is split, what SQL takes from its rows, and how a bad row is explained.

A row is good or bad by itself, and a row of text is one line: nothing is sniffed, no quote reaches into the next line.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pricdr.data.ids import id_fault
from pricdr.data.reading.columns import HINT, Columns, find_columns, find_named, find_placed
from pricdr.data.reading.text_files import (
    MAX_LINE_LENGTH,
    STANDARD_INPUT,
    file_refusal,
    first_line,
    refusal,
    require_encoding,
    shorten,
)
from pricdr.errors import InputError, ParameterError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from pricdr.data.periods import Window

FILTERED: Final = "pricdr.filtered"
"""The metadata key that carries ``Ratings.filtered_by`` from file to file."""
MAX_BAD_ROWS: Final = 0.01
PartitionValues: TypeAlias = Mapping[str, str | None]
_MAX_DELIMITER_LENGTH: Final = 8
_IDS: Final = ("user", "item")
_FOLDER: Final = "FOLDER"
"""The type of a column that a partition folder names: text, which may be a number."""
_SIGNED: Final = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
INTEGERS: Final = (*_SIGNED, *(f"U{kind}" for kind in _SIGNED))
_CAST: Final = {**dict.fromkeys(("FLOAT", "DOUBLE"), " (1.0 is neither: cast it)"), "BLOB": " (cast it to text)"}
"""What to do about types that are no ids."""


def literal(text: str) -> str:
    """Return a text as SQL."""
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """Return a name as SQL."""
    return '"' + name.replace('"', '""') + '"'


def escaped(file: Path) -> str:
    """Return the absolute path of a file as DuckDB takes it: otherwise it would read a1.csv for a[1].csv."""
    return "".join(f"[{mark}]" if mark in "[*?" else mark for mark in str(file.absolute()))


# --- what the caller says -----------------------------------------------------------------------------------------


class Format(StrEnum):
    """How a file of ratings is written."""

    CSV = "csv"
    TSV = "tsv"
    INTER = "inter"
    DAT = "dat"
    JSONL = "jsonl"
    PARQUET = "parquet"


_NAMES: Final = {
    **{f".{kind}": kind for kind in (Format.CSV, Format.TSV, Format.INTER, Format.DAT)},
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), Format.JSONL),
    ".parquet": Format.PARQUET,
}


@dataclass(frozen=True)
class Dialect:
    """How one kind of file separates its fields."""

    separator: str
    quoting: bool = True
    typed_header: bool = False
    """RecBole writes ``name:type``."""
    columns: Columns | None = None
    """What a line holds by default where there is no header, as in files of MovieLens."""

    def split(self, line: str) -> list[str] | str:
        """Return the fields of a line, or what is wrong with its quotes."""
        mark, field = self._patterns
        if not field or '"' not in line:
            return line.split(self.separator)
        if re.fullmatch(f"{field}(?:{mark}{field})*", line):
            found = re.findall(f"{mark}({field})", self.separator + line)
            return [text[1:-1].replace('""', '"') if text.startswith('"') else text for text in found]
        if re.match(rf'(?:{field}{mark})*"(?:[^"]|"")*"', line):
            return "is not valid: text follows a closing quote (a quote inside a quoted field must be doubled)"
        return "is not valid: a quoted field does not end on its line (a field with line breaks needs Parquet)"

    def sql(self) -> str:
        """Return an SQL expression for the fields of ``line``, a list; NULL where its quotes are not valid."""
        separator, (mark, field) = literal(self.separator), self._patterns
        split = f"string_split(line, {separator})"
        if not field:
            return split
        simple = f'(?:"[^"{mark}]*"|[^"{mark}]*)'
        unquoted = """CASE WHEN starts_with(f, '"') THEN replace(f[2:-2], '""', '"') ELSE f END"""
        return (
            f"""CASE WHEN NOT contains(line, '"') THEN {split} """
            # Most lines with quotes have nothing but quotes around fields: several times faster.
            f"WHEN regexp_full_match(line, {literal(f'{simple}(?:{mark}{simple})*')}) "
            f"""THEN string_split(replace(line, '"', ''), {separator}) """
            f"WHEN regexp_full_match(line, {literal(f'{field}(?:{mark}{field})*')}) "
            f"THEN [{unquoted} FOR f IN regexp_extract_all({separator} || line, {literal(f'{mark}({field})')}, 1)] END"
        )

    @property
    def _patterns(self) -> tuple[str, str]:
        """The patterns of the separator, and of a field, in quotes or not; that is empty where quotes mean nothing."""
        mark, quotes = re.escape(self.separator), self.quoting and len(self.separator) == 1
        return mark, f'(?:"(?:[^"]|"")*"|(?:[^"{mark}][^{mark}]*)?)' if quotes else ""


CSV: Final = Dialect(",")
TSV: Final = Dialect("\t")
_DIALECTS: Final = {
    Format.CSV: CSV,
    Format.TSV: TSV,
    Format.INTER: Dialect("\t", quoting=False, typed_header=True),
    Format.DAT: Dialect("::", quoting=False, columns=Columns(user=1, item=2, rating=3, time=4)),
}


def width_fault(fields: int, width: int, *, header: bool) -> str | None:
    """Return what is wrong with the number of fields of a row; without a header it may have more than were declared."""
    if fields == width or (not header and fields > width):
        return None
    model = "the header has" if header else "the columns are declared up to"
    return f"is too {'short' if fields < width else 'long'}: {fields} fields, {model} {width}"


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How files of ratings are read; the arguments of ``read_ratings`` explain the fields."""

    columns: Columns | None = None
    delimiter: str | None = None
    encoding: str = "utf-8"
    format: Format | None = None
    skip_bad_rows: bool = False
    most_bad_rows: float = MAX_BAD_ROWS
    need_rating: bool = False
    time_asked: bool = False
    """Whether the caller named the time column, so that a time that cannot be read makes a row bad."""
    window: "Window | None" = None
    """Leave out the rows of all other days, and rows without a time; one that cannot be read makes a row bad."""

    @classmethod
    def of(
        cls,
        *,
        columns: Columns | str | None = None,
        delimiter: str | None = None,
        encoding: str = "utf-8",
        format: str | None = None,
        **others: Any,  # noqa: ANN401 - the other fields
    ) -> "ReadOptions":
        """Check what a caller wrote, and return the options that it describes."""
        if format is not None and format not in list(Format):
            raise ParameterError(f"format must be one of {', '.join(Format)}, got {shorten(format)}")
        columns = Columns.parse(columns) if isinstance(columns, str) else columns
        options = cls(
            columns=columns,
            delimiter=None if delimiter is None else parse_delimiter(delimiter),
            encoding=require_encoding(encoding),
            format=None if format is None else Format(format),
            time_asked=columns is not None and columns.time is not None,
            **others,
        )
        if not 0 < options.most_bad_rows <= 1:
            raise ParameterError(f"most_bad_rows must be a share above 0 and at most 1, got {options.most_bad_rows!r}")
        return options

    def kind(self, file: Path) -> Format:
        """Return the format of a file, from the caller or its name; standard input is CSV by default."""
        name = file.name.lower()
        by_name = _NAMES.get(Path(name.removesuffix(".gz")).suffix)
        if by_name is Format.PARQUET and name.endswith(".gz"):
            by_name = None
        kind = self.format or by_name or (Format.CSV if file == STANDARD_INPUT or self.delimiter is not None else None)
        if kind is None:
            accepted = ", ".join(name for name in _NAMES if name != ".parquet")
            rule = f"accepted are {accepted} (each also with .gz) and .parquet, or set format or delimiter"
            raise file_refusal(file, f"unknown kind of file; {rule}")
        # Without the name of a file, which may be an id: logs show these messages.
        if kind is Format.PARQUET:
            self.refuse_unused("is for text files, and these files are Parquet", "delimiter", "encoding")
        if kind is Format.JSONL:
            self.refuse_unused("is for delimited text, and these files are JSON lines", "delimiter")
        return kind

    def dialect(self, kind: Format) -> Dialect:
        """Return how the fields of delimited text are separated."""
        if self.delimiter is None:
            return _DIALECTS[kind]
        return replace(CSV if kind is Format.DAT else _DIALECTS[kind], separator=self.delimiter)

    def refuse_unused(self, why: str, *names: str) -> None:
        """Refuse options that say nothing about what is read."""
        for name in names:
            if getattr(self, name) != getattr(ReadOptions, name):
                raise ParameterError(f"{name} {why}")


def parse_delimiter(text: str) -> str:
    r"""Return a delimiter as the command line writes it; ``tab`` and ``\t`` stand for a tab."""
    delimiter = {"tab": "\t", "\\t": "\t"}.get(text, text)
    plain = delimiter == "\t" or delimiter.isprintable()
    if not plain or not 1 <= len(delimiter) <= _MAX_DELIMITER_LENGTH or '"' in delimiter:
        rule = f"1 to {_MAX_DELIMITER_LENGTH} printable characters or tab, and hold no quote"
        raise ParameterError(f"delimiter must be {rule}, got {shorten(text)}")
    return delimiter


# --- values -------------------------------------------------------------------------------------------------------

NUMBER: Final = r"[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][-+]?[0-9]+)?"
_CLOCK: Final = r"([01][0-9]|2[0-3]):[0-5][0-9]"
_ZONE: Final = r"(Z|[+-]([01][0-9]|2[0-3])(:?[0-5][0-9])?)"
DATE: Final = rf"[1-9][0-9]{{3}}-[0-9]{{2}}-[0-9]{{2}}([T ]{_CLOCK}(:[0-5][0-9]([.][0-9]{{1,6}})?)?{_ZONE}?)?"
"""The dates and times of ISO 8601 that every engine reads alike."""


def number_sql(text: str) -> str:
    """Return SQL for a text as a number; NULL, infinite or not a number where it is no finite one."""
    # DuckDB reads 1_000 and +-5, which nobody else does. -0 equals 0: as bytes they would differ.
    odd = f"contains({text}, '_') OR contains({text}, '+-')"
    return f"CASE WHEN {odd} THEN NULL ELSE try_cast({text} AS DOUBLE) + 0.0 END"


def seconds_sql(text: str) -> str:
    """Return SQL for a text as a time: a number, or a date of ISO 8601 in seconds since 1970; NULL where it is neither.

    No format is guessed from a column: one person's row would decide how others are read. The connection is in UTC.
    """
    date = rf"trim({text}, {' || '.join(f'chr({blank})' for blank in (32, 9, 10, 11, 12, 13))})"
    moment = f"CASE WHEN regexp_full_match({date}, '{DATE}') THEN epoch_us(try_cast({date} AS TIMESTAMPTZ)) / 1e6 END"
    return f"coalesce({number_sql(text)}, {moment})"


def judged(role: str, value: Any) -> str | float | None:  # noqa: ANN401
    """Return an id or a time as text, a rating as a number, by its own type; ``ValueError`` says what is wrong."""
    kind = type(value)  # not isinstance: True is an int to it
    if role == "rating":
        with suppress(OverflowError):  # a whole number beyond every float
            if kind in (int, float):
                return float(value)
        raise ValueError(f": the rating {shorten(value)} is not a finite number")
    fault = "must be text or a whole number"
    if kind in (str, int) or (kind is float and role == "time"):
        with suppress(UnicodeEncodeError):
            return str(value).encode().decode()
        fault = "holds half of a surrogate pair, which is not text"
    if role == "time":
        return None  # it cannot be read
    raise ValueError(f": the {role} id {shorten(value)} {fault}")


def values_fault(row: Mapping[str, Any], *, time_asked: bool) -> str:
    """Return what is wrong with a row, to follow its place; ``value`` and ``seconds``: its rating and time, read."""
    for role in _IDS:
        if fault := "is empty (null)" if row[role] is None else id_fault(row[role]):
            return f": the {role} id {fault}"
    finite = {name: row[name] is not None and isfinite(row[name]) for name in ("value", "seconds")}
    if "rating" in row and not finite["value"]:
        rating = row["rating"]
        return f": the rating {'is empty' if rating in (None, '') else shorten(rating) + ' is not a finite number'}"
    if time_asked and not finite["seconds"]:
        rule = "a number, or a date such as 2024-05-31 or 2024-05-31T12:00:00Z"
        return f": the time {shorten(row['time'])} is not a time ({rule})"
    return " cannot be used"


# --- rows ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Source:
    """The rows of one file, or of a part of other input, as SQL."""

    name: Path | str
    rows: str
    """A relation with a column ``n``: the number of the line, or of the row, from 1."""
    roles: Mapping[str, tuple[str, str]]
    """Of each role that there is: the value in SQL (a time in seconds), and what messages quote."""
    valid: str = "true"
    """SQL: whether a row can be taken apart."""
    record: str = "NULL"
    """SQL for what ``explain`` needs of a row."""
    explain: Callable[[Any], str | None] = lambda record: None
    """Says why a row cannot be taken apart, to follow its place; None where something else is wrong with it."""
    blank: str = "false"
    """SQL: whether a row is a blank line."""
    lines_before: int | None = None
    """How many lines come before the first row: blank ones, and a header; None where rows are not lines."""
    schema: Mapping[str, str] = field(default_factory=dict)
    """All columns and their types, which must be the same in files that are read together."""
    unused: tuple[str, ...] = ()
    filtered_by: str | None = None


def _lines(file: Path) -> str:
    # A NUL byte would end the column: no text holds one, so DuckDB refuses a file that does. It also refuses line ends
    # that differ, but not in lines that ``skip`` passes over: what comes after them would be lost.
    dialect = "columns = {'line': 'VARCHAR'}, delim = '\0', quote = '', escape = '', comment = '', header = false"
    exact = f"auto_detect = false, strict_mode = true, compression = 'none', max_line_size = {MAX_LINE_LENGTH}"
    return f"(SELECT line, row_number() OVER () AS n FROM read_csv([{literal(escaped(file))}], {dialect}, {exact}))"


def delimited_source(name: Path, file: Path, kind: Format, options: ReadOptions, folders: PartitionValues) -> Source:
    """Return the rows of delimited text; ``file`` may be a copy of ``name``."""
    dialect, need_rating, lenient = options.dialect(kind), options.need_rating, options.skip_bad_rows
    columns = options.columns or dialect.columns
    line, number = first_line(file, name, substitute=lenient)
    fields = dialect.split(line)
    placed = columns is not None and columns.by_position
    if isinstance(fields, str):
        if not (placed and lenient):
            raise refusal(name, f"line {number} {fields}")
        fields = []
    if columns is not None and placed:
        found = find_placed(name, fields, columns, need_rating=need_rating, lenient=lenient)
        header, width, before = [], 1 + max(found.values()), 0
    elif dialect.columns is not None:
        raise file_refusal(name, "a .dat file has no header: give --columns as positions (user=1,item=2,rating=3)")
    else:
        # RecBole's names without their types, except where the caller gave a column with its type.
        given = () if columns is None else columns.given.values()
        untyped = [each if each in given else each.rpartition(":")[0] or each for each in fields]
        header = [*(untyped if dialect.typed_header else fields), *folders]
        found = find_named(name, header, columns, need_rating=need_rating)
        width, before = len(fields), number
    texts = [f"f[{at + 1}]" for at in range(width)] + [_constant(value) for value in folders.values()]

    def explain(line: str) -> str | None:
        fields = dialect.split(line)
        fault = fields if isinstance(fields, str) else width_fault(len(fields), width, header=not placed)
        return None if fault is None else f" {fault}"

    return Source(
        name,
        f"(SELECT line, n, {dialect.sql()} AS f FROM {_lines(file)} WHERE n > {before})",
        _text_roles({role: texts[at] for role, at in found.items()}),
        valid=f"len(f) {'>=' if placed else '='} {width}",
        record="line",
        explain=explain,
        blank="line IS NULL",
        lines_before=before,
        schema={} if placed else dict.fromkeys(fields, "text"),
        unused=_unused(header, found),
    )


def _unused(header: Sequence[str], found: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(name for at, name in enumerate(header) if at not in found.values())


def _text_roles(texts: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    convert = {"rating": number_sql, "time": seconds_sql}
    return {role: (convert.get(role, str)(text), text) for role, text in texts.items()}


def _constant(value: str | None) -> str:
    return "NULL::VARCHAR" if value is None else literal(value)


def json_source(
    name: Path, file: Path, options: ReadOptions, folders: PartitionValues, connection: "DuckDBPyConnection"
) -> Source:
    """Return the rows of JSON lines, each searched for what was declared: the first object is a row like any other."""
    first_line(file, name, substitute=options.skip_bad_rows)  # refuses an empty file
    lines = _lines(file)
    given = {} if options.columns is None else options.columns.given
    if options.columns is not None and options.columns.by_position:
        raise file_refusal(name, "positions are for files without a header, and JSON lines have names")
    needed = (*_IDS, "rating") if options.columns is None or options.need_rating else _IDS
    wanted = dict.fromkeys((*given, *needed, "time"))
    constants = {role: folders[str(column)] for role, column in given.items() if column in folders}

    def find(names: Sequence[str]) -> dict[str, str]:
        every = [*names, *folders]
        found = find_columns("", every, given, needed, ("time",), what="the object", hint=HINT)
        return {role: every[at] for role, at in found.items() if role not in constants}

    # Most files have few sets of fields: each is looked up once.
    keys = "CASE WHEN json_valid(line) THEN json_keys(line) END"
    connection.execute("CREATE OR REPLACE TEMP TABLE objects (keys VARCHAR[], paths VARCHAR[])")
    for (fields,) in connection.execute(f"SELECT DISTINCT {keys} FROM {lines}").fetchall():
        with suppress(InputError):
            names = {role: name.replace("~", "~0").replace("/", "~1") for role, name in find(fields or ()).items()}
            paths = [f"/{names[role]}" if role in names else None for role in wanted]
            connection.execute("INSERT INTO objects VALUES (?, ?)", [fields, paths])
    columns, texts, valid = [], {}, ["paths IS NOT NULL"]
    for at, role in enumerate(wanted, start=1):
        if role in constants:
            texts[role] = _constant(constants[role])
            continue
        columns.append(f"json_extract_string(line, paths[{at}]) AS t{at}, json_type(line, paths[{at}]) AS k{at}")
        number = f"k{at} IN ('BIGINT', 'UBIGINT', 'DOUBLE', 'HUGEINT')"
        whole = f"(k{at} = 'VARCHAR' OR ({number} AND regexp_full_match(t{at}, '-?[0-9]+')))"
        accepted = number if role == "rating" else whole if role in _IDS else f"(k{at} = 'VARCHAR' OR {number})"
        texts[role] = f"CASE WHEN {accepted} THEN t{at} END"
        valid += [accepted] * (role != "time")

    def explain(line: str) -> str | None:
        try:  # objects become tuples, so that a repeated name shows
            record = json.loads(line, object_pairs_hook=tuple)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, tuple):
            return f" is not a JSON object: {shorten(line.strip())}; every line must hold one"
        try:
            for role, name in find([name for name, _ in record]).items():
                judged(role, dict(record)[name])
        except ValueError as error:
            return str(error)
        return None

    keyed = f"(SELECT *, {keys} AS k FROM {lines}) LEFT JOIN objects ON objects.keys = k"
    return Source(
        name,
        f"(SELECT *, {', '.join(columns)} FROM {keyed})",
        _text_roles(texts),
        valid=" AND ".join(valid),
        record="line",
        explain=explain,
        blank=r"line IS NULL OR regexp_full_match(line, '[ \t\r\n]*')",
        lines_before=0,
    )


def parquet_source(
    name: Path, file: Path, options: ReadOptions, folders: PartitionValues, connection: "DuckDBPyConnection"
) -> Source:
    """Return the rows of a Parquet file."""
    import duckdb

    path = f"[{literal(escaped(file))}]"
    relation = f"read_parquet({path}, hive_partitioning = false, union_by_name = false)"
    if not file.stat().st_size:
        raise file_refusal(name, "the file is empty")
    try:
        kinds = [kind for _, kind, *_ in connection.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()]
        elements = connection.execute(f"SELECT name, num_children FROM parquet_schema({path}) OFFSET 1").fetchall()
        metadata = dict(connection.execute(f"SELECT key, value FROM parquet_kv_metadata({path})").fetchall())
        filtered_by = metadata[FILTERED.encode()].decode() if FILTERED.encode() in metadata else None
    except (duckdb.Error, UnicodeDecodeError):
        raise broken_parquet(name) from None
    header, nested = list[str](), 0  # the fields inside a column follow it
    for column, children in elements:
        if not nested:
            header.append(column)
        nested += (children or 0) - (nested > 0)
    found = find_named(name, [*header, *folders], options.columns, need_rating=options.need_rating)
    every: list[tuple[str, str, str | None]] = [(f"c{at}", kinds[at], column) for at, column in enumerate(header)]
    every += [(_constant(value), _FOLDER, None) for value in folders.values()]
    columns = {role: every[at] for role, at in found.items()}
    source = typed_source(name, by_position(relation, len(header)), columns, options)
    schema = dict(zip(header, kinds, strict=True))
    return replace(source, schema=schema, unused=_unused(header, found), filtered_by=filtered_by)


def by_position(relation: str, columns: int) -> str:
    """Return a relation as SQL with columns c0, c1 and so on: DuckDB renames those that differ only in their case."""
    return f"(SELECT * FROM {relation} AS given({', '.join(f'c{at}' for at in range(columns))}))"


def broken_parquet(name: Path) -> InputError:
    """Return the refusal of a file that is not Parquet; a log gets no details."""
    return file_refusal(name, "cannot be read as Parquet: truncated, damaged, or of another format")


def typed_source(
    name: Path | str,
    relation: str,
    columns: Mapping[str, tuple[str, str, str | None]],
    options: ReadOptions,
    before: int = 0,
) -> Source:
    """Return the rows of a relation in SQL, after ``before`` others; each role has SQL, a type and perhaps a name."""
    roles: dict[str, tuple[str, str]] = {}
    for role, (column, kind, shown) in columns.items():
        text = kind in ("VARCHAR", _FOLDER) or kind.startswith("ENUM")
        number = kind in (*INTEGERS, "FLOAT", "DOUBLE") or kind.startswith("DECIMAL")
        is_time = text or number or kind == "DATE" or kind.startswith("TIMESTAMP")
        if role == "time" and not is_time and not options.time_asked:
            continue
        accepted, rule = {
            "rating": (number or kind == _FOLDER, "ratings must be numbers"),
            "time": (is_time, "times must be dates, numbers or text"),
        }.get(role, (text or kind in INTEGERS, f"ids must be text or whole numbers{_CAST.get(kind, '')}"))
        if not accepted:
            raise file_refusal(name, f"the {role} column {f'{shorten(shown)} ' if shown else ''}holds {kind}; {rule}")
        if role in _IDS or text:
            roles |= _text_roles({role: f"{column}::VARCHAR"})
        elif number:
            roles[role] = (f"{column}::DOUBLE + 0.0", f"{column}::DOUBLE")
        else:
            moment = f"epoch({column}::TIMESTAMP)" if kind == "DATE" else f"epoch_us({column}) / 1e6"
            roles[role] = (moment, f"{column}::VARCHAR")
    return Source(name, f"(SELECT *, {before} + row_number() OVER () AS n FROM {relation})", roles)
