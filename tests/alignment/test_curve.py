"""Points: the published test vectors, all points of low order, and no id on the twist."""

import hashlib
import secrets

import numpy as np
import pytest

from pricdr.alignment import curve
from pricdr.alignment.curve import LOW_ORDER, A, BlindingKey, P, as_points, hash_to_u, map_to_curve, require_points
from pricdr.errors import InputError

RFC_9380 = {  # appendix J.4.2: message, u[0], Q.x, P.x
    b"": (
        0x608D892B641F0328523802A6603427C26E55E6F27E71A91A478148D45B5093CD,
        0x51125222DA5E763D97F3C10FCC92EA6860B9CCBBD2EB1285728F566721C1E65B,
        0x1BB913F0C9DAEFA0B3375378FFA534BDA5526C97391952A7789EB976EDFE4D08,
    ),
    b"abc": (
        0x46F5B22494BFEAA7F232CC8D054BE68561AF50230234D7D1D63D1D9ABECA8DA5,
        0x7D56D1E08CB0CCB92BAF069C18C49BB5A0DCD927EFF8DCF75CA921EF7F3E6EEB,
        0x7C22950B7D900FA866334262FCAEA47A441A578DF43B894B4625C9B450F9A026,
    ),
    b"abcdef0123456789": (
        0x235FE40C443766CE7E18111C33862D66C3B33267EFA50D50F9E8E5D252A40AAA,
        0x3FBE66B9C9883D79E8407150E7C2A1C8680BEE496C62FABE4619A72B3CABE90F,
        0x31AD08A8B0DEEB2A4D8B0206CA25F567AB4E042746F792F4B7973F3AE2096C52,
    ),
    b"q128_" + b"q" * 128: (
        0x001E92A544463BDA9BD04DDBE3D6EED248F82DE32F522669EFC5DDCE95F46F5B,
        0x227E0BB89DE700385D19EC40E857DB6E6A3E634B1C32962F370D26F84FF19683,
        0x027877759D155B1997D0D84683A313EB78BDB493271D935B622900459D52CEAA,
    ),
    b"a512_" + b"a" * 512: (
        0x1A68A1AF9F663592291AF987203393F707305C7BAC9C8D63D6A729BDC553DC19,
        0x3BCD651EE54D5F7B6013898AAB251EE8ECC0688166FCE6E9548D38472F6BD196,
        0x5FD892C0958D1A75F54C3182A18D286EFAB784E774D1E017BA2FB252998B5DC1,
    ),
}
PURPOSE = b"QUUX-V01-CS02-with-curve25519_XMD:SHA-512_ELL2_NU_"


