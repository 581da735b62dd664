"""The lines of a ledger file: canonical JSON, each chained by hash to everything before it.

The first line holds the budget, every other one a release. ``before`` is the SHA-256 of all bytes before the line,
``hash`` that of the line itself without this last field. So the last hash, the head, covers the whole file.

What the chain shows: a line that is followed by another was not edited, dropped, moved or added. What it cannot show:
that the last line is the one that was written, and that none is missing after it, since anybody can compute a hash. A
signed ledger shows that too: it ends in a line that signs all bytes before it, and is written anew, with the rest of
the file, at every spend. Whoever has no older copy of the file can then neither edit nor cut its end.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pricdr.errors import LedgerError, VerificationError
from pricdr.privacy.accounting import Guarantee, Unit
from pricdr.signing import is_signed_by, public_from_text, public_text, sign

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

LARGEST_BUDGET: Final = 1e9
"""The largest ε of a budget: far beyond any that protects anything, and one that a certificate can state."""
VERSION: Final = 2
"""Of the format."""
_SIGNED_MESSAGE: Final = b"pricdr ledger\n"
"""What a signature covers begins so, as no certificate and no notice of revocation does; then come all lines."""
_SIGNATURE_BEGINS: Final = b'{"s'
"""And no other line does."""
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class BudgetLine(_Line):
    """The first line: what all releases together may cost."""

    pricdr_ledger: Literal[2]
    epsilon: float = Field(gt=0, le=LARGEST_BUDGET)
    delta: float = Field(gt=0, lt=1)
    unit: Unit
    created: str
    nonce: str
    signed: Literal[True] | None = None
    """Whether the file must end in a signature: it was begun with one."""
    hash: str = ""


class Spend(_Line):
    """One release: what it cost and what it was."""

    mu: float = Field(gt=0)
    dim: int = Field(ge=1, le=1 << 62)
    """Noisy numbers that one change can move."""
    strategy: str
    promise: str = ""
    """What was asked for, in words."""
    recorded: str
    nonce: str = ""
    """Random, so that no two lines have the same hash. Like all that follows it is set where the line is written."""
    number: int = 0
    """1 for the first release."""
    before: str = ""
    hash: str = ""


class _SignatureLine(_Line):
    """The last line of a signed ledger."""

    signed_by: str = Field(pattern=r"^[A-Za-z0-9+/]+=*$")
    """The public key, base64 of its 32 bytes."""
    signature: str = Field(pattern=r"^[A-Za-z0-9+/]+=*$")


_LineT = TypeVar("_LineT", BudgetLine, Spend, _SignatureLine)


@dataclass(frozen=True)
class Contents:
    """A ledger file, every line of it checked."""

    budget: Guarantee
    spends: tuple[Spend, ...]
    opening: str
    """SHA-256 of the first line, which identifies the ledger."""
    raw: bytes
    """The lines that are chained: the file, but for its signature."""
    signed_by: str | None
    """The key of the signature that the file ends in, and that holds."""

    def chained(self, spend: Spend, nonce: str) -> tuple[Spend, bytes]:
        """Return one more release as the next line of the file, and the line's bytes."""
        before = hashlib.sha256(self.raw).hexdigest()
        placed = spend.model_copy(update={"nonce": nonce, "number": len(self.spends) + 1, "before": before})
        sealed = placed.model_copy(update={"hash": line_hash(placed)})
        return sealed, _encode(sealed)


def first_line(budget: Guarantee, *, created: str, nonce: str, signed: bool) -> bytes:
    """Return the line that begins a ledger with this budget; ``signed``: one that must always end in a signature."""
    line = BudgetLine(
        pricdr_ledger=VERSION,
        epsilon=budget.epsilon,
        delta=budget.delta,
        unit=budget.unit,
        created=created,
        nonce=nonce,
        signed=True if signed else None,
    )
    return _encode(line.model_copy(update={"hash": line_hash(line)}))


def signature_line(chained: bytes, key: "Ed25519PrivateKey") -> bytes:
    """Return the line that ends a signed ledger with these lines."""
    signature = sign(key, _SIGNED_MESSAGE + chained).decode().rstrip("\n")
    return _encode(_SignatureLine(signed_by=public_text(key.public_key()), signature=signature))


