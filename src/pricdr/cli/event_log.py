"""``--log FILE``: what a command did and when, one JSON line for each event, for whoever keeps the records.

A log may be collected and kept for years. So it holds what was asked for and what a certificate discloses, and nothing
else that was read off the ratings: no counts, and no message about a bad row, which would quote it.
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
"""How every line begins."""


class EventLog:
    """An open log; without a file, events go to standard error where ``--log-json`` asks for them, or nowhere."""

    def __init__(self, path: Path | None, descriptor: int | None) -> None:
        self._path = path
        self._descriptor = descriptor

    @classmethod
    @contextmanager
    def opened(cls, path: Path | None) -> Iterator["EventLog"]:
        """Yield a log that ``path`` is extended by, readable by its owner alone; how the block ends is recorded."""
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
            log._keep(
                event_line("failed", **failure(error))
            )  # standard error hears of it from whoever ends the command
            raise
        finally:
            os.close(descriptor)

    def record(self, event: str, **facts: object) -> None:
        """Write one event, to the file and to standard error, wherever either was asked for."""
        self._keep(event_line(event, **facts))
        log_event(event, **facts)

    def _keep(self, line: str) -> None:
        """Append a line; a disk that is full by now is a warning, since what was done must not be lost with it."""
        if self._descriptor is None:
            return
        try:
            os.write(self._descriptor, f"{line}\n".encode())  # in one piece: other processes may append too
        except OSError as error:
            warn(f"{self._path} is incomplete: {error.strerror}")


def _require_log(path: Path) -> None:
    """Refuse a file that holds something else: a line at the end of a ledger or of ratings would spoil them."""
    if path == Path("-"):
        raise ParameterError("--log takes a file: - stands for standard output with --json alone")
    if not path.is_file():
        return
    try:
        with path.open("rb") as file:
            begins = file.read(len(_BEGINNING))
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from error
    if begins and begins != _BEGINNING:
        raise OutputError(f"{path} is not a log: it holds something else, and --log would append to it")
