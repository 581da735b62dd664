"""The lines of a ledger file: canonical JSON, each chained by hash to everything before it.

The first line holds the budget, every other one a release. ``before`` is the SHA-256 of all bytes before the line,
``hash`` that of the line itself without this last field. So the last hash, the head, covers the whole file. A file
begun before there were hashes is continued as it is: its first chained line covers the raw bytes before it.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pricdr.errors import LedgerError
from pricdr.privacy.guarantee import Guarantee, Unit

LARGEST_BUDGET: Final = 1e9
"""The largest ε of a budget: far beyond any that protects anything, and one that a certificate can state."""
VERSION: Final = 2
"""The version of new files. Version 1 had no hashes."""
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class BudgetLine(_Line):
    """The first line: what all releases together may cost."""

    pricdr_ledger: Literal[1, 2]
    epsilon: float = Field(gt=0, le=LARGEST_BUDGET)
    delta: float = Field(gt=0, lt=1)
    unit: Unit
    created: str
    nonce: str | None = None
    hash: str | None = None


class Spend(_Line):
    """One release: what it cost and what it was."""

    mu: float = Field(gt=0)
    dim: int = Field(ge=1, le=1 << 62)
    """Noisy numbers that one change can move."""
    strategy: str
    promise: str = ""
    """What was asked for, in words."""
    recorded: str
    nonce: str | None = None
    """Random, so that no two lines have the same hash; None, like all that follows, in lines of version 1."""
    number: int | None = None
    """1 for the first release."""
    before: str | None = None
    hash: str | None = None


_LineT = TypeVar("_LineT", BudgetLine, Spend)


@dataclass(frozen=True)
class Contents:
    """A ledger file, every line of it checked."""

    budget: Guarantee
    spends: tuple[Spend, ...]
    opening: str
    """SHA-256 of the first line, which identifies the ledger."""
    raw: bytes
    """The file, with the line break at its end."""

    def chained(self, spend: Spend, nonce: str | None) -> tuple[Spend, bytes]:
        """Return one more release as the next line of the file, and the line's bytes."""
        before = hashlib.sha256(self.raw).hexdigest()
        placed = spend.model_copy(update={"nonce": nonce, "number": len(self.spends) + 1, "before": before})
        sealed = placed.model_copy(update={"hash": line_hash(placed)})
        return sealed, _encode(sealed)


def first_line(budget: Guarantee, *, created: str, nonce: str) -> bytes:
    """Return the line that begins a ledger with this budget."""
    line = BudgetLine(
        pricdr_ledger=VERSION,
        epsilon=budget.epsilon,
        delta=budget.delta,
        unit=budget.unit,
        created=created,
        nonce=nonce,
    )
    return _encode(line.model_copy(update={"hash": line_hash(line)}))


def parse(raw: bytes, name: object) -> Contents:
    """Return the ledger in these bytes; :class:`LedgerError` names the first line that is damaged or was changed."""
    if not raw:
        raise LedgerError(f"{name} is not a ledger: it is empty")
    lines = raw.removesuffix(b"\n").split(b"\n")  # an editor may have taken the last line break away
    try:
        header = _budget(lines[0])
    except _FlawError as flaw:
        raise _damaged(name, 1, flaw) from flaw
    spends: list[Spend] = []
    digest = hashlib.sha256(lines[0] + b"\n")
    chained = header.hash is not None
    for number, line in enumerate(lines[1:], 1):
        try:
            spend = _spend(line, number, digest.hexdigest(), chained=chained)
        except _FlawError as flaw:
            raise _damaged(name, number + 1, flaw, cut=number + 1 == len(lines) and flaw.cut) from flaw
        chained = spend.hash is not None
        spends.append(spend)
        digest.update(line + b"\n")
    return Contents(
        budget=Guarantee(epsilon=header.epsilon, delta=header.delta, unit=header.unit),
        spends=tuple(spends),
        opening=hashlib.sha256(lines[0]).hexdigest(),
        raw=b"".join(line + b"\n" for line in lines),
    )


