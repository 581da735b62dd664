"""What is served now: a snapshot that is replaced when its folder is, and never in the middle of an answer.

The folder is looked at every second. Once it has changed and then stayed the same from one look to the next, it is read
in the thread that looks; requests go on being answered from the old snapshot until the new one has answered a first
time. A folder that cannot be read changes nothing but :attr:`Models.problem`.
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


def unheard(event: str, **facts: object) -> None:
    """Report to nobody."""


class _Held:
    """A snapshot and the number of requests that use it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.users = 0
        self.replaced = False


class _Served:
    """One model folder, and the snapshot that was taken of it last."""

    def __init__(self, folder: Path, load: Callable[[Path], Snapshot], report: Report) -> None:
        self.folder, self._load, self._report = folder, load, report
        self._taken = self._last = _signature(folder)
        self._lock = Lock()
        self.held = _Held(load(folder))
        self.problem: str | None = None
        self.loads = {"taken": 1, "refused": 0}

    @contextmanager
    def use(self) -> Iterator[Snapshot]:
        with self._lock:
            held = self.held
            held.users += 1
        try:
            yield held.snapshot
        finally:
            with self._lock:
                held.users -= 1
                drained = held.replaced and not held.users
            if drained:
                self._report("model freed", model=held.snapshot.fingerprint)

    def look(self) -> None:
        """Take a new snapshot where the folder has changed, and is not being written any more."""
        now = _signature(self.folder)
        settled, self._last = now == self._last, now
        if now == self._taken or not settled:
            return
        self._taken = now
        try:
            snapshot = self._load(self.folder)
        except Exception as error:  # whatever is wrong with a folder, the old model answers on
            self._refuse(str(error) if isinstance(error, PriCDRError) else f"{self.folder}: {type(error).__name__}")
            return
        if snapshot.fingerprint == self.held.snapshot.fingerprint:  # touched or moved, not changed
            self.problem = None
            return
        self._swap(snapshot)

    def _refuse(self, reason: str) -> None:
        self.problem = reason
        self.loads["refused"] += 1
        self._report("model refused", reason=reason, serving=self.held.snapshot.fingerprint)

    def _swap(self, snapshot: Snapshot) -> None:
        with self._lock:
            old, self.held = self.held, _Held(snapshot)
            old.replaced = True
            idle = not old.users
        self.problem = None
        self.loads["taken"] += 1
        self._report("model taken", model=snapshot.fingerprint, users=snapshot.n_users, items=snapshot.n_items)
        if idle:
            self._report("model freed", model=old.snapshot.fingerprint)


class Models:
    """The model that is served, and the one it is compared with on the page.

    Args:
        folder: a model folder that may be replaced, or a link that may be moved to another one.
        compare: a second one.
        load: how a folder becomes a snapshot.
        report: is told what happens to models.
    """

    def __init__(
        self,
        folder: Path,
        compare: Path | None = None,
        *,
        load: Callable[[Path], Snapshot] = Snapshot.load,
        report: Report = unheard,
    ) -> None:
        self._served = _Served(folder, load, report)
        self._other = None if compare is None else _Served(compare, load, report)

    @contextmanager
    def current(self) -> Iterator[Snapshot]:
        """Yield the snapshot to answer one request from; it stays whole until the block ends."""
        with self._served.use() as snapshot:
            yield snapshot

    def other(self) -> Snapshot | None:
        """Return the snapshot of the model to compare with, where one was given."""
        return None if self._other is None else self._other.held.snapshot

    @property
    def problem(self) -> str | None:
        """Why the newest folder was not taken; None where it was."""
        problems = [served.problem for served in (self._served, self._other) if served is not None]
        return next((problem for problem in problems if problem is not None), None)

    @property
    def loads(self) -> dict[str, int]:
        """How many folders were taken, and how many refused, since the start."""
        return dict(self._served.loads)

    def look(self) -> None:
        """Look at the folders once, and take what is new in them."""
        for served in (self._served, self._other):
            if served is not None:
                served.look()


def _signature(folder: Path) -> tuple[Signature, ...]:
    """Return what changes when a file of the folder is written or replaced, or the link moved; nothing is read."""
    return tuple(file_signature(folder / name) for name in FILES)
