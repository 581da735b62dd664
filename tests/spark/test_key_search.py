"""The search for keys would find them."""

import base64
import secrets

from tests.spark.key_search import KeySearch

KEY = secrets.token_bytes(32)
PIECE = KEY[11:19]
NOTATIONS = {
    "bytes": PIECE,
    "hex": PIECE.hex().encode(),
    "upper-case hex at an odd place": b"a" + PIECE.hex().upper().encode(),
    "base64": base64.b64encode(KEY[9:21]),
    "url-safe base64 inside other text": b"xyz" + base64.urlsafe_b64encode(KEY) + b"abc",
    "Java's array": ("[" + ", ".join(str(b - 256 if b > 127 else b) for b in PIECE) + "]").encode(),
    "numbers": str(list(PIECE)).encode(),
    "Python's notation": repr(KEY).encode(),
}


def test_a_piece_of_a_key_is_found_and_what_is_no_key_is_not():
    search = KeySearch()
    search.add(secrets.token_bytes(32))
    search.add(KEY)
    for name, notation in NOTATIONS.items():
        for padding in (b"", b"some text before, "):
            assert search.found_in(padding + notation + b" and after"), name
    noise = secrets.token_bytes(1 << 16)
    assert not search.found_in(noise + noise.hex().encode() + base64.b64encode(noise) + KEY[:7])
