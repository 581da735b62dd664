"""DARec: one extractor for both domains, kept from telling which domain a user's embedding came from."""

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding_bag, relu

from pricdr.data.pairs import DomainPair
from pricdr.data.splits import HeldOut
from pricdr.errors import require_count, require_not_negative, require_share
from pricdr.models.base import PlaintextMethod, SearchSpace, Trained
from pricdr.models.fitted import Chosen
from pricdr.models.methods.networks import TrainingRun, log_odds, train_run
from pricdr.models.methods.rivals import Adversary, DecodedRun
from pricdr.training.loop import TrainingOptions, seeded
from pricdr.training.losses import cross_entropy_per_user
from pricdr.training.rows import Bags, SparseRows
from pricdr.training.run_log import RunLog


@dataclass(frozen=True, kw_only=True)
class DARecConfig:
    """What the network is and what it minimises."""

    hidden: int = 200
    """Numbers in a user's embedding of one domain, and in a decoder's hidden layer."""
    width: int = 64
    """Numbers the extractor leaves of an embedding."""
    dropout: float = 0.0
    entry_dropout: float = 0.5
    """Share of a row's ratings left out in each batch."""
    source: float = 0.1
    """Weight of the source's reconstruction."""
    transfer: float = 0.3
    """Weight of predicting the target row from the source row."""
    reversal: float = 1.0
    """How strongly the extractor works against the domain classifier."""

    def __post_init__(self) -> None:
        require_count(hidden=self.hidden, width=self.width)
        require_share(dropout=self.dropout, entry_dropout=self.entry_dropout)
        require_not_negative(source=self.source, transfer=self.transfer, reversal=self.reversal)


@dataclass(frozen=True, kw_only=True)
class DARec(PlaintextMethod):
    """NOT PRIVATE. Yuan, Yao and Benatallah (IJCAI 2019), U-DARec, which predicts ratings, made to rank.

    The squared error of observed ratings becomes cross-entropy over all items of a row. AutoRec's embeddings (with a
    ReLU) are trained with the rest, not beforehand, and the extractor is one layer. A row trains its own domain's
    decoder, and a source row the target's too, so that users without target ratings can be scored from their source
    embedding; the others are scored from their target embedding. The domain classifier ends in one logit where the
    public code puts a softmax over sigmoids, and dropout, inactive there, acts in training and in training only.
    Also new here: rows scaled by 1/√(entries), ratings dropped from them, decoders that start at the items' log-odds,
    and the target, not the source, at full weight. What is beaten is the classifier it plays against: on planted
    data, one trained afterwards on the finished features still tells the domains apart.
    """

    name: ClassVar[str] = "darec"
    summary: ClassVar[str] = "auto-encoders with a domain classifier to be fooled"
    config: DARecConfig = field(default_factory=DARecConfig)
    options: TrainingOptions = field(
        default_factory=lambda: TrainingOptions(patience=50, batch=128, learning_rate=1e-3)
    )
    space: ClassVar[SearchSpace] = {
        "width": (32, 64, 128, 200),
        "dropout": (0.0, 0.3, 0.5),
        "entry_dropout": (0.3, 0.5, 0.7),
        "source": (0.01, 0.1, 1.0),
        "transfer": (0.1, 0.3, 1.0),
        "reversal": (0.1, 1.0, 10.0),
        "learning_rate": (5e-4, 1e-3, 2e-3),
        "weight_decay": (1e-4, 0.1, 1.0),
    }

    def training_run(self, pair: DomainPair) -> TrainingRun:
        """Return the network for both domains, not trained yet."""
        return _Run(pair, self.config, self.options)

    def _train_plaintext(self, pair: DomainPair, *, validation: HeldOut | None, chosen: Chosen, log: RunLog) -> Trained:
        return train_run(self.training_run(pair), self.options, validation=validation, chosen=chosen, log=log)


class _Side(nn.Module):
    """One domain's embedding of rows, as AutoRec has it, and its decoder."""

    def __init__(self, rows: SparseRows, config: DARecConfig) -> None:
        super().__init__()
        n_users, n_items = rows.shape
        self.first = nn.Parameter(0.1 * torch.randn(n_items, config.hidden))
        self.first_bias = nn.Parameter(torch.zeros(config.hidden))
        self.hidden = nn.Sequential(nn.Linear(config.width, config.hidden), nn.ReLU(), nn.Dropout(config.dropout))
        self.last = nn.Linear(config.hidden, n_items)
        # Popularity is there from the start: what is learnt is how a user departs from it.
        self.last.bias.data = log_odds(rows.popularity(), n_users)

    def embedding(self, rows: Bags) -> Tensor:
        """Return one vector per row."""
        summed = embedding_bag(rows.columns, self.first, rows.offsets, mode="sum", per_sample_weights=rows.weights)
        return relu(summed + self.first_bias)

    def errors(self, features: Tensor, labels: Tensor) -> Tensor:
        """Return each user's cross-entropy over all items."""
        return cross_entropy_per_user(self.last(self.hidden(features)), labels)


class _Network(nn.Module):
    def __init__(self, source: SparseRows, target: SparseRows, config: DARecConfig) -> None:
        super().__init__()
        self.source, self.target = _Side(source, config), _Side(target, config)
        self.extractor = nn.Sequential(nn.Linear(config.hidden, config.width), nn.ReLU())
        self.classifier = Adversary(config.width, (16, 8), dropout=0.0)

    def features(self, side: _Side, rows: Bags) -> Tensor:
        """Return what both decoders and the domain classifier see of a row."""
        features: Tensor = self.extractor(side.embedding(rows))
        return features


class _Run(DecodedRun):
    method = "darec"

    def __init__(self, pair: DomainPair, config: DARecConfig, options: TrainingOptions) -> None:
        super().__init__(pair, config, options.torch_device())
        self.config = config
        with seeded(options.seed, self.device):
            self.network = _Network(self.source, self.target, config).to(self.device)

    def step(self, users: Tensor) -> Tensor:
        """Return the mean loss of a batch of users, both rows of each; an empty row counts for nothing."""
        network, config = self.network, self.config
        in_a, in_b = (self.source.counts[users] > 0).float(), (self.target.counts[users] > 0).float()
        rows_a, rows_b = self.source.batch(users), self.target.batch(users)
        labels_a, labels_b = rows_a.dense(self.source.shape[1]), rows_b.dense(self.target.shape[1])
        from_a = network.features(network.source, rows_a.keep(1 - config.entry_dropout))
        from_b = network.features(network.target, rows_b.keep(1 - config.entry_dropout))
        loss = (
            in_b * network.target.errors(from_b, labels_b)
            + config.source * in_a * network.source.errors(from_a, labels_a)
            + config.transfer * in_a * in_b * network.target.errors(from_a, labels_b)
            # The classifier lowers its error here, and through the reversed gradient the extractor raises it.
            + in_a * network.classifier.errors(from_a, first=True, strength=config.reversal)
            + in_b * network.classifier.errors(from_b, first=False, strength=config.reversal)
        )
        return loss.mean()

    @property
    def last_layer(self) -> nn.Linear:
        return self.network.target.last

    def decoder_input(self, users: Tensor) -> Tensor:
        network, in_b = self.network, self.target.counts[users] > 0
        from_a = network.features(network.source, self.source.batch(users))
        from_b = network.features(network.target, self.target.batch(users))
        hidden: Tensor = network.target.hidden(torch.where(in_b[:, None], from_b, from_a))
        return hidden