def split_cut_line(raw: bytes) -> tuple[bytes, bytes] | None:
    """Return the file before a last line that was cut off, and what is left of that line; None if it is whole."""
    *before, last = raw.removesuffix(b"\n").split(b"\n")
    if not before or not last or _is_json(last):
        return None
    return b"".join(line + b"\n" for line in before), last


class _FlawError(Exception):
    """What is wrong with one line."""

    def __init__(self, what: str, *, cut: bool = False) -> None:
        super().__init__(what)
        self.cut = cut
        """Whether it is not whole JSON text, as a line is whose end was lost."""


def _damaged(name: object, number: int, flaw: _FlawError, *, cut: bool = False) -> LedgerError:
    remedy = "pricdr ledger repair" if cut else "restore the newest copy and check it with pricdr ledger verify"
    return LedgerError(
        f"{name} is not a valid ledger: line {number} {flaw}; do not begin a new ledger, which would forget "
        f"what was spent: {remedy}"
    )


def _budget(raw: bytes) -> BudgetLine:
    line = _read(BudgetLine, raw)
    if {line.hash is None, line.nonce is None} != {line.pricdr_ledger == 1}:
        raise _FlawError(f"states version {line.pricdr_ledger} but has the fields of another version")
    _require_own_hash(line)
    return line


def _spend(raw: bytes, number: int, before: str, *, chained: bool) -> Spend:
    """Return the line as a release; ``chained``: the line before it has a hash, so this one must have one too."""
    line = _read(Spend, raw)
    parts = (line.nonce, line.number, line.before, line.hash)
    if set(parts) == {None} and not chained:
        return line
    if None in parts:
        raise _FlawError("lacks its nonce, number or hashes, which every line after a chained one must have")
    _require_own_hash(line)
    if line.number != number:
        raise _FlawError(f"is release {line.number} where {number} is expected: lines were dropped, added or moved")
    if line.before != before:
        raise _FlawError("does not follow from the lines before it: one of them was changed, dropped or added")
    return line


def _require_own_hash(line: BudgetLine | Spend) -> None:
    if line.hash is not None and line.hash != line_hash(line):
        raise _FlawError("was changed after it was written: its hash does not match")


def _read(kind: type[_LineT], raw: bytes) -> _LineT:
    if not raw.strip():
        raise _FlawError("is blank")
    if raw.startswith(_BYTE_ORDER_MARK):
        raise _FlawError("begins with a byte order mark, as some editors add")
    try:
        content = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise _FlawError("is cut off, or is not JSON", cut=True) from error
    try:
        line = kind.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))[:60]
        raise _FlawError(f"is not valid: {where + ': ' if where else ''}{first['msg']:.100}") from error
    if _encode(line) != raw + b"\n":  # a key twice, a NaN, a number spelt differently, a carriage return
        raise _FlawError("is not written the way ledgers are written")
    return line


def _is_json(raw: bytes) -> bool:
    try:
        json.loads(raw)
    except (ValueError, RecursionError):
        return False
    return True


def line_hash(line: BudgetLine | Spend) -> str:
    """Return the hash that a line states: of everything in it but the hash itself."""
    content = line.model_dump(mode="json", exclude={"hash"}, exclude_none=True)
    return hashlib.sha256(compact(content)).hexdigest()


def _encode(line: BudgetLine | Spend) -> bytes:
    if line.hash is None:  # version 1 was written by pydantic, which spells some numbers differently
        return line.model_dump_json(exclude_none=True).encode() + b"\n"
    return compact(line.model_dump(mode="json", exclude_none=True)) + b"\n"


def compact(content: dict[str, Any]) -> bytes:
    """Return the one way in which a ledger writes this content, without the line break."""
    return json.dumps(content, separators=(",", ":")).encode()
