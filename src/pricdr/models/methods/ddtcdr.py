"""DDTCDR: a network per domain, and one orthogonal map that lends each the other's users."""

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, linear, relu, softplus

from pricdr.data.pairs import DomainPair
from pricdr.data.splits import HeldOut
from pricdr.errors import ParameterError, require_count, require_share
from pricdr.models.base import PlaintextMethod, SearchSpace, Trained
from pricdr.models.fitted import Chosen
from pricdr.models.methods.networks import DomainExamples, SparseTower, TrainingRun, train_run
from pricdr.models.methods.rivals import PairedRun
from pricdr.training.loop import ScorePairs, TrainingOptions, seeded
from pricdr.training.rows import Bags
from pricdr.training.run_log import RunLog


@dataclass(frozen=True, kw_only=True)
class DDTCDRConfig:
    """What the network is and what it minimises."""

    width: int = 32
    """Numbers in a user's or an item's vector."""
    hidden: int = 64
    """The first layer of the encoders and of the networks."""
    share: float = 0.03
    """How much the other domain's network has to say."""
    hide: float = 0.2
    """Share of examples whose user is known by the other domain's vector alone, as a cold user is."""
    dropout: float = 0.1
    entry_dropout: float = 0.5
    """Share of the ratings in rows and columns left out in each batch."""
    negatives: int = 4

    def __post_init__(self) -> None:
        require_count(width=self.width, hidden=self.hidden, negatives=self.negatives)
        if self.hidden < 2:
            raise ParameterError(f"hidden must be 2 or more, got {self.hidden!r}")
        require_share(share=self.share, hide=self.hide, dropout=self.dropout, entry_dropout=self.entry_dropout)


@dataclass(frozen=True, kw_only=True)
class DDTCDR(PlaintextMethod):
    """NOT PRIVATE. Li and Tuzhilin (WSDM 2020), deep dual transfer, which predicts ratings, made to rank.

    score(u, i) = (1 − α) B(u, i) + α A(Xᵀ u, i) + the log-odds of the item alone, and cross-entropy of ratings and
    drawn negatives for either network. Vectors come from encoders of rows and columns, trained with the rest and not
    beforehand as auto-encoders. There is one X, orthogonal by construction (the exponential of a skew matrix), and the
    gradient goes through it; the public code cuts that off, keeps two unrelated bridges and leaves dropout on in
    evaluation. A user without target ratings is X times its source vector; some users are treated so in training.
    """

    name: ClassVar[str] = "ddtcdr"
    summary: ClassVar[str] = "two networks and an orthogonal map between their users"
    config: DDTCDRConfig = field(default_factory=DDTCDRConfig)
    options: TrainingOptions = field(default_factory=lambda: TrainingOptions(batch=64, learning_rate=3e-3))
    space: ClassVar[SearchSpace] = {
        "width": (16, 32, 64),
        "hidden": (64, 128, 256),
        "share": (0.03, 0.1, 0.3),
        "dropout": (0.1, 0.3, 0.5),
        "negatives": (1, 4, 8),
        "learning_rate": (1e-3, 3e-3),
        "weight_decay": (1e-4, 0.1, 1.0),
    }

    def training_run(self, pair: DomainPair) -> TrainingRun:
        """Return the network for both domains, not trained yet."""
        return _Run(pair, self.config, self.options)

    def _train_plaintext(self, pair: DomainPair, *, validation: HeldOut | None, chosen: Chosen, log: RunLog) -> Trained:
        return train_run(self.training_run(pair), self.options, validation=validation, chosen=chosen, log=log)


