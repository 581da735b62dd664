"""The ways to turn ratings into published rows: what ``publish(..., strategy=...)`` takes."""

from pricdr.privacy.registry import register
from pricdr.privacy.strategies import JLT, SJLT, Features, Guided, LearnFrom, Projection, Spectral, Strategy
from pricdr.privacy.strategies.base import GuideRows

__all__ = [
    "JLT",
    "SJLT",
    "Features",
    "GuideRows",
    "Guided",
    "LearnFrom",
    "Projection",
    "Spectral",
    "Strategy",
    "register",
]
