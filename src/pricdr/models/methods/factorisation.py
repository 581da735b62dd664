"""Factorisations of the target's ratings alone: BPR, which learns which of two items a user prefers, and NeuMF."""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, embedding, relu, softplus

from pricdr.data.ratings import Ratings
from pricdr.data.splits import HeldOut
from pricdr.errors import ParameterError, require_count, require_not_negative, require_share
from pricdr.models.base import SearchSpace, TargetMethod, Trained
from pricdr.models.fitted import Chosen, FittedModel
from pricdr.models.interaction import Interaction
from pricdr.models.methods.networks import TrainingRun, train_run
from pricdr.training.loop import ScorePairs, TrainingOptions, seeded
from pricdr.training.losses import pair_scores
from pricdr.training.rows import Negatives
from pricdr.training.run_log import RunLog


class RatingExamples:
    """One domain's ratings, one by one, on the device."""

    def __init__(self, ratings: Ratings, device: torch.device) -> None:
        counts = np.diff(ratings.matrix.indptr)
        self.user_of = torch.as_tensor(np.repeat(np.arange(len(counts)), counts), device=device)
        self.item_of = torch.as_tensor(ratings.matrix.indices.astype(np.int64), device=device)
        self.numbers = torch.arange(len(ratings), device=device)
        self.negatives = Negatives(ratings.matrix, device)
        self._warm = torch.as_tensor(counts > 0, device=device)

    def with_mean_for_cold(self, vectors: Tensor) -> Tensor:
        """Return the vectors of all users; those of users without ratings were never trained and become the mean."""
        return torch.where(self._warm[:, None], vectors, vectors[self._warm].mean(dim=0))


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
        return _BPRRun(target, self.config, self.options)

    def _train(self, target: Ratings, *, validation: HeldOut | None, chosen: Chosen, log: RunLog) -> Trained:
        return train_run(self.training_run(target), self.options, validation=validation, chosen=chosen, log=log)


class _BPRNetwork(nn.Module):
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


class _BPRRun:
    def __init__(self, target: Ratings, config: BPRConfig, options: TrainingOptions) -> None:
        self.target, self.config, self.device = target, config, options.torch_device()
        self.ratings = RatingExamples(target, self.device)
        with seeded(options.seed, self.device):
            self.network = _BPRNetwork(len(target.users), len(target.items), config.width).to(self.device)

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


@dataclass(frozen=True, kw_only=True)
class NeuMFConfig:
    """Sizes of the two branches, and what a rating is compared with."""

    product_width: int = 32
    """Of GMF's vectors."""
    width: int = 32
    """Of the MLP's vectors, a user's and an item's each; its layers are 2 · width, then half of that and so on."""
    layers: int = 3
    dropout: float = 0.5
    """After each layer of the MLP but the last."""
    negatives: int = 4
    """Unrated items drawn for each rating, in every batch anew."""
    regularisation: float = 0.06
    """Half of it weighs the squared length of the four vectors of a pair."""

    def __post_init__(self) -> None:
        require_count(product_width=self.product_width, width=self.width, layers=self.layers, negatives=self.negatives)
        require_share(dropout=self.dropout)
        require_not_negative(regularisation=self.regularisation)
        if 2 * self.width < 2 ** (self.layers - 1):
            raise ParameterError(
                f"layers must leave a width of 1 or more after halving {2 * self.width}: {self.layers}"
            )


@dataclass(frozen=True, kw_only=True)
class NeuMF(TargetMethod):
    """σ(h · [p_u ∘ q_i ; MLP([u; i])] + c), binary cross-entropy with sampled negatives (He et al., WWW 2017).

    Trained at once, without pre-training the branches. The epoch is picked on validation, where the released code
    takes the best one on test. The MLP's layers are twice as wide and have dropout, and vectors are regularised. A user
    without ratings has the mean of the others' vectors.
    """

    name: ClassVar[str] = "neumf"
    summary: ClassVar[str] = "matrix factorisation and a multi-layer perceptron, fused"
    config: NeuMFConfig = field(default_factory=NeuMFConfig)
    options: TrainingOptions = field(
        default_factory=lambda: TrainingOptions(batch=1024, learning_rate=3e-3, weight_decay=1e-2)
    )
    space: ClassVar[SearchSpace] = {
        "product_width": (8, 16, 32, 64),
        "width": (16, 32, 64),
        "dropout": (0.0, 0.2, 0.5),
        "negatives": (1, 4, 10),
        "regularisation": (0.0, 0.01, 0.03, 0.06, 0.1),
        "learning_rate": (1e-3, 3e-3, 5e-3),
        "weight_decay": (0.01, 0.3, 1.0),
    }

    def training_run(self, target: Ratings) -> TrainingRun:
        """Return the network for these ratings, not trained yet."""
        return _NeuMFRun(target, self.config, self.options)

    def _train(self, target: Ratings, *, validation: HeldOut | None, chosen: Chosen, log: RunLog) -> Trained:
        return train_run(self.training_run(target), self.options, validation=validation, chosen=chosen, log=log)


