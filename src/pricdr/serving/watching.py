"""Watching files, to notice when they are replaced."""

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event, Thread
from typing import Final, TypeAlias

from pricdr.serving.log import location_of

POLL_INTERVAL: Final = 1.0
"""Seconds between two checks."""
Signature: TypeAlias = tuple[int, int, int, int, int] | None
"""Device, inode, mode, size and modification time of a file; None if it is missing."""


def file_signature(path: Path) -> Signature:
    """Return what changes when a file is written or replaced, or a link to it is moved; the file is not read."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns


class Watcher:
    """Calls each check every ``interval`` seconds until it is closed, each in its own thread.

    A check that raises is logged through ``report`` and called again, since a watcher that stopped would leave removed
    keys valid, and nothing would show it.
    """

    def __init__(
        self, checks: Sequence[Callable[[], None]], report: Callable[..., None], interval: float = POLL_INTERVAL
    ) -> None:
        self._report, self._interval = report, interval
        self._closed = Event()
        for check in checks:
            # One thread each: reading a large model takes minutes, and a removed key must not stay valid that long.
            # Daemons: a model that is being read must not delay the end of the process.
            Thread(target=self._watch, args=(check,), name="watching files", daemon=True).start()

    def close(self) -> None:
        """Stop checking."""
        self._closed.set()

    def _watch(self, check: Callable[[], None]) -> None:
        while not self._closed.wait(self._interval):
            try:
                check()
            except Exception as error:
                self._report("fault", error=type(error).__name__, place=location_of(error))
