"""``--log FILE``: record what a command did and when, one JSON line for each event.

A log may be collected and kept for years. So it holds what was asked for and what a certificate discloses, and nothing
else that was read off the ratings: no counts, and no message that may quote a row.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pricdr.cli.console import log_event, warn
from pricdr.cli.json_log import event_line, failure
from pricdr.errors import OutputError, ParameterError
from pricdr.files import PRIVATE

_BEGINNING: Final = b'{"time": '
"""The start of every line."""


class EventLog:
    """An open log; without a file, events go to standard error where ``--log-json`` asks for them, or nowhere."""

    def __init__(self, path: Path | None, descriptor: int | None) -> None:
        self._path = path
        self._descriptor = descriptor

    @classmethod
    @contextmanager
    def opened(cls, path: Path | None) -> Iterator["EventLog"]:
        """Yield a log that appends to ``path``, readable by its owner alone; it records how the block ends."""
        from pricdr.release.folder import require_outside_releases

        if path is None:
            log = cls(None, None)
            yield log
            log.record("finished")
            return
        _require_log(path)
        require_outside_releases(path)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, PRIVATE)
        except OSError as error:
            raise OutputError(f"cannot write {path}: {error.strerror}") from error
        log = cls(path, descriptor)
        try:
            yield log
            log.record("finished")
        except BaseException as error:
            # Only to the file: ``cli.run`` reports the failure on standard error.
            log._append(event_line("failed", **failure(error)))
            raise
        finally:
            os.close(descriptor)

    def record(self, event: str, **facts: object) -> None:
        """Write one event to the file and to standard error, as far as they were asked for."""
        self._append(event_line(event, **facts))
        log_event(event, **facts)

    def _append(self, line: str) -> None:
        """Append a line; a full disk only causes a warning, so that the work already done is not lost."""
        if self._descriptor is None:
            return
        try:
            os.write(self._descriptor, f"{line}\n".encode())  # in one piece: other processes may append too
        except OSError as error:
            warn(f"{self._path} is incomplete: {error.strerror}")


def _require_log(path: Path) -> None:
    """Refuse a file that is not a log: a line appended to a ledger or to ratings would damage them."""
    if path == Path("-"):
        raise ParameterError("log takes a file: only --json accepts - for standard output")
    if not path.is_file():
        return
    try:
        with path.open("rb") as file:
            begins = file.read(len(_BEGINNING))
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from error
    if begins and begins != _BEGINNING:
        raise OutputError(f"{path} is not a log, and log would append to it: choose another file")
