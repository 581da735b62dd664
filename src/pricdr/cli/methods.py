"""``pricdr methods``: what can be trained."""

from pricdr.cli.console import say
from pricdr.models.catalogue import METHODS


def methods() -> None:
    """List every method: what it is, what data it needs, whether it is private.

    Name a method with pricdr train --method. Methods that need the source in plaintext are for comparison.
    """
    for entry in METHODS.values():
        say(f"{entry.name:<13} {entry.summary}\n{'':<13} needs {', or '.join(kind.value for kind in entry.sees)}")
