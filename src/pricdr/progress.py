"""How far long work has come: the library reports it, the command line draws it."""

from typing import Protocol


class Progress(Protocol):
    """Called while long work goes on; the command line draws a bar, the library's default is silent."""

    def __call__(self, what: str, done: int, total: int, note: str = "") -> None:
        """``done`` of ``total`` pieces of ``what`` are finished; ``note`` says how it goes."""
        ...


def silent(what: str, done: int, total: int, note: str = "") -> None:
    """Report progress to nobody."""
