"""Every strategy by name. Reading the table imports nothing heavy; asking it for a strategy does."""

from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Final, TypeVar

from pricdr.errors import ParameterError
from pricdr.extensions import Registry, fields_without_default

if TYPE_CHECKING:
    from pricdr.privacy.strategies.base import Strategy

Kind = TypeVar("Kind", bound="type[Strategy]")

_OWN: Final[Mapping[str, str]] = {
    "spectral": "pricdr.privacy.strategies.spectral:Spectral",
    "guided": "pricdr.privacy.strategies.guided:Guided",
    "continued": "pricdr.privacy.strategies.continued:Continued",
    "features": "pricdr.privacy.strategies.features:Features",
    "jlt": "pricdr.privacy.strategies.random_projections:JLT",
    "sjlt": "pricdr.privacy.strategies.random_projections:SJLT",
}
"""Where each of our strategies is defined, as module:class. A strategy is added by one line here."""


BY_NAME: Final["Registry[Strategy]"] = Registry(
    "strategy", group="pricdr.strategies", own=_OWN, base="pricdr.privacy.strategies.base:Strategy"
)
"""Every strategy, under the name certificates and the command line use: ours, and those that installed packages offer
(entry points in the group ``pricdr.strategies``)."""


def register(kind: Kind) -> Kind:
    """Make a strategy of your own known in this process, and return it: releases made with it can then be verified.

    Works as a decorator. A package does it with an entry point in the group ``pricdr.strategies`` instead.
    """
    BY_NAME.register(kind)
    return kind


def strategy_named(text: str) -> "Strategy":
    """Return the strategy of this name (or module:Class, which is imported) with its defaults, if these are enough."""
    kind = BY_NAME.find(BY_NAME.resolve_reference(text))
    require_arguments(kind, kind.needs)
    return kind()


def require_arguments(kind: "type[Strategy]", needed: Collection[str] = ()) -> None:
    """Refuse to make a strategy of its defaults where it needs more; ``needed`` beside fields that have none."""
    lacking = list(dict.fromkeys([*fields_without_default(kind), *needed]))
    if lacking:
        taken = ", ".join(f"{one.name} (needed)" if one.name in lacking else one.name for one in fields(kind))
        example = f"{kind.__name__}({', '.join(f'{name}=…' for name in lacking)})"
        raise ParameterError(f"strategy {kind.name} takes {taken}: give publish one, such as strategy={example}")