class _Side(nn.Module):
    """One domain: encoders of users' rows and items' columns, and a network over a pair of vectors."""

    def __init__(self, shape: tuple[int, int], config: DDTCDRConfig) -> None:
        super().__init__()
        n_users, n_items = shape
        hidden, width = config.hidden, config.width
        self.users = SparseTower(n_items, hidden, width, config.dropout)
        self.items = SparseTower(n_users, hidden, width, config.dropout)
        self.first = nn.Linear(2 * width, hidden)
        self.second = nn.Linear(hidden, hidden // 2)
        self.last = nn.Linear(hidden // 2, 1)
        self.chance = config.dropout

    def user_parts(self, users: Tensor) -> Tensor:
        """Return what users add to the first layer."""
        return linear(users, self.first.weight[:, : users.shape[1]], self.first.bias)

    def item_parts(self, items: Tensor) -> Tensor:
        """Return what items add to the first layer."""
        return linear(items, self.first.weight[:, items.shape[1] :])

    def logits(self, parts: Tensor) -> Tensor:
        """Return the scores of sums of user and item parts."""
        hidden = dropout(relu(parts), self.chance, self.training)
        hidden = dropout(relu(self.second(hidden)), self.chance, self.training)
        logits: Tensor = self.last(hidden).squeeze(-1)
        return logits


class _Network(nn.Module):
    def __init__(self, pair: DomainPair, config: DDTCDRConfig) -> None:
        super().__init__()
        self.source = _Side(pair.source.matrix.shape, config)
        self.target = _Side(pair.target.matrix.shape, config)
        self.skew = nn.Parameter(0.01 * torch.randn(config.width, config.width))

    def rotation(self) -> Tensor:
        """Return X: a source user's vector times X is a target user's, and Xᵀ leads back."""
        # The exponential of a skew matrix is orthogonal, whatever the gradient does to the skew matrix.
        rotation: Tensor = torch.linalg.matrix_exp(self.skew - self.skew.T)
        return rotation


class _Run(PairedRun):
    method = "ddtcdr"

    def __init__(self, pair: DomainPair, config: DDTCDRConfig, options: TrainingOptions) -> None:
        super().__init__(pair, config, config.negatives, options.torch_device())
        self.config = config
        with seeded(options.seed, self.device):
            self.network = _Network(pair, config).to(self.device)

    def step(self, users: Tensor) -> Tensor:
        """Return the loss of a batch of users: every rating of theirs in both domains, with drawn negatives."""
        network = self.network
        rotation = network.rotation()
        rated_a, rated_b = self.source.rows.batch(users), self.target.rows.batch(users)
        vectors_a = network.source.users(rated_a.keep(1 - self.config.entry_dropout))
        vectors_b = network.target.users(rated_b.keep(1 - self.config.entry_dropout))
        in_a, in_b = self.source.rows.counts[users] > 0, self.target.rows.counts[users] > 0
        mixed_a = self._hidden(vectors_a, vectors_b @ rotation.T, in_b)
        mixed_b = self._hidden(vectors_b, vectors_a @ rotation, in_a)
        loss_a = self._loss(network.source, network.target, self.source, users, rated_a, (mixed_a, mixed_a @ rotation))
        loss_b = self._loss(
            network.target, network.source, self.target, users, rated_b, (mixed_b, mixed_b @ rotation.T)
        )
        return loss_a + loss_b

    def _hidden(self, vectors: Tensor, lent: Tensor, present: Tensor) -> Tensor:
        """Return the vectors, some replaced by the other domain's: cold users will have nothing else."""
        hidden = (torch.rand(len(vectors), device=self.device) < self.config.hide) & present
        return torch.where(hidden[:, None], lent, vectors)

    def _loss(
        self,
        own: _Side,
        other: _Side,
        domain: DomainExamples,
        users: Tensor,
        rated: Bags,
        vectors: tuple[Tensor, Tensor],
    ) -> Tensor:
        """Return the cross-entropy of both networks in one domain, per rating; each has its own user ``vectors``."""
        share, drawn = self.config.share, domain.negatives.draw(users[rated.row_of], self.config.negatives)
        items = torch.cat([rated.columns[:, None], drawn], dim=1)
        item_vectors = own.items(domain.columns.keep(1 - self.config.entry_dropout))
        total = torch.zeros((), device=self.device)
        for side, weight, user in zip((own, other), (1 - share, share), vectors, strict=True):
            parts = side.user_parts(user)[rated.row_of, None] + side.item_parts(item_vectors)[items]
            logits = side.logits(parts) + domain.log_odds[items]
            total = total + weight * (softplus(-logits[:, 0]) + softplus(logits[:, 1:]).sum(1)).sum()
        return total / max(len(items), 1)

    def user_parts(self, users: Tensor) -> Tensor:
        """Return what users add to the first layers of both networks, the target's first."""
        network = self.network
        rotation = network.rotation()
        warm = self.target.rows.counts[users] > 0
        lent = network.source.users(self.source.rows.batch(users)) @ rotation
        vectors = torch.where(warm[:, None], network.target.users(self.target.rows.batch(users)), lent)
        return torch.cat([network.target.user_parts(vectors), network.source.user_parts(vectors @ rotation.T)], dim=1)

    def item_parts(self) -> Tensor:
        items = self.network.target.items(self.target.columns)
        return torch.cat([self.network.target.item_parts(items), self.network.source.item_parts(items)], dim=1)

    @torch.no_grad()
    def scorer(self) -> ScorePairs:
        own, other, share = self.network.target, self.network.source, self.config.share
        item_parts, log_odds = self.item_parts(), self.target.log_odds

        def score(users: Tensor, items: Tensor) -> Tensor:
            here, there = (self.masked_user_parts(users)[:, None] + item_parts[items]).chunk(2, dim=2)
            return (1 - share) * own.logits(here) + share * other.logits(there) + log_odds[items]

        return score

    def layers(self) -> tuple[tuple[Tensor, Tensor], ...]:
        """Return both networks as one, block by block, with their shares in the last layer."""
        own, other, share = self.network.target, self.network.source, self.config.share
        second = (
            torch.block_diag(own.second.weight, other.second.weight),  # type: ignore[no-untyped-call]
            torch.cat([own.second.bias, other.second.bias]),
        )
        # A weighted sum of two outputs is one output over both hidden layers.
        weights = torch.cat([(1 - share) * own.last.weight, share * other.last.weight], dim=1)
        return second, (weights, (1 - share) * own.last.bias + share * other.last.bias)
