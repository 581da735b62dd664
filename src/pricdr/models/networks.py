"""Towers over sparse and dense rows: what several methods build their networks from."""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding_bag

from pricdr.training.rows import Bags


class SparseTower(nn.Module):
    """n → hidden → width over sparse rows: the first layer is a weighted sum of rows of its weights."""

    def __init__(self, n: int, hidden: int, width: int, dropout: float) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.empty(n, hidden).uniform_(-1, 1) / math.sqrt(n))
        self.rest = nn.Sequential(nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, width))

    def forward(self, rows: Bags) -> Tensor:
        """Return one vector per row."""
        # A sparse row times the first layer is a weighted sum of that layer's rows: no dense row is ever made.
        summed = embedding_bag(rows.columns, self.first, rows.offsets, mode="sum", per_sample_weights=rows.weights)
        out: Tensor = self.rest(summed)
        return out


def dense_tower(n: int, hidden: int, width: int, dropout: float) -> nn.Sequential:
    """Return n → hidden → width over dense rows."""
    return nn.Sequential(nn.Linear(n, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, width))


def log_odds(counts: Tensor, users: int) -> Tensor:
    """Return the log-odds of each item being rated, from how many users did: the score where a user is unknown."""
    # Half a rating more: an item that nobody rated has finite log-odds.
    share = (counts + 0.5) / (users + 1)
    return torch.log(share / (1 - share))
