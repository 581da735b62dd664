"""Text files: what messages call them, their content as UTF-8 without NUL, unpacked and bounded, and TOML."""

import codecs
import gzip
import io
import math
import re
import shutil
import tomllib
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Final

from pricdr.errors import InputError, InputFileError, ParameterError, PriCDRError, printable
from pricdr.files import require_local
from pricdr.untrusted import read_bounded

LARGEST = 16 << 30
"""The most bytes that a compressed file may unpack to."""
MAX_EXPANSION: Final = 200
EXPANSION_FROM: Final = 64 << 20
"""Below this size a compressed file may unpack to any multiple of its own."""
UNREADABLE: Final = "\x1a"
"""Replaces a byte that is not text, where bad rows are skipped: SUB, a control character that no id may contain."""
STANDARD_INPUT: Final = Path("-")
MAX_LINE_LENGTH: Final = 2_000_000
"""The most bytes of a line of a ratings file; a row without review text has about a hundred."""
_MAX_TOML: Final = 1 << 18
_MAX_TOML_LINE_LENGTH: Final = 2_000
"""Bytes. A key of n parts takes the parser n² steps, and a key stands on one line."""
_DEEPEST: Final = 8
_BLOCK = 1 << 20
_GZIP = b"\x1f\x8b"
_PACKED_BLOCK = 1 << 10
_MAGIC = {
    _GZIP: "it is gzip-compressed: name it with .gz at the end",
    b"PAR1": "it is Parquet: name it with .parquet at the end",
    b"PK\x03\x04": "it is a zip archive: unpack it first",
    **dict.fromkeys((b"\xff\xfe", b"\xfe\xff"), "it looks like UTF-16: set its encoding, utf-16"),
}
_ENCODINGS: Final = re.compile(
    r"ascii|utf-8(-sig)?|utf-(16|32)(-[lb]e)?|iso8859-\d+|cp\d+|koi8-\w|mac-\w+|gbk|gb2312|gb18030|big5(hkscs)?|"
    r"euc_(jp|kr|jis_2004|jisx0213)|shift_jis(_2004|x0213)?|tis-620|ptcp154|hp-roman8|johab"
)
"""Text encodings by Python's names. Its other codecs unpack, escape or translate, which no file of ratings needs. Not
``hz``, where a tilde at the end of a line joins it to the next one: a row must not decide where another begins."""
_NO_TEXT: Final = re.compile("[\0\udc80-\udcff]")
"""NUL, and what is left of bytes that could not be decoded."""


def refusal(file: Path | str, rule: str) -> InputError:
    """Return an error about something in ``file``; logs withhold its message, which may quote a row."""
    return InputError(f"{named(file)}: {rule}")


def file_refusal(file: Path | str, fault: str, *, logged: str | None = None) -> InputFileError:
    """Return an error about ``file`` as a whole, which logs show; see :class:`InputFileError`."""
    return InputFileError(named(file), fault, logged=logged)


def named(file: Path | str) -> str:
    """Return what messages call a file."""
    return "standard input" if file == STANDARD_INPUT else printable(str(file))


def shorten(value: object, limit: int = 40) -> str:
    """Return the ``repr`` of ``value``, cut to at most ``limit`` characters."""
    # Cut before writing it out: a value may be megabytes of text.
    shown = repr(value[: limit * 2] if isinstance(value, str) else value)
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"


def require_encoding(name: str) -> str:
    """Return Python's name of a character encoding; codecs that are not text encodings are refused."""
    try:
        known = codecs.lookup(name).name
    except (LookupError, ValueError, TypeError):
        known = ""
    if not _ENCODINGS.fullmatch(known):
        raise ParameterError(f"encoding must be one such as utf-8, latin-1, cp1252 or utf-16, got {shorten(name)}")
    return known


def read_text(file: Path) -> bytes:
    """Return a text file as UTF-8 without byte order mark, unpacked if ``.gz``; junk and compression bombs end soon."""
    content = b"".join(_utf8(file))
    if not content.strip(b"\r\n"):
        raise file_refusal(file, "the file is empty")
    return content


