"""``pricdr methods``: what can be trained."""

from pricdr.cli.console import say, working
from pricdr.models.catalogue import METHODS, method_class


def methods() -> None:
    """List every method: what it is, what data it needs, whether it is private.

    Name a method with pricdr train --method. Methods that need the source in plaintext are for comparison.
    """
    lines = [("method", "private?", "needs", "what it is")]
    with working("loading the methods"):  # what a method needs is said by its class, which loads torch
        for name in METHODS:
            cls = method_class(name)
            access = cls.data_access()
            private = " or ".join(kind.privacy_note for kind in access)
            lines.append((name, private, " or ".join(kind.value for kind in access), cls.summary))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)][:3]
    for *cells, summary in lines:
        say("  ".join([f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)] + [summary]))
