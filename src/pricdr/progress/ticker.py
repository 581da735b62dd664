"""A clock for displays: it ticks while the work is inside one long call."""

import os
import signal
import threading
from collections.abc import Callable
from typing import Final

_PATIENCE: Final = 1.0
"""Seconds to wait for the last tick: somebody may have stopped reading what it writes."""


class Ticker:
    """Calls ``tick`` every so many seconds on a thread of its own, until it is stopped."""

    def __init__(self, tick: Callable[[], None], seconds: float) -> None:
        self._tick, self._seconds = tick, seconds
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._owner = os.getpid()

    def start(self) -> None:
        """Begin to tick; the first time after ``seconds``."""
        thread = threading.Thread(target=self._run, name="pricdr-progress", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no thread is to be had: the work goes on unseen
            return
        self._thread = thread

    def stop(self) -> None:
        """Stop; afterwards nothing is ticked any more."""
        # A forked child has no such thread, and perhaps its lock in a state that nobody will ever change.
        if self._thread is None or self._owner != os.getpid():
            return
        self._stopped.set()
        self._thread.join(_PATIENCE)

    def _run(self) -> None:
        # Signals are for the thread that works: one that arrived here would not wake it from a blocked read.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while not self._stopped.wait(self._seconds):
            try:
                self._tick()
            except Exception:
                return  # whatever is wrong with the display, the work is not to suffer from it
