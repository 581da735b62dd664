"""Ids of users and items: text, kept byte for byte. One rule for lists, ratings, releases and models."""

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from numbers import Integral
from pathlib import Path
from typing import Any, Final, TypeAlias

from pricdr.data.reading.text_files import (
    STANDARD_INPUT,
    explaining_os_errors,
    file_refusal,
    named,
    read_text,
    refusal,
    shorten,
)
from pricdr.errors import InputError, ParameterError
from pricdr.memory import require_memory

Ids: TypeAlias = tuple[str, ...]
IdsLike: TypeAlias = Iterable[Any]
"""Anything accepted as a list of ids: a list, an array, a column or an index of text or whole numbers."""

MAX_ID_LENGTH: Final = 1000
CONTROLS: Final = "[\x00-\x1f\x7f-\x9f\u2028\u2029]"
"""Characters that no id may contain, as a regular expression: control characters and all kinds of line breaks."""
CONTROLS_IN_RE2: Final = r"[\x00-\x1f\x7f-\x{9f}\x{2028}\x{2029}]"
"""The same in the dialect of DuckDB and Arrow."""
_BYTES_PER_ID: Final = 160
"""What an id takes beside its own bytes: an object, a place in a tuple, and one in a set while it is checked."""
_CONTROL: Final = re.compile(CONTROLS)
_SAMPLE: Final = 1 << 16
"""Bytes of a list from which its number of ids is estimated."""
_BYTES_PER_LISTED_ID: Final = 220
"""Memory that an id takes while a list is read and checked for repeats, besides three copies of its letters."""


def id_fault(name: str) -> str | None:
    """Return what is wrong with an id, as the predicate of "the id …"; None if it is valid."""
    if name == "":
        return "is empty"
    if len(name) > MAX_ID_LENGTH:
        return f"{shorten(name)} has more than {MAX_ID_LENGTH:,} characters"
    if _CONTROL.search(name):
        return f"{shorten(name)} holds a line break or another control character"
    return None


def as_ids(what: str, ids: IdsLike) -> Ids:
    """Return ids in a list, an array, a data frame's column or an index; whole numbers as text. Checks types only."""
    if isinstance(ids, str | bytes):
        raise ParameterError(f"{what} must be a list of ids, got the text {shorten(ids)}; read_ids reads a file")
    if hasattr(ids, "collect_schema") or hasattr(ids, "columns"):
        raise ParameterError(f"{what} must be one column of ids, got a data frame: name the column")
    # Each library has its own method that converts to Python values; numpy's or Arrow's numbers are not wanted.
    convert = next((getattr(ids, name) for name in ("to_pylist", "to_list", "tolist") if hasattr(ids, name)), None)
    try:
        values = list(ids if convert is None else convert())
    except TypeError as error:
        raise ParameterError(f"{what} must be a list of ids, got {shorten(ids)}") from error
    return tuple(value if type(value) is str else _id_text(what, at, value) for at, value in enumerate(values, 1))


def _id_text(what: str, at: int, value: object) -> str:
    if isinstance(value, str):  # numpy's own type of text
        return str(value)
    if isinstance(value, Integral) and not isinstance(value, bool):
        return str(int(value))
    hint = " (cast a column of floats)" if isinstance(value, float) else ""
    raise ParameterError(f"{what} must be text or whole numbers, got {shorten(value)} at position {at}{hint}")


def require_ids(what: str, ids: Sequence[Any]) -> Ids:
    """Return the ids if they are distinct and valid; ``what`` they identify is named in errors."""
    try:
        lines = "\n".join(ids)
        lines.encode()
    except (TypeError, UnicodeEncodeError) as error:
        raise InputError(f"{what} ids must be text that UTF-8 can hold: {error}") from error
    if len(set(ids)) != len(ids):
        raise InputError(f"{what} ids must be distinct")
    # Searched in one text, and one by one only to name the culprit: millions of searches take seconds.
    broken = lines.count("\n") >= max(1, len(ids)) or _CONTROL.search(lines.replace("\n", ""))
    if broken or "" in ids or max(map(len, ids), default=0) > MAX_ID_LENGTH:
        raise InputError(f"the {what} id {next(filter(None, map(id_fault, ids)))}")
    return tuple(ids)


def id_lines(ids: Ids) -> bytes:
    """Return how ``users.txt`` and ``items.txt`` hold ids: one per line, each line ended by a line feed."""
    return "".join(f"{name}\n" for name in ids).encode()


def parse_id_lines(what: str, content: bytes) -> Ids:
    """Return the ids that :func:`id_lines` wrote as these bytes; each list of ids has one spelling."""
    count = content.count(b"\n")
    require_memory(3 * len(content) + _BYTES_PER_ID * count, f"a list of {count:,} {what} ids")
    try:
        *lines, rest = content.decode().split("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{what} ids must be text in UTF-8: byte {error.start + 1:,} is not") from error
    if rest:
        raise InputError("the last line does not end with a line feed")
    return require_ids(what, lines)


def read_ids(path: str | os.PathLike[str]) -> Ids:
    r"""Read the ids of ``users.txt`` or ``items.txt``: one per line, byte for byte, in the order of the file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "users.txt"
    ...     _ = file.write_bytes(b"007\r\n bob\n")
    ...     read_ids(file)
    ('007', ' bob')
    """
    file = Path(path)
    if file == STANDARD_INPUT:
        raise file_refusal(file, "a list of ids must be a file; only ratings are read from there")
    with explaining_os_errors(file), file.open("rb") as opened:
        size, start = os.fstat(opened.fileno()).st_size, opened.read(_SAMPLE)
    count = size * max(1, start.count(b"\n")) // max(1, len(start))
    require_memory(_BYTES_PER_LISTED_ID * count + 3 * size, f"{named(file)}: a list of about {count:,} ids")
    # An id may consist of spaces: ids are kept byte for byte.
    text = read_text(file).rstrip(b"\r\n").decode()
    ids = (text.replace("\r\n", "\n") if "\r" in text else text).removesuffix("\r").split("\n")
    with suppress(InputError):
        return require_ids("listed", ids)
    line_of: dict[str, int] = {}
    for line, name in enumerate(ids, start=1):  # only to name the culprit
        if name == "":  # a list that lost a line would shift every row after it
            raise refusal(file, f"line {line} is blank; every line must hold one id")
        if fault := id_fault(name):
            raise refusal(file, f"line {line}: the id {fault}")
        if line_of.setdefault(name, line) != line:
            raise refusal(file, f"line {line} repeats the id {shorten(name)} of line {line_of[name]}")
    raise AssertionError("one of them is at fault")