def first_line(file: Path, name: Path, *, substitute: bool = False) -> tuple[str, int]:
    """Return the first line of a UTF-8 file that is not blank, and its number from 1; messages call it ``name``.

    ``substitute`` replaces what is not text by :data:`UNREADABLE`, so that only its row is lost and not the file.
    """
    content, number = b"", 0
    for block in chain(_utf8(file, substitute=substitute), [b"\n"]):
        *lines, content = (content + block).split(b"\n")
        for line in lines:
            number += 1
            if line.strip():
                text = line.removesuffix(b"\r").decode()
                if "\r" in text:
                    raise _bare_return(name, number)
                return text, number
        if len(content) > MAX_LINE_LENGTH:
            raise refusal(name, f"line {number + 1} is longer than {MAX_LINE_LENGTH:,} bytes, the most that are read")
    raise file_refusal(name, "the file is empty")


def copy_text(file: Path, copy: BinaryIO, *, encoding: str = "utf-8", substitute: bool = False) -> None:
    """Write a file as UTF-8 whose lines end with line feeds; another carriage return is treated like no text."""
    held, lines = b"", 0
    for block in chain(_utf8(file, encoding, substitute), [None]):
        content = (held + (block or b"")).replace(b"\r\n", b"\n")
        held = b"\r" if block is not None and content.endswith(b"\r") else b""  # a line feed may follow
        content = content.removesuffix(b"\r") if held else content
        if b"\r" in content:
            if not substitute:
                raise _bare_return(file, lines + content.count(b"\n", 0, content.index(b"\r")) + 1)
            content = content.replace(b"\r", UNREADABLE.encode())
        lines += content.count(b"\n")
        copy.write(content)


def _bare_return(name: Path, line: int) -> InputError:
    return refusal(name, f"line {line} holds a bare carriage return (lines must end with \\n or \\r\\n)")


def copy_bytes(file: Path, copy: Path) -> None:
    """Write a file, or standard input, to another as it is."""
    with explaining_os_errors(file):
        opened: BinaryIO = io.FileIO(0, closefd=False) if file == STANDARD_INPUT else file.open("rb")
        with opened as content, copy.open("wb") as written:
            shutil.copyfileobj(content, written)


def _utf8(file: Path, encoding: str = "utf-8", substitute: bool = False) -> Iterator[bytes]:
    """Yield a file as UTF-8 without NUL and without a byte order mark, block by block."""
    encoding, lines, first = require_encoding(encoding), 0, True
    # An escaped byte becomes half of a surrogate pair, which no valid text decodes to: it cannot be mistaken.
    decode = codecs.getincrementaldecoder(encoding)("surrogateescape" if substitute else "strict").decode
    with explaining_os_errors(file):
        for block in chain(_blocks(file), [b""]):
            fault = None
            try:
                text = decode(block, not block)
            except UnicodeDecodeError as error:
                text = error.object[: error.start].decode(encoding, "ignore")
                at, fault = len(text), f"byte 0x{error.object[error.start]:02x} is not {encoding.upper()}"
            else:
                odd = _NO_TEXT.search(text) if substitute or "\0" in text else None
                if odd is not None:
                    at, fault = odd.start(), "it holds a NUL byte"
            if fault is not None:
                hint = None if lines else _other_format(file, block)
                line = f"line {lines + text.count(chr(10), 0, at) + 1} is not text"
                if hint is not None:
                    raise file_refusal(file, f"{line}: {hint}", logged=hint)
                if not substitute:
                    raise refusal(file, f"{line}: {fault}")
                text = _NO_TEXT.sub(UNREADABLE, text)
            content = text.encode()
            lines += content.count(b"\n")
            if first and content:
                content, first = content.removeprefix(codecs.BOM_UTF8), False
            yield content


def _other_format(file: Path, block: bytes) -> str | None:
    """Return a hint for a file of another format, which its first bytes give away; None for any other."""
    hint = next((hint for start, hint in _MAGIC.items() if block.startswith(start)), None)
    if hint is not None and file.suffix and f" {file.suffix} " in hint:  # it is named so already
        return f"{hint.partition(':')[0]}, and text is expected here"
    return hint