def parse(raw: bytes, name: object, *, trusted: bool = False) -> Contents:
    """Return the ledger in these bytes; :class:`LedgerError` names the first line that is damaged or was changed.

    With ``trusted`` no signature is looked at: for its owner, who is about to sign it.
    """
    if not raw:
        raise LedgerError(f"{name} is not a ledger: it is empty")
    lines = raw.removesuffix(b"\n").split(b"\n")  # an editor may have taken the last line break away
    signature = lines.pop() if len(lines) > 1 and lines[-1].startswith(_SIGNATURE_BEGINS) else None
    try:
        header = _read(BudgetLine, lines[0])
        _require_own_hash(header)
    except _FlawError as flaw:
        raise _damaged(name, 1, flaw) from flaw
    spends: list[Spend] = []
    digest = hashlib.sha256(lines[0] + b"\n")
    for number, line in enumerate(lines[1:], 1):
        try:
            spends.append(_spend(line, number, digest.hexdigest()))
        except _FlawError as flaw:
            last = signature is None and number + 1 == len(lines)
            raise _damaged(name, number + 1, flaw, "pricdr ledger repair" if last and flaw.cut else _RESTORE) from flaw
        digest.update(line + b"\n")
    chained = b"".join(line + b"\n" for line in lines)
    try:
        signed_by = None if trusted else _signer(signature, chained, required=header.signed is not None)
    except _FlawError as flaw:
        raise _damaged(name, len(lines) + 1, flaw, f"{_RESTORE}; without one, pricdr ledger sign") from flaw
    return Contents(
        budget=Guarantee(epsilon=header.epsilon, delta=header.delta, unit=header.unit),
        spends=tuple(spends),
        opening=hashlib.sha256(lines[0]).hexdigest(),
        raw=chained,
        signed_by=signed_by,
    )


def split_cut_line(raw: bytes) -> tuple[bytes, bytes] | None:
    """Return the file before a release's line that was cut off, and the rest of that line; None if all are whole."""
    *before, last = raw.removesuffix(b"\n").split(b"\n")
    if not before or not last or last.startswith(_SIGNATURE_BEGINS) or _is_json(last):
        return None
    return b"".join(line + b"\n" for line in before), last


class _FlawError(Exception):
    """What is wrong with one line."""

    def __init__(self, what: str, *, cut: bool = False) -> None:
        super().__init__(what)
        self.cut = cut
        """Whether it is not whole JSON text, as a line is whose end was lost."""


_RESTORE: Final = "restore the newest copy and check it with pricdr ledger verify"


def _damaged(name: object, number: int, flaw: _FlawError, remedy: str = _RESTORE) -> LedgerError:
    return LedgerError(
        f"{name} is not a valid ledger: line {number} {flaw}; do not begin a new ledger, which would forget "
        f"what was spent: {remedy}"
    )


def _spend(raw: bytes, number: int, before: str) -> Spend:
    line = _read(Spend, raw)
    _require_own_hash(line)
    if line.number != number:
        raise _FlawError(f"is release {line.number} where {number} is expected: lines were dropped, added or moved")
    if line.before != before:
        raise _FlawError("does not follow from the lines before it: one of them was changed, dropped or added")
    return line


def _signer(raw: bytes | None, chained: bytes, *, required: bool) -> str | None:
    """Return the key that signed the lines of the file; None where nobody did and the first line asks for nobody."""
    if raw is None:
        if required:
            raise _FlawError("is missing: the signature that this ledger must end in; its end was cut off")
        return None
    line = _read(_SignatureLine, raw)
    try:
        key = public_from_text(line.signed_by)
    except VerificationError as error:
        raise _FlawError("is signed by what is no key") from error
    held = is_signed_by(key, _SIGNED_MESSAGE + chained, f"{line.signature}\n".encode())
    if not held or public_text(key) != line.signed_by:
        raise _FlawError("is no signature of the lines before it: the last one was changed, or lines were cut off")
    return line.signed_by


def _require_own_hash(line: BudgetLine | Spend) -> None:
    if line.hash != line_hash(line):
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


def _encode(line: _Line) -> bytes:
    return compact(line.model_dump(mode="json", exclude_none=True)) + b"\n"


def compact(content: dict[str, Any]) -> bytes:
    """Return the one way in which a ledger writes this content, without the line break."""
    return json.dumps(content, separators=(",", ":")).encode()
