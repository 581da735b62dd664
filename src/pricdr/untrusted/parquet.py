"""Parquet from outside: decoded in another process, and its answer checked here."""

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pricdr.errors import PriCDRError
from pricdr.files import require_local
from pricdr.memory import memory_limit
from pricdr.untrusted.sandbox import Answer, SandboxError, ask

Float32Array: TypeAlias = npt.NDArray[np.float32]
Get: TypeAlias = Callable[[str], npt.NDArray[Any]]
"""Looks up one array of a decoded column by its name."""
Refuse: TypeAlias = Callable[[str], PriCDRError]
"""Turns what is wrong into an error that names the file."""

SECONDS: Final = 30
_BYTES_A_SECOND: Final = 1 << 20


class As(StrEnum):
    """What a column is decoded as."""

    TEXT = "text"
    """Text, and whole numbers written out."""
    NUMBERS = "numbers"
    """Numbers, and dates and times as numbers that increase with them."""
    VECTORS = "vectors"


class Text(NamedTuple):
    """A column of text: distinct values, sorted by their UTF-8 bytes, and each row's position in them (-1: none)."""

    codes: npt.NDArray[np.int32]
    values: list[str]

    def rows(self) -> list[str | None]:
        """Return the text of every row."""
        values = [*self.values, None]  # -1 is the last
        return [values[code] for code in self.codes.tolist()]


class Numbers(NamedTuple):
    """A column of numbers, and where they are missing (nan there)."""

    values: npt.NDArray[np.float64]
    missing: npt.NDArray[np.bool_]


Decoded: TypeAlias = Text | Numbers | Float32Array


@dataclass(frozen=True)
class Column:
    """The name of a column and what it holds."""

    name: str
    dtype: str
    """As polars writes it."""
    kind: str
    """``text``, ``integers``, ``numbers``, ``times``, ``vectors`` or ``other``."""


@dataclass(frozen=True)
class Read:
    """What was decoded."""

    rows: int
    columns: tuple[Column, ...]
    metadata: dict[str, str]
    decoded: tuple[Decoded, ...]
    """The columns that were asked for."""


class TextRows(NamedTuple):
    """Some rows of a column of text, one after another with line feeds between them; not yet known to be UTF-8."""

    joined: bytes
    lengths: npt.NDArray[np.int64]
    """The bytes of each."""
    missing: npt.NDArray[np.bool_]


class Slice(NamedTuple):
    """Some rows of a file."""

    rows: int
    decoded: "tuple[TextRows | Numbers, ...]"
    """The columns that were asked for."""


class Parquet:
    """An open Parquet file. It is never parsed in this process."""

    def __init__(self, descriptor: int, refuse: Refuse, *, seconds: int = SECONDS) -> None:
        self._descriptor = descriptor
        self._refuse = refuse
        self._seconds = seconds
        self.size = os.fstat(descriptor).st_size

    @classmethod
    @contextmanager
    def opened(cls, path: Path, refuse: Refuse, *, seconds: int = SECONDS) -> Iterator["Parquet"]:
        """Open a file that the user named, links included."""
        require_local(path)
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise refuse("not a regular file; Parquet cannot be read from a pipe or a device")
            yield cls(descriptor, refuse, seconds=seconds)
        finally:
            os.close(descriptor)

    def read(
        self,
        *columns: tuple[str | int, As],
        whole: bool = False,
        sha256: str | None = None,
        rows: int | None = None,
    ) -> Read:
        """Return the number of rows, the kinds of all columns, the metadata, and the ``columns`` asked for.

        Args:
            columns: Which ones, by name or position, and what each is decoded as.
            whole: Read the file into memory once, and refuse it if any byte of it belongs to nothing.
            sha256: The hash that a ``whole`` file must have.
            rows: How many there must be.
        """
        request = {
            "columns": columns,
            "whole": whole,
            "rows": rows,
            "size": self.size,
            "memory": memory_limit(),
        }
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        with self._answers(request) as answers:
            actual = next(answers).report["sha256"]
            if sha256 is not None and actual != sha256:
                raise self._refuse("it was changed: its SHA-256 is not the one in the certificate")
            return _checked(next(answers), next(answers), [purpose for _, purpose in columns])

    def slices(self, *columns: tuple[int, As], rows: int) -> Iterator[Slice]:
        """Yield the ``columns`` asked for, up to ``rows`` rows at a time, decoded by one process as they are taken.

        Args:
            columns: Which ones, by position, and what each is decoded as: text or numbers.
            rows: The most rows of one slice. A row group is decoded as a whole, and must fit into the memory.
        """
        request = {"columns": columns, "slice_rows": rows, "memory": memory_limit()}
        with self._answers(request, each=True) as answers:
            left = int(next(answers).report["rows"])
            next(answers)
            while left:
                answer = next(answers)
                count = int(answer.report["slice"])
                if not 0 < count <= min(left, rows):
                    raise ValueError
                left -= count
                yield Slice(
                    count,
                    tuple(_SLICED[purpose](_getter(answer, at), count) for at, (_, purpose) in enumerate(columns)),
                )

    @contextmanager
    def _answers(self, request: dict[str, Any], *, each: bool = False) -> Iterator[Iterator[Answer]]:
        """Yield what a child answers, and refuse the file if the child refuses it or its answers are impossible."""
        seconds = self._seconds + self.size // _BYTES_A_SECOND
        answers = ask(request, self._descriptor, seconds=seconds, each=each)
        try:
            yield answers
        except SandboxError as error:
            raise self._refuse(f"cannot be read as Parquet: {error}") from error
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, PriCDRError):
                raise
            raise self._refuse("cannot be read as Parquet: its columns do not agree with its footer") from error
        finally:
            answers.close()


