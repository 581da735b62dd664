"""One run at a time over the same ledger or the same output: a second one ends at once, before it reads or spends.

The ledger's own lock keeps every line whole; it is held for the moment of a spend. These are held for a whole run, so
that a run which a timer starts while the last one still works does not spend on the same week twice. The system
releases the locks of a process that dies, however it dies, so nothing has to be cleaned up by hand.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pricdr.errors import BusyError, OutputError
from pricdr.files import PRIVATE, discard, is_held


def require_only_writer(staging: Path, out: Path) -> None:
    """Refuse, with :class:`BusyError`, an output that another run is staging; ``staging`` is our own, and locked.

    Of two runs that begin in the same instant both may be refused.
    """
    for other in staging.parent.glob(f".{_literal(out.name)}.partial-*"):
        if other != staging and is_held(other):
            raise BusyError(_refusal(out, other.name.rpartition("-")[2]))


@contextmanager
def only_spender(ledger: Path) -> Iterator[None]:
    """Hold the lock of a ledger; :class:`BusyError` where another run has it."""
    with _locked(ledger, "nothing was spent"):
        yield


@contextmanager
def only_step(state: Path) -> Iterator[None]:
    """Hold the lock of the state of an alignment; :class:`BusyError` where another step has it."""
    with _locked(state, "nothing was done"):
        yield


@contextmanager
def _locked(file: Path, outcome: str) -> Iterator[None]:
    """Hold a hidden file beside ``file``; ``outcome`` is what a refusal says of this run.

    Not the file itself: every change replaces that, and with it whatever lock it had.
    """
    file = file.resolve()  # whatever it is called, there is one lock for it
    lock = file.with_name(f".{file.name}.lock")
    descriptor = _acquired(lock, file, outcome)
    try:
        yield
    finally:
        try:
            discard(lock)  # while it is held: afterwards it may be another run's
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # said, not left to closing: a forked child has the descriptor too
            os.close(descriptor)


def _acquired(lock: Path, file: Path, outcome: str) -> int:
    while True:
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, PRIVATE)
        except OSError as error:
            raise OutputError(f"cannot lock {file}: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), lock.stat()):
                with suppress(OSError):  # a full disk: the lock holds without a name in it
                    os.ftruncate(descriptor, 0)
                    os.write(descriptor, f"{os.getpid()}\n".encode())
                return descriptor
        except BlockingIOError as error:
            holder = os.read(descriptor, 20).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise BusyError(_refusal(file, holder, outcome)) from error
        except FileNotFoundError:
            pass  # the run before this one has just ended and removed its file
        except OSError as error:
            os.close(descriptor)
            raise OutputError(f"cannot lock {file}: {error.strerror}") from error
        os.close(descriptor)


def _refusal(path: Path, holder: str, outcome: str = "nothing was spent") -> str:
    who = f"another run (process {holder})" if holder.isdecimal() else "another run"
    return f"{path} is in use by {who}: {outcome}; try again when it has ended"


def _literal(name: str) -> str:
    """Return a name with nothing in it that a pattern of file names gives a meaning to."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)
