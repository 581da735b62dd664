"""The parts networks are made of: towers over sparse rows and over release rows, and the two put together."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding_bag, normalize

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
    hidden: int
    width: int
    dropout: float


class TwoTowers(nn.Module):
    """DMF, and HeteroCDR where there is a release: user and item towers, an auto-encoder, a learnt logit scale.

    A bare cosine confines probabilities to 0.27 … 0.73 and cannot learn as a logit; the scale and an item bias let it.
    """

    def __init__(self, sizes: Sizes, popularity: Tensor) -> None:
        super().__init__()
        self.user_tower = SparseTower(sizes.items, sizes.hidden, sizes.width, sizes.dropout)
        self.item_tower = SparseTower(sizes.users, sizes.hidden, sizes.width, sizes.dropout)
        self.encoder = dense_tower(sizes.release, sizes.hidden, sizes.width, sizes.dropout) if sizes.release else None
        self.decoder = dense_tower(sizes.width, sizes.hidden, sizes.release, 0.0) if sizes.release else None
        self.log_scale = nn.Parameter(torch.tensor(math.log(10.0)))
        # the log-odds of an item being rated at all: what is left when nothing is known of a user
        share = (popularity + 0.5) / (sizes.users + 1)
        self.item_bias = nn.Parameter(torch.log(share / (1 - share)))

    def items(self, columns: Bags) -> Tensor:
        """Unit vectors of all items, from their columns of ratings."""
        return normalize(self.item_tower(columns), dim=1)

    def own(self, rows: Bags, present: Tensor) -> Tensor:
        """What a user's own history says; nothing where there is none."""
        vectors: Tensor = self.user_tower(rows) * present[:, None]
        return vectors

    def release(self, rows: Tensor, present: Tensor) -> Tensor:
        """What a user's release row says; nothing where there is none."""
        assert self.encoder is not None
        vectors: Tensor = self.encoder(rows) * present[:, None]
        return vectors

    def logits(self, users: Tensor, items: Tensor) -> Tensor:
        """Scores of all items: scale · cosine + bias."""
        return self.log_scale.exp() * (normalize(users, dim=1) @ items.T) + self.item_bias
