"""``pricdr strategies``: the ways from ratings to a release."""

from typing import TYPE_CHECKING

from pricdr.cli.registries import say_registry
from pricdr.privacy.strategies import BY_NAME

if TYPE_CHECKING:
    from pricdr.privacy.strategies.base import Strategy


def strategies() -> None:
    """List every strategy: where its directions come from, what it needs, what it is.

    Name a strategy with pricdr publish --strategy. Those of other installed packages come last, with the package they
    come from: that they keep their promise is the claim of that package.
    """
    say_registry(BY_NAME, ("directions", "needs", "what it is"), _cells)


def _cells(strategy: "type[Strategy]") -> tuple[str, ...]:
    return (
        "learnt from the ratings" if strategy.learns else "drawn or public",
        " and ".join(strategy.needs) or "nothing",
        strategy.summary,
    )
