"""The bytes of a text file: unpacked, bounded, and known to be UTF-8 without NUL before they are parsed."""

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from pricdr.errors import InputError, PriCDRError, printable
from pricdr.files import require_local
from pricdr.untrusted.opening import EXPANSION_FROM, LARGEST_EXPANSION

LARGEST = 16 << 30
"""Bytes a compressed file may unpack to."""

_BLOCK = 1 << 20
_PACKED_BLOCK = 1 << 10
_MAGIC = {
    b"\x1f\x8b": "it is gzip-compressed: name it with .gz at the end",
    b"PAR1": "it is Parquet: name it with .parquet at the end",
    b"PK\x03\x04": "it is a zip archive: unpack it first",
    b"\xff\xfe": "it looks like UTF-16: convert it to UTF-8",
    b"\xfe\xff": "it looks like UTF-16: convert it to UTF-8",
}


def refusal(file: Path | str, rule: str) -> InputError:
    """Return an error about ``file``, whatever its name holds.

    >>> refusal(Path("ratings.csv"), "is empty")
    InputError('ratings.csv: is empty')
    """
    return InputError(f"{printable(str(file))}: {rule}")


def shorten(value: object, limit: int = 40) -> str:
    r"""Return ``value`` as code would write it, cut where it would swamp a line.

    >>> print(shorten("line\nbreak"), len(shorten("x" * 99)))
    'line\nbreak' 40
    """
    # Cut before writing it out: a value may be megabytes of text.
    shown = repr(value[: limit * 2] if isinstance(value, str) else value)
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"


def read_text(file: Path, *, blanks_count: bool = False) -> bytes:
    """Return the whole of a UTF-8 text file without its byte order mark; a ``.gz`` name is unpacked on the way.

    Every block is checked before the next one is asked for, so junk and compression bombs end early. A file of line
    ends alone is refused as empty, and so is one of blanks, unless ``blanks_count``.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    kept, lines = io.BytesIO(), 0
    with explaining_os_errors(file):
        for block in _blocks(file):
            if kept.tell() == 0:
                block = block.removeprefix(codecs.BOM_UTF8)
            _require_text(file, decoder, block, lines)
            lines += block.count(b"\n")
            kept.write(block)
    _require_text(file, decoder, b"", lines, final=True)
    content = kept.getvalue()
    nothing = b"\r\n" if blanks_count else None  # None stands for every kind of white space
    if not content[:_BLOCK].strip(nothing) and not content.strip(nothing):
        raise refusal(file, "the file is empty")
    return content


@contextmanager
def explaining_os_errors(file: Path) -> Iterator[None]:
    """Turn what the system says about ``file`` into a refusal."""
    require_local(file)
    try:
        if file.is_dir():
            raise refusal(file, "this is a folder, a file is needed")
        yield
    except FileNotFoundError as error:
        raise refusal(file, "no such file") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise refusal(file, f"the gzip data is truncated or corrupt ({error})") from error
    except (OSError, ValueError) as error:
        if isinstance(error, PriCDRError):
            raise
        # ValueError: a path with a NUL in it.
        raise refusal(file, f"cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _blocks(file: Path) -> Iterator[bytes]:
    with file.open("rb") as raw:
        if file.suffix.lower() != ".gz":
            while block := raw.read(_BLOCK):
                yield block
            return
        packed, unpacked = _Metered(raw), 0
        with gzip.GzipFile(fileobj=packed) as unpacking:
            while block := unpacking.read(_BLOCK):
                unpacked += len(block)
                _require_bounded(file, packed.taken, unpacked)
                yield block


class _Metered:
    """A file read a little at a time, so that it is known how much packed data the unpacked data came from."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self.taken = 0

    def read(self, size: int = -1, /) -> bytes:
        piece = self._raw.read(min(size, _PACKED_BLOCK) if size > 0 else size)
        self.taken += len(piece)
        return piece

    def seek(self, offset: int, /) -> int:
        return self._raw.seek(offset)


def _require_bounded(file: Path, packed: int, unpacked: int) -> None:
    if unpacked > LARGEST:
        raise refusal(file, f"unpacks to more than {LARGEST:,} bytes, the largest size read")
    if unpacked > EXPANSION_FROM and unpacked > LARGEST_EXPANSION * packed:
        raise refusal(file, f"unpacks to more than {LARGEST_EXPANSION:,} times its size: a compression bomb")


def _require_text(
    file: Path, decoder: codecs.IncrementalDecoder, block: bytes, lines: int, *, final: bool = False
) -> None:
    try:
        decoder.decode(block, final)
        fault, line = None, 0
    except UnicodeDecodeError as error:
        fault = f"byte 0x{error.object[error.start]:02x} is not UTF-8"
        line = lines + error.object.count(b"\n", 0, error.start) + 1
    nul = block.find(b"\0")
    if nul >= 0:
        fault, line = "it holds a NUL byte", lines + block.count(b"\n", 0, nul) + 1
    if fault is None:
        return
    magic = next((hint for start, hint in _MAGIC.items() if lines == 0 and block.startswith(start)), None)
    raise refusal(file, f"line {line} is not text: {magic or fault}")
