"""Progress of long work: the library reports it, and a terminal, a notebook or a log shows it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from pricdr.errors import ParameterError

PREPARING: Final = "preparing"
"""What is shown until the first report."""


class Progress(Protocol):
    """A callback for long work. Pass one as ``progress``, or ``True`` to see a progress bar."""

    def __call__(self, what: str, done: float, total: int, note: str = "") -> None:
        """Report that ``done`` of ``total`` pieces of ``what`` are finished, with a fraction for the current piece.

        A ``total`` of 0 means that the amount of work is unknown. ``note`` adds details, such as the loss.
        """
        ...


def silent(what: str, done: float, total: int, note: str = "") -> None:
    """Ignore a report."""


@contextmanager
def shown(progress: Progress | bool, what: str = PREPARING) -> Iterator[Progress]:
    """Yield the callback for a ``progress`` argument: a display for True, none for False, or the caller's own.

    Args:
        progress: the argument of a public function.
        what: the text that is shown until the first report.
    """
    if progress is True:
        from pricdr.progress.displays import display

        with display(what) as report:
            yield report
    elif progress is False:
        yield silent
    elif callable(progress):
        yield progress
    else:
        raise ParameterError(f"progress must be True, False or a function, got {progress!r:.40}")
