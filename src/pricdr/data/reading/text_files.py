"""Read the bytes of a text file: unpacked, bounded, decoded, and checked to be UTF-8 without NUL before parsing."""

import codecs
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final

from pricdr.errors import InputError, InputFileError, ParameterError, PriCDRError, printable
from pricdr.files import require_local
from pricdr.untrusted.opening import EXPANSION_FROM, LARGEST_EXPANSION

LARGEST = 16 << 30
"""The most bytes that a compressed file may unpack to."""
UNREADABLE: Final = "\x1a"
"""Replaces a byte that is not text, where bad rows are skipped: SUB, a control character that no id may contain."""

STANDARD_INPUT: Final = Path("-")

_BLOCK = 1 << 20
_GZIP = b"\x1f\x8b"
_PACKED_BLOCK = 1 << 10
_MAGIC = {
    _GZIP: "it is gzip-compressed: name it with .gz at the end",
    b"PAR1": "it is Parquet: name it with .parquet at the end",
    b"PK\x03\x04": "it is a zip archive: unpack it first",
    b"\xff\xfe": "it looks like UTF-16: add --encoding utf-16",
    b"\xfe\xff": "it looks like UTF-16: add --encoding utf-16",
}
_ENCODINGS: Final = re.compile(
    r"ascii|utf-8(-sig)?|utf-(16|32)(-[lb]e)?|iso8859-\d+|cp\d+|koi8-\w|mac-\w+|gbk|gb2312|gb18030|big5(hkscs)?|"
    r"euc_(jp|kr|jis_2004|jisx0213)|shift_jis(_2004|x0213)?|tis-620|ptcp154|hp-roman8|johab"
)
"""Text encodings by Python's names. Its other codecs unpack, escape or translate, which no file of ratings needs.

Not ``hz``, where a tilde at the end of a line joins it to the next one: a row must not decide where another begins.
"""
_ESCAPED: Final = re.compile("[\udc80-\udcff]")


def refusal(file: Path | str, rule: str) -> InputError:
    """Return an error about something in ``file``; logs withhold its message, which may quote a row.

    >>> refusal(Path("ratings.csv"), "row 7 is too short")
    InputError('ratings.csv: row 7 is too short')
    """
    return InputError(f"{named(file)}: {rule}")


def file_refusal(file: Path | str, fault: str, *, logged: str | None = None) -> InputFileError:
    """Return an error about ``file`` as a whole, which logs show; see :class:`InputFileError`.

    >>> file_refusal(Path("ratings.csv"), "no such file").disclosed
    'ratings.csv: no such file'
    """
    return InputFileError(named(file), fault, logged=logged)


def named(file: Path | str) -> str:
    """Return what messages call a file.

    >>> named(Path("ratings.csv")), named(STANDARD_INPUT)
    ('ratings.csv', 'standard input')
    """
    return "standard input" if file == STANDARD_INPUT else printable(str(file))


def shorten(value: object, limit: int = 40) -> str:
    r"""Return the ``repr`` of ``value``, cut to at most ``limit`` characters.

    >>> print(shorten("line\nbreak"), len(shorten("x" * 99)))
    'line\nbreak' 40
    """
    # Cut before writing it out: a value may be megabytes of text.
    shown = repr(value[: limit * 2] if isinstance(value, str) else value)
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"


def require_encoding(name: str) -> str:
    """Return Python's name of a character encoding; codecs that are not text encodings are refused.

    >>> require_encoding("Latin-1"), require_encoding("cp1252")
    ('iso8859-1', 'cp1252')
    """
    try:
        known = codecs.lookup(name).name
    except (LookupError, ValueError, TypeError):
        known = ""
    if not _ENCODINGS.fullmatch(known):
        raise ParameterError(f"encoding must be one such as utf-8, latin-1, cp1252 or utf-16, got {shorten(name)}")
    return known


def read_text(file: Path, *, blanks_count: bool = False, encoding: str = "utf-8", substitute: bool = False) -> bytes:
    """Return a whole text file as UTF-8 without a byte order mark; a file named ``.gz`` is unpacked.

    Every block is checked before the next one is read, so junk and compression bombs end early. A file that holds only
    line breaks is refused as empty, and so is one that holds only white space, unless ``blanks_count``.

    Args:
        file: The file to read.
        blanks_count: Whether a file of white space counts as more than an empty one.
        encoding: The encoding of the file.
        substitute: Replace what is not text by :data:`UNREADABLE`, so that only its row is lost; otherwise the file is
            refused.
    """
    kept = io.BytesIO()
    for block in _utf8(file, encoding, substitute):
        kept.write(block)
    content = kept.getvalue()
    nothing = b"\r\n" if blanks_count else None  # None stands for every kind of white space
    if not content[:_BLOCK].strip(nothing) and not content.strip(nothing):
        raise file_refusal(file, "the file is empty")
    return content


def read_lines(file: Path, *, encoding: str = "utf-8", substitute: bool = False) -> Iterator[str]:
    """Yield the lines of what :func:`read_text` returns, without their line feeds, reading some blocks at a time.

    Reviews come with their text, so such a file may be larger than the memory. A file that holds only white space
    yields blank lines: the caller has to refuse it.
    """
    unfinished = [b""]
    for content in _utf8(file, encoding, substitute):
        head, *rest = content.split(b"\n")
        unfinished.append(head)  # joined only at its end: a line may run over many blocks
        if rest:
            yield b"".join(unfinished).decode()
            yield from (line.decode() for line in rest[:-1])
            unfinished = [rest[-1]]
    if last := b"".join(unfinished):
        yield last.decode()


