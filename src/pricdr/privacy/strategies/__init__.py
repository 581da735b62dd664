"""The steps from ratings to published rows: one strategy a file."""

from pricdr.privacy.registry import BY_NAME
from pricdr.privacy.strategies.base import Strategy
from pricdr.privacy.strategies.features import Features
from pricdr.privacy.strategies.fixed import Projection
from pricdr.privacy.strategies.gaussian import JLT
from pricdr.privacy.strategies.guided import Guided
from pricdr.privacy.strategies.hadamard import SJLT
from pricdr.privacy.strategies.spectral import LearnFrom, Spectral

__all__ = ["BY_NAME", "JLT", "SJLT", "Features", "Guided", "LearnFrom", "Projection", "Spectral", "Strategy"]
