"""How far long work has come: the library reports it, and a terminal, a notebook or a log shows it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from pricdr.errors import ParameterError

PREPARING: Final = "preparing"
"""What is shown until the work reports something itself."""


class Progress(Protocol):
    """Called while long work goes on. Give one to whatever takes ``progress``, or ``True`` to see it."""

    def __call__(self, what: str, done: float, total: int, note: str = "") -> None:
        """``done`` of ``total`` pieces of ``what`` are finished, with a fraction for the piece under way.

        A ``total`` of 0 means that nobody can say how far it is. ``note`` says how it goes.
        """
        ...


def silent(what: str, done: float, total: int, note: str = "") -> None:
    """Report progress to nobody."""


@contextmanager
def shown(progress: Progress | bool, what: str = PREPARING) -> Iterator[Progress]:
    """Yield where work reports to: nobody for False, whoever watches for True, or what the caller brought.

    Args:
        progress: the argument of a public function.
        what: what is shown until the first report.
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
        raise ParameterError(f"progress must be True, False or a function that is called, got {progress!r:.40}")
