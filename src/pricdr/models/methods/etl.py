"""ETL: auto-encoders of both domains, whose codes one equivalent transform carries there and back."""

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from pricdr.data.pairs import DomainPair
from pricdr.data.splits import HeldOut
from pricdr.errors import ParameterError, require_count, require_not_negative, require_share
from pricdr.models.base import PlaintextMethod, SearchSpace, Trained
from pricdr.models.fitted import Chosen
from pricdr.models.methods.networks import SparseTower, TrainingRun, log_odds, train_run
from pricdr.models.methods.rivals import Adversary, DecodedRun
from pricdr.training.loop import TrainingOptions, seeded
from pricdr.training.losses import cross_entropy_per_user
from pricdr.training.rows import Bags, SparseRows
from pricdr.training.run_log import RunLog


@dataclass(frozen=True, kw_only=True)
class ETLConfig:
    """What the network is and what it minimises."""

    width: int = 200
    entry_dropout: float = 0.7
    """Share of a row's ratings left out in each batch."""
    dropout: float = 0.6
    """On the decoders' hidden layer; the paper has none."""
    source: float = 0.3
    """Weight of what is restored of the source: the target is what is to be learnt."""
    equivalence: float = 0.5
    """Weight of |z − z W Wᵀ|₁, how far the transform is from leading back."""
    adversarial: float = 0.1
    """How strongly codes are drawn to N(0, I)."""

    def __post_init__(self) -> None:
        require_count(width=self.width)
        if self.width < 2:
            raise ParameterError(f"width must be 2 or more, got {self.width!r}")
        require_share(dropout=self.dropout, entry_dropout=self.entry_dropout)
        require_not_negative(source=self.source, equivalence=self.equivalence, adversarial=self.adversarial)


@dataclass(frozen=True, kw_only=True)
class ETL(PlaintextMethod):
    """NOT PRIVATE. Chen et al. (TOIS 2023), equivalent transformation learning, on rows of both domains.

    The discriminators are trained in the same step, through a reversed gradient, where the public code alternates two
    optimisers (and pairs rows with the user ids of an earlier batch when on a CPU); they have sigmoids for ReLUs.
    Also new here: rows scaled by 1/√(entries), decoders with dropout that start at the items' log-odds, and a weight
    on what is restored of the source, which the paper counts in full.
    Everything is summed over items and averaged over users; a domain a user never rated in teaches nothing about it.
    Users with ratings in the target are scored by their own reconstruction y′, the others by x → y.
    """

    name: ClassVar[str] = "etl"
    summary: ClassVar[str] = "auto-encoders joined by an equivalent transformation"
    config: ETLConfig = field(default_factory=ETLConfig)
    options: TrainingOptions = field(
        default_factory=lambda: TrainingOptions(patience=50, batch=128, learning_rate=1e-3, weight_decay=1.0)
    )
    space: ClassVar[SearchSpace] = {
        "width": (100, 200, 400),
        "entry_dropout": (0.3, 0.5, 0.7),
        "dropout": (0.0, 0.3, 0.6),
        "source": (0.1, 0.3, 1.0),
        "equivalence": (0.1, 0.5, 1.0),
        "adversarial": (0.01, 0.1, 1.0),
        "learning_rate": (1e-3, 2e-3, 3e-3),
        "weight_decay": (0.1, 1.0, 2.0),
    }

    def training_run(self, pair: DomainPair) -> TrainingRun:
        """Return the network for both domains, not trained yet."""
        return _Run(pair, self.config, self.options)

    def _train_plaintext(self, pair: DomainPair, *, validation: HeldOut | None, chosen: Chosen, log: RunLog) -> Trained:
        return train_run(self.training_run(pair), self.options, validation=validation, chosen=chosen, log=log)


