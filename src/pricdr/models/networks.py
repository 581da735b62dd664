"""The parts networks are made of: towers over sparse and dense rows, and the two ways of putting them together."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding_bag, normalize, relu

from pricdr.training.rows import Bags


class SparseTower(nn.Module):
    """n → hidden → width over sparse rows: the first layer is a weighted sum of rows of its weights."""

    def __init__(self, n: int, hidden: int, width: int, dropout: float) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.empty(n, hidden).uniform_(-1, 1) / math.sqrt(n))
        self.rest = nn.Sequential(nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, width))

    def forward(self, rows: Bags) -> Tensor:
        """One vector per row."""
        summed = embedding_bag(rows.columns, self.first, rows.offsets, mode="sum", per_sample_weights=rows.weights)
        out: Tensor = self.rest(summed)
        return out


def dense_tower(n: int, hidden: int, width: int, dropout: float) -> nn.Sequential:
    """N → hidden → width over dense rows."""
    return nn.Sequential(nn.Linear(n, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, width))


@dataclass(frozen=True)
class Sizes:
    """What a network is built for."""

    users: int
    items: int
    release: int
    """Numbers in a release row; 0 without a release."""
    source: int
    """Items of a plaintext source; 0 without one."""
    hidden: int
    width: int
    dropout: float


class Fusion(nn.Module, ABC):
    """A user is what its own history says plus what its row of the source says; items are scored against the sum.

    How the sum becomes a user vector and where item vectors come from is what the two subclasses differ in.
    """

    def __init__(self, sizes: Sizes, popularity: Tensor) -> None:
        super().__init__()
        hidden, width, dropout = sizes.hidden, sizes.width, sizes.dropout
        self.user_tower = SparseTower(sizes.items, hidden, width, dropout)
        self.encoder: nn.Module | None = None
        self.decoder: nn.Module | None = None
        if sizes.release:
            self.encoder = dense_tower(sizes.release, hidden, width, dropout)
            self.decoder = dense_tower(width, hidden, sizes.release, 0.0)
        elif sizes.source:
            self.encoder = SparseTower(sizes.source, hidden, width, dropout)
        # the log-odds of an item being rated at all: what is left when nothing is known of a user
        share = (popularity + 0.5) / (sizes.users + 1)
        self.item_bias = nn.Parameter(torch.log(share / (1 - share)))

    @abstractmethod
    def items(self, columns: Bags) -> Tensor:
        """Vectors of all items; ``columns`` are their columns of ratings."""

    @abstractmethod
    def users(self, vectors: Tensor) -> Tensor:
        """What items are multiplied by, from what history and source say."""

    def own(self, rows: Bags, present: Tensor) -> Tensor:
        """What a user's own history says; nothing where there is none."""
        vectors: Tensor = self.user_tower(rows) * present[:, None]
        return vectors

    def other(self, rows: Tensor | Bags, present: Tensor) -> Tensor:
        """What a user's row of the source says; nothing where there is none."""
        assert self.encoder is not None
        vectors: Tensor = self.encoder(rows) * present[:, None]
        return vectors

    def logits(self, users: Tensor, items: Tensor) -> Tensor:
        """Scores of all items."""
        return self.users(users) @ items.T + self.item_bias


class TwoTowers(Fusion):
    """DMF, and HeteroCDR where there is a source: item towers, cosines, a learnt logit scale.

    A bare cosine confines probabilities to 0.27 … 0.73 and cannot learn as a logit; the scale and an item bias let it.
    """

    def __init__(self, sizes: Sizes, popularity: Tensor) -> None:
        super().__init__(sizes, popularity)
        self.item_tower = SparseTower(sizes.users, sizes.hidden, sizes.width, sizes.dropout)
        self.log_scale = nn.Parameter(torch.tensor(math.log(10.0)))

    def items(self, columns: Bags) -> Tensor:
        """Unit vectors, from the columns of ratings."""
        return normalize(self.item_tower(columns), dim=1)

    def users(self, vectors: Tensor) -> Tensor:
        """Vectors of the learnt length."""
        return self.log_scale.exp() * normalize(vectors, dim=1)


class TwoAutoEncoders(Fusion):
    """PriCDR-SYM: the target side is an auto-encoder too, whose decoder scores the items."""

    def __init__(self, sizes: Sizes, popularity: Tensor) -> None:
        super().__init__(sizes, popularity)
        self.first = nn.Sequential(nn.Linear(sizes.width, sizes.hidden), nn.ReLU(), nn.Dropout(sizes.dropout))
        self.last = nn.Parameter(torch.empty(sizes.items, sizes.hidden).uniform_(-1, 1) / math.sqrt(sizes.hidden))

    def items(self, columns: Bags) -> Tensor:
        """The decoder's last layer."""
        return self.last

    def users(self, vectors: Tensor) -> Tensor:
        """The decoder's hidden layer."""
        hidden: Tensor = self.first(relu(vectors))
        return hidden
