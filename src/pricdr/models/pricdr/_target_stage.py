"""Part one of every model here: learn from the target's own ratings, whatever the source may add later."""

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from pricdr.data.ratings import Ratings
from pricdr.data.splits import HeldOut
from pricdr.errors import require_count, require_share
from pricdr.models.fitting import ScorePairs, fit_network, require_trainable
from pricdr.models.pricdr._networks import HistoryNetwork, Sizes
from pricdr.training.loop import Recording, TrainingOptions, seeded
from pricdr.training.losses import all_items
from pricdr.training.rows import SparseRows


@dataclass(frozen=True, kw_only=True)
class HistoryConfig:
    """What the target's network is."""

    hidden: int = 500
    width: int = 200
    dropout: float = 0.5
    entry_dropout: float = 0.7
    """Share of a row's ratings left out in each batch."""

    def __post_init__(self) -> None:
        require_count(hidden=self.hidden, width=self.width)
        require_share(dropout=self.dropout, entry_dropout=self.entry_dropout)


class HistoryRun:
    """Users' rows against all items by matrix products, binary cross-entropy, the unobserved as 0."""

    def __init__(
        self, kind: type[HistoryNetwork], target: Ratings, config: HistoryConfig, options: TrainingOptions
    ) -> None:
        self.target, self.config, self.options = target, config, options
        self.device = options.torch_device()
        n_users, n_items = target.matrix.shape
        require_trainable(config.hidden * (n_items + max(n_users, n_items)))  # before it is there; the rest is small
        self.rows = SparseRows(target.matrix, self.device)
        self.columns = SparseRows(target.matrix.T.tocsr(), self.device).all()
        sizes = Sizes(n_users, n_items, config.hidden, config.width, config.dropout)
        with seeded(options.seed, self.device):
            self.network = kind(sizes, self.rows.popularity()).to(self.device)

    def train(self, validation: HeldOut | None, recording: Recording) -> None:
        """Train; validation NDCG@10 picks the epoch."""
        # What a source's configuration adds plays no part here: arms that differ in it alone share this network.
        config = {part.name: getattr(self.config, part.name) for part in fields(HistoryConfig)}
        fit_network(
            self.network,
            self.step,
            torch.nonzero(self.rows.counts > 0).squeeze(1),
            self.options,
            scorer=self._scorer,
            identity=f"{type(self.network).__name__} {config} {self.target.fingerprint()}",
            validation=validation,
            recording=recording,
        )

    def step(self, users: Tensor) -> Tensor:
        """The loss of one batch of users against all items."""
        network, kept = self.network, 1 - self.config.entry_dropout
        bags = self.rows.batch(users)
        vectors = network.user_tower(bags.keep(kept))
        return all_items(
            network.logits(vectors, network.items(self.columns.keep(kept))), bags.dense(self.rows.shape[1])
        )

    @torch.no_grad()
    def item_vectors(self) -> Tensor:
        """Of all items."""
        return self.network.items(self.columns)

    @torch.no_grad()
    def vectors(self) -> Tensor:
        """What each user's own history says, before it meets the items; zero where there is none."""
        everyone = torch.arange(self.rows.shape[0], device=self.device)
        parts = [self.network.user_tower(self.rows.batch(part)) for part in torch.split(everyone, 4096)]
        return torch.cat(parts) * (self.rows.counts > 0)[:, None]

    def user_vectors(self) -> Tensor:
        """What items are multiplied by; zero where there is no history, which leaves what is popular."""
        with torch.no_grad():
            return self.network.users(self.vectors()) * (self.rows.counts > 0)[:, None]

    def _scorer(self) -> ScorePairs:
        users, items, bias = self.user_vectors(), self.item_vectors(), self.network.item_bias
        return lambda chosen, candidates: (users[chosen][:, None] * items[candidates]).sum(2) + bias[candidates]
