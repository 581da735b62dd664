"""Allow one run at a time per ledger and per output: a second run ends at once, before it reads or spends.

The ledger's own lock keeps every line whole; it is held only while a spend is written. These locks are held for a whole
run, so that a run which a timer starts while the last one is still working does not spend on the same week twice. The
system releases the locks of a process that dies, however it dies, so nothing has to be cleaned up by hand.
"""

import fcntl
import glob
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pricdr.errors import BusyError, OutputError
from pricdr.files import PRIVATE, discard, is_held


def require_only_writer(staging: Path, out: Path) -> None:
    """Refuse, with :class:`BusyError`, an output that another run is staging; ``staging`` is our own, and locked.

    If two runs start at the same instant, both may be refused.
    """
    for other in staging.parent.glob(f".{glob.escape(out.name)}.partial-*"):
        if other != staging and is_held(other):
            raise _busy(out, other.name.rpartition("-")[2], "nothing was spent")


@contextmanager
def only_run(file: Path, outcome: str = "nothing was spent") -> Iterator[None]:
    """Hold the lock of a ledger or a state; :class:`BusyError`, with this outcome, where another run has it.

    It is a hidden file beside it: every change replaces the file itself, and its lock with it.
    """
    file = file.resolve()  # one lock, by whatever name the file is given
    if not file.name:
        raise OutputError(f"cannot lock {file}: this is a folder, a file is needed")
    lock = file.with_name(f".{file.name}.lock")
    descriptor = _acquired(lock, file, outcome)
    try:
        yield
    finally:
        try:
            discard(lock)  # while the lock is held: afterwards the file may be another run's
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # closing is not enough: a forked child has the descriptor too
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
                with suppress(OSError):  # a full disk: the lock holds without our process number in it
                    os.ftruncate(descriptor, 0)
                    os.write(descriptor, f"{os.getpid()}\n".encode())
                return descriptor
        except BlockingIOError as error:
            holder = os.read(descriptor, 20).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise _busy(file, holder, outcome) from error
        except FileNotFoundError:
            pass  # the run before this one has just ended and removed its file
        except OSError as error:
            os.close(descriptor)
            raise OutputError(f"cannot lock {file}: {error.strerror}") from error
        os.close(descriptor)


def _busy(path: Path, holder: str, outcome: str) -> BusyError:
    who = f"another run (process {holder})" if holder.isdecimal() else "another run"
    return BusyError(f"{path} is in use by {who}: {outcome}; try again when it has ended")