def read_blocks(file: Path, size: int, *, encoding: str = "utf-8", substitute: bool = False) -> Iterator[bytes]:
    """Yield what :func:`read_text` returns, about ``size`` bytes at a time."""
    pieces, length, blank = [b""], 0, True
    for content in _utf8(file, encoding, substitute):
        pieces.append(content)
        length += len(content)
        if length >= size:
            block = b"".join(pieces)
            blank = blank and not block.strip()
            pieces, length = [], 0
            yield block
    last = b"".join(pieces)
    if blank and not last.strip():
        raise file_refusal(file, "the file is empty")
    yield last


def _utf8(file: Path, encoding: str, substitute: bool) -> Iterator[bytes]:
    """Yield a file as UTF-8 without a byte order mark, block by block."""
    decoder, first = _Decoder(file, encoding, substitute), True
    with explaining_os_errors(file):
        for block in chain(_blocks(file), [b""]):
            content = decoder.to_utf8(block, final=not block)
            if first and content:
                content, first = content.removeprefix(codecs.BOM_UTF8), False
            yield content


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
        raw: BinaryIO = io.BufferedReader(io.FileIO(0, closefd=False))
        packed_input = raw.peek(2)[:2] == _GZIP  # type: ignore[attr-defined]
    else:
        raw = file.open("rb")
        packed_input = file.suffix.lower() == ".gz"
    with raw:
        if not packed_input:
            while block := raw.read(_BLOCK):
                yield block
            return
        packed, unpacked = _Metered(raw), 0
        with gzip.GzipFile(fileobj=packed) as unpacking:
            while block := unpacking.read(_BLOCK):
                unpacked += len(block)
                _require_bounded(file, packed.n_read, unpacked)
                yield block


class _Metered:
    """Reads a file in small pieces and counts them, so that unpacked data can be compared with its packed size."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self.n_read = 0

    def read(self, size: int = -1, /) -> bytes:
        piece = self._raw.read(min(size, _PACKED_BLOCK) if size > 0 else size)
        self.n_read += len(piece)
        return piece

    def seek(self, offset: int, /) -> int:
        return self._raw.seek(offset)


def _require_bounded(file: Path, packed: int, unpacked: int) -> None:
    if unpacked > LARGEST:
        raise file_refusal(file, f"unpacks to more than {LARGEST:,} bytes, the largest size that is read")
    if unpacked > EXPANSION_FROM and unpacked > LARGEST_EXPANSION * packed:
        raise file_refusal(file, f"unpacks to more than {LARGEST_EXPANSION:,} times its size: a compression bomb")


class _Decoder:
    """Converts the blocks of one file to UTF-8, and refuses or replaces what is not text."""

    def __init__(self, file: Path, encoding: str, substitute: bool) -> None:
        self._file, self._encoding, self._substitute = file, require_encoding(encoding), substitute
        # An escaped byte becomes half of a surrogate pair, which no valid text decodes to: it cannot be mistaken.
        errors = "surrogateescape" if substitute else "strict"
        self._decode = codecs.getincrementaldecoder(self._encoding)(errors).decode
        self._lines = 0

    def to_utf8(self, block: bytes, *, final: bool = False) -> bytes:
        try:
            text = self._decode(block, final)
        except UnicodeDecodeError as error:
            before = error.object[: error.start].decode(self._encoding, "ignore")
            fault = f"byte 0x{error.object[error.start]:02x} is not {self._encoding.upper()}"
            raise self._refusal(block, before, fault) from error
        try:
            content = text.encode()
        except UnicodeEncodeError as error:
            self._require_no_archive(block, text[: error.start])
            text = _ESCAPED.sub(UNREADABLE, text)
            content = text.encode()
        if b"\0" in content:
            before = text[: text.index("\0")]
            if not self._substitute:
                raise self._refusal(block, before, "it holds a NUL byte")
            self._require_no_archive(block, before)
            content = content.replace(b"\0", UNREADABLE.encode())
        self._lines += content.count(b"\n")
        return content

    def _refusal(self, block: bytes, before: str, fault: str) -> InputError:
        line, hint = self._lines + before.count("\n") + 1, self._archive(block)
        if hint is not None:
            return file_refusal(self._file, f"line {line} is not text: {hint}", logged=hint)
        return refusal(self._file, f"line {line} is not text: {fault}")

    def _require_no_archive(self, block: bytes, before: str) -> None:
        if self._archive(block):
            raise self._refusal(block, before, "")

    def _archive(self, block: bytes) -> str | None:
        """Return a hint for a file of another format, which its first bytes give away; None for any other."""
        hint = next((hint for start, hint in _MAGIC.items() if self._lines == 0 and block.startswith(start)), None)
        if hint is not None and self._file.suffix and f" {self._file.suffix} " in hint:  # it is named so already
            return f"{hint.partition(':')[0]}, and text is expected here"
        return hint
