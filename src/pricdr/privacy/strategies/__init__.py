"""The steps from ratings to published rows: one strategy a file."""

from typing import Final

from pricdr.privacy.strategies.base import Projection, Strategy
from pricdr.privacy.strategies.features import Features
from pricdr.privacy.strategies.gaussian import JLT
from pricdr.privacy.strategies.guided import Guided
from pricdr.privacy.strategies.hadamard import SJLT
from pricdr.privacy.strategies.spectral import LearnFrom, Spectral

__all__ = ["BY_NAME", "JLT", "SJLT", "Features", "Guided", "LearnFrom", "Projection", "Spectral", "Strategy"]

BY_NAME: Final[dict[str, type[Strategy]]] = {
    strategy.name: strategy for strategy in (Spectral, Guided, Features, JLT, SJLT)
}
"""Every strategy, under the name certificates and the command line use."""
