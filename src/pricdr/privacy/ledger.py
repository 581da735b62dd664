"""``Ledger``: what has been spent on one source's ratings, and the refusal of what would overspend.

A file of JSON lines, chained by hash (``ledger_lines``): the budget first, then one line per release, and a signature
where there is a key. It is replaced in one step under a lock, so two publishers cannot both spend the last of the
budget and a kill leaves the old file or the new one, each with its own signature. A release is recorded *before* its
noise is drawn, and never refunded: a crash costs budget, not privacy.

The budget is the promise: it holds however each release was chosen along the way (``docs/mathematics.md``,
section 2, *Filter*). What was spent so far is what the same releases would cost had all of them been fixed in advance.
"""

import hashlib
import json
import math
import os
import secrets
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NotRequired, TypedDict, TypeVar, Unpack

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pricdr.data.periods import Window
from pricdr.errors import POSIX_ONLY, BudgetError, InputError, LedgerError, ParameterError, VerificationError
from pricdr.files import PRIVATE, replace_file, require_local, write_new
from pricdr.privacy.accounting import LATTICE_FACTOR, Guarantee, Unit, composed_epsilon, composed_mu, mu_of
from pricdr.signing import is_signed_by, public_from_text, public_text, sign
from pricdr.untrusted import read_all

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

try:
    import fcntl
except ImportError as error:
    raise ImportError(POSIX_ONLY) from error

MAX_BUDGET: Final = 1e9  # ε, far beyond any that protects anything, and one that a certificate can state
_SIGNED_MESSAGE: Final = b"pricdr ledger\n"
"""What a signature covers begins so, as no certificate and no notice of revocation does; then come all lines."""
_SIGNATURE_BEGINS: Final = b'{"s'  # and no other line does
_RESTORE: Final = "restore the newest copy and check it with pricdr ledger verify"
_LARGEST: Final = 1 << 28  # bytes of a ledger: room for half a million releases
_SLACK: Final = 1e-9  # relative tolerance in comparing with the budget, so that a release of exactly the budget fits


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class BudgetLine(_Line):
    """The first line: what all releases together may cost."""

    pricdr_ledger: Literal[3] = 3
    epsilon: float = Field(gt=0, le=MAX_BUDGET)
    delta: float = Field(gt=0, lt=1)
    unit: Unit
    window: tuple[date, date] | None = None  # the days that it counts, the last one excluded; None for all
    days: int | None = None  # in a period of unit user-period
    after: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")  # SHA-256 of its predecessor's first line
    created: str
    nonce: str
    signed: Literal[True] | None = None  # whether the file must end in a signature: it was begun with one
    hash: str = ""

    def budget(self) -> Guarantee:
        """Return the budget; refuse a line of somebody else that states none."""
        if self.window is None and self.days is not None:
            raise _FlawError("is not valid: it has periods, and no days that they are cut from")
        try:
            window = None if self.window is None else Window(*self.window, self.days)
            return Guarantee(epsilon=self.epsilon, delta=self.delta, unit=self.unit, window=window)
        except ParameterError as error:
            raise _FlawError(f"is not valid: {error}") from error


class Spend(_Line):
    """One release: what it cost and what it was."""

    mu: float = Field(gt=0)
    dim: int = Field(ge=1, le=1 << 62)  # noisy numbers that one change can move
    strategy: str
    promise: str = ""  # what was asked for, in words
    recorded: str
    nonce: str = ""
    """Random, so that no two lines have the same hash. Like all that follows it is set where the line is written."""
    number: int = 0  # 1 for the first release
    before: str = ""
    hash: str = ""


class _SignatureLine(_Line):
    """The last line of a signed ledger."""

    signed_by: str = Field(pattern=r"^[A-Za-z0-9+/]+=*$")  # the public key, base64 of its 32 bytes
    signature: str = Field(pattern=r"^[A-Za-z0-9+/]+=*$")


_LineT = TypeVar("_LineT", BudgetLine, Spend, _SignatureLine)


