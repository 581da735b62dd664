"""DMF: deep matrix factorisation; HeteroCDR's target stage on its own."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, pad

from pricdr.models.base import Config, SearchSpace, TargetMethod
from pricdr.models.fitted import FittedModel
from pricdr.models.fold_in import Encoders
from pricdr.models.methods.networks import NetworkMethod, SparseTower, in_blocks, log_odds, numbers, tower_of
from pricdr.models.training_data import TrainingData
from pricdr.training.loop import ScorePairs, TrainingOptions, require_trainable, seeded
from pricdr.training.losses import mean_cross_entropy, pair_scores
from pricdr.training.rows import Bags, ItemSample, SparseRows, sample_items
from pricdr.training.run_log import NO_LOG


@dataclass(frozen=True, kw_only=True)
class TargetStageConfig(Config):
    """Sizes and dropouts of the target's network."""

    hidden: int = 500
    width: int = 200
    dropout: float = 0.5
    entry_dropout: float = 0.7
    """Share of a row's ratings dropped in each batch."""
    other_items: int = 1024
    """Items that a batch is trained on besides those its users rated; they stand for all the rest."""


# 250 steps outlast the plateau that training starts on; on large data six epochs say as much as 20, in half the time.
TARGET_OPTIONS: Final = TrainingOptions(patience=6, patience_steps=250)


class TargetNetwork(nn.Module, ABC):
    """Maps a user's history to a vector, and that to scores of all items, whose vectors differ between subclasses."""

    def __init__(self, shape: tuple[int, int], config: TargetStageConfig, popularity: Tensor) -> None:
        super().__init__()
        self.user_tower = SparseTower(shape[1], config.hidden, config.width, config.dropout)
        self.item_bias = nn.Parameter(log_odds(popularity, shape[0]))

    @abstractmethod
    def items(self, numbers: Tensor, columns: Bags) -> Tensor:
        """Return the vectors of some items, given by their numbers and their columns of ratings."""

    @abstractmethod
    def users(self, vectors: Tensor) -> Tensor:
        """Return the user vectors in the form that item vectors are multiplied by."""


class TwoTowers(TargetNetwork):
    """DMF: a tower for items too, and cosines with a learnt scale: bare ones confine probabilities to 0.27 … 0.73."""

    def __init__(self, shape: tuple[int, int], config: TargetStageConfig, popularity: Tensor) -> None:
        super().__init__(shape, config, popularity)
        self.item_tower = SparseTower(shape[0], config.hidden, config.width, config.dropout)
        self.log_scale = nn.Parameter(torch.tensor(math.log(10.0)))  # a logarithm, so that the scale stays positive

    def items(self, numbers: Tensor, columns: Bags) -> Tensor:
        """Return unit vectors, computed from the columns of ratings."""
        return normalize(self.item_tower(columns), dim=1)

    def users(self, vectors: Tensor) -> Tensor:
        """Return the vectors, scaled to the learnt length."""
        return self.log_scale.exp() * normalize(vectors, dim=1)


class TargetPass(NamedTuple):
    """What the target's network computes for a batch of users in training."""

    histories: Tensor  # vectors of the users, each from a random part of the user's history
    sample: ItemSample
    items: Tensor  # vectors of the sampled items, each from a random part of the item's column
    loss: Tensor


