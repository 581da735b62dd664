"""Every strategy by name. Reading the table imports nothing heavy; asking it for a strategy does."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pricdr.privacy.strategies.base import Strategy

HOMES: Final = {
    "spectral": "pricdr.privacy.strategies.spectral:Spectral",
    "guided": "pricdr.privacy.strategies.guided:Guided",
    "features": "pricdr.privacy.strategies.features:Features",
    "jlt": "pricdr.privacy.strategies.gaussian:JLT",
    "sjlt": "pricdr.privacy.strategies.hadamard:SJLT",
}
"""Where each strategy is defined, as module:class. A strategy is added by one line here."""


class _Strategies(Mapping[str, type["Strategy"]]):
    """Strategies by name, imported when they are asked for: ``pricdr --help`` lists names and must stay quick."""

    def __getitem__(self, name: str) -> type["Strategy"]:
        module, _, kind = HOMES[name].partition(":")
        strategy: type[Strategy] = getattr(import_module(module), kind)
        assert strategy.name == name, "a certificate names the strategy as it names itself"
        return strategy

    def __iter__(self) -> Iterator[str]:
        return iter(HOMES)

    def __len__(self) -> int:
        return len(HOMES)


BY_NAME: Final[Mapping[str, type["Strategy"]]] = _Strategies()
"""Every strategy, under the name certificates and the command line use."""
