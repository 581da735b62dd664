"""The ways to turn ratings into published rows: what ``publish(..., strategy=...)`` takes."""

from pricdr.privacy.strategies import register
from pricdr.privacy.strategies.base import GuideRows, Projection, Strategy
from pricdr.privacy.strategies.continued import Continued
from pricdr.privacy.strategies.features import Features
from pricdr.privacy.strategies.guided import Guided
from pricdr.privacy.strategies.random_projections import JLT, SJLT
from pricdr.privacy.strategies.spectral import Spectral

__all__ = [
    "JLT",
    "SJLT",
    "Continued",
    "Features",
    "GuideRows",
    "Guided",
    "Projection",
    "Spectral",
    "Strategy",
    "register",
]
