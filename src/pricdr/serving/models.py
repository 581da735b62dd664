"""The models being served: each snapshot is replaced when its folder changes, never in the middle of an answer.

A folder is checked every second. Once it has changed and then stayed the same between two checks, it is loaded in the
watcher's thread; the old snapshot goes on answering until the new one has answered its first query. A folder that
cannot be loaded changes nothing except :attr:`Models.problem`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import TypeAlias

from pricdr.errors import PriCDRError
from pricdr.serving.snapshot import FILES, Snapshot
from pricdr.serving.watching import Signature, file_signature

Report: TypeAlias = Callable[..., None]
"""Called with the name of an event and facts about it."""


def ignore_event(event: str, **facts: object) -> None:
    """Do nothing: the default where no log is given."""


class _CountedSnapshot:
    """A snapshot and the number of requests that are using it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.requests = 0
        self.replaced = False


class _WatchedModel:
    """One model folder and the latest snapshot of it."""

    def __init__(self, folder: Path, load: Callable[[Path], Snapshot], report: Report) -> None:
        self.folder, self._load, self._report = folder, load, report
        self._loaded_signature = self._last_signature = _signature(folder)
        self._lock = Lock()
        self.latest = _CountedSnapshot(load(folder))
        self.problem: str | None = None
        self.loads = {"taken": 1, "refused": 0}

    @contextmanager
    def use(self) -> Iterator[Snapshot]:
        with self._lock:
            counted = self.latest
            counted.requests += 1
        try:
            yield counted.snapshot
        finally:
            with self._lock:
                counted.requests -= 1
                unused = counted.replaced and not counted.requests
            if unused:
                self._report("model freed", model=counted.snapshot.fingerprint)

    def reload_if_changed(self) -> None:
        """Load the folder if it has changed and is no longer being written."""
        signature = _signature(self.folder)
        settled, self._last_signature = signature == self._last_signature, signature
        if signature == self._loaded_signature or not settled:
            return
        self._loaded_signature = signature
        try:
            snapshot = self._load(self.folder)
        except Exception as error:  # whatever is wrong with the folder, the old model goes on answering
            self._refuse(str(error) if isinstance(error, PriCDRError) else f"{self.folder}: {type(error).__name__}")
            return
        if snapshot.fingerprint == self.latest.snapshot.fingerprint:  # touched or moved, but the same model
            self.problem = None
            return
        self._replace(snapshot)

    def _refuse(self, reason: str) -> None:
        self.problem = reason
        self.loads["refused"] += 1
        self._report("model refused", reason=reason, serving=self.latest.snapshot.fingerprint)

    def _replace(self, snapshot: Snapshot) -> None:
        with self._lock:
            old, self.latest = self.latest, _CountedSnapshot(snapshot)
            old.replaced = True
            unused = not old.requests
        self.loads["taken"] += 1
        self._report("model taken", model=snapshot.fingerprint, users=snapshot.n_users, items=snapshot.n_items)
        if unused:
            self._report("model freed", model=old.snapshot.fingerprint)
        self.problem = None  # last: who waits for that finds everything in the log


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
        report: Report = ignore_event,
    ) -> None:
        self._served = _WatchedModel(folder, load, report)
        self._compared = None if compare is None else _WatchedModel(compare, load, report)

    @contextmanager
    def current(self) -> Iterator[Snapshot]:
        """Yield the snapshot to answer one request from; it counts as in use until the block ends."""
        with self._served.use() as snapshot:
            yield snapshot

    def compared(self) -> Snapshot | None:
        """Return the snapshot of the model to compare with, if one was given."""
        return None if self._compared is None else self._compared.latest.snapshot

    @property
    def problem(self) -> str | None:
        """Why the newest folder was refused; None if it was not."""
        problems = [model.problem for model in (self._served, self._compared) if model is not None]
        return next((problem for problem in problems if problem is not None), None)

    @property
    def loads(self) -> dict[str, int]:
        """How many folders were loaded ("taken") and refused since the start."""
        return dict(self._served.loads)

    def reload_if_changed(self) -> None:
        """Check the folders once, and load those that have changed."""
        for model in (self._served, self._compared):
            if model is not None:
                model.reload_if_changed()


def _signature(folder: Path) -> tuple[Signature, ...]:
    """Return what changes when a file of the folder is written or replaced, or its link is moved; nothing is read."""
    return tuple(file_signature(folder / name) for name in FILES)
