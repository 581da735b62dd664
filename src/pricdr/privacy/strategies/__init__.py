"""How the item matrix E is built: one strategy a file. The guarantee holds for every E with rows of norm <= 1."""

from pricdr.privacy.strategies.base import Strategy
from pricdr.privacy.strategies.gaussian import JLT
from pricdr.privacy.strategies.hadamard import SJLT

__all__ = ["JLT", "SJLT", "Strategy"]
