"""Looking at files again and again, to notice when somebody replaces them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event, Thread
from typing import Final, TypeAlias

from pricdr.serving.log import place_of

LOOK_EVERY: Final = 1.0
"""Seconds between two looks."""
Signature: TypeAlias = tuple[int, int, int, int] | None
"""Device, inode, size and time of a file; None where it is missing."""


def file_signature(path: Path) -> Signature:
    """Return what changes when a file is written or replaced, or a link on the way to it moved; nothing is read."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class Watcher:
    """Calls each of ``looks`` every second, in a thread of its own, until it is closed.

    One that raises is called again like the others, else nobody would notice that keys no longer end. ``report`` is
    told.
    """

    def __init__(
        self, looks: Sequence[Callable[[], None]], report: Callable[..., None], every: float = LOOK_EVERY
    ) -> None:
        self._looks, self._report, self._every = looks, report, every
        self._ended = Event()
        # A daemon: a model of many gigabytes that is being read must not hold up the end of the process.
        self._thread = Thread(target=self._watch, name="watching files", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop looking."""
        self._ended.set()

    def _watch(self) -> None:
        while not self._ended.wait(self._every):
            for look in self._looks:
                try:
                    look()
                except Exception as error:  # else one fault would end all looking, and nobody would notice
                    self._report("fault", error=type(error).__name__, place=place_of(error))
