"""Points of Curve25519 as X25519 sees them: 32 bytes, the u-coordinate with its least significant byte first.

Ids become points by ``encode_to_curve`` of RFC 9380 (suite ``curve25519_XMD:SHA-512_ELL2_NU_``), but for its last step:
X25519 multiplies by a multiple of 8, and so clears the cofactor itself.

X25519 takes any 255-bit number for a u-coordinate. About half of them belong to the curve's twist, which is as hard to
attack, so that ids might simply be hashed to numbers. But multiplying never leaves curve or twist, and anybody can tell
which one a number belongs to. A blinded point would then tell one bit of the hash of its id, another bit in every
session, and the counts of enough sessions give away the whole set. So every id is hashed to the curve itself.
"""

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Sequence
from typing import Final, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from pricdr.errors import InputError

Points: TypeAlias = npt.NDArray[np.uint8]
"""n x 32 bytes."""
SIZE: Final = 32
"""Bytes of a point, and of a key."""
P: Final = 2**255 - 19
A: Final = 486662
"""v² = u³ + A·u² + u modulo P."""
LOW_ORDER: Final = (
    0,
    1,
    P - 1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
)
"""Every u of a point whose order divides 8, on curve and twist. X25519 sends them all to 0, whatever the key."""
_PURPOSE: Final = b"PRICDR-ALIGN-V01-CS02-with-curve25519_XMD:SHA-512_ELL2_NU_"
_FIELD_BYTES: Final = 48
"""Hashed bytes that become one number modulo P: so many that its distribution is uniform up to 2⁻¹²⁸."""
_SHA512_BLOCK: Final = 128


class BlindingKey:
    """The secret number that one party multiplies points by, in one session."""

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
        """Return what is hashed in place of an id, to pad a message: random to everybody who lacks the key."""
        return hmac.digest(self._bytes, b"pricdr alignment dummy %d" % number, "sha256")

    def order(self, count: int) -> npt.NDArray[np.intp]:
        """Return a permutation of so many positions: random to everybody who lacks the key, the same in every run."""
        seed = hmac.digest(self._bytes, b"pricdr alignment order", "sha256")
        return np.argsort(np.frombuffer(hashlib.shake_256(seed).digest(8 * count), dtype="<u8"), kind="stable")

    def multiply(self, points: Iterable[bytes]) -> bytes:
        """Return the points times the key, one after the other. They must have passed :func:`require_points`."""
        private = X25519PrivateKey.from_private_bytes(self._bytes)
        load = X25519PublicKey.from_public_bytes
        return b"".join([private.exchange(load(point)) for point in points])

    def __repr__(self) -> str:
        return "BlindingKey(<hidden>)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("keys are never serialised")


def as_points(content: bytes | bytearray) -> Points:
    """Return bytes as points, without a copy."""
    return np.frombuffer(content, dtype=np.uint8).reshape(-1, SIZE)


def split_points(points: bytes) -> list[bytes]:
    """Return the points in these bytes, one by one."""
    return [points[at : at + SIZE] for at in range(0, len(points), SIZE)]


def in_byte_order(points: Points) -> Points:
    """Return points in ascending order of their bytes: it depends on which they are, and on no order they had."""
    return points[np.lexsort(_words(points).T[::-1])]


def are_ascending(points: Points) -> bool:
    """Return whether points are in ascending order of their bytes, without repeats."""
    words = _words(points)
    less, equal = np.zeros(max(0, len(words) - 1), dtype=bool), np.ones(max(0, len(words) - 1), dtype=bool)
    for before, after in zip(words[:-1].T, words[1:].T, strict=True):
        less |= equal & (before < after)
        equal &= before == after
    return bool(less.all())


def are_distinct(points: Points) -> bool:
    """Return whether no point repeats."""
    return are_ascending(in_byte_order(points))


def _words(points: Points) -> npt.NDArray[np.uint64]:
    """Return points as four numbers each, which compare as their bytes do."""
    return np.ascontiguousarray(points).view(">u8").reshape(-1, 4).astype(np.uint64)


