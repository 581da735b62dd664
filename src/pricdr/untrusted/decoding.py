"""Inside the child process: from a Parquet file to plain arrays.

Everything before the first call of polars is pure Python on bytes, and is reported before that call: the hash, the
footer, the account of every byte. What is reported after it comes from a process that a hostile file may have taken
over, and the parent treats it as such.
"""

import hashlib
import io
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from pricdr.untrusted.footers import Footer, LayoutError, read_footer
from pricdr.untrusted.layout import Weight, account, require_fitting
from pricdr.untrusted.opening import EXPANSION_FROM, LARGEST_EXPANSION, read_all

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]
Report: TypeAlias = dict[str, Any]

_PER_ROW: Final = 64
"""Bytes that decoding needs for a row at least: 16 for an id, and as much for its code and its place in a sort."""


class RefusedError(Exception):
    """Why a file is not decoded, in words for the user."""


class Open:
    """A :class:`Source` over an open file."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def size(self) -> int:
        """Return how many bytes it has."""
        return os.fstat(self._descriptor).st_size

    def bytes_at(self, start: int, length: int) -> bytes:
        """Return up to ``length`` bytes from ``start``."""
        return os.pread(self._descriptor, length, start)


class _Held:
    """A :class:`Source` over a file in memory."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def size(self) -> int:
        return len(self._content)

    def bytes_at(self, start: int, length: int) -> bytes:
        return self._content[start : start + length]


def decode(
    descriptor: int, request: Report, limit_memory: Callable[[int, int], None]
) -> Iterator[tuple[Report, Arrays]]:
    """Yield three messages: the hash, what the footer states, and what polars makes of the columns asked for.

    ``request`` has the arguments of :meth:`pricdr.untrusted.parquet.Parquet.read`, the ``size`` of the file and the
    ``memory`` that decoding is allowed.
    """
    if "slice_rows" in request:
        from pricdr.untrusted.slices import decode_slices

        yield from decode_slices(descriptor, request, limit_memory)
        return
    whole = bool(request["whole"])
    if whole and 2 * int(request["size"]) > int(request["memory"]):  # a sparse file costs its sender nothing
        raise RefusedError(f"it has {request['size']:,} bytes, which takes more memory than is allowed")
    content = read_all(descriptor, int(request["size"]) + 1) if whole else b""
    yield {"sha256": hashlib.sha256(content).hexdigest() if whole else None}, {}
    try:
        footer = read_footer(_Held(content) if whole else Open(descriptor))
        if request["rows"] not in (None, footer.rows):
            raise LayoutError(f"it holds {footer.rows:,} rows, the certificate states {request['rows']:,}")
        weights = account(content, footer) if whole else []
    except LayoutError as error:
        raise RefusedError(str(error)) from error
    size = len(content) if whole else os.fstat(descriptor).st_size
    if whole or request["columns"]:
        limit_memory(_need(footer, size, int(request["memory"])), 0)
    else:  # what it states about itself takes little, however large it is
        require_no_bomb(footer, size)
        limit_memory(128 << 20, size)
    yield {"rows": footer.rows, "metadata": readable_metadata(footer)}, {}
    source: Any = io.BytesIO(content) if whole else os.fdopen(os.dup(descriptor), "rb")
    schema = pl.read_parquet_schema(source)
    report: Report = {"columns": columns_of(schema)}
    arrays: Arrays = {}
    names = list(schema)
    if whole and len(weights) != len(names):
        raise RefusedError("it has nested columns")
    for number, (wanted, purpose) in enumerate(request["columns"]):
        position = taken_position(schema, wanted, purpose)
        source.seek(0)
        # By position and without its name: polars would take ^user$ for a pattern.
        column = pl.read_parquet(source, columns=[position]).to_series().alias("")
        if len(column) != footer.rows:
            raise RefusedError(f"a column has {len(column):,} rows, the file states {footer.rows:,}")
        decoded, size_needed = _PURPOSES[purpose](column)
        if whole:
            _require_fitting(weights[position], size_needed, dictionary=purpose == "text")
        arrays |= {f"{number}/{name}": array for name, array in decoded.items()}
    yield report, arrays


def _need(footer: Footer, size: int, most: int) -> int:
    """Return how much memory decoding is allowed; refuse a file that needs more than ``most``, or that is a bomb."""
    need = 4 * require_no_bomb(footer, size) + footer.rows * _PER_ROW
    if need > most:
        raise RefusedError(too_much_memory(f"{footer.rows:,} rows", need, most))
    return need + (128 << 20)