@dataclass(frozen=True)
class Balance:
    """A ledger's contents at one moment, every line of the file checked."""

    budget: Guarantee
    spends: tuple[Spend, ...]
    opening: str  # SHA-256 of the first line, which identifies the ledger
    after: str | None = None  # the opening of its predecessor, which counts days before
    signed_by: str | None = None
    """The public key of the signature that it ends in and that holds, base64 of its 32 bytes."""
    raw: bytes = field(default=b"", repr=False, compare=False)
    """The lines that are chained: the file, but for its signature."""

    @classmethod
    def unspent(cls, budget: Guarantee) -> "Balance":
        """Return the balance before any release, and before there is a ledger."""
        return cls(budget, (), "")

    @property
    def mu(self) -> float:
        """μ of everything released so far."""
        return composed_mu(spend.mu for spend in self.spends)

    @property
    def epsilon(self) -> float:
        """ε of everything released so far at the budget's δ, had all been fixed in advance; else the budget holds."""
        return composed_epsilon([(spend.mu, spend.dim) for spend in self.spends], self.budget.delta)

    @property
    def mu_left(self) -> float:
        """μ of the largest single release that still fits: μ² is what is left, not ε."""
        whole = mu_of(self.budget.epsilon, self.budget.delta) / LATTICE_FACTOR
        return math.sqrt(max(0.0, whole**2 - self.mu**2))

    @property
    def room(self) -> float:
        """ε of the largest single release that still fits, at the budget's δ."""
        return composed_epsilon([(self.mu_left, 1)], self.budget.delta)

    def room_for(self, mu: float) -> int:
        """Return how many more releases of this μ fit: squares add up."""
        # What is left is computed with a margin of 1e-12, which must not cost a release that fits.
        return int((self.mu_left / mu) ** 2 * (1 + _SLACK))

    def until(self, number: int) -> "Balance":
        """Return the balance after the release of this number."""
        return replace(self, spends=self.spends[:number], raw=b"")

    def plus(self, spend: Spend) -> "Balance":
        """Return the ledger with one more line: this release, chained to all lines before it."""
        placing = {"number": len(self.spends) + 1, "before": hashlib.sha256(self.raw).hexdigest()}
        placed = spend.model_copy(update={"nonce": spend.nonce or secrets.token_hex(16), **placing})
        sealed = placed.model_copy(update={"hash": line_hash(placed)})
        return replace(self, spends=(*self.spends, sealed), raw=self.raw + _encode(sealed))


def signature_line(chained: bytes, key: "Ed25519PrivateKey") -> bytes:
    """Return the line that ends a signed ledger with these lines."""
    signature = sign(key, _SIGNED_MESSAGE + chained).decode().rstrip("\n")
    return _encode(_SignatureLine(signed_by=public_text(key.public_key()), signature=signature))


def parse(raw: bytes, name: object, *, trusted: bool = False) -> Balance:
    """Return the ledger in these bytes; ``trusted``, for its owner who is about to sign it, looks at no signature."""
    if not raw:
        raise LedgerError(f"{name} is not a ledger: it is empty")
    lines = raw.removesuffix(b"\n").split(b"\n")  # an editor may have taken the last line break away
    signature = lines.pop() if len(lines) > 1 and lines[-1].startswith(_SIGNATURE_BEGINS) else None
    spends: list[Spend] = []
    digest = hashlib.sha256()
    for number, line in enumerate(lines):
        try:
            if not number:
                header = _read(BudgetLine, line)
                budget = header.budget()
            elif (spend := _read(Spend, line)).number != number:
                rule = "lines were dropped, added or moved"
                raise _FlawError(f"is release {spend.number} where {number} is expected: {rule}")
            elif spend.before != digest.hexdigest():
                raise _FlawError("does not follow from the lines before it: one of them was changed, dropped or added")
            else:
                spends.append(spend)
        except _FlawError as flaw:
            mended = isinstance(flaw, _CutError) and 0 < number == len(lines) - 1 and signature is None
            raise _damaged(name, number + 1, flaw, "pricdr ledger repair" if mended else _RESTORE) from flaw
        digest.update(line + b"\n")
    chained = b"".join(line + b"\n" for line in lines)
    try:
        signed_by = None if trusted else _signer(signature, chained, required=header.signed is not None)
    except _FlawError as flaw:
        raise _damaged(name, len(lines) + 1, flaw, f"{_RESTORE}; without one, pricdr ledger sign") from flaw
    return Balance(
        budget=budget,
        spends=tuple(spends),
        opening=hashlib.sha256(lines[0]).hexdigest(),
        after=header.after,
        raw=chained,
        signed_by=signed_by,
    )


