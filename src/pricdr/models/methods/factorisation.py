"""Factorisations of the target's ratings alone: BPR, which learns which of two items a user prefers, and NeuMF."""

from abc import abstractmethod
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, embedding, relu, softplus

from pricdr.errors import ParameterError
from pricdr.models.base import Config, SearchSpace, TargetMethod
from pricdr.models.fitted import FittedModel
from pricdr.models.interaction import Interaction
from pricdr.models.methods.networks import NetworkMethod, NetworkRun, numbers
from pricdr.training.loop import ScorePairs, TrainingOptions
from pricdr.training.losses import pair_scores
from pricdr.training.rows import Negatives, SparseRows


class _RatingRun(NetworkRun):
    """A training on every rating, beside unrated items drawn for it."""

    def prepare(self) -> None:
        rated = SparseRows(self.data.ratings, self.device).all()
        self.user_of, self.item_of = rated.row_of, rated.columns
        self.examples = torch.arange(len(self.item_of), device=self.device)
        self.negatives = Negatives(self.data.ratings, self.device)
        self._warm = torch.as_tensor(self.data.warm, device=self.device)

    def step(self, batch: Tensor) -> Tensor:
        users = self.user_of[batch]
        drawn = self.negatives.draw(users, self.config.negatives)
        return self.loss(users, torch.cat([self.item_of[batch][:, None], drawn], dim=1))

    @abstractmethod
    def loss(self, users: Tensor, items: Tensor) -> Tensor:
        """Return the mean loss of users (b,), and for each a rated item followed by c unrated ones (b, 1 + c)."""

    def with_mean_for_cold(self, vectors: Tensor) -> Tensor:
        """Return the vectors of all users; those of users without ratings were never trained and become the mean."""
        return torch.where(self._warm[:, None], vectors, vectors[self._warm].mean(dim=0))


@dataclass(frozen=True, kw_only=True)
class BPRConfig(Config):
    """What is factorised and what it is compared with."""

    width: int = 64
    negatives: int = 4
    """Unrated items drawn for each rating, in every batch anew."""
    regularisation: float = 0.05
    """Half of it weighs the squared length of everything a triple touches."""


def _shares(numbers: Tensor, count: int) -> Tensor:
    """Return which share of ``numbers`` each of 0 … count − 1 makes up."""
    return torch.bincount(numbers, minlength=count) / len(numbers)


