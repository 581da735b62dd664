"""Split one line into its fields: as an SQL expression for all lines of a file, and in Python for one of them.

A row is one line. What a field is depends on that line and on the separator, which is given or belongs to the format:
nothing is sniffed, and a quote never reaches into the next line.
"""

import re
from dataclasses import dataclass
from typing import Final

_STAND_IN: Final = "\x1f"
"""Replaces a separator of several characters in lines with quotes, so that one character ends a field."""


def literal(text: str) -> str:
    """Return a text as SQL.

    >>> literal("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """Return a name as SQL."""
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True)
class Dialect:
    """How one kind of file separates its fields."""

    separator: str
    quoting: bool = True
    typed_header: bool = False
    """RecBole writes ``name:type``."""
    headerless: bool = False
    """MovieLens writes ``user::item::rating::time`` in every line."""

    def split(self, line: str) -> list[str] | str:
        r"""Return the fields of a line, or what is wrong with its quotes.

        >>> Dialect(",").split('a,"x,""y"" z",5" disc')
        ['a', 'x,"y" z', '5" disc']
        >>> Dialect(",").split('a,"b')
        'is not valid: a quoted field does not end on its line (a field with line breaks needs Parquet)'
        """
        if not self.quoting or '"' not in line:
            return line.split(self.separator)
        mark, field = self._mark, self._field
        plain = line.replace(self.separator, mark)
        if not re.fullmatch(f"{field}(?:{re.escape(mark)}{field})*", plain):
            return _quote_fault(plain, mark)
        found = re.findall(f"{re.escape(mark)}({field})", mark + plain)
        return [_unquoted(field).replace(mark, self.separator) for field in found]

    def sql(self) -> str:
        """Return an SQL expression for the fields of ``line``, a list; NULL where its quotes are not valid."""
        split = f"string_split(line, {literal(self.separator)})"
        if not self.quoting:
            return split
        mark, field = self._mark, self._field
        plain = f"replace(line, {literal(self.separator)}, {literal(mark)})"
        safe = re.escape(mark)
        simple = f'(?:"[^"{safe}]*"|[^"{safe}]*)'
        unquoted = """CASE WHEN starts_with(f, '"') THEN replace(f[2:-2], '""', '"') ELSE f END"""
        each = f"{safe}({field})"
        back = f"replace({unquoted}, {literal(mark)}, {literal(self.separator)})" if mark == _STAND_IN else unquoted
        return (
            f"""CASE WHEN NOT contains(line, '"') THEN {split} """
            # Most lines with quotes have nothing but quotes around fields: several times faster.
            f"WHEN regexp_full_match({plain}, {literal(f'{simple}(?:{safe}{simple})*')}) "
            # Split before quotes are taken away: without them ":":: would be split elsewhere.
            f"""THEN string_split(replace({plain}, '"', ''), {literal(mark)}) """
            f"WHEN regexp_full_match({plain}, {literal(f'{field}(?:{safe}{field})*')}) "
            f"THEN [{back} FOR f IN regexp_extract_all({literal(mark)} || {plain}, {literal(each)}, 1)] END"
        )

    @property
    def _mark(self) -> str:
        return self.separator if len(self.separator) == 1 else _STAND_IN

    @property
    def _field(self) -> str:
        """The pattern of a field: in quotes, which are doubled inside, or without a quote at its beginning."""
        mark = re.escape(self._mark)
        return f'(?:"(?:[^"]|"")*"|(?:[^"{mark}][^{mark}]*)?)'


CSV: Final = Dialect(",")
TSV: Final = Dialect("\t")
INTER: Final = Dialect("\t", quoting=False, typed_header=True)
MOVIELENS: Final = Dialect("::", quoting=False, headerless=True)


def width_fault(fields: int, width: int, *, header: bool) -> str | None:
    """Return what is wrong with the number of fields of a row; without a header it may have more than were declared."""
    if fields == width or (not header and fields > width):
        return None
    model = "the header has" if header else "the columns are declared up to"
    return f"is too {'short' if fields < width else 'long'}: {fields} fields, {model} {width}"


def _unquoted(field: str) -> str:
    return field[1:-1].replace('""', '"') if field.startswith('"') else field


def _quote_fault(line: str, mark: str) -> str:
    closed = re.match(
        rf'(?:(?:"(?:[^"]|"")*"|[^"{re.escape(mark)}][^{re.escape(mark)}]*|){re.escape(mark)})*"(?:[^"]|"")*"', line
    )
    if closed:
        return "is not valid: text follows a closing quote (a quote inside a quoted field must be doubled)"
    rule = "a field with line breaks needs Parquet"
    return f"is not valid: a quoted field does not end on its line ({rule})"
