"""The models being served: a snapshot is replaced when its folder changes, never in the middle of an answer."""

import weakref
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Final, TypeAlias

from pricdr.errors import PriCDRError
from pricdr.serving.log import Report, location_of
from pricdr.serving.snapshot import FILES, Snapshot

POLL_INTERVAL: Final = 1.0
"""Seconds between two checks of a file."""
Signature: TypeAlias = tuple[int, ...] | None
"""Device, inode, mode, size and modification time of a file; None if it is missing."""


class _WatchedModel:
    """One model folder and the latest snapshot of it."""

    def __init__(self, folder: Path, load: Callable[[Path], Snapshot], report: Report) -> None:
        self._folder, self._load, self._report = folder, load, report
        self._loaded_signature = self._last_signature = self._signature()
        self.problem: str | None = None
        self.loads = Counter(taken=1, refused=0)
        self.snapshot = load(folder)

    def reload_if_changed(self) -> None:
        """Load the folder if it has changed and is no longer being written."""
        signature = self._signature()
        settled, self._last_signature = signature == self._last_signature, signature
        if signature == self._loaded_signature or not settled:
            return
        self._loaded_signature = signature
        try:
            snapshot = self._load(self._folder)
        except Exception as error:  # whatever is wrong with the folder, the old model goes on answering
            self.problem = str(error) if isinstance(error, PriCDRError) else f"{self._folder}: {type(error).__name__}"
            self.loads["refused"] += 1
            self._report("model refused", reason=self.problem, serving=self.snapshot.fingerprint)
            return
        if snapshot.fingerprint != self.snapshot.fingerprint:  # otherwise touched or moved, but the same model
            self.loads["taken"] += 1
            users, items = len(snapshot.model.users), len(snapshot.model.items)
            self._report("model taken", model=snapshot.fingerprint, users=users, items=items)
            # Answers that were begun with the old snapshot hold it; it is freed after the last of them.
            freed = weakref.finalize(self.snapshot, self._report, "model freed", model=self.snapshot.fingerprint)
            freed.atexit = False
            self.snapshot = snapshot
        self.problem = None

    def _signature(self) -> tuple[Signature, ...]:
        return tuple(file_signature(self._folder / name) for name in FILES)


class Models:
    """The model being served, and an optional second one that the page compares it with.

    Args:
        folder: a model folder that may be replaced, or a link that may be moved to another one.
        compare: a second model folder.
        load: loads a folder as a snapshot.
        report: called with what happens to the models.
    """

    def __init__(
        self,
        folder: Path,
        compare: Path | None = None,
        *,
        load: Callable[[Path], Snapshot] = Snapshot.load,
        report: Report = lambda event, **facts: None,
    ) -> None:
        self._served = _WatchedModel(folder, load, report)
        self._compared = None if compare is None else _WatchedModel(compare, load, report)

    @property
    def current(self) -> Snapshot:
        """The snapshot to answer a request from, to be asked for once in each request."""
        return self._served.snapshot

    @property
    def compared(self) -> Snapshot | None:
        """The snapshot of the model to compare with, if one was given."""
        return None if self._compared is None else self._compared.snapshot

    @property
    def problem(self) -> str | None:
        """Why the newest folder was refused; None if it was not."""
        return self._served.problem or (None if self._compared is None else self._compared.problem)

    @property
    def loads(self) -> Counter[str]:
        """How many folders were loaded ("taken") and refused since the start."""
        return self._served.loads

    def reload_if_changed(self) -> None:
        """Check the folders once, and load those that have changed."""
        self._served.reload_if_changed()
        if self._compared is not None:
            self._compared.reload_if_changed()


def file_signature(path: Path) -> Signature:
    """Return what changes when a file is written or replaced, or a link to it is moved; the file is not read."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns


def watch(check: Callable[[], None], report: Report, closed: Event, interval: float = POLL_INTERVAL) -> None:
    """Call ``check`` every ``interval`` seconds in a thread of its own, until ``closed`` is set.

    A check that raises is reported and repeated: a removed key must not stay valid because a watcher has stopped. One
    thread for each: reading a large model takes minutes. Daemons, so that it does not delay the end of the process.
    """

    def run() -> None:
        while not closed.wait(interval):
            try:
                check()
            except Exception as error:
                report("fault", error=type(error).__name__, place=location_of(error))

    Thread(target=run, name="watching files", daemon=True).start()