class _NeuMFNetwork(nn.Module):
    """The MLP's first layer is a user's part plus an item's part: what a pair shares is computed once for each."""

    def __init__(self, n_users: int, n_items: int, config: NeuMFConfig) -> None:
        super().__init__()
        product, width = config.product_width, config.width
        self.product_users = nn.Parameter(0.1 * torch.randn(n_users, product))
        self.product_items = nn.Parameter(0.1 * torch.randn(n_items, product))
        self.mlp_users = nn.Parameter(0.1 * torch.randn(n_users, width))
        self.mlp_items = nn.Parameter(0.1 * torch.randn(n_items, width))
        sizes = [2 * width >> depth for depth in range(config.layers)]
        self.from_user = nn.Linear(width, sizes[0])
        self.from_item = nn.Linear(width, sizes[0], bias=False)
        self.hidden = nn.ModuleList([nn.Linear(a, b) for a, b in pairwise(sizes)])
        self.dropout = nn.Dropout(config.dropout)
        self.product_output = nn.Parameter(torch.ones(product))
        self.mlp_output = nn.Linear(sizes[-1], 1)
        """Its bias is the c of the whole."""

    def forward(self, products: Tensor, sums: Tensor) -> Tensor:
        """Return the logits, from p_u ∘ q_i and from the sum of the two parts."""
        hidden = relu(sums)
        for layer in self.hidden:
            hidden = relu(layer(self.dropout(hidden)))
        logits: Tensor = products @ self.product_output + self.mlp_output(hidden)[..., 0]
        return logits


class _NeuMFRun:
    def __init__(self, target: Ratings, config: NeuMFConfig, options: TrainingOptions) -> None:
        self.target, self.config, self.device = target, config, options.torch_device()
        self.ratings = RatingExamples(target, self.device)
        with seeded(options.seed, self.device):
            self.network = _NeuMFNetwork(len(target.users), len(target.items), config).to(self.device)

    @property
    def examples(self) -> Tensor:
        return self.ratings.numbers

    @property
    def identity(self) -> str:
        return f"neumf {self.config!r} {self.target.fingerprint()}"

    def step(self, batch: Tensor) -> Tensor:
        """Return the loss of a batch of ratings, given by number: 1 for the rated item, 0 for the drawn ones."""
        network, ratings = self.network, self.ratings
        users = ratings.user_of[batch]
        items = torch.cat(
            [ratings.item_of[batch][:, None], ratings.negatives.draw(users, self.config.negatives)], dim=1
        )
        own, other = (embedding(users, table)[:, None] for table in (network.product_users, network.mlp_users))
        product, part = (embedding(items, table) for table in (network.product_items, network.mlp_items))
        logits = network(own * product, network.from_user(other) + network.from_item(part))
        labels = torch.zeros_like(logits)
        labels[:, 0] = 1  # the rated item comes first, then those drawn
        lengths = sum((vectors**2).sum(2).mean() for vectors in (own, other, product, part))
        return binary_cross_entropy_with_logits(logits, labels) + self.config.regularisation / 2 * lengths

    @torch.no_grad()
    def _users(self) -> tuple[Tensor, Tensor]:
        """Return the vectors of all users in both branches."""
        return self.ratings.with_mean_for_cold(self.network.product_users), self.ratings.with_mean_for_cold(
            self.network.mlp_users
        )

    @torch.no_grad()
    def scorer(self) -> ScorePairs:
        network = self.network
        product_users, mlp_users = self._users()
        user_parts, item_parts = network.from_user(mlp_users), network.from_item(network.mlp_items)

        def score(users: Tensor, items: Tensor) -> Tensor:
            products = product_users[users][:, None] * network.product_items[items]
            logits: Tensor = network(products, user_parts[users][:, None] + item_parts[items])
            return logits

        return score

    @torch.no_grad()
    def fitted_model(self) -> FittedModel:
        """Return GMF as vectors, its output weights in the users'; the MLP, and c, as an interaction."""
        network = self.network
        product_users, mlp_users = self._users()
        layers = (*network.hidden, network.mlp_output)
        return FittedModel(
            method="neumf",
            users=self.target.users,
            items=self.target.items,
            user_vectors=(product_users * network.product_output).cpu().numpy(),
            item_vectors=network.product_items.cpu().numpy(),
            item_bias=np.zeros(len(self.target.items), dtype=np.float32),
            seen=self.target.matrix,
            in_release=np.zeros(len(self.target.users), dtype=bool),
            interaction=Interaction(
                network.from_user(mlp_users).cpu().numpy(),
                network.from_item(network.mlp_items).cpu().numpy(),
                tuple((layer.weight.cpu().numpy(), layer.bias.cpu().numpy()) for layer in layers),
            ),
        )
