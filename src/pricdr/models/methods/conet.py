"""CoNet: two towers, one per domain, that hand each other what they see through cross-connections."""

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, embedding_bag, linear, relu, softplus

from pricdr.data.pairs import DomainPair
from pricdr.data.splits import HeldOut
from pricdr.errors import ParameterError, require_count, require_not_negative, require_share
from pricdr.models.base import PlaintextMethod, SearchSpace, Trained
from pricdr.models.fitted import Chosen
from pricdr.models.methods.networks import DomainExamples, TrainingRun, train_run
from pricdr.models.methods.rivals import PairedRun
from pricdr.training.loop import ScorePairs, TrainingOptions, seeded
from pricdr.training.rows import Bags
from pricdr.training.run_log import RunLog


@dataclass(frozen=True, kw_only=True)
class CoNetConfig:
    """What the network is and what it minimises."""

    width: int = 64
    """Numbers in an embedding; the layers have width, a half and a quarter of it."""
    dropout: float = 0.1
    negatives: int = 4
    source: float = 1.0
    """Weight of the source's loss, per rating."""
    sparsity: float = 0.0
    """Weight of the L1 norm of the cross-connections: above 0 this is SCoNet."""

    def __post_init__(self) -> None:
        require_count(width=self.width, negatives=self.negatives)
        if self.width < 4:
            raise ParameterError(f"width must be 4 or more, got {self.width!r}")
        require_share(dropout=self.dropout)
        require_not_negative(source=self.source, sparsity=self.sparsity)


@dataclass(frozen=True, kw_only=True)
class CoNet(PlaintextMethod):
    """NOT PRIVATE. Hu, Zhang and Yang (CIKM 2018): a shared user embedding, and the same Hˡ in both directions.

    The public code trains a source and a target example of *different* users side by side and predicts without the
    cross terms. Here both sides of an example belong to one user: its own side is a rating or a drawn negative, the
    other side the mean of the embeddings of what the user rated there (zero where that is nothing), in training as in
    prediction. A batch is some users with all their ratings in both domains. Two softmax classes are one logit, to
    which the log-odds of the item alone are added; there is dropout, and no gradient is clipped.
    """

    name: ClassVar[str] = "conet"
    summary: ClassVar[str] = "two networks with cross connections"
    config: CoNetConfig = field(default_factory=CoNetConfig)
    options: TrainingOptions = field(
        default_factory=lambda: TrainingOptions(batch=64, learning_rate=3e-3, weight_decay=1.0)
    )
    space: ClassVar[SearchSpace] = {
        "width": (32, 64, 128),
        "dropout": (0.0, 0.1, 0.3),
        "negatives": (1, 4, 8),
        "source": (0.1, 0.3, 1.0),
        "learning_rate": (1e-3, 3e-3),
        "weight_decay": (0.1, 0.3, 1.0),
    }

    def training_run(self, pair: DomainPair) -> TrainingRun:
        """Return the network for both domains, not trained yet."""
        return _Run(pair, self.config, self.options)

    def _train_plaintext(self, pair: DomainPair, *, validation: HeldOut | None, chosen: Chosen, log: RunLog) -> Trained:
        return train_run(self.training_run(pair), self.options, validation=validation, chosen=chosen, log=log)