class _BPRRun(_RatingRun):
    config: BPRConfig

    def build(self) -> None:
        (n_users, n_items), width = self.data.ratings.shape, self.config.width
        # Small vectors: scores begin near 0, where the loss is steepest.
        self.users = nn.Parameter(0.1 / width**0.5 * torch.randn(n_users, width))
        self.items = nn.Parameter(0.1 / width**0.5 * torch.randn(n_items, width))
        self.item_bias = nn.Parameter(torch.zeros(n_items, 1))

    def loss(self, users: Tensor, items: Tensor) -> Tensor:
        scores = pair_scores(self.users, self.items, self.item_bias[:, 0], users, items)
        margin = scores[:, :1] - scores[:, 1:]
        # Of whole tables, weighted by how often a triple holds each row: a vector in many triples is squared once.
        item_shares = _shares(items[:, 0], len(self.items)) + _shares(items[:, 1:].flatten(), len(self.items))
        user_lengths = torch.linalg.vecdot(self.users, self.users)
        item_lengths = torch.linalg.vecdot(self.items, self.items) + self.item_bias[:, 0] ** 2
        lengths = _shares(users, len(self.users)) @ user_lengths + item_shares @ item_lengths
        loss: Tensor = softplus(-margin).mean() + self.config.regularisation / 2 * lengths
        return loss

    @torch.no_grad()
    def _arrays(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.with_mean_for_cold(self.users), self.items, self.item_bias[:, 0]

    def scorer(self) -> ScorePairs:
        return partial(pair_scores, *self._arrays())

    def fitted_model(self) -> FittedModel:
        return self.data.model("bpr", *map(numbers, self._arrays()))


@dataclass(frozen=True, kw_only=True)
class BPR(NetworkMethod, TargetMethod):
    """−ln σ(s_ui − s_uj) over rated i and unrated j, with s = ⟨P_u, Q_i⟩ + b_i (Rendle et al., UAI 2009).

    Adam on batches in place of single SGD steps; the epoch is picked on validation, not on test; negatives are redrawn
    until unrated, not skipped. A user without ratings has the mean of the others' vectors.
    """

    name: ClassVar[str] = "bpr"
    summary: ClassVar[str] = "matrix factorisation with a pairwise loss"
    config: BPRConfig = BPRConfig()
    options: TrainingOptions = TrainingOptions(batch=8192, learning_rate=1e-2, weight_decay=0.0)
    space: ClassVar[SearchSpace] = {
        "width": (16, 32, 64, 128),
        "negatives": (1, 4, 16),
        "regularisation": (0.0, 0.01, 0.03, 0.05, 0.1),
        "learning_rate": (5e-4, 1e-3, 2e-3, 5e-3),
        "batch": (512, 1024, 4096),
    }
    _run = _BPRRun


@dataclass(frozen=True, kw_only=True)
class NeuMFConfig(Config):
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
        super().__post_init__()
        if 2 * self.width < 2 ** (self.layers - 1):
            raise ParameterError(
                f"layers must leave a width of 1 or more after halving {2 * self.width}: {self.layers}"
            )


class _NeuMFRun(_RatingRun):
    """The MLP's first layer is a user's part plus an item's part: what a pair shares is computed once for each."""

    config: NeuMFConfig

    def build(self) -> None:
        (n_users, n_items), config = self.data.ratings.shape, self.config
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
        self.mlp_output = nn.Linear(sizes[-1], 1)  # its bias is the c of the whole

    def logits(self, products: Tensor, sums: Tensor) -> Tensor:
        """Return the scores, from p_u ∘ q_i and from the sum of the two parts."""
        hidden = relu(sums)
        for layer in self.hidden:
            hidden = relu(layer(self.dropout(hidden)))
        logits: Tensor = products @ self.product_output + self.mlp_output(hidden)[..., 0]
        return logits

    def loss(self, users: Tensor, items: Tensor) -> Tensor:
        own, other = (embedding(users, table)[:, None] for table in (self.product_users, self.mlp_users))
        product, part = (embedding(items, table) for table in (self.product_items, self.mlp_items))
        logits = self.logits(own * product, self.from_user(other) + self.from_item(part))
        labels = torch.zeros_like(logits)
        labels[:, 0] = 1  # the rated item comes first, then those drawn
        lengths = sum((vectors**2).sum(2).mean() for vectors in (own, other, product, part))
        return binary_cross_entropy_with_logits(logits, labels) + self.config.regularisation / 2 * lengths

    @torch.no_grad()
    def _arrays(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return GMF's vectors of all users, and what users and items add to the MLP's first layer."""
        of_product, of_mlp = map(self.with_mean_for_cold, (self.product_users, self.mlp_users))
        return of_product, self.from_user(of_mlp), self.from_item(self.mlp_items)

    def scorer(self) -> ScorePairs:
        product_users, user_parts, item_parts = self._arrays()
        return lambda users, items: self.logits(
            product_users[users][:, None] * self.product_items[items], user_parts[users][:, None] + item_parts[items]
        )

    def fitted_model(self) -> FittedModel:
        """Return GMF as vectors, its output weights in the users'; the MLP, and c, as an interaction."""
        product_users, user_parts, item_parts = self._arrays()
        layers = tuple((numbers(layer.weight), numbers(layer.bias)) for layer in (*self.hidden, self.mlp_output))
        users, items = numbers(product_users * self.product_output), numbers(self.product_items)
        mlp = Interaction(numbers(user_parts), numbers(item_parts), layers)
        bias = np.zeros(len(items), dtype=np.float32)
        return self.data.model("neumf", users, items, bias, interaction=mlp)


@dataclass(frozen=True, kw_only=True)
class NeuMF(NetworkMethod, TargetMethod):
    """σ(h · [p_u ∘ q_i ; MLP([u; i])] + c), binary cross-entropy with sampled negatives (He et al., WWW 2017).

    Trained at once, without pre-training, and the epoch is picked on validation, not on test. The MLP is twice as wide
    and has dropout; vectors are regularised. A user without ratings has the mean of the others' vectors.
    """

    name: ClassVar[str] = "neumf"
    summary: ClassVar[str] = "matrix factorisation and a multi-layer perceptron, fused"
    config: NeuMFConfig = NeuMFConfig()
    options: TrainingOptions = TrainingOptions(batch=1024, learning_rate=3e-3, weight_decay=1e-2)
    space: ClassVar[SearchSpace] = {
        "product_width": (8, 16, 32, 64),
        "width": (16, 32, 64),
        "dropout": (0.0, 0.2, 0.5),
        "negatives": (1, 4, 10),
        "regularisation": (0.0, 0.01, 0.03, 0.06, 0.1),
        "learning_rate": (1e-3, 3e-3, 5e-3),
        "weight_decay": (0.01, 0.3, 1.0),
    }
    _run = _NeuMFRun
