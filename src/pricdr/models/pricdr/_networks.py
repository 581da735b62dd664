"""The networks of HeteroCDR and its ablation: two that score items, and the encoder of the source."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, relu

from pricdr.models.networks import Dropout, SparseTower, dense_tower, log_odds
from pricdr.training.rows import Bags


@dataclass(frozen=True)
class Sizes:
    """The sizes and the dropout of a network."""

    users: int
    items: int
    hidden: int
    width: int
    dropout: float


class TargetNetwork(nn.Module, ABC):
    """The target's network: it maps a user's history to a vector, and that vector to scores of all items.

    The subclasses differ in where item vectors come from, and how user vectors are compared with them.
    """

    def __init__(self, sizes: Sizes, popularity: Tensor) -> None:
        super().__init__()
        self.user_tower = SparseTower(sizes.items, sizes.hidden, sizes.width, sizes.dropout)
        self.item_bias = nn.Parameter(log_odds(popularity, sizes.users))

    @abstractmethod
    def items(self, numbers: Tensor, columns: Bags) -> Tensor:
        """Return the vectors of some items, given by their numbers and their columns of ratings."""

    @abstractmethod
    def users(self, vectors: Tensor) -> Tensor:
        """Return the user vectors in the form that item vectors are multiplied by."""


class TwoTowers(TargetNetwork):
    """DMF: a tower for items too, cosines, and a learnt logit scale.

    A bare cosine as a logit confines probabilities to 0.27 … 0.73; the scale and an item bias lift that limit.
    """

    def __init__(self, sizes: Sizes, popularity: Tensor) -> None:
        super().__init__(sizes, popularity)
        self.item_tower = SparseTower(sizes.users, sizes.hidden, sizes.width, sizes.dropout)
        # As a logarithm, so that the scale stays positive.
        self.log_scale = nn.Parameter(torch.tensor(math.log(10.0)))

    def items(self, numbers: Tensor, columns: Bags) -> Tensor:
        """Return unit vectors, computed from the columns of ratings."""
        return normalize(self.item_tower(columns), dim=1)

    def users(self, vectors: Tensor) -> Tensor:
        """Return the vectors, scaled to the learnt length."""
        return self.log_scale.exp() * normalize(vectors, dim=1)


class AutoEncoder(TargetNetwork):
    """Encodes a target row as a vector and decodes it: the decoder scores the items."""

    def __init__(self, sizes: Sizes, popularity: Tensor) -> None:
        super().__init__(sizes, popularity)
        self.first = nn.Sequential(nn.Linear(sizes.width, sizes.hidden), nn.ReLU(), Dropout(sizes.dropout))
        self.last = nn.Parameter(torch.empty(sizes.items, sizes.hidden).uniform_(-1, 1) / math.sqrt(sizes.hidden))

    def items(self, numbers: Tensor, columns: Bags) -> Tensor:
        """Return rows of the decoder's last layer."""
        return self.last[numbers]

    def users(self, vectors: Tensor) -> Tensor:
        """Return the decoder's hidden layer."""
        hidden: Tensor = self.first(relu(vectors))
        return hidden


class SourceNetwork(nn.Module):
    """Maps a source row to a user vector, and with a decoder back: then it is an auto-encoder."""

    def __init__(self, encoder: nn.Module, decoder: nn.Module | None) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    @classmethod
    def of_release(cls, dim: int, hidden: int, width: int, dropout: float) -> "SourceNetwork":
        """Return the network for dense rows."""
        return cls(dense_tower(dim, hidden, width, dropout), dense_tower(width, hidden, dim, 0.0))

    @classmethod
    def of_narrow_release(cls, dim: int, hidden: int, width: int, dropout: float) -> "SourceNetwork":
        """Return the network for narrow dense rows, which are not reconstructed."""
        return cls(dense_tower(dim, hidden, width, dropout), None)

    @classmethod
    def of_ratings(cls, n: int, hidden: int, width: int, dropout: float) -> "SourceNetwork":
        """Return the network for plaintext ratings, which are not reconstructed."""
        return cls(SparseTower(n, hidden, width, dropout), None)

    def forward(self, rows: Tensor | Bags) -> Tensor:
        """Return one user vector per row."""
        vectors: Tensor = self.encoder(rows)
        return vectors