def require_points(points: Points, name: str) -> None:
    """Refuse points of low order and numbers of P or more, before any key touches them; ``name`` is where they are.

    A point of low order is none that an id could have, and what becomes of it does not depend on the key. X25519 would
    read a number of P or more as a smaller one: then one point had two spellings, and equality would miss it.
    """
    words = np.ascontiguousarray(points).view("<u8").reshape(-1, 4)
    full = np.uint64(2**64 - 1)
    top = words[:, 3] >= np.uint64(2**63 - 1)
    large = top & ((words[:, 3] > np.uint64(2**63 - 1)) | ((words[:, 2] == full) & (words[:, 1] == full)))
    large &= (words[:, 3] > np.uint64(2**63 - 1)) | (words[:, 0] >= np.uint64(2**64 - 19))
    if large.any():
        at = int(np.argmax(large)) + 1
        raise InputError(f"{name}: point {at:,} is not written canonically: it must be below 2^255 - 19")
    low = np.zeros(len(words), dtype=bool)
    for u in LOW_ORDER:
        low |= (words == np.frombuffer(u.to_bytes(SIZE, "little"), dtype="<u8")).all(axis=1)
    if low.any():
        at = int(np.argmax(low)) + 1
        raise InputError(f"{name}: point {at:,} has low order: no id is hashed to it, and a key would not hide it")


def hash_to_u(contents: Sequence[bytes], purpose: bytes = _PURPOSE) -> bytes:
    """Return the points that these bytes are hashed to, one after the other; all of them lie on the curve."""
    return b"".join(u.to_bytes(SIZE, "little") for u in map_to_curve(_hash_to_field(contents, purpose)))


def _hash_to_field(contents: Iterable[bytes], purpose: bytes) -> list[int]:
    """Return one number modulo P for each content: ``hash_to_field`` of RFC 9380 with ``expand_message_xmd``."""
    suffix = purpose + bytes([len(purpose)])
    zero_block = hashlib.sha512(bytes(_SHA512_BLOCK))
    middle = _FIELD_BYTES.to_bytes(2, "big") + b"\0" + suffix
    numbers = []
    for content in contents:
        first = zero_block.copy()
        first.update(content + middle)
        expanded = hashlib.sha512(first.digest() + b"\x01" + suffix).digest()[:_FIELD_BYTES]
        numbers.append(int.from_bytes(expanded, "big") % P)
    return numbers


def map_to_curve(numbers: Sequence[int]) -> list[int]:
    """Return the u-coordinate of the curve's point for each number: Elligator 2, as RFC 9380 has it with Z = 2."""
    # 1 + 2r² is never 0: -1 is a square modulo P and 2 is none, so that -1/2 is none.
    inverses = _inverses([(1 + 2 * r * r) % P for r in numbers])
    found = []
    for inverse in inverses:
        u = -A * inverse % P
        # Of these two, exactly one is on the curve.
        found.append(u if _is_square(u * (u * u + A * u + 1) % P) else (-u - A) % P)
    return found


def _inverses(numbers: Sequence[int]) -> list[int]:
    """Return the inverses modulo P of numbers that are not 0, by one inversion for all of them."""
    before, product = [], 1
    for number in numbers:
        before.append(product)
        product = product * number % P
    inverse, found = pow(product, -1, P), []
    for number, product in zip(reversed(numbers), reversed(before), strict=True):
        found.append(inverse * product % P)
        inverse = inverse * number % P
    return found[::-1]


def _is_square(number: int) -> bool:
    """Return whether a number is a square modulo P: its Jacobi symbol, four times as fast as Euler's power."""
    a, n, symbol = number, P, 1
    while a:
        twos = (a & -a).bit_length() - 1
        a >>= twos
        if twos & 1 and n & 7 in (3, 5):
            symbol = -symbol
        if a & 3 == 3 and n & 3 == 3:
            symbol = -symbol
        a, n = n % a, a
    # For 0 the loop ends at once: 0 is a square.
    return symbol == 1