class TargetStage:
    """Fits user vectors to item vectors with binary cross-entropy; unrated items are labelled 0."""

    def __init__(
        self, kind: type[TargetNetwork], data: TrainingData, config: TargetStageConfig, options: TrainingOptions
    ) -> None:
        self.data, self.config, self.options = data, config, options
        self.device = options.torch_device()
        # Checked before the network is allocated; its other layers are small compared with these two.
        matrix = data.target.matrix
        require_trainable(config.hidden * (matrix.shape[1] + max(matrix.shape)))
        self.rows = SparseRows(matrix, self.device)
        self.columns = SparseRows(matrix.T.tocsr(), self.device)
        with seeded(options.seed, self.device):
            self.network = kind(matrix.shape, config, self.rows.popularity()).to(self.device)
        self.warm = self.rows.counts > 0
        self.examples = torch.nonzero(self.warm).squeeze(1)
        # Without the source's settings: trainings that differ only in those share this network.
        own = {part.name: getattr(config, part.name) for part in fields(TargetStageConfig)}
        self.identity = f"{kind.__name__} {own} {data.target.fingerprint()}"

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
        return TargetPass(vectors, sample, items, mean_cross_entropy(logits, sample.labels, sample.weights))

    def scorer(self) -> ScorePairs:
        """Return the scores that validation uses."""
        users, items, bias = self.user_vectors(), self.item_vectors(), self.network.item_bias
        return lambda chosen, candidates: pair_scores(users, items, bias, chosen, candidates)

    @torch.no_grad()
    def item_vectors(self) -> Tensor:
        """Return the vectors of all items."""
        # In blocks: the hidden layer of all items at once would be several times as large as their vectors.
        return in_blocks(self.rows.shape[1], lambda at: self.network.items(at, self.columns.batch(at)), self.device)

    @torch.no_grad()
    def history_vectors(self) -> Tensor:
        """Return the output of the user tower for each user's history; zeros where there is no history."""
        vectors = in_blocks(self.rows.shape[0], lambda at: self.network.user_tower(self.rows.batch(at)), self.device)
        return vectors * self.warm[:, None]

    @torch.no_grad()
    def user_vectors(self) -> Tensor:
        """Return the vectors to multiply by item vectors; zeros without a history, so that popularity decides."""
        return self.network.users(self.history_vectors()) * self.warm[:, None]

    def padded(self, vectors: Tensor) -> Tensor:
        """Return vectors of the target's own users followed by zeros for a release's others."""
        return pad(vectors, (0, 0, 0, len(self.data.others)))

    def encoders(self, source: nn.Module | None = None) -> Encoders | None:
        """Return what user vectors are made of, with the source's encoder; None for a network that is no two towers."""
        rows: Any = self.data.source if source is not None else np.zeros((len(self.data.users), 0), dtype=np.float32)
        if not isinstance(self.network, TwoTowers) or isinstance(source, SparseTower):
            return None
        parts = tuple(part.columns for part in self.data.sources) if source is not None else ()
        scale, tower = float(self.network.log_scale.detach().exp()), None if source is None else tower_of(source)
        return Encoders(scale, tower_of(self.network.user_tower), tower, rows, parts)

    def fitted_model(self, method: str = "dmf") -> FittedModel:
        """Return the model of the target alone; a release's other users get popular items."""
        arrays = map(numbers, (self.padded(self.user_vectors()), self.item_vectors(), self.network.item_bias))
        return self.data.model(method, *arrays, in_release=np.zeros_like(self.data.covered), encoders=self.encoders())


@dataclass(frozen=True, kw_only=True)
class DMF(NetworkMethod, TargetMethod):
    """Towers for user rows and item columns, a cosine times a learnt scale, and cross-entropy over items.

    Xue et al. (IJCAI 2017) use the bare cosine, clamped (``PaperCDR`` keeps it), with sampled negatives; a learnt scale
    and an item bias train faster and rank better. A batch is trained on the items it rated and on a sample that stands
    for all others. Ratings count as 1, rows and columns are scaled by 1/√(entries), and the last layer has no ReLU.
    """

    name: ClassVar[str] = "dmf"
    summary: ClassVar[str] = "deep matrix factorisation: user and item towers"
    space: ClassVar[SearchSpace] = {
        "learning_rate": (2e-4, 5e-4, 1e-3),
        "weight_decay": (1e-4, 1e-2),
        "batch": (128, 256, 512),
        "hidden": (250, 500, 1000),
        "dropout": (0.3, 0.5, 0.7),
        "entry_dropout": (0.3, 0.5, 0.7),
    }
    config: TargetStageConfig = TargetStageConfig()
    options: TrainingOptions = TARGET_OPTIONS

    @property
    def starts_others(self) -> tuple[str, ...]:
        """Its only network, which other methods use as their target stage."""
        return (NO_LOG.network,)

    @staticmethod
    def _run(data: TrainingData, method: "DMF") -> TargetStage:
        return TargetStage(TwoTowers, data, method.config, method.options)