def _checked(shown: Answer, decoded: Answer, purposes: list[As]) -> Read:
    """Return what the other process decoded, if it is what such a file can hold: that process is not trusted."""
    rows = int(shown.report["rows"])
    return Read(
        rows=rows,
        columns=tuple(Column(str(name), str(dtype), str(kind)) for name, dtype, kind in decoded.report["columns"]),
        metadata=dict(shown.report["metadata"]),
        decoded=tuple(_CHECKS[purpose](_getter(decoded, at), rows) for at, purpose in enumerate(purposes)),
    )


def _getter(answer: Answer, at: int) -> Get:
    return lambda name: answer.arrays[f"{at}/{name}"]


def _vectors(array: Get, rows: int) -> Float32Array:
    vectors = array("vectors")
    if vectors.dtype != np.float32 or vectors.ndim != 2 or len(vectors) != rows:
        raise ValueError
    return vectors


def _numbers(array: Get, rows: int) -> Numbers:
    values, missing = array("numbers"), array("missing")
    if [values.dtype, missing.dtype] != ["float64", "bool"] or not values.shape == missing.shape == (rows,):
        raise ValueError
    return Numbers(values, missing)


def _text(array: Get, rows: int) -> Text:
    codes, lengths, text = array("codes"), array("lengths"), array("text")
    if [codes.dtype, lengths.dtype, text.dtype] != ["int32", "int64", "uint8"] or codes.shape != (rows,):
        raise ValueError
    if lengths.ndim != 1 or lengths.min(initial=0) < 0 or int(lengths.sum()) != text.size or len(lengths) > rows:
        raise ValueError
    if codes.min(initial=0) < -1 or codes.max(initial=-1) >= len(lengths):
        raise ValueError
    joined, ends = text.tobytes(), np.cumsum(lengths).tolist()
    values = [joined[end - size : end].decode() for end, size in zip(ends, lengths.tolist(), strict=True)]
    if any(before >= after for before, after in pairwise(values)):
        raise ValueError
    return Text(codes, values)


def _text_rows(array: Get, rows: int) -> TextRows:
    text, lengths, missing = array("text"), array("lengths"), array("missing")
    if [text.dtype, lengths.dtype, missing.dtype] != ["uint8", "int64", "bool"] or text.ndim != 1:
        raise ValueError
    if not lengths.shape == missing.shape == (rows,) or lengths.min(initial=0) < 0:
        raise ValueError
    if int(lengths.sum()) + rows - 1 != text.size:
        raise ValueError
    return TextRows(text.tobytes(), lengths, missing)


_CHECKS: Final[Mapping[As, Callable[[Get, int], Decoded]]] = {
    As.TEXT: _text,
    As.NUMBERS: _numbers,
    As.VECTORS: _vectors,
}
_SLICED: Final[Mapping[As, Callable[[Get, int], TextRows | Numbers]]] = {As.TEXT: _text_rows, As.NUMBERS: _numbers}
