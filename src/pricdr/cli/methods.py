"""``pricdr methods``: what can be trained."""

from pricdr.cli.console import say
from pricdr.models.catalogue import METHODS


def methods() -> None:
    """List every method: what it is, what data it needs, whether it is private.

    Name a method with pricdr train --method. Methods that need the source in plaintext are for comparison.
    """
    rows = [("method", "private?", "needs", "what it is")]
    for entry in METHODS.values():
        private, needs = (" or ".join(words) for words in zip(*((s.private, s.value) for s in entry.sees), strict=True))
        rows.append((entry.name, private, needs, entry.summary))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:3]
    for *cells, what in rows:
        say("  ".join([f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)] + [what]))
