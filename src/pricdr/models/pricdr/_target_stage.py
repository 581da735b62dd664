"""The target stage: learns from the target's own ratings alone."""

from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pricdr.data.ratings import Ids, Ratings
from pricdr.data.splits import HeldOut
from pricdr.errors import require_count, require_share
from pricdr.models.fitted import FittedModel
from pricdr.models.fitting import ScorePairs, require_trainable, train_network
from pricdr.models.pricdr._networks import Sizes, TargetNetwork
from pricdr.training.loop import seeded
from pricdr.training.losses import mean_cross_entropy, pair_scores
from pricdr.training.options import TrainingOptions
from pricdr.training.rows import SparseRows
from pricdr.training.run_log import RunLog
from pricdr.training.sampling import ItemSample, sample_items

_AT_ONCE = 4096
"""Users or items per block, where all of them go through a tower."""


@dataclass(frozen=True, kw_only=True)
class TargetStageConfig:
    """Sizes and dropouts of the target's network."""

    hidden: int = 500
    width: int = 200
    dropout: float = 0.5
    entry_dropout: float = 0.7
    """Share of a row's ratings dropped in each batch."""
    other_items: int = 1024
    """Items that a batch is trained on besides those its users rated; they stand for all the rest."""

    def __post_init__(self) -> None:
        require_count(hidden=self.hidden, width=self.width, other_items=self.other_items)
        require_share(dropout=self.dropout, entry_dropout=self.entry_dropout)


def target_options() -> TrainingOptions:
    """Return the default training options of the target's network.

    Patience is at least 250 steps, which outlasts the plateau that training starts on. On large data, where an epoch
    has many steps, six epochs without a gain say as much as twenty did, in half the time.
    """
    return TrainingOptions(patience=6, patience_steps=250)


class TargetPass(NamedTuple):
    """What the target's network computes for a batch of users in training."""

    histories: Tensor
    """Vectors of the users, each from a random part of the user's history."""
    sample: ItemSample
    items: Tensor
    """Vectors of the sampled items, each from a random part of the item's column."""
    loss: Tensor


class TargetStage:
    """Fits user vectors to item vectors with binary cross-entropy; unrated items are labelled 0."""

    def __init__(
        self, kind: type[TargetNetwork], target: Ratings, config: TargetStageConfig, options: TrainingOptions
    ) -> None:
        self.target, self.config, self.options = target, config, options
        self.device = options.torch_device()
        n_users, n_items = target.matrix.shape
        # Checked before the network is allocated; its other layers are small compared with these two.
        require_trainable(config.hidden * (n_items + max(n_users, n_items)))
        self.rows = SparseRows(target.matrix, self.device)
        self.columns = SparseRows(target.matrix.T.tocsr(), self.device)
        sizes = Sizes(n_users, n_items, config.hidden, config.width, config.dropout)
        with seeded(options.seed, self.device):
            self.network = kind(sizes, self.rows.popularity()).to(self.device)

    @property
    def examples(self) -> Tensor:
        """The users with a history."""
        return torch.nonzero(self.rows.counts > 0).squeeze(1)

    @property
    def identity(self) -> str:
        """The network, its configuration and the ratings."""
        # Without the source's settings: trainings that differ only in those share this network.
        config = {part.name: getattr(self.config, part.name) for part in fields(TargetStageConfig)}
        return f"{type(self.network).__name__} {config} {self.target.fingerprint()}"

    def train(self, validation: HeldOut | None, epochs: int | None, log: RunLog) -> int:
        """Train the network and return the epoch it ends with; see :func:`train_network`."""
        return train_network(self, self.options, validation=validation, epochs=epochs, log=log)

    def step(self, batch: Tensor) -> Tensor:
        """Return the loss of a batch of users; its expectation is the loss over all items."""
        return self.training_pass(batch).loss

    def training_pass(self, batch: Tensor) -> TargetPass:
        """Return the loss of a batch of users, and what it was computed from."""
        network, kept = self.network, 1 - self.config.entry_dropout
        rated = self.rows.batch(batch)
        # Ratings are left out of the input, not of the labels: the network learns to predict what it is not shown.
        vectors = network.user_tower(rated.keep(kept))
        sample = sample_items(rated, self.rows.shape[1], self.config.other_items)
        items = network.items(sample.items, self.columns.batch(sample.items).keep(kept))
        logits = network.users(vectors) @ items.T + network.item_bias[sample.items]
        loss = mean_cross_entropy(logits, sample.labels, sample.weights)
        return TargetPass(vectors, sample, items, loss)

    def scorer(self) -> ScorePairs:
        """Return the scores that validation uses."""
        users, items, bias = self.user_vectors(), self.item_vectors(), self.network.item_bias
        return lambda chosen, candidates: pair_scores(users, items, bias, chosen, candidates)

    @torch.no_grad()
    def item_vectors(self) -> Tensor:
        """Return the vectors of all items."""
        everything = torch.arange(self.rows.shape[1], device=self.device)
        # In blocks: the hidden layer of all items at once would be several times as large as their vectors.
        blocks = [self.network.items(items, self.columns.batch(items)) for items in torch.split(everything, _AT_ONCE)]
        return torch.cat(blocks)

    @torch.no_grad()
    def history_vectors(self) -> Tensor:
        """Return the output of the user tower for each user's history; zeros where there is no history."""
        everyone = torch.arange(self.rows.shape[0], device=self.device)
        blocks = [self.network.user_tower(self.rows.batch(users)) for users in torch.split(everyone, _AT_ONCE)]
        return torch.cat(blocks) * (self.rows.counts > 0)[:, None]

    @torch.no_grad()
    def user_vectors(self) -> Tensor:
        """Return the vectors to multiply by item vectors; zeros without a history, so that popularity decides."""
        return self.network.users(self.history_vectors()) * (self.rows.counts > 0)[:, None]

    def fitted_model(self, method: str = "dmf", users: Ids | None = None) -> FittedModel:
        """Return the model of the target alone; ``users`` may name more users, who get popular items."""
        everyone = self.target.users if users is None else users
        extra_users = len(everyone) - len(self.target.users)
        vectors = torch.nn.functional.pad(self.user_vectors(), (0, 0, 0, extra_users))
        return FittedModel(
            method=method,
            users=everyone,
            items=self.target.items,
            user_vectors=vectors.cpu().numpy(),
            item_vectors=self.item_vectors().detach().cpu().numpy(),
            item_bias=self.network.item_bias.detach().cpu().numpy(),
            seen=self.target.select(users=everyone).matrix if extra_users else self.target.matrix,
            in_release=np.zeros(len(everyone), dtype=bool),
        )
