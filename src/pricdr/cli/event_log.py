"""``--log FILE``: what a command did and when, one JSON line for each event, for whoever keeps the records.

A log may be collected and kept for years. So it holds what was asked for and what a certificate discloses, and nothing
else that was read off the ratings: no counts, and no message about a bad row, which would quote it.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pricdr.cli.console import warn
from pricdr.errors import InputError, OutputError, ParameterError, PriCDRError
from pricdr.files import PRIVATE

_BEGINNING: Final = b'{"time": '
"""How every line begins."""


class EventLog:
    """An open log; without a file, nothing is kept."""

    def __init__(self, path: Path | None, descriptor: int | None) -> None:
        self._path = path
        self._descriptor = descriptor

    @classmethod
    @contextmanager
    def opened(cls, path: Path | None) -> Iterator["EventLog"]:
        """Yield a log that ``path`` is extended by, readable by its owner alone; how the block ends is recorded."""
        from pricdr.release.folder import require_outside_releases

        if path is None:
            yield cls(None, None)
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
            log.record("failed", **_failure(error))
            raise
        finally:
            os.close(descriptor)

    def record(self, event: str, **facts: object) -> None:
        """Write one event; a disk that is full by now is a warning, since what was done must not be lost with it."""
        if self._descriptor is None:
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, "process": os.getpid(), "event": event, **facts})
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
        raise OutputError(f"{path} is not a log: it holds something else, which --log would be appended to")


def _failure(error: BaseException) -> dict[str, object]:
    facts: dict[str, object] = {"error": type(error).__name__}
    if isinstance(error, PriCDRError):
        facts["exit_code"] = error.exit_code
        if not isinstance(error, InputError):
            facts["message"] = str(error)
    return facts