def require_no_bomb(footer: Footer, size: int) -> int:
    """Return what a file of ``size`` bytes unpacks to, if that is in proportion."""
    unpacked = max(footer.unpacked, footer.rows * 8)
    if unpacked > EXPANSION_FROM and unpacked > LARGEST_EXPANSION * size:
        raise RefusedError(f"it unpacks to more than {LARGEST_EXPANSION} times its size: a compression bomb")
    return unpacked


def too_much_memory(what: str, need: int, most: int) -> str:
    """Return why ``what`` is not decoded, in words for the user."""
    limit = f"the limit is {most / 1e9:,.1f} GB (PRICDR_MEMORY raises it)"
    return f"decoding {what} may take {need / 1e9:,.1f} GB of memory, {limit}"


def readable_metadata(footer: Footer) -> list[list[str]]:
    """Return the key-value metadata of a file as text."""
    return [[_readable(key), _readable(value)] for key, value in footer.metadata]


def columns_of(schema: Mapping[str, pl.DataType]) -> list[list[str]]:
    """Return the name, the type and the kind of every column."""
    return [[name, str(kind), _kind(kind)] for name, kind in schema.items()]


def taken_position(schema: Mapping[str, pl.DataType], wanted: str | int, purpose: str) -> int:
    """Return where a column stands that is wanted by name or position; refuse it if it does not serve its purpose."""
    names = list(schema)
    position = names.index(wanted) if isinstance(wanted, str) and wanted in names else wanted
    if isinstance(position, str) or not 0 <= position < len(names):
        raise RefusedError(f"there is no column {wanted!r:.60}")
    if _kind(schema[names[position]]) not in _TAKEN[purpose]:
        name, needed = names[position], " or ".join(_TAKEN[purpose])
        raise RefusedError(f"column {name!r:.60} holds {schema[name]!s:.60}; it must hold {needed}")
    return position


def _kind(dtype: pl.DataType) -> str:
    if dtype.is_integer():
        return "integers"
    if dtype.is_numeric():
        return "numbers"
    if dtype in (pl.String, pl.Categorical, pl.Enum):
        return "text"
    if dtype in (pl.Date, pl.Datetime):
        return "times"
    if isinstance(dtype, pl.Array) and dtype.inner == pl.Float32 and len(dtype.shape) == 1:
        return "vectors"
    return "other"


def _vectors(column: pl.Series) -> tuple[Arrays, int]:
    """Return the vectors, and how many bytes their values take when stored plainly."""
    if column.null_count() or column.explode(empty_as_null=False, keep_nulls=False).null_count():
        raise RefusedError("its vectors have gaps")
    assert isinstance(column.dtype, pl.Array)
    vectors = column.to_numpy().reshape(len(column), column.dtype.shape[0])
    return {"vectors": np.ascontiguousarray(vectors, dtype=np.float32)}, vectors.size * 4


def numbers_of(column: pl.Series) -> tuple[Arrays, int]:
    """Return the numbers and where they are missing, and their bytes when stored plainly."""
    column = column.to_physical() if column.dtype.is_temporal() else column
    values = column.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()
    return {"numbers": values, "missing": column.is_null().to_numpy()}, len(column) * 8


def _text(column: pl.Series) -> tuple[Arrays, int]:
    """Return text or whole numbers as sorted distinct values and each row's position in them (-1: none), and bytes."""
    column = column.cast(pl.String)
    values = column.drop_nulls().unique().sort()  # by their UTF-8 bytes
    # An Enum over the sorted values: the codes of a Categorical differ from run to run.
    codes = column.cast(pl.Enum(values)).to_physical().cast(pl.Int64).fill_null(-1)
    lengths = values.str.len_bytes().to_numpy().astype(np.int64)
    joined = "".join(values.to_list()).encode()
    return {
        "codes": codes.to_numpy().astype(np.int32),
        "lengths": lengths,
        "text": np.frombuffer(joined, dtype=np.uint8),
    }, int(lengths.sum()) + 4 * len(column)


def _require_fitting(weight: Weight, needed: int, *, dictionary: bool) -> None:
    try:
        require_fitting(weight, needed, dictionary=dictionary)
    except LayoutError as error:
        raise RefusedError(str(error)) from error


def _readable(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


_PURPOSES: Final = {"text": _text, "numbers": numbers_of, "vectors": _vectors}
_TAKEN: Final = {"text": ("text", "integers"), "numbers": ("numbers", "integers", "times"), "vectors": ("vectors",)}
"""Kinds of columns that each purpose accepts."""
