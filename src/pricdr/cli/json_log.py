"""``--log-json``: standard error holds only JSON lines, one for each event, for unattended runs.

The standard error of a service is collected. So these lines follow the rule of ``--log``: they hold what was asked for
and what a certificate discloses, and nothing else that was read off the ratings. Text for people counts ratings and
quotes bad rows, so it is not written at all.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Final

from pricdr.errors import PriCDRError

OPTION: Final = "--log-json"
WITHHELD: Final = "withheld, it may quote the ratings: run the same command with --dry-run and without --log-json"
_ON: Final[ContextVar[bool]] = ContextVar("_ON", default=False)
_SPENT: Final[ContextVar[dict[str, object] | None]] = ContextVar("_SPENT", default=None)


def is_on() -> bool:
    """Return whether the current command writes JSON lines instead of text for people."""
    return _ON.get()


@contextmanager
def json_log(*, on: bool) -> Iterator[None]:
    """Write JSON lines instead of text for people until the block ends, if ``on``."""
    before, spent = _ON.set(on), _SPENT.set(None)
    try:
        yield
    finally:
        _ON.reset(before)
        _SPENT.reset(spent)


def note_spent(**line: object) -> None:
    """Let a failure of this command say what it had spent: the line of its ledger."""
    _SPENT.set(line)


def event_line(event: str, **facts: object) -> str:
    """Return one event as a line of JSON, in ASCII, without the line break."""
    if event == "failed" and (spent := _SPENT.get()):
        facts["spent"] = spent
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return json.dumps({"time": now, "process": os.getpid(), "event": event, **facts})


def failure(error: BaseException) -> dict[str, object]:
    """Return what a log says about an error: type, exit code, and the message unless it may quote the ratings."""
    facts: dict[str, object] = {"error": type(error).__name__}
    if isinstance(error, PriCDRError):
        facts["exit_code"] = error.exit_code
        if error.disclosed is not None:
            facts["message"] = error.disclosed
    elif isinstance(error, OSError) and error.errno is not None:
        facts["message"] = os.strerror(error.errno)  # not its own text, which may be anything
    return facts
