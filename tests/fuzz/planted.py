"""Bugs planted in the product's readers, to see that the fuzzer reports each of them."""

import os
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pricdr import Ledger
from pricdr.data.reading.read import read_ratings_file as read
from pricdr.errors import InputError
from pricdr.privacy.ledger import Balance
from tests.fuzz.cases import Files, Kind, Seed

_EVERY = 3
"""One mutated case in so many meets the bug."""
_EATEN = 400 << 20


def _abort(*_: object, **__: object) -> None:
    os.abort()


def _hang(*_: object, **__: object) -> None:
    while True:
        time.sleep(1)


def _eat(*_: object, **__: object) -> None:
    eaten = bytearray(_EATEN)
    eaten[:: 1 << 12] = b"x" * len(eaten[:: 1 << 12])
    raise InputError("refused after all")


def _eat_in_a_child(*_: object, **__: object) -> None:
    code = f"import time; eaten = b'x' * {_EATEN}; time.sleep(60)"
    subprocess.run([sys.executable, "-c", code], check=False)


def _raise(*_: object, **__: object) -> None:
    raise KeyError("user")


def _warn(*given: Any, **named: Any) -> Any:
    warnings.warn("invalid value encountered", RuntimeWarning, stacklevel=1)
    return read(*given, **named)


def _ramble(*_: object, **__: object) -> None:
    raise InputError("no " * 1000)


class _ForgetfulLedger(Ledger):
    """A ledger that does not count its last release."""

    def read(self) -> Balance:
        balance = super().read()
        return replace(balance, spends=balance.spends[:-1])


PLANTS: dict[str, tuple[str, Any]] = {
    "abort": ("tests.fuzz.stage_one.read", _abort),
    "hang": ("tests.fuzz.stage_one.read", _hang),
    "memory": ("tests.fuzz.stage_one.read", _eat),
    "memory of a child": ("tests.fuzz.stage_one.read", _eat_in_a_child),
    "exception": ("tests.fuzz.stage_one.read", _raise),
    "warning": ("tests.fuzz.stage_one.read", _warn),
    "long refusal": ("tests.fuzz.stage_one.read", _ramble),
    "stronger promise": ("pricdr.release.certify.check", lambda *_: None),
    "forged notice": ("pricdr.release.revocation.is_signed_by", lambda *_: True),
    "forgotten spend": ("tests.fuzz.stage_one.Ledger", _ForgetfulLedger),
}


def planted(kind: Kind, name: str) -> Kind:
    """The kind with a bug that honest seeds never meet."""
    target, bug = PLANTS[name]
    cases = count(1)

    def judge(folder: Path, seed: Seed, files: Files) -> None:
        if files is seed.files or next(cases) % _EVERY:
            kind.judge(folder, seed, files)
            return
        with patch(target, bug):
            kind.judge(folder, seed, files)

    return replace(kind, judge=judge)
