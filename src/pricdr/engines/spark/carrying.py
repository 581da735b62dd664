"""Send a work to executors: its arrays and keys are sealed in a broadcast, and the seal's key is in the function.

Spark writes Python broadcasts to files, on the driver and on every executor. So their content is encrypted here, under
a key that is made for one job and travels inside the function, which Spark keeps in memory. Neither is of any use
without the other. ``docs/threat-model.md`` says what an attacker gets, depending on access.
"""

import copy
import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from pricdr.privacy.noise import DiscreteGaussian, SealedNoise
from pricdr.randomness import Seal

if TYPE_CHECKING:
    from pyspark import Broadcast, SparkContext

_CHUNK: Final = 1 << 26
"""Bytes of an array that are sealed in one piece: AES-GCM takes less than 2^31."""
_PY4J_LOGGERS: Final = ("py4j.clientserver", "py4j.java_gateway")
_PLAIN: Final = (type(None), bool, int, float, str, Enum, np.generic, BuiltinFunctionType, ModuleType)
"""What a work may contain unsealed: settings, which say nothing about ratings."""


@dataclass(frozen=True)
class _Placeholder:
    """Replaces an array or noise that was taken out of a work."""

    number: int


@dataclass(frozen=True)
class _SealedArray:
    dtype: str
    shape: tuple[int, ...]
    chunks: list[bytes]


@dataclass(frozen=True)
class Message:
    """A work that a function takes to an executor."""

    outline: Any
    """The work without its arrays and noise."""
    contents: "Broadcast[list[_SealedArray | SealedNoise]]"
    wrapping: bytes = field(repr=False)
    """The key of the seal. It is never in a broadcast, and opens nothing but this message."""
    number: str = ""
    """A random number that identifies this message."""

    def opened(self) -> Any:  # noqa: ANN401
        """Return the work; a process opens each message once, and keeps only the last."""
        if _opened.number != self.number:
            _opened.forget()
            seal = Seal(self.wrapping)
            contents = [_unsealed(number, content, seal) for number, content in enumerate(self.contents.value)]
            _opened.keep(self.number, _assembled(self.outline, contents))
            seal.erase()
        return _opened.work


class _Opened:
    """The one message that this process has open."""

    def __init__(self) -> None:
        self.number: str | None = None
        self.work: Any = None

    def keep(self, number: str, work: Any) -> None:  # noqa: ANN401
        self.number, self.work = number, work

    def forget(self) -> None:
        self.number = self.work = None


_opened: Final = _Opened()


@contextmanager
def dispatched(context: "SparkContext", work: object) -> Iterator[Message]:
    """Yield ``work`` as a message to executors while a job runs; afterwards destroy its broadcast everywhere."""
    wrapping = secrets.token_bytes(32)
    seal = Seal(wrapping)
    contents: list[npt.NDArray[Any] | DiscreteGaussian] = []
    outline = _take_apart(work, contents)
    sealed = [_sealed(number, content, seal) for number, content in enumerate(contents)]
    with _unlogged():
        broadcast = context.broadcast(sealed)
        try:
            yield Message(outline, broadcast, wrapping, secrets.token_hex(8))
        finally:
            broadcast.destroy()
            seal.erase()


@contextmanager
def _unlogged() -> Iterator[None]:
    """Disable py4j's loggers: at DEBUG they write everything that goes to Java, whole functions included."""
    loggers = [logging.getLogger(name) for name in _PY4J_LOGGERS]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, was_disabled in zip(loggers, before, strict=True):
            logger.disabled = was_disabled


def _sealed(number: int, content: "npt.NDArray[Any] | DiscreteGaussian", seal: Seal) -> _SealedArray | SealedNoise:
    if isinstance(content, DiscreteGaussian):
        return content.sealed(seal)
    flat = np.ascontiguousarray(content).reshape(-1).view(np.uint8)
    pieces = range(0, max(1, len(flat)), _CHUNK)
    chunks = [seal.close(flat[at : at + _CHUNK].data, f"array {number} {at}") for at in pieces]
    return _SealedArray(content.dtype.str, content.shape, chunks)


def _unsealed(number: int, content: _SealedArray | SealedNoise, seal: Seal) -> "npt.NDArray[Any] | DiscreteGaussian":
    if isinstance(content, SealedNoise):
        return content.opened(seal)
    array = np.empty(content.shape, dtype=content.dtype)
    flat = array.reshape(-1).view(np.uint8)
    for at, chunk in zip(range(0, max(1, len(flat)), _CHUNK), content.chunks, strict=True):
        flat[at : at + _CHUNK] = np.frombuffer(seal.open(chunk, f"array {number} {at}"), dtype=np.uint8)
    array.flags.writeable = False  # works are pure, and the next task of this process uses it again
    return array


def _take_apart(value: Any, contents: list[Any]) -> Any:  # noqa: ANN401
    """Return ``value`` with placeholders for its arrays and noise, which are added to ``contents``."""
    if isinstance(value, DiscreteGaussian) or (isinstance(value, np.ndarray) and not value.dtype.hasobject):
        contents.append(value)
        return _Placeholder(len(contents) - 1)
    if isinstance(value, tuple):
        return tuple(_take_apart(element, contents) for element in value)
    if isinstance(value, MethodType):
        return MethodType(value.__func__, _take_apart(value.__self__, contents))
    if is_dataclass(value) and not isinstance(value, type):
        return _each_field(value, lambda content: _take_apart(content, contents))
    if isinstance(value, FunctionType):
        in_closure: list[Any] = []
        for cell in value.__closure__ or ():
            _take_apart(cell.cell_contents, in_closure)
        if not in_closure:
            return value
        raise TypeError(
            f"{value.__qualname__} holds arrays or noise: put them into a dataclass to send them to executors"
        )
    if isinstance(value, _PLAIN):
        return value
    # Anything else might contain ratings or keys, and would travel unencrypted.
    raise TypeError(f"a work may hold numbers, arrays, noise and dataclasses of these, not {type(value).__name__}")


def _assembled(value: Any, contents: list[Any]) -> Any:  # noqa: ANN401
    if isinstance(value, _Placeholder):
        return contents[value.number]
    if isinstance(value, tuple):
        return tuple(_assembled(element, contents) for element in value)
    if isinstance(value, MethodType):
        return MethodType(value.__func__, _assembled(value.__self__, contents))
    if is_dataclass(value) and not isinstance(value, type):
        return _each_field(value, lambda content: _assembled(content, contents))
    return value


def _each_field(value: Any, change: Any) -> Any:  # noqa: ANN401
    """Return a copy of a dataclass with changed fields, without running its own checks."""
    changed = copy.copy(value)
    for own in fields(value):
        object.__setattr__(changed, own.name, change(getattr(value, own.name)))
    return changed
