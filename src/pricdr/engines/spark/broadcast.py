"""Send a work to executors: all of it is sealed in a broadcast, and the seal's key is in the function.

Spark writes Python broadcasts to files, on the driver and on every executor. So their content is encrypted here, under
a key that is made for one job and travels inside the function, which Spark keeps in memory. Neither is of any use
without the other. ``docs/threat-model.md`` says what an attacker gets, depending on access.

Nothing is unpickled before the seal has shown that it is what this driver wrote.
"""

import io
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pricdr.privacy.noise import DiscreteGaussian, SealedNoise
from pricdr.randomness import Seal

if TYPE_CHECKING:
    from pyspark import Broadcast, SparkContext

_CHUNK: Final = 1 << 26
"""Bytes that are sealed in one piece: AES-GCM takes less than 2^31."""
_opened: Final[dict[str, Any]] = {}
"""The last work that this process opened, by the number of its message; and its seal, while it is being opened."""


@dataclass(frozen=True)
class SealedFunction:
    """A work on its way to executors."""

    contents: "Broadcast[list[list[bytes]]]"
    """The work and each of its arrays, in sealed chunks."""
    wrapping: bytes = field(repr=False)
    """The key of the seal. It is never in a broadcast, and opens nothing but this message."""
    number: str
    """A random number that identifies this message."""

    def opened(self) -> Any:  # noqa: ANN401
        """Return the work; a process opens each message once, and keeps only the last."""
        from pyspark import cloudpickle

        if self.number not in _opened:
            _opened.clear()
            seal = _opened["seal"] = Seal(self.wrapping)
            work, *arrays = [
                b"".join(seal.open(chunk, f"{number} {at}") for at, chunk in enumerate(chunks))
                for number, chunks in enumerate(self.contents.value)
            ]
            # Arrays share the memory of their bytes, which nobody can write to: works are pure.
            _opened[self.number] = cloudpickle.loads(work, buffers=arrays)
            _opened.pop("seal").erase()
        return _opened[self.number]


@contextmanager
def dispatched(context: "SparkContext", work: object) -> Iterator[SealedFunction]:
    """Yield ``work`` as a message to executors while a job runs; afterwards destroy its broadcast everywhere."""
    wrapping = secrets.token_bytes(32)
    seal = Seal(wrapping)
    contents = [
        [seal.close(piece[at : at + _CHUNK], f"{number} {at // _CHUNK}") for at in range(0, max(1, len(piece)), _CHUNK)]
        for number, piece in enumerate(_pickled(work, seal))
    ]
    seal.erase()
    broadcast = context.broadcast(contents)
    try:
        yield SealedFunction(broadcast, wrapping, secrets.token_hex(8))
    finally:
        broadcast.destroy()


def _pickled(work: object, seal: Seal) -> list[memoryview]:
    """Return a work without its arrays, and the bytes of each array."""
    from pyspark import cloudpickle

    base: Any = cloudpickle.CloudPickler  # pyspark has no types for it

    class Pickler(base):  # type: ignore[misc]
        def reducer_override(self, value: object) -> Any:  # noqa: ANN401
            # Keys refuse to be pickled; noise hands out the sealed keys of its own streams.
            if isinstance(value, DiscreteGaussian):
                return _unsealed_noise, (value.sealed(seal),)
            return super().reducer_override(value)

    arrays: list[Any] = []
    file = io.BytesIO()
    Pickler(file, protocol=5, buffer_callback=arrays.append).dump(work)
    return [file.getbuffer(), *(array.raw() for array in arrays)]


def _unsealed_noise(noise: SealedNoise) -> DiscreteGaussian:
    return noise.opened(_opened["seal"])