@contextmanager
def explaining_os_errors(file: Path) -> Iterator[None]:
    """Turn an error of the system about ``file`` into a refusal."""
    require_local(file)
    try:
        if file.is_dir():
            raise file_refusal(file, "this is a folder, a file is needed")
        yield
    except FileNotFoundError as error:
        raise file_refusal(file, "no such file") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        fault = "the gzip data is truncated or corrupt"  # the error may state a checksum of the ratings: not for logs
        raise file_refusal(file, f"{fault} ({error})", logged=fault) from error
    except (OSError, ValueError) as error:
        if isinstance(error, PriCDRError):
            raise
        # ValueError: a path with a NUL in it, or a fault of the content, which logs must not quote.
        reason = getattr(error, "strerror", None)
        logged = f"cannot be read: {reason}" if reason else "cannot be read"
        raise file_refusal(file, f"cannot be read: {reason or error}", logged=logged) from error


def _blocks(file: Path) -> Iterator[bytes]:
    if file == STANDARD_INPUT:
        # Not closed: others may read what follows. It has no name, so its first bytes say whether it is compressed.
        raw = _Metered(io.FileIO(0, closefd=False))
        packed = raw.peek(2)[:2] == _GZIP
    else:
        raw = _Metered(file.open("rb", buffering=0))
        packed = file.suffix.lower() == ".gz"
    with raw:
        if not packed:
            while block := raw.read1(_BLOCK):
                yield block
            return
        unpacked = 0
        with gzip.GzipFile(fileobj=raw) as unpacking:
            while block := unpacking.read(_BLOCK):
                unpacked += len(block)
                if unpacked > LARGEST:
                    raise file_refusal(file, f"unpacks to more than {LARGEST:,} bytes, the largest size that is read")
                if unpacked > max(EXPANSION_FROM, MAX_EXPANSION * raw.n_read):
                    fault = f"unpacks to more than {MAX_EXPANSION:,} times its size: a compression bomb"
                    raise file_refusal(file, fault)
                yield block


class _Metered(io.BufferedReader):
    """Reads packed data in small pieces and counts them, so that unpacked data can be compared with its packed size."""

    n_read = 0

    def read(self, size: int | None = -1, /) -> bytes:
        piece = super().read(min(size, _PACKED_BLOCK) if size is not None and size > 0 else size)
        self.n_read += len(piece)
        return piece


def read_toml(file: Path) -> dict[str, Any]:
    """Return the table in a TOML file; whole numbers in it fit in 64 bits, and other numbers are finite."""
    with explaining_os_errors(file):
        content = read_bounded(file, limit=_MAX_TOML)
    for number, line in enumerate(content.split(b"\n"), 1):
        if len(line) > _MAX_TOML_LINE_LENGTH:
            raise refusal(file, f"line {number} has {len(line):,} bytes; at most {_MAX_TOML_LINE_LENGTH:,} are read")
    try:
        table = tomllib.loads(content.decode())
    except RecursionError as error:
        raise refusal(file, f"is nested more than {_DEEPEST} levels deep") from error
    except ValueError as error:  # not TOML, not UTF-8, or a number of thousands of digits
        raise refusal(file, f"is not TOML: {error}") from error
    _require_usable(file, "", table)
    return table


def _require_usable(file: Path, key: str, value: object, depth: int = 0) -> None:
    if depth > _DEEPEST:
        raise refusal(file, f"{shorten(key)} is nested more than {_DEEPEST} levels deep")
    if isinstance(value, dict):
        for name, inside in value.items():
            _require_usable(file, f"{key}.{name}" if key else name, inside, depth + 1)
    elif isinstance(value, list):
        for inside in value:
            _require_usable(file, key, inside, depth + 1)
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise refusal(file, f"{key} must be a number that fits in 64 bits, got {shorten(value)}")
    elif isinstance(value, float) and not math.isfinite(value):
        raise refusal(file, f"{key} must be a finite number, got {value!r}")
