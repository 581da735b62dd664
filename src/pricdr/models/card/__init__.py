"""The card of a model: what it is, what it was trained on, what is promised, how good it is, and what to beware of."""

from pricdr.models.card.card import ModelCard

__all__ = ["ModelCard"]
