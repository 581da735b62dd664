"""How a work travels to executors: its arrays and keys sealed in a broadcast, the key of the seal with the function.

Spark writes broadcasts of Python to files, on the driver and on every executor. So what is in them is encrypted here,
under a key that is made for one job and travels inside the function, which Spark keeps in memory. Neither is any use
without the other. ``docs/threat-model.md`` says what an attacker with which access gets.
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
_TALKS: Final = ("py4j.clientserver", "py4j.java_gateway")
_PLAIN: Final = (type(None), bool, int, float, str, Enum, np.generic, BuiltinFunctionType, ModuleType)
"""What may stand in a work as it is: settings, which say nothing about ratings."""


@dataclass(frozen=True)
class _Place:
    """Where an array or noise was taken out of a work."""

    number: int


@dataclass(frozen=True)
class _SealedArray:
    dtype: str
    shape: tuple[int, ...]
    chunks: list[bytes]


@dataclass(frozen=True)
class Message:
    """A work on its way: what a function on an executor takes along."""

    outline: Any
    """The work without its arrays and noise."""
    contents: "Broadcast[list[_SealedArray | SealedNoise]]"
    wrapping: bytes = field(repr=False)
    """The key of the seal. It is never in a broadcast of ours, and opens nothing but this message."""
    number: str = ""
    """Tells this message from others."""

    def opened(self) -> Any:  # noqa: ANN401
        """Return the work; a process opens a message once and forgets the one before."""
        if _opened.number != self.number:
            _opened.forget()
            seal = Seal(self.wrapping)
            contents = [_unsealed(number, one, seal) for number, one in enumerate(self.contents.value)]
            _opened.keep(self.number, _put_together(self.outline, contents))
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
    """Yield ``work`` as executors can open it, while a job runs; afterwards its broadcast is destroyed everywhere."""
    wrapping = secrets.token_bytes(32)
    seal = Seal(wrapping)
    taken: list[npt.NDArray[Any] | DiscreteGaussian] = []
    outline = _take_apart(work, taken)
    sealed = [_sealed(number, one, seal) for number, one in enumerate(taken)]
    with _unlogged():
        broadcast = context.broadcast(sealed)
        try:
            yield Message(outline, broadcast, wrapping, secrets.token_hex(8))
        finally:
            broadcast.destroy()
            seal.erase()


@contextmanager
def _unlogged() -> Iterator[None]:
    """Keep what Python and Java tell each other out of Python's log: at DEBUG, py4j writes whole functions there."""
    loggers = [logging.getLogger(name) for name in _TALKS]
    before = [one.disabled for one in loggers]
    for one in loggers:
        one.disabled = True
    try:
        yield
    finally:
        for one, was in zip(loggers, before, strict=True):
            one.disabled = was


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


def _take_apart(value: Any, taken: list[Any]) -> Any:  # noqa: ANN401
    """Return ``value`` with places where arrays and noise stood; those are added to ``taken``."""
    if isinstance(value, DiscreteGaussian) or (isinstance(value, np.ndarray) and not value.dtype.hasobject):
        taken.append(value)
        return _Place(len(taken) - 1)
    if isinstance(value, tuple):
        return tuple(_take_apart(one, taken) for one in value)
    if isinstance(value, MethodType):
        return MethodType(value.__func__, _take_apart(value.__self__, taken))
    if is_dataclass(value) and not isinstance(value, type):
        return _each_field(value, lambda one: _take_apart(one, taken))
    if isinstance(value, FunctionType):
        inside: list[Any] = []
        for cell in value.__closure__ or ():
            _take_apart(cell.cell_contents, inside)
        if not inside:
            return value
        raise TypeError(f"{value.__qualname__} holds arrays or noise, which only a dataclass can take to executors")
    if isinstance(value, _PLAIN):
        return value
    # Anything else might hold ratings or keys, and would travel in the clear.
    raise TypeError(f"a work holds numbers, arrays, noise and dataclasses of these, not {type(value).__name__}")


def _put_together(value: Any, contents: list[Any]) -> Any:  # noqa: ANN401
    if isinstance(value, _Place):
        return contents[value.number]
    if isinstance(value, tuple):
        return tuple(_put_together(one, contents) for one in value)
    if isinstance(value, MethodType):
        return MethodType(value.__func__, _put_together(value.__self__, contents))
    if is_dataclass(value) and not isinstance(value, type):
        return _each_field(value, lambda one: _put_together(one, contents))
    return value


def _each_field(value: Any, change: Any) -> Any:  # noqa: ANN401
    """Return a copy of a dataclass with changed fields; its own checks are for whoever makes one."""
    changed = copy.copy(value)
    for one in fields(value):
        object.__setattr__(changed, one.name, change(getattr(value, one.name)))
    return changed
