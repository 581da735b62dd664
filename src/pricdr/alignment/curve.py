"""Points of Curve25519, and blinding many of them on several processes.

Points are as X25519 represents them: the u-coordinate as 32 bytes, least significant byte first.

Ids are hashed to points with ``encode_to_curve`` of RFC 9380 (suite ``curve25519_XMD:SHA-512_ELL2_NU_``), without its
last step: X25519 multiplies by a multiple of 8, which clears the cofactor anyway.

X25519 accepts any 255-bit number as a u-coordinate, so it seems enough to hash ids to numbers. It is not: a blinded
point would reveal one bit of the hash of its id, whether it belongs to the curve or to its twist, a different bit in
every session (``docs/mathematics.md``). So every id is hashed to the curve itself.
"""

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from pricdr.errors import InputError, PriCDRError
from pricdr.parallel import process_pool
from pricdr.progress import Progress, silent
from pricdr.randomness import Hidden

Points: TypeAlias = npt.NDArray[np.uint8]  # n x 32 bytes
SIZE: Final = 32  # bytes of a point, and of a key
P: Final = 2**255 - 19
A: Final = 486662  # v² = u³ + A·u² + u modulo P
LOW_ORDER: Final = (
    0,
    1,
    P - 1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
)
"""The u of every point whose order divides 8, on curve and twist. X25519 maps them all to 0, whatever the key."""
_PURPOSE: Final = b"PRICDR-ALIGN-V01-CS02-with-curve25519_XMD:SHA-512_ELL2_NU_"
_FIELD_BYTES: Final = 48  # hashed bytes per number modulo P: enough to make the number uniform up to 2⁻¹²⁸
_SHA512_BLOCK: Final = 128
PORTION: Final = 10_000  # ids or points that are blinded at a time: about a second of one core
_ID, _DUMMY = b"\0", b"\1"  # the byte that is hashed before an id or a dummy, so that no id can hash to a dummy's point


class BlindingKey(Hidden):
    """The secret number by which one party multiplies points in one session."""

    __slots__ = ("_bytes",)

    def __init__(self, content: bytes) -> None:
        if len(content) != SIZE:
            raise ValueError(f"a key has {SIZE} bytes, got {len(content)}")
        self._bytes = content

    @classmethod
    def generate(cls) -> "BlindingKey":
        """Return a new key from the operating system's randomness."""
        return cls(secrets.token_bytes(SIZE))

    def reveal(self) -> bytes:
        """Return the key itself: for a worker process, or a state file of mode 0600."""
        return self._bytes

    def dummy(self, number: int) -> bytes:
        """Return the bytes that are hashed in place of an id to pad a message; they look random without the key."""
        return hmac.digest(self._bytes, b"pricdr alignment dummy %d" % number, "sha256")

    def order(self, count: int) -> npt.NDArray[np.intp]:
        """Return a permutation of ``count`` positions. It depends only on the key, and looks random without it."""
        seed = hmac.digest(self._bytes, b"pricdr alignment order", "sha256")
        return np.argsort(np.frombuffer(hashlib.shake_256(seed).digest(8 * count), dtype="<u8"), kind="stable")

    def multiply(self, points: Iterable[bytes]) -> bytes:
        """Return the points times the key, concatenated. They must have passed :func:`require_points`."""
        private = X25519PrivateKey.from_private_bytes(self._bytes)
        load = X25519PublicKey.from_public_bytes
        return b"".join([private.exchange(load(point)) for point in points])


def as_points(content: bytes | bytearray) -> Points:
    """Return bytes as points, without a copy."""
    return np.frombuffer(content, dtype=np.uint8).reshape(-1, SIZE)


def split_points(points: bytes) -> list[bytes]:
    """Return the points in these bytes as a list."""
    return [points[at : at + SIZE] for at in range(0, len(points), SIZE)]


def in_byte_order(points: Points) -> Points:
    """Return points in ascending order of their bytes."""
    return points[np.argsort(_sortable(points))]


def are_ascending(points: Points) -> bool:
    """Return whether points are in strictly ascending order of their bytes."""
    texts = _sortable(points)
    return bool((texts[:-1] < texts[1:]).all())


def are_distinct(points: Points) -> bool:
    """Return whether no point repeats."""
    return are_ascending(in_byte_order(points))


def _sortable(points: Points) -> npt.NDArray[np.bytes_]:
    """Return each point as a text, which numpy compares byte by byte."""
    return np.ascontiguousarray(points).view(f"S{SIZE}").reshape(-1)


