"""Where random bits come from: ``Secret`` for privacy, ``Simulation`` for everything that should repeat.

Both hand out named :class:`Stream` objects, seekable AES-256-CTR keystreams, so that any worker can regenerate any
block and the value at a position never depends on who computes it. They are two types because confusing them is the
one mistake that voids a guarantee: only a release whose bits came from a ``Secret`` is private.
"""

import hashlib
import secrets
from typing import TYPE_CHECKING, Final, NoReturn, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import CipherContext
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

Bytes: TypeAlias = npt.NDArray[np.uint8]

BLOCK: Final = 16  # bytes in one AES block: positions in a stream are cheapest to reach at its multiples
_NONCE: Final = 12  # bytes in the nonce of AES-GCM


class Hidden:
    """What is never printed, copied or pickled."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(<hidden>)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("secrets are never serialised")


class _Key(Hidden):
    """A 256-bit key, which can be erased."""

    __slots__ = ("_bytes",)

    def __init__(self, content: bytes) -> None:
        self._bytes = bytearray(content)

    def address(self, name: str) -> bytes:
        """Return keyed BLAKE2b of the name, as long as a block: a pseudo-random function of it."""
        return hashlib.blake2b(name.encode(), key=self.content(), digest_size=BLOCK).digest()

    def derive(self, name: str) -> "_Key":
        """Return an independent key for ``name``."""
        return _Key(hashlib.blake2b(name.encode(), key=self.content(), digest_size=32).digest())

    def encryptor(self, counter: int | None) -> "CipherContext":
        """Return AES-256 in counter mode from ``counter`` on, or of blocks as they are."""
        # Imported here: splits and models use a Simulation's generators where cryptography is not installed.
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        mode = modes.ECB() if counter is None else modes.CTR(counter.to_bytes(BLOCK, "big"))
        return Cipher(algorithms.AES256(self.content()), mode).encryptor()

    def content(self) -> bytearray:
        """Return the key itself, for a cipher: the same bytes, not a copy of them."""
        if not any(self._bytes):
            raise RuntimeError("this key was erased")
        return self._bytes

    def erase(self) -> None:
        """Overwrite the key. Best effort: the interpreter and OpenSSL may hold short-lived copies."""
        self._bytes[:] = bytes(len(self._bytes))


class Stream(Hidden):
    """A seekable sequence of random bytes, 2^132 of them."""

    __slots__ = ("_key",)

    def __init__(self, key: _Key) -> None:
        self._key = key

    def read(self, start: int, count: int) -> Bytes:
        """Return the bytes ``start`` to ``start + count``; the same positions always give the same bytes."""
        block, skip = divmod(start, BLOCK)
        cipher = self._key.encryptor(block)
        out = np.empty(skip + count + BLOCK - 1, dtype=np.uint8)
        written = cipher.update_into(bytes(skip + count), out.data)
        return out[skip:written]

    def at(self, blocks: Bytes) -> Bytes:
        """Return the stream's bytes at arbitrary 16-byte block addresses, given as their concatenated bytes."""
        out = np.empty(len(blocks) + BLOCK - 1, dtype=np.uint8)
        written = self._key.encryptor(None).update_into(blocks.data, out.data)
        return out[:written]

    def address(self, name: str) -> bytes:
        """Return a 16-byte block address that only ``name`` and the key decide (a keyed hash)."""
        return self._key.address(name)

    def sealed(self, seal: "Seal", name: str) -> bytes:
        """Return the stream as it may travel to another process: its key, sealed."""
        return seal.close(self._key.content(), f"stream {name}")


class Seal(Hidden):
    """A one-time key that secrets travel under from one process to others, in AES-256-GCM.

    It has to travel by another way than they do. What was sealed for one purpose cannot be opened as another.

    >>> wrapping = secrets.token_bytes(32)
    >>> Seal(wrapping).open(Seal(wrapping).close(b"directions", "array 0"), "array 0")
    b'directions'
    """

    __slots__ = ("_closed", "_key")

    def __init__(self, wrapping: bytes) -> None:
        self._key = _Key(wrapping)
        self._closed = 0

    def close(self, content: bytes | bytearray | memoryview, purpose: str) -> bytes:
        """Return ``content`` encrypted and authenticated."""
        # Counted, never drawn: under one key no nonce may come twice, and only one process closes under it.
        nonce = self._closed.to_bytes(_NONCE, "big")
        self._closed += 1
        return nonce + self._cipher().encrypt(nonce, content, purpose.encode())

    def open(self, sealed: bytes, purpose: str) -> bytes:
        """Return what was sealed for this purpose; ``cryptography``'s InvalidTag where it was not."""
        return self._cipher().decrypt(sealed[:_NONCE], sealed[_NONCE:], purpose.encode())

    def stream(self, sealed: bytes, name: str) -> Stream:
        """Return a stream that was sealed under this key."""
        return Stream(_Key(self.open(sealed, f"stream {name}")))

    def erase(self) -> None:
        """Overwrite the key, as far as that can be done."""
        self._key.erase()

    def _cipher(self) -> "AESGCM":
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        return AESGCM(self._key.content())


class Randomness(Protocol):
    """What hands out named streams."""

    def stream(self, name: str) -> Stream:
        """Return the stream of this name: independent of every other name's."""


class Secret(Hidden):
    """Random bits nobody can repeat: a fresh key from the operating system, erased after use."""

    __slots__ = ("_derived", "_key")

    def __init__(self) -> None:
        self._key = _Key(secrets.token_bytes(32))
        self._derived: list[_Key] = []

    def stream(self, name: str) -> Stream:
        """Return the stream of this name."""
        self._derived.append(self._key.derive(name))
        return Stream(self._derived[-1])

    def erase(self) -> None:
        """Make every stream handed out unusable. Best effort, see the threat model."""
        for key in (self._key, *self._derived):
            key.erase()

    def __enter__(self) -> "Secret":
        return self

    def __exit__(self, *_: object) -> None:
        self.erase()


class Simulation:
    """Random bits that repeat: everything follows from ``seed``. Never private."""

    __slots__ = ("seed",)

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def stream(self, name: str) -> Stream:
        """Return the stream of this name."""
        return Stream(_Key(hashlib.sha256(f"pricdr simulation {self.seed}".encode()).digest()).derive(name))

    def generator(self, name: str) -> np.random.Generator:
        """Return a numpy generator of its own for ``name``."""
        digest = hashlib.sha256(f"pricdr generator {self.seed} {name}".encode()).digest()
        return np.random.Generator(np.random.Philox(np.random.SeedSequence(list(digest))))

    def __repr__(self) -> str:
        return f"Simulation(seed={self.seed})"