def is_on_curve(u: int) -> bool:
    """Euler's criterion, which the code under test does not use."""
    return pow(u * (u * u + A * u + 1), (P - 1) // 2, P) in {0, 1}


def double(u: int) -> int | None:
    """The u-coordinate of twice a point, on curve and twist alike; None for the point at infinity."""
    below = 4 * u * (u * u + A * u + 1) % P
    return None if below == 0 else (u * u - 1) ** 2 * pow(below, -1, P) % P


def number(point: bytes) -> int:
    return int.from_bytes(point, "little")


@pytest.mark.parametrize("message", RFC_9380, ids=lambda m: m[:8].decode() or "empty")
def test_ids_are_hashed_as_rfc_9380_says(message):
    field, mapped, cleared = RFC_9380[message]
    assert map_to_curve([field]) == [mapped]
    assert number(hash_to_u([message], PURPOSE)) == mapped
    eightfold = mapped
    for _ in range(3):
        eightfold = double(eightfold)
    assert eightfold == cleared


def test_every_hash_lies_on_the_curve_but_only_half_of_all_numbers_do():
    contents = [b"id %d" % i for i in range(500)]
    hashed = [number(point) for point in curve.split_points(hash_to_u(contents))]
    assert all(map(is_on_curve, hashed))
    assert len(set(hashed)) == len(hashed)
    plain = [number(hashlib.sha512(content).digest()) % P for content in contents]
    assert 180 < sum(map(is_on_curve, plain)) < 320


def test_blinding_stays_on_the_curve_and_commutes():
    a, b = BlindingKey.generate(), BlindingKey.generate()
    points = curve.split_points(hash_to_u([b"%d" % i for i in range(50)]))
    once = curve.split_points(a.multiply(points))
    assert all(is_on_curve(number(point)) for point in once)
    assert b.multiply(once) == a.multiply(curve.split_points(b.multiply(points)))


def test_the_list_of_low_order_points_is_complete():
    """Only 0 doubles to infinity, only 1 and -1 double to 0, and ``_halves`` solves for what doubles to 1 or -1."""
    infinite = [u for u in LOW_ORDER if double(u) is None]
    assert infinite == [0]
    assert [u for u in LOW_ORDER if double(u) == 0] == [1, P - 1]  # (u² - 1)² = 0 has no other roots
    assert _halves(-1) == []
    assert {0, 1, P - 1, *_halves(1)} == set(LOW_ORDER)
    assert len(LOW_ORDER) == 5
    # u² + Au + 1 = 0 would give more points of order 2, but A² - 4 is not a square.
    assert _square_roots(A * A - 4) == []


def _halves(c: int) -> list[int]:
    """Return every u with double(u) = c, for c = 1 or -1.

    (u² - 1)² = 4c·u(u² + Au + 1) divided by u² is s² - 4 = 4c(s + A), with s = u + 1/u.
    """
    return sorted(
        {
            (s + root) * pow(2, -1, P) % P
            for half in _square_roots(8 + 4 * c * A)
            for s in [2 * c + half]
            for root in _square_roots(s * s - 4)
        }
    )


def _square_roots(value: int) -> list[int]:
    value %= P
    root = pow(value, (P + 3) // 8, P)
    for candidate in (root, root * pow(2, (P - 1) // 4, P) % P):
        if candidate * candidate % P == value:
            return sorted({candidate, P - candidate})
    return []


LOW = [(u, "message: point 3 has low order") for u in LOW_ORDER]
LARGE = [P, P + 1, P + 9, 2**255 - 1, 2**255, 2**255 + 9, 2**256 - 1]
NOT_CANONICAL = [(u, r"message: point 3 is not canonical: it must be below 2\^255 - 19") for u in LARGE]


@pytest.mark.parametrize(("u", "rule"), [*LOW, *NOT_CANONICAL], ids=lambda value: str(value)[:20])
def test_points_of_low_order_and_numbers_of_p_or_more_are_refused_before_a_key_touches_them(u, rule):
    points = hash_to_u([b"a", b"b"]) + u.to_bytes(32, "little")
    with pytest.raises(InputError, match=rule):
        require_points(as_points(points), "message")
    for good in (2, 9, P - 2, 2**254, 2**192 - 1, P - 2**64, (2**63 - 1) << 192, P - (1 << 64) - 1):
        require_points(as_points(good.to_bytes(32, "little")), "message")


def test_a_key_is_not_shown_and_not_pickled():
    key = BlindingKey(bytes(range(32)))
    assert repr(key) == "BlindingKey(<hidden>)"
    assert "0001" not in f"{key!r}{key}"
    with pytest.raises(TypeError, match="never serialised"):
        key.__reduce__()
    with pytest.raises(ValueError, match="32 bytes"):
        BlindingKey(b"short")


def test_order_of_bytes():
    points = as_points(secrets.token_bytes(32 * 500))
    rows = sorted(row.tobytes() for row in points)
    assert curve.in_byte_order(points).tobytes() == b"".join(rows)
    assert curve.are_ascending(as_points(b"".join(rows)))
    assert not curve.are_ascending(as_points(b"".join(rows[::-1])))
    assert not curve.are_ascending(as_points(b"".join([rows[0], rows[0]])))
    assert curve.are_distinct(points)
    assert not curve.are_distinct(np.concatenate([points, points[:1]]))
    assert curve.are_ascending(points[:0])
    assert curve.are_ascending(points[:1])
