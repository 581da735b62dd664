"""Model cards: what a model is, what it was trained on, what is promised, how good it is, and its limits."""

from pricdr.models.card.card import ModelCard

__all__ = ["ModelCard"]
