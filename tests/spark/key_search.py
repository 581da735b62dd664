"""Find pieces of keys in the output of a program: bytes, hex, base64, lists of numbers, Python's notation."""

import ast
import base64
import re
from contextlib import suppress

import numpy as np

WINDOW = 8
"""The number of consecutive bytes of a key that must not occur anywhere."""


class KeySearch:
    """Remembers keys, and searches for any eight consecutive bytes of any of them."""

    def __init__(self):
        self.keys = set()

    def add(self, key):
        self.keys.add(bytes(key))

    def found_in(self, content):
        """Return whether a piece of a key occurs in ``content`` in any of the notations."""
        windows = np.unique(
            np.frombuffer(
                b"".join(key[at : at + WINDOW] for key in list(self.keys) for at in range(len(key) - WINDOW + 1)),
                dtype=np.uint64,
            )
        )
        # In one piece: a log has a million words that might be base64.
        return self._has_window(content, windows) or self._has_window(b"|".join(_decoded(content)), windows)

    @staticmethod
    def _has_window(content, windows):
        for shift in range(WINDOW):
            whole = (len(content) - shift) // WINDOW * WINDOW
            if whole > 0 and np.isin(np.frombuffer(content, np.uint64, whole // WINDOW, shift), windows).any():
                return True
        return False


def _decoded(content):
    for run in re.findall(rb"[0-9a-fA-F]{16,}", content):
        for at in (0, 1):
            yield bytes.fromhex(run[at : at + (len(run) - at) // 2 * 2].decode())
    for run in re.findall(rb"[A-Za-z0-9+/_-]{11,}", content):
        plain = run.replace(b"-", b"+").replace(b"_", b"/")
        for at in range(4):
            yield base64.b64decode(plain[at : at + (len(plain) - at) // 4 * 4])
    for run in re.findall(rb"-?\d{1,3}(?:, ?-?\d{1,3}){7,}", content):
        yield bytes(int(number) & 255 for number in run.split(b","))
    for run in re.findall(rb"""b'(?:[^'\\\n]|\\.)+'|b"(?:[^"\\\n]|\\.)+\"""", content):
        with suppress(SyntaxError, ValueError, UnicodeDecodeError):
            yield ast.literal_eval(run.decode())