class _FlawError(Exception):
    """What is wrong with one line."""


class _CutError(_FlawError):
    """It is not whole JSON text, as a line is whose end was lost."""


def _damaged(name: object, number: int, flaw: _FlawError, remedy: str) -> LedgerError:
    return LedgerError(
        f"{name} is not a valid ledger: line {number} {flaw}; do not begin a new ledger, which would forget "
        f"what was spent: {remedy}"
    )


def _signer(raw: bytes | None, chained: bytes, *, required: bool) -> str | None:
    """Return the key that signed the lines of the file; None where nobody did and the first line asks for nobody."""
    if raw is None:
        if required:
            raise _FlawError("is missing: the signature that this ledger must end in; its end was cut off")
        return None
    line = _read(_SignatureLine, raw)
    try:
        key = public_from_text(line.signed_by)
        held = is_signed_by(key, _SIGNED_MESSAGE + chained, f"{line.signature}\n".encode())
    except VerificationError:  # what is no key
        held = False
    if not held or public_text(key) != line.signed_by:
        raise _FlawError("is no signature of the lines before it: the last one was changed, or lines were cut off")
    return line.signed_by


def _read(kind: type[_LineT], raw: bytes) -> _LineT:
    if not raw.strip():
        raise _FlawError("is blank")
    try:
        content = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise _CutError("is cut off, or is not JSON") from error
    try:
        line = kind.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))[:60]
        raise _FlawError(f"is not valid: {where + ': ' if where else ''}{first['msg']:.100}") from error
    if _encode(line) != raw + b"\n":  # a key twice, a NaN, a number spelt differently, a byte order mark
        raise _FlawError("is not written the way ledgers are written")
    if not isinstance(line, _SignatureLine) and line.hash != line_hash(line):
        raise _FlawError("was changed after it was written: its hash does not match")
    return line


def line_hash(line: BudgetLine | Spend) -> str:
    """Return the hash that a line states: of everything in it but the hash itself."""
    return hashlib.sha256(compact(line.model_dump(mode="json", exclude={"hash"}, exclude_none=True))).hexdigest()


def _encode(line: _Line) -> bytes:
    return compact(line.model_dump(mode="json", exclude_none=True)) + b"\n"


def compact(content: dict[str, Any]) -> bytes:
    """Return the one way in which a ledger writes this content, without the line break."""
    return json.dumps(content, separators=(",", ":")).encode()


_one_at_a_time = threading.Lock()  # between the threads of this process; between processes the file's own lock does it
# A child begins with a lock that is free: the thread that held it stayed behind in the parent.
os.register_at_fork(after_in_child=lambda: globals().update(_one_at_a_time=threading.Lock()))


class Cost(TypedDict):
    """A release as a ledger counts it: the arguments of :meth:`Ledger.spend` and :meth:`Ledger.after`."""

    mu: float
    dim: int
    unit: Unit
    window: NotRequired[Window | None]
    strategy: str
    promise: NotRequired[str]


