"""``pricdr methods``: what can be trained."""

from typing import TYPE_CHECKING

from pricdr.cli.registries import say_registry
from pricdr.models.catalogue import METHODS

if TYPE_CHECKING:
    from pricdr.models.base import Method


def methods() -> None:
    """List every method: what it is, what data it needs, whether it is private.

    Name a method with pricdr train --method. Methods that need the source in plaintext are for comparison. Those of
    other installed packages come last, with the package they come from.
    """
    say_registry(METHODS, ("private?", "needs", "what it is"), _cells)


def _cells(method: "type[Method]") -> tuple[str, ...]:
    access = method.data_access()
    private = " or ".join(kind.privacy_note for kind in access)
    return private, " or ".join(kind.value for kind in access), method.summary
