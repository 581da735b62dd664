"""How the item matrix E is built: one strategy a file. The guarantee holds for every E with rows of norm <= 1."""

from typing import Final

from pricdr.privacy.strategies.base import Strategy
from pricdr.privacy.strategies.gaussian import JLT
from pricdr.privacy.strategies.hadamard import SJLT

__all__ = ["BY_NAME", "JLT", "SJLT", "Strategy"]

BY_NAME: Final[dict[str, type[JLT] | type[SJLT]]] = {strategy.name: strategy for strategy in (JLT, SJLT)}
"""Every strategy, under the name certificates and the command line use."""
