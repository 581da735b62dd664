"""A timer for displays, which runs while the work is inside one long call."""

import os
import signal
import threading
from collections.abc import Callable
from typing import Final

_JOIN_TIMEOUT: Final = 1.0
"""Seconds to wait for the last tick, which may be blocked: its output may no longer be read."""


class Ticker:
    """Calls ``tick`` every ``seconds`` on its own thread, until it is stopped."""

    def __init__(self, tick: Callable[[], None], seconds: float) -> None:
        self._tick, self._seconds = tick, seconds
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._owner = os.getpid()

    def start(self) -> None:
        """Start the timer; the first tick is after ``seconds``."""
        thread = threading.Thread(target=self._run, name="pricdr-progress", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no thread available: the work continues without a display
            return
        self._thread = thread

    def stop(self) -> None:
        """Stop the timer and wait a moment for a tick that is running."""
        # A forked child does not have the thread, and may have inherited its lock in a locked state.
        if self._thread is None or self._owner != os.getpid():
            return
        self._stopped.set()
        self._thread.join(_JOIN_TIMEOUT)

    def _run(self) -> None:
        # Signals must reach the working thread: one that arrived here would not wake it from a blocked read.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while not self._stopped.wait(self._seconds):
            try:
                self._tick()
            except Exception:
                return  # a broken display must not fail the work
