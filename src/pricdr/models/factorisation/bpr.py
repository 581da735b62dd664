"""BPR: matrix factorisation that learns which of two items a user would rather have."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from pricdr.data.ratings import Ratings
from pricdr.data.splits import HeldOut
from pricdr.errors import require_count, require_not_negative
from pricdr.models._examples import RatingExamples
from pricdr.models.base import SearchSpace, TargetMethod, Trained
from pricdr.models.chosen import Chosen
from pricdr.models.fitted import FittedModel
from pricdr.models.fitting import ScorePairs, TrainingRun, train_run
from pricdr.training.loop import seeded
from pricdr.training.losses import pair_scores
from pricdr.training.options import TrainingOptions
from pricdr.training.run_log import RunLog


@dataclass(frozen=True, kw_only=True)
class BPRConfig:
    """What is factorised and what it is compared with."""

    width: int = 64
    negatives: int = 4
    """Unrated items drawn for each rating, in every batch anew."""
    regularisation: float = 0.05
    """Half of it weighs the squared length of everything a triple touches."""

    def __post_init__(self) -> None:
        require_count(width=self.width, negatives=self.negatives)
        require_not_negative(regularisation=self.regularisation)


@dataclass(frozen=True, kw_only=True)
class BPR(TargetMethod):
    """−ln σ(s_ui − s_uj) over rated i and unrated j, with s = ⟨P_u, Q_i⟩ + b_i (Rendle et al., UAI 2009).

    Adam on batches of ratings in place of single SGD steps. The epoch is picked on validation, not on test, and
    negatives are redrawn until unrated, not skipped. A user without ratings has the mean of the others' vectors.
    """

    name: ClassVar[str] = "bpr"
    summary: ClassVar[str] = "matrix factorisation with a pairwise loss"
    config: BPRConfig = field(default_factory=BPRConfig)
    options: TrainingOptions = field(
        default_factory=lambda: TrainingOptions(batch=8192, learning_rate=1e-2, weight_decay=0.0)
    )
    space: ClassVar[SearchSpace] = {
        "width": (16, 32, 64, 128),
        "negatives": (1, 4, 16),
        "regularisation": (0.0, 0.01, 0.03, 0.05, 0.1),
        "learning_rate": (5e-4, 1e-3, 2e-3, 5e-3),
        "batch": (512, 1024, 4096),
    }

    def training_run(self, target: Ratings) -> TrainingRun:
        """Return the network for these ratings, not trained yet."""
        return _Run(target, self.config, self.options)

    def _train(self, target: Ratings, *, validation: HeldOut | None, chosen: Chosen, log: RunLog) -> Trained:
        return train_run(self.training_run(target), self.options, validation=validation, chosen=chosen, log=log)


class _Network(nn.Module):
    def __init__(self, n_users: int, n_items: int, width: int) -> None:
        super().__init__()
        # Small vectors: scores begin near 0, where the loss is steepest.
        self.users = nn.Parameter(0.1 / width**0.5 * torch.randn(n_users, width))
        self.items = nn.Parameter(0.1 / width**0.5 * torch.randn(n_items, width))
        self.item_bias = nn.Parameter(torch.zeros(n_items, 1))

    def loss(self, users: Tensor, rated: Tensor, unrated: Tensor, regularisation: float) -> Tensor:
        """Return the mean loss of triples: users (b,), rated items (b,) and unrated ones (b, c)."""
        items = torch.cat([rated[:, None], unrated], dim=1)
        scores = pair_scores(self.users, self.items, self.item_bias[:, 0], users, items)
        margin = scores[:, :1] - scores[:, 1:]
        # Of whole tables, weighted by how often a triple holds each row: a vector in many triples is squared once.
        item_shares = _shares(rated, len(self.items)) + _shares(unrated.flatten(), len(self.items))
        user_lengths = torch.linalg.vecdot(self.users, self.users)
        item_lengths = torch.linalg.vecdot(self.items, self.items) + self.item_bias[:, 0] ** 2
        lengths = _shares(users, len(self.users)) @ user_lengths + item_shares @ item_lengths
        loss: Tensor = softplus(-margin).mean() + regularisation / 2 * lengths
        return loss


def _shares(numbers: Tensor, count: int) -> Tensor:
    """Return which share of ``numbers`` each of 0 … count − 1 makes up."""
    return torch.bincount(numbers, minlength=count) / len(numbers)


class _Run:
    def __init__(self, target: Ratings, config: BPRConfig, options: TrainingOptions) -> None:
        self.target, self.config, self.device = target, config, options.torch_device()
        self.ratings = RatingExamples(target, self.device)
        with seeded(options.seed, self.device):
            self.network = _Network(len(target.users), len(target.items), config.width).to(self.device)

    @property
    def examples(self) -> Tensor:
        return self.ratings.numbers

    @property
    def identity(self) -> str:
        return f"bpr {self.config!r} {self.target.fingerprint()}"

    def step(self, batch: Tensor) -> Tensor:
        """Return the loss of a batch of ratings, given by number."""
        ratings = self.ratings
        users = ratings.user_of[batch]
        unrated = ratings.negatives.draw(users, self.config.negatives)
        return self.network.loss(users, ratings.item_of[batch], unrated, self.config.regularisation)

    @torch.no_grad()
    def scorer(self) -> ScorePairs:
        vectors, items, bias = (
            self.ratings.with_mean_for_cold(self.network.users),
            self.network.items,
            self.network.item_bias[:, 0],
        )
        return lambda users, chosen: pair_scores(vectors, items, bias, users, chosen)

    @torch.no_grad()
    def fitted_model(self) -> FittedModel:
        return FittedModel(
            method="bpr",
            users=self.target.users,
            items=self.target.items,
            user_vectors=self.ratings.with_mean_for_cold(self.network.users).cpu().numpy(),
            item_vectors=self.network.items.cpu().numpy(),
            item_bias=self.network.item_bias[:, 0].cpu().numpy(),
            seen=self.target.matrix,
            in_release=np.zeros(len(self.target.users), dtype=bool),
        )