class _Side(nn.Module):
    """One domain's encoder, decoder and discriminator."""

    def __init__(self, n_items: int, config: ETLConfig, bias: Tensor) -> None:
        super().__init__()
        width = config.width
        self.encoder = SparseTower(n_items, width, width, 0.0)
        self.hidden = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Dropout(config.dropout))
        self.last = nn.Linear(width, n_items)
        self.last.bias.data = bias  # popularity, from the start
        self.discriminator = Adversary(width, (width // 2,), dropout=0.5)

    def decode(self, codes: Tensor) -> Tensor:
        """Return the logits of all items."""
        logits: Tensor = self.last(self.hidden(codes))
        return logits


class _Network(nn.Module):
    def __init__(self, source: SparseRows, target: SparseRows, config: ETLConfig) -> None:
        super().__init__()
        self.source = _Side(source.shape[1], config, log_odds(source.popularity(), source.shape[0]))
        self.target = _Side(target.shape[1], config, log_odds(target.popularity(), target.shape[0]))
        self.users = nn.Parameter(0.01 * torch.randn(target.shape[0], config.width))
        self.transform = nn.Parameter(nn.init.xavier_uniform_(torch.empty(config.width, config.width), gain=2**0.5))

    def features(self, side: _Side, rows: Bags, users: Tensor) -> Tensor:
        """Return what the discriminators see; after a ReLU it is the code."""
        features: Tensor = side.encoder(rows) + self.users[users]
        return features


class _Run(DecodedRun):
    method = "etl"

    def __init__(self, pair: DomainPair, config: ETLConfig, options: TrainingOptions) -> None:
        super().__init__(pair, config, options.torch_device())
        self.config = config
        with seeded(options.seed, self.device):
            self.network = _Network(self.source, self.target, config).to(self.device)

    def step(self, users: Tensor) -> Tensor:
        """Return the loss of a batch of users, over all items of both domains."""
        network, config = self.network, self.config
        transform, a, b = network.transform, network.source, network.target
        in_a, in_b = (self.source.counts[users] > 0).float(), (self.target.counts[users] > 0).float()
        rows_a, rows_b = self.source.batch(users), self.target.batch(users)
        features_a = network.features(a, rows_a.keep(1 - config.entry_dropout), users)
        features_b = network.features(b, rows_b.keep(1 - config.entry_dropout), users)
        code_a, code_b = relu(features_a), relu(features_b)
        over_a, over_b = code_a @ transform, code_b @ transform.T
        labels_a, labels_b = rows_a.dense(self.source.shape[1]), rows_b.dense(self.target.shape[1])
        # W Wᵀ = I would make the transform an equivalence: a code carried over and back is the code again.
        there_and_back = in_a * (code_a - over_a @ transform.T).abs().sum(1)
        there_and_back = there_and_back + in_b * (code_b - over_b @ transform).abs().sum(1)
        loss = (
            in_a * config.source * cross_entropy_per_user(a.decode(code_a), labels_a)
            + in_b * cross_entropy_per_user(b.decode(code_b), labels_b)
            + in_a * in_b * cross_entropy_per_user(b.decode(over_a), labels_b)
            + in_a * in_b * config.source * cross_entropy_per_user(a.decode(over_b), labels_a)
            + config.equivalence * there_and_back
            + in_a * self._discriminator_errors(a.discriminator, features_a)
            + in_b * self._discriminator_errors(b.discriminator, features_b)
        )
        return loss.mean()

    def _discriminator_errors(self, discriminator: Adversary, features: Tensor) -> Tensor:
        """Return the discriminator's error on features and on as many draws of N(0, I)."""
        # No gradient reaches the draws, hence the strength 0.
        drawn = discriminator.errors(torch.randn_like(features), first=True, strength=0.0)
        return drawn + discriminator.errors(features, first=False, strength=self.config.adversarial)

    @property
    def last_layer(self) -> nn.Linear:
        return self.network.target.last

    def decoder_input(self, users: Tensor) -> Tensor:
        network, in_b = self.network, self.target.counts[users] > 0
        code_a = relu(network.features(network.source, self.source.batch(users), users))
        code_b = relu(network.features(network.target, self.target.batch(users), users))
        hidden: Tensor = network.target.hidden(torch.where(in_b[:, None], code_b, code_a @ network.transform))
        return hidden
