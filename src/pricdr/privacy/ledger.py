"""``Ledger``: what has been spent on one source's ratings, and the refusal of what would overspend.

A file of JSON lines: the budget first, then one line per release. It is replaced in one step under a lock, so two
publishers cannot both spend the last of the budget and a kill leaves the old file or the new one. A release is
recorded *before* its noise is drawn, and never refunded: a crash costs budget, not privacy.
"""

import json
import math
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pricdr.errors import POSIX_ONLY, BudgetError, InputError, ParameterError
from pricdr.files import PRIVATE, replace_file, write_new
from pricdr.privacy.calibration import LATTICE_FACTOR, composed_epsilon, composed_mu, mu_of
from pricdr.privacy.guarantee import Guarantee, Unit

try:
    import fcntl
except ImportError as error:
    raise ImportError(POSIX_ONLY) from error

SCHEMA_VERSION: Final = 1
_ONE_AT_A_TIME: Final = threading.Lock()
"""Between the threads of this process; between processes the file's own lock does it."""
_SLACK: Final = 1e-9
"""Relative tolerance in comparing with the budget, so that a release of exactly the budget fits."""


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class _Budget(_Line):
    pricdr_ledger: Literal[1]
    epsilon: float = Field(gt=0)
    delta: float = Field(gt=0, lt=1)
    unit: Unit
    created: str


class Spend(_Line):
    """One release: what it cost and what it was."""

    mu: float = Field(gt=0)
    dim: int = Field(ge=1, le=1 << 62)
    """Noisy numbers per user row."""
    strategy: str
    promise: str = ""
    """What was asked for, in words."""
    recorded: str


@dataclass(frozen=True)
class Balance:
    """A ledger's contents at one moment."""

    budget: Guarantee
    spends: tuple[Spend, ...]

    @property
    def mu(self) -> float:
        """μ of everything released so far."""
        return composed_mu(spend.mu for spend in self.spends)

    @property
    def epsilon(self) -> float:
        """ε of everything released so far, at the budget's δ."""
        return self.epsilon_with()

    @property
    def room(self) -> float:
        """ε of the largest single release that still fits, at the budget's δ: μ² is what is left, not ε."""
        whole = mu_of(self.budget.epsilon, self.budget.delta) / LATTICE_FACTOR
        left = math.sqrt(max(0.0, whole**2 - self.mu**2))
        return composed_epsilon([(left, 1)], self.budget.delta)

    def epsilon_with(self, *more: Spend) -> float:
        """ε if ``more`` were released too."""
        try:
            return composed_epsilon([(spend.mu, spend.dim) for spend in (*self.spends, *more)], self.budget.delta)
        except ParameterError:  # a μ so large that no finite ε covers it
            return math.inf


class Ledger:
    """A ledger file. Reading and spending open it anew each time; the object holds nothing but the path."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    @classmethod
    def create(cls, path: str | os.PathLike[str], budget: Guarantee) -> "Ledger":
        """A new ledger file, readable by its owner alone; the budget can never be changed."""
        ledger = cls(path)
        header = _Budget(pricdr_ledger=1, epsilon=budget.epsilon, delta=budget.delta, unit=budget.unit, created=_now())
        write_new(ledger.path, _encode([header]), mode=PRIVATE)
        return ledger

    def read(self) -> Balance:
        """What the file says now."""
        with self._open() as descriptor:
            return self._parse(descriptor)

    def require_unit(self, unit: Unit) -> None:
        """Refuse a release counted in another unit: μ of different units cannot be added."""
        self._require_unit(self.read(), unit)

    def spend(self, *, mu: float, dim: int, unit: Unit, strategy: str, promise: str = "") -> Balance:
        """Record a release, or refuse it with :class:`BudgetError` and record nothing; returns the new balance."""
        with _ONE_AT_A_TIME, self._open(lock=True) as descriptor:
            before = self._parse(descriptor)
            self._require_unit(before, unit)
            self._require_one_name(descriptor)
            new = Spend(mu=mu, dim=dim, strategy=strategy, promise=promise, recorded=_now())
            total = before.epsilon_with(new)
            if total > before.budget.epsilon * (1 + _SLACK):
                raise BudgetError(
                    f"{self.path} refuses: spent so far epsilon {before.epsilon:.6g}, with this release {total:.6g}, "
                    f"budget {before.budget.epsilon:.6g} at delta {before.budget.delta:g}"
                )
            os.lseek(descriptor, 0, os.SEEK_SET)
            written = _read_all(descriptor)
            written += b"" if written.endswith(b"\n") else b"\n"  # an editor may have taken it away
            # The file itself, not a link to it: every name of a ledger must go on showing the same budget.
            replace_file(self.path.resolve(), written + _encode([new]), mode=PRIVATE)
        return Balance(before.budget, (*before.spends, new))

    def _require_unit(self, balance: Balance, unit: Unit) -> None:
        found = balance.budget.unit
        if found is not unit:
            raise ParameterError(
                f"{self.path} counts in unit {found.value}, this release in unit {unit.value}: one ledger counts one "
                "unit, and the same ratings pay for every release in either"
            )

    def _require_one_name(self, descriptor: int) -> None:
        """Replacing one of several hard links would leave the others with the old balance: a second budget."""
        links = os.fstat(descriptor).st_nlink
        if links > 1:
            raise InputError(f"{self.path} has {links} names (hard links): a ledger must have one, or it counts twice")

    @contextmanager
    def _open(self, *, lock: bool = False) -> Iterator[int]:
        """A descriptor of the current file; with ``lock``, nobody else spends until the block ends."""
        while True:
            try:
                descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe must not hang us
            except OSError as error:
                raise InputError(f"cannot read ledger {self.path}: {error.strerror}") from error
            try:
                if lock:
                    fcntl.flock(descriptor, fcntl.LOCK_EX)
                    if not _still_current(descriptor, self.path):
                        continue  # another publisher replaced the file while this one waited
                yield descriptor
                return
            finally:
                os.close(descriptor)

    def _parse(self, descriptor: int) -> Balance:
        try:
            first, *rest = (json.loads(line) for line in _read_all(descriptor).decode().rstrip("\n").split("\n"))
            header = _Budget.model_validate(first)
            spends = tuple(Spend.model_validate(line) for line in rest)
        except OSError as error:
            raise InputError(f"cannot read ledger {self.path}: {error.strerror}") from error
        except ValidationError as error:
            where = ".".join(map(str, error.errors()[0]["loc"]))
            raise InputError(f"{self.path} is not a valid ledger: {where}: {error.errors()[0]['msg']}") from error
        except (ValueError, RecursionError) as error:
            raise InputError(f"{self.path} is not a ledger (pricdr ledger init makes one)") from error
        return Balance(Guarantee(epsilon=header.epsilon, delta=header.delta, unit=header.unit), spends)


def _encode(lines: list[_Budget] | list[Spend]) -> bytes:
    return "".join(line.model_dump_json() + "\n" for line in lines).encode()


def _read_all(descriptor: int) -> bytes:
    chunks = []
    while chunk := os.read(descriptor, 1 << 20):
        chunks.append(chunk)
    return b"".join(chunks)


def _still_current(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
