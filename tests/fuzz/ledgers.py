"""Ledgers: whoever changes one must not get back what was spent, nor a larger budget.

Any change of a signed one is refused or means the same, unless it is another honest ledger signed by the same key. Of
one that is not signed, a well-formed line more at the end only spends, and a file that is an honest ledger byte for
byte, of an earlier day or of other ratings, cannot be told by itself: the releases it should have paid for contradict
it. (Hashes are not computed anew here: ``tests/privacy/test_ledger_signature.py`` does that.)
"""

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from itertools import product
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pricdr import Guarantee, Ledger, Unit
from pricdr.cli.ledger import show
from pricdr.errors import BudgetError
from tests.fuzz.cases import Files, Kind, Seed, require
from tests.fuzz.mutations import json_bytes, mutate_bytes, mutate_json

_FILE = "ledger.jsonl"
_HONEST: set[bytes] = set()
"""What every honest ledger held after each of its lines, without the last line break; of signed ones, all of it."""
_KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))


@contextmanager
def repeatable() -> Iterator[None]:
    """Let time stand still and nonces repeat themselves, so that ledgers are the same in every run."""
    draws = Random(7)
    still = patch("pricdr.privacy.ledger._now", lambda: "2026-01-01", create=True)
    with still, patch("secrets.token_hex", lambda size: draws.randbytes(size).hex()):
        yield


def make_seeds(folder: Path) -> list[Seed]:
    """Ledgers of either unit with none to five releases, signed and not."""
    seeds = []
    with repeatable():
        for unit, key in product(Unit, (None, _KEY)):
            for count in range(6):
                path = folder / f"{unit.value} {count} {'signed' if key else 'not signed'}"
                path.mkdir()
                ledger = Ledger.create(path / _FILE, Guarantee(epsilon=8, delta=1e-6, unit=unit), key)
                for number in range(count):
                    strategy = ("jlt", "spectral")[number % 2]
                    ledger.spend(
                        mu=0.2 + 0.1 * number, dim=4 + number, unit=unit, strategy=strategy, promise="as asked"
                    )
                files = {file.name: file.read_bytes() for file in sorted(path.iterdir())}
                seeds.append(Seed(path.name, files, ledger.read()))
    for seed in seeds:
        lines = seed.files[_FILE].splitlines()
        first = len(lines) - 1 if seed.meaning.signed_by else 0
        _HONEST.update(b"\n".join(lines[: at + 1]) for at in range(first, len(lines)))
    return seeds


def mutate(rng: Random, seed: Seed, other: Seed) -> Files:
    """Change bytes, lines or fields of the file."""
    content, spare = seed.files[_FILE], other.files[_FILE]
    change = rng.choice((_change_bytes, _change_field, _change_field, _change_field, _change_lines, _change_layout))
    return {**seed.files, _FILE: change(rng, content, spare)}


def _change_bytes(rng: Random, content: bytes, spare: bytes) -> bytes:
    return mutate_bytes(rng, content, spare)


def _change_field(rng: Random, content: bytes, spare: bytes) -> bytes:
    lines, spares = content.splitlines(), spare.splitlines()
    at = rng.randrange(len(lines))
    changed = mutate_json(rng, json.loads(lines[at]), json.loads(spares[min(at, len(spares) - 1)]))
    lines[at] = json_bytes(rng, changed, separators=(",", ":"))
    return b"\n".join(lines) + b"\n"


def _change_lines(rng: Random, content: bytes, spare: bytes) -> bytes:
    lines, spares = content.splitlines(), spare.splitlines()
    at, draw = rng.randrange(len(lines)), rng.randrange(6)
    if draw == 0:
        del lines[at]
    elif draw == 1:
        lines.insert(at, lines[at])
    elif draw == 2:
        another = rng.randrange(len(lines))
        lines[at], lines[another] = lines[another], lines[at]
    elif draw == 3:
        lines[at] = rng.choice(spares)
    elif draw == 4:
        lines.insert(rng.randrange(len(lines) + 1), rng.choice((*spares, b"", b" ", b"{}", b"null", b"[" * 5000)))
    else:
        lines = [*lines[:at], *spares[at:]]
    return b"\n".join(lines) + rng.choice((b"\n", b"\n", b"", b"\n\n"))


def _change_layout(rng: Random, content: bytes, spare: bytes) -> bytes:
    """The same values written otherwise, as an editor or another program would."""
    rows = [json.loads(line) for line in content.splitlines()]
    layout: dict[str, Any] = rng.choice(({"sort_keys": True}, {"separators": (", ", " : ")}, {"indent": 1}, {}))
    newline = rng.choice((b"\n", b"\r\n", b"\n\n", b"\r"))
    return newline.join(json_bytes(rng, row, **layout) for row in rows) + newline


def judge(folder: Path, seed: Seed, files: Files) -> None:
    """Read the ledger, compare with the honest one, and spend a little."""
    honest, ledger = seed.meaning, Ledger(folder / _FILE, _KEY)
    balance = ledger.read()
    written = files[_FILE]
    assert isinstance(written, bytes)
    appended = written.startswith(seed.files[_FILE])
    releases = written.removesuffix(b"\n").count(b"\n") - (
        balance.signed_by is not None
    )  # a line each, after the first
    require(
        len(balance.spends) == releases, f"releases that are not those recorded: {len(balance.spends)} of {releases}"
    )
    if written.removesuffix(b"\n") not in _HONEST:
        require(honest.signed_by is None or balance.signed_by is None, "a signature of what was not signed")
        require(balance.budget == honest.budget, f"another budget: {balance.budget} for {honest.budget}")
        require(balance.spends[: len(honest.spends)] == honest.spends, "releases that are not those recorded")
        require(appended or len(balance.spends) == len(honest.spends), "a line more inside")
        require(balance.epsilon >= honest.epsilon, f"less spent than recorded: {balance.epsilon} {honest.epsilon}")
    require(0 <= balance.room < float("inf"), f"room that is none: {balance.room}")
    with redirect_stdout(io.StringIO()) as shown:
        show(ledger.path)
    require(shown.getvalue().replace("\n", "").isprintable(), "what ledger show prints a terminal would act on")
    try:
        after = ledger.spend(mu=0.01, dim=1, unit=balance.budget.unit, strategy="jlt")
    except BudgetError:
        require(appended, "a full ledger that had room")
        return
    require(len(after.spends) == len(balance.spends) + 1, "a release that was not counted")
    require(ledger.read() == after, "a balance that is not the one written")


KIND = Kind(make_seeds, mutate, judge)