def require_points(points: Points, name: str) -> None:
    """Refuse points of low order and numbers of P or more before any key is applied; errors begin with ``name``.

    X25519 reduces such numbers modulo P, so one point would have two encodings and comparing bytes would miss a match.
    """
    numbers = _sortable(points[:, ::-1])
    for wrong, why in (
        (numbers >= P.to_bytes(SIZE, "big"), "is not canonical: it must be below 2^255 - 19"),
        (
            np.isin(numbers, [u.to_bytes(SIZE, "big") for u in LOW_ORDER]),
            "has low order: no id hashes to it, and no key hides it",
        ),
    ):
        if wrong.any():
            raise InputError(f"{name}: point {int(np.argmax(wrong)) + 1:,} {why}")


def hash_to_u(contents: Sequence[bytes], purpose: bytes = _PURPOSE) -> bytes:
    """Hash each content, by ``expand_message_xmd`` of RFC 9380, to a point on the curve; return the points in a row."""
    suffix = purpose + bytes([len(purpose)])
    zero_block = hashlib.sha512(bytes(_SHA512_BLOCK))
    middle = _FIELD_BYTES.to_bytes(2, "big") + b"\0" + suffix
    numbers = []
    for content in contents:
        first = zero_block.copy()
        first.update(content + middle)
        expanded = hashlib.sha512(first.digest() + b"\x01" + suffix).digest()[:_FIELD_BYTES]
        numbers.append(int.from_bytes(expanded, "big") % P)
    return b"".join(u.to_bytes(SIZE, "little") for u in map_to_curve(numbers))


def map_to_curve(numbers: Sequence[int]) -> list[int]:
    """Map each number to the u-coordinate of a point on the curve: Elligator 2 as in RFC 9380, with Z = 2."""
    coordinates = []
    for r in numbers:
        # 1 + 2r² is never 0: -1 is a square modulo P and 2 is not, so -1/2 is not.
        u = -A * pow(1 + 2 * r * r, -1, P) % P
        # Exactly one of the two is on the curve.
        coordinates.append(u if _is_square(u * (u * u + A * u + 1) % P) else (-u - A) % P)
    return coordinates


def _is_square(number: int) -> bool:
    """Return whether a number is a square modulo P, by its Jacobi symbol: four times as fast as Euler's criterion."""
    a, n, symbol = number, P, 1
    while a:
        twos = (a & -a).bit_length() - 1
        a >>= twos
        if twos & 1 and n & 7 in (3, 5):
            symbol = -symbol
        if a & 3 == 3 and n & 3 == 3:
            symbol = -symbol
        a, n = n % a, a
    # The loop does not run for 0, which is a square.
    return symbol == 1


@dataclass(frozen=True)
class Blinder:
    """Blinds ids and points, and reports progress."""

    processes: int = 1  # more than 1 start workers, and need an importable main module, as the spawn method always does
    progress: Progress = silent

    def ids(self, ids: Sequence[str], session: bytes, key: BlindingKey, *, pad_to: int) -> Points:
        """Return the blinded points of the ids, followed by those of enough dummies to make ``pad_to`` points."""
        real = (session + _ID + user_id.encode() for user_id in ids)
        dummies = (session + _DUMMY + key.dummy(number) for number in range(len(ids), pad_to))
        return self._run("blinding ids", chain(real, dummies), pad_to, key, hashed=True)

    def points(self, points: Points, key: BlindingKey) -> Points:
        """Return the points times the key, in the same order. They must have passed ``require_points``."""
        return self._run("blinding points", map(bytes, points), len(points), key, hashed=False)

    def _run(self, what: str, contents: Iterator[bytes], total: int, key: BlindingKey, *, hashed: bool) -> Points:
        out = bytearray()
        portions = iter(lambda: list(islice(contents, PORTION)), [])
        blind = partial(_blind, key=key.reveal(), hashed=hashed)
        processes = min(self.processes, -(-total // PORTION))
        self.progress(what, 0, total)
        try:
            with process_pool(processes, tuple) if processes > 1 else nullcontext() as pool:
                # A few at a time: the contents of all portions together would take as much memory as the ids.
                while some := list(islice(portions, 4 * processes)):
                    for content in map(blind, some) if pool is None else pool.map(blind, some):
                        out += content
                        self.progress(what, len(out) // SIZE, total)
        except BrokenProcessPool as error:
            why = "a worker process was killed while blinding, perhaps for lack of memory"
            raise PriCDRError(f"{why}: use fewer --processes") from error
        return as_points(out)


def _blind(contents: list[bytes], key: bytes, *, hashed: bool) -> bytes:
    """Return points times the key; with ``hashed`` the contents are hashed to points first."""
    return BlindingKey(key).multiply(split_points(hash_to_u(contents)) if hashed else contents)