class Ledger:
    """A ledger file, opened anew for reading and spending; one that is signed is only spent from with its key."""

    def __init__(self, path: str | os.PathLike[str], signing_key: "Ed25519PrivateKey | None" = None) -> None:
        self.path = Path(path)
        self._key = signing_key

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        budget: Guarantee,
        signing_key: "Ed25519PrivateKey | None" = None,
        *,
        after: "Ledger | None" = None,
    ) -> "Ledger":
        """Create a ledger file, readable by its owner alone; the budget can never be changed.

        With ``signing_key`` it is signed, now and after every spend, and refused where the signature is missing.
        ``after`` is the same source's ledger for the days before: no day may be in both.
        """
        ledger = cls(path, signing_key)
        if budget.epsilon > MAX_BUDGET:
            raise ParameterError(f"a budget must be at most epsilon {MAX_BUDGET:g}, got {budget.epsilon!r}")
        window = budget.window
        line = BudgetLine(
            epsilon=budget.epsilon,
            delta=budget.delta,
            unit=budget.unit,
            window=None if window is None else (window.begin, window.until),
            days=None if window is None else window.days,
            after=None if after is None else after.followed_by(window),
            created=_now(),
            nonce=secrets.token_hex(16),
            signed=True if signing_key else None,
        )
        raw = _encode(line.model_copy(update={"hash": line_hash(line)}))
        write_new(ledger.path, raw + ledger._signature(raw), mode=PRIVATE)
        return ledger

    def read(self) -> Balance:
        """Return what the file says now; :class:`LedgerError` where it is damaged or was changed."""
        with self._open() as (_, content):
            return parse(content, self.path)

    def followed_by(self, window: Window | None) -> str:
        """Return what a ledger for the days of ``window`` names this one by; refuse days that both would count."""
        balance = self.read()
        before = balance.budget.window
        if before is None:
            raise ParameterError(f"no ledger can come after {self.path}: it has no period, so it counts every day")
        if window is None:
            raise ParameterError(f"a ledger that comes after {self.path} needs days of its own: --from and --until")
        if window.begin < before.until:
            raise ParameterError(f"{self.path} counts days {before}: what comes after it cannot count days {window}")
        return balance.opening

    def require_spendable(self, unit: Unit, window: Window | None = None) -> Balance:
        """Refuse a release counted in another unit, whose μ cannot be added, and a ledger signed by another key."""
        with self._open() as (_, content):
            return self._spendable(unit, window, content)

    def spend(self, **cost: Unpack[Cost]) -> Balance:
        """Record a release, or refuse it with :class:`BudgetError` and record nothing; returns the new balance."""
        with self._open_to_write() as (descriptor, content):
            before, new = self._with_room_for(cost, content)
            after = before.plus(new)
            self._replace(descriptor, after.raw, signed=after.signed_by is not None)
            return after

    def after(self, **cost: Unpack[Cost]) -> Balance:
        """Return the balance as it would be after :meth:`spend`, or refuse as it would; nothing is recorded."""
        with self._open() as (descriptor, content):
            self._require_writable(descriptor)
            before, new = self._with_room_for(cost, content)
            return replace(before, spends=(*before.spends, new), raw=b"")

    def sign(self) -> Balance:
        """Sign the ledger as it stands: for the first time, with another key, or after its end was repaired.

        Only the chain is checked first. Whether a line is missing at the end, its releases show.
        """
        assert self._key is not None, "there is a key to sign with"
        with self._open_to_write() as (descriptor, content):
            balance = parse(content, self.path, trusted=True)
            self._replace(descriptor, balance.raw, signed=True)
            return replace(balance, signed_by=public_text(self._key.public_key()))

    def rebuild(self, lost: Spend) -> Balance:
        """Put ``lost`` in place of a last line that was cut off; it must have the hash that line was written with."""
        with self._open_to_write() as (descriptor, content):
            before, rest = self._cut(content)
            after = before.plus(lost)
            new = after.spends[-1]
            # The hash covers all lines before it, so a rebuilt line can only stand where it stood.
            if (new.number, new.hash) != (lost.number, lost.hash) or not after.raw.startswith(before.raw + rest):
                raise LedgerError(
                    f"{self.path}: the line that was cut off is that of release {new.number}, and not of the one given"
                )
            self._replace(descriptor, after.raw, signed=False)
            return after

    def forfeit(self) -> Balance:
        """Charge all that was left of the budget for a last line that was cut off: it cannot have cost more."""
        with self._open_to_write() as (descriptor, content):
            before, _ = self._cut(content)
            left = max(before.mu_left, _SLACK)  # a line must cost something
            promise = "all that was left, for a line that was lost"
            after = before.plus(Spend(mu=left, dim=1, strategy="forfeit", promise=promise, recorded=_now()))
            self._replace(descriptor, after.raw, signed=False)
            return after

    def _cut(self, content: bytes) -> tuple[Balance, bytes]:
        """Return the file before a last line that was cut off, and what is left of that line."""
        *before, last = content.removesuffix(b"\n").split(b"\n")
        try:
            if before and last and not last.startswith(_SIGNATURE_BEGINS):
                _read(Spend, last)
        except _CutError:
            # A signature came after the line and is lost with it: whoever has the key signs again.
            return parse(b"".join(line + b"\n" for line in before), self.path, trusted=True), last
        except _FlawError:
            pass
        parse(content, self.path)  # if something else is wrong, say that
        raise LedgerError(f"{self.path} needs no repair: its last line is whole")

    def _replace(self, descriptor: int, lines: bytes, *, signed: bool) -> None:
        """Write the lines and their signature, both in one step."""
        content = lines + self._signature(lines) if signed else lines
        # The file itself, not a link to it: every name of a ledger must go on showing the same budget.
        replace_file(self.path.resolve(), content, keep=os.fstat(descriptor))

    def _signature(self, lines: bytes) -> bytes:
        return b"" if self._key is None else signature_line(lines, self._key)

    def _spendable(self, unit: Unit, window: Window | None, content: bytes) -> Balance:
        """Return the balance, if a release in this unit may be charged to it with the key at hand."""
        balance = parse(content, self.path)
        # Without its key nobody could tell the end of a signed ledger from a forged one.
        if balance.signed_by is not None and self._key is None:
            raise ParameterError(f"{self.path} is signed: give the key that signs it (--sign)")
        if self._key is not None and balance.signed_by not in {None, public_text(self._key.public_key())}:
            raise ParameterError(
                f"{self.path} is signed by another key than the one given; check it with pricdr ledger verify and "
                "every release made from it, then let pricdr ledger sign change the key"
            )
        if balance.budget.unit is not unit:
            raise ParameterError(
                f"{self.path} counts in unit {balance.budget.unit.value}, this release in unit {unit.value}: one "
                "ledger counts one unit, and the same ratings pay for every release in either"
            )
        if balance.budget.window != window:
            counts, reads = (one or "every day" for one in (balance.budget.window, window))
            raise ParameterError(f"{self.path} counts {counts}, this release {reads}: they must be the same")
        return balance

    def _with_room_for(self, cost: Cost, content: bytes) -> tuple[Balance, Spend]:
        """Return the balance before a release, and its line; refuse one that would exceed the budget."""
        before = self._spendable(cost["unit"], cost.get("window"), content)
        line = {name: value for name, value in cost.items() if name not in {"unit", "window"}}
        new = Spend.model_validate({**line, "recorded": _now()})
        total = replace(before, spends=(*before.spends, new)).epsilon
        if total > before.budget.epsilon * (1 + _SLACK):
            raise BudgetError(
                f"{self.path} refuses: spent so far epsilon {before.epsilon:.6g}, with this release {total:.6g}, "
                f"budget {before.budget.epsilon:.6g} at delta {before.budget.delta:g}"
            )
        return before, new

    @contextmanager
    def _open_to_write(self) -> Iterator[tuple[int, bytes]]:
        with _one_at_a_time, self._open(lock=True) as (descriptor, content):
            self._require_writable(descriptor)
            yield descriptor, content

    def _require_writable(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        if status.st_nlink > 1:  # replacing one name would leave the others with the old balance: a second budget
            names = f"{self.path} has {status.st_nlink} names (hard links)"
            raise InputError(f"{names}: a ledger must have one, or it counts twice")
        if not status.st_mode & 0o222:  # a rename would not ask
            raise InputError(f"{self.path} is read-only: make it writable (chmod u+w) to spend from it")

    @contextmanager
    def _open(self, *, lock: bool = False) -> Iterator[tuple[int, bytes]]:
        """Yield the current file, open, and its content; with ``lock``, nobody else spends until the block ends."""
        require_local(self.path)
        while True:
            try:
                descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe must not hang us
            except OSError as error:
                raise InputError(f"cannot read ledger {self.path}: {error.strerror}") from error
            try:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # a device may have no end
                    raise InputError(f"{self.path} is not a ledger: it is no regular file")
                if lock:
                    fcntl.flock(descriptor, fcntl.LOCK_EX)
                    if not _still_current(descriptor, self.path):
                        continue  # another publisher replaced the file while this one waited
                try:
                    content = read_all(descriptor, _LARGEST + 1)
                except OSError as error:
                    raise InputError(f"cannot read ledger {self.path}: {error.strerror}") from error
                if len(content) > _LARGEST:
                    raise InputError(f"{self.path} has more than {_LARGEST:,} bytes, the most that is read")
                yield descriptor, content
                return
            finally:
                if lock:  # said, not left to closing: a process forked meanwhile has the descriptor too
                    fcntl.flock(descriptor, fcntl.LOCK_UN)
                os.close(descriptor)


def _still_current(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _now() -> str:
    """Return the day, and no time: certificates repeat it, and a time would tell how long the ratings took to read."""
    return datetime.now(UTC).date().isoformat()