class _Side(nn.Module):
    """One domain: item embeddings, and the layers that are its own."""

    def __init__(self, n_items: int, width: int) -> None:
        super().__init__()
        self.items = nn.Parameter(0.01 * torch.randn(n_items, width))
        self.first = nn.Linear(2 * width, width)
        self.second = nn.Linear(width, width // 2)
        self.third = nn.Linear(width // 2, width // 4)
        self.last = nn.Linear(width // 4, 1)


class _Network(nn.Module):
    def __init__(self, pair: DomainPair, config: CoNetConfig) -> None:
        super().__init__()
        width = config.width
        self.chance = config.dropout
        self.users = nn.Parameter(0.01 * torch.randn(len(pair.users), width))
        self.source = _Side(len(pair.source.items), width)
        self.target = _Side(len(pair.target.items), width)
        self.cross_first = nn.Parameter(torch.empty(width, 2 * width))
        self.cross_second = nn.Parameter(torch.empty(width // 2, width))
        nn.init.xavier_uniform_(self.cross_first)
        nn.init.xavier_uniform_(self.cross_second)

    def user_parts(self, own: _Side, other: _Side, users: Tensor, elsewhere: Bags) -> Tensor:
        """Return what users add to the first layer of either side; they rated ``elsewhere`` in the other domain."""
        user = self.users[users]
        width = user.shape[1]
        mean = embedding_bag(elsewhere.columns, other.items, elsewhere.offsets, mode="mean")
        there = torch.cat([user, mean], dim=1)
        # The same H carries either side's input to the other, as in the paper.
        here = linear(user, own.first.weight[:, :width], own.first.bias) + linear(there, self.cross_first)
        return torch.cat([here, other.first(there) + linear(user, self.cross_first[:, :width])], dim=1)

    def item_parts(self, own: _Side, items: Tensor) -> Tensor:
        """Return what items add to the first layer of either side."""
        width = items.shape[-1]
        return linear(items, torch.cat([own.first.weight[:, width:], self.cross_first[:, width:]]))

    def layers(self, own: _Side) -> tuple[tuple[Tensor, Tensor], ...]:
        """Return the layers after the first; of the second one on only the own side's outputs are read."""
        # A cross-connection adds the other side's activations, so it is one wider layer over both sides' activations.
        second = torch.cat([own.second.weight, self.cross_second], dim=1)
        return (second, own.second.bias), (own.third.weight, own.third.bias), (own.last.weight, own.last.bias)

    def logits(self, own: _Side, parts: Tensor) -> Tensor:
        """Return the scores of sums of user and item parts."""
        hidden = dropout(relu(parts), self.chance, self.training)
        *inner, last = self.layers(own)
        for weights, bias in inner:
            hidden = dropout(relu(linear(hidden, weights, bias)), self.chance, self.training)
        return linear(hidden, *last).squeeze(-1)


class _Run(PairedRun):
    method = "conet"

    def __init__(self, pair: DomainPair, config: CoNetConfig, options: TrainingOptions) -> None:
        super().__init__(pair, config, config.negatives, options.torch_device())
        self.config = config
        with seeded(options.seed, self.device):
            self.network = _Network(pair, config).to(self.device)

    def step(self, users: Tensor) -> Tensor:
        """Return the loss of a batch of users: every rating of theirs in both domains, with drawn negatives."""
        network, config = self.network, self.config
        rated_a, rated_b = self.source.rows.batch(users), self.target.rows.batch(users)
        parts_a = network.user_parts(network.source, network.target, users, rated_b)
        parts_b = network.user_parts(network.target, network.source, users, rated_a)
        loss = self._loss(network.target, self.target, users, rated_b, parts_b)
        loss = loss + config.source * self._loss(network.source, self.source, users, rated_a, parts_a)
        if config.sparsity:
            loss = loss + config.sparsity * (network.cross_first.abs().sum() + network.cross_second.abs().sum())
        return loss

    def _loss(self, side: _Side, domain: DomainExamples, users: Tensor, rated: Bags, user_parts: Tensor) -> Tensor:
        """Return the cross-entropy in one domain, per rating."""
        drawn = domain.negatives.draw(users[rated.row_of], self.config.negatives)
        items = torch.cat([rated.columns[:, None], drawn], dim=1)
        parts = user_parts[rated.row_of, None] + self.network.item_parts(side, side.items[items])
        logits = self.network.logits(side, parts) + domain.log_odds[items]
        return (softplus(-logits[:, 0]) + softplus(logits[:, 1:]).sum(1)).sum() / max(len(items), 1)

    def user_parts(self, users: Tensor) -> Tensor:
        network = self.network
        return network.user_parts(network.target, network.source, users, self.source.rows.batch(users))

    def item_parts(self) -> Tensor:
        return self.network.item_parts(self.network.target, self.network.target.items)

    def layers(self) -> tuple[tuple[Tensor, Tensor], ...]:
        return self.network.layers(self.network.target)

    @torch.no_grad()
    def scorer(self) -> ScorePairs:
        network, log_odds, item_parts = self.network, self.target.log_odds, self.item_parts()

        def score(users: Tensor, items: Tensor) -> Tensor:
            return (
                network.logits(network.target, self.masked_user_parts(users)[:, None] + item_parts[items])
                + log_odds[items]
            )

        return score
