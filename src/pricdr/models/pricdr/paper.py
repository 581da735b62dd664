"""HeteroCDR as the paper prints it: the `paper` preset, reported beside the default whatever it gives."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from pricdr.data.ratings import Ratings
from pricdr.data.splits import HeldOut
from pricdr.errors import require_count, require_not_negative
from pricdr.models.base import ReleaseMethod, Trained
from pricdr.models.chosen import Chosen
from pricdr.models.fitted import FittedModel
from pricdr.models.fitting import ScorePairs, TrainingRun, arrays_identity, require_trainable, train_run
from pricdr.models.inputs import Inputs, ReleaseRows
from pricdr.models.networks import SparseTower, dense_tower
from pricdr.training.loop import seeded
from pricdr.training.losses import alignment, normalised_cross_entropy
from pricdr.training.options import TrainingOptions
from pricdr.training.rows import SparseRows
from pricdr.training.run_log import RunLog


@dataclass(frozen=True, kw_only=True)
class PaperConfig:
    """The paper's settings: k → 500 → 200 → 500 → k, towers of the same sizes, α = 100."""

    hidden: int = 500
    width: int = 200
    alignment: float = 100.0

    def __post_init__(self) -> None:
        require_count(hidden=self.hidden, width=self.width)
        require_not_negative(alignment=self.alignment)


@dataclass(frozen=True, kw_only=True)
class PaperCDR(ReleaseMethod):
    """L = L_rec + L_reg + α L_ali, summed over users as printed; scores are bare cosines.

    A user without target ratings is scored by Uᴬ, which alignment has drawn to where Uᴮ would be.
    """

    name: ClassVar[str] = "hetero-paper"
    summary: ClassVar[str] = "HeteroCDR as the paper prints it"

    config: PaperConfig = field(default_factory=PaperConfig)
    options: TrainingOptions = field(
        default_factory=lambda: TrainingOptions(batch=128, learning_rate=5e-4, weight_decay=0.0)
    )

    def training_run(self, target: Ratings, release: ReleaseRows) -> TrainingRun:
        """Return the networks for these ratings and this release, not trained yet."""
        return _Run(Inputs.of(target, release), self)

    def _train(
        self, target: Ratings, release: ReleaseRows, *, validation: HeldOut | None, chosen: Chosen, log: RunLog
    ) -> Trained:
        run = self.training_run(target, release)
        return train_run(run, self.options, validation=validation, chosen=chosen, log=log)


class _Network(nn.Module):
    def __init__(self, n_users: int, n_items: int, dim: int, config: PaperConfig) -> None:
        super().__init__()
        self.user_tower = SparseTower(n_items, config.hidden, config.width, 0.0)
        self.item_tower = SparseTower(n_users, config.hidden, config.width, 0.0)
        self.encoder = dense_tower(dim, config.hidden, config.width, 0.0)
        self.decoder = dense_tower(config.width, config.hidden, dim, 0.0)


class _Run:
    def __init__(self, inputs: Inputs, method: PaperCDR) -> None:
        self.inputs, self.method = inputs, method
        config, options = method.config, method.options
        device = options.torch_device()
        n_users, n_items = inputs.ratings.shape
        dim = 0 if inputs.source is None else inputs.source.shape[1]
        require_trainable(config.hidden * (n_users + n_items + 2 * dim))  # before it is allocated; the rest is small
        self.rows = SparseRows(inputs.ratings, device, scaled=False)
        self.columns = SparseRows(inputs.ratings.T.tocsr(), device, scaled=False).all()
        self.release = torch.as_tensor(inputs.source, device=device)
        self.present = torch.as_tensor(inputs.present, device=device)
        with seeded(options.seed, device):
            self.network = _Network(n_users, n_items, dim, config).to(device)

    @property
    def examples(self) -> Tensor:
        return torch.nonzero(self.rows.counts > 0).squeeze(1)

    @property
    def identity(self) -> str:
        ratings, source = self.inputs.ratings, np.asarray(self.inputs.source)
        return f"{self.method!r} {arrays_identity(ratings.indptr, ratings.indices, self.inputs.present, source)}"

    def step(self, batch: Tensor) -> Tensor:
        network = self.network
        rated = self.rows.batch(batch)
        own, other = network.user_tower(rated), network.encoder(self.release[batch])
        cosines = normalize(own, dim=1) @ normalize(network.item_tower(self.columns), dim=1).T
        regression = normalised_cross_entropy(cosines, rated.dense(self.rows.shape[1]))
        # A user without a release row has nothing to be reconstructed or aligned with.
        known = self.present[batch][:, None]
        reconstruction = (((network.decoder(other) - self.release[batch]) * known) ** 2).mean(dim=1).sum()
        total: Tensor = (
            reconstruction + regression + self.method.config.alignment * alignment(other * known, own * known)
        )
        return total

    def _vectors(self, users: Tensor) -> Tensor:
        warm = (self.rows.counts[users] > 0)[:, None]
        other = self.network.encoder(self.release[users]) * self.present[users][:, None]
        return normalize(torch.where(warm, self.network.user_tower(self.rows.batch(users)), other), dim=1)

    @torch.no_grad()
    def scorer(self) -> ScorePairs:
        vectors = normalize(self.network.item_tower(self.columns), dim=1)
        return lambda users, items: (self._vectors(users)[:, None] * vectors[items]).sum(2)

    @torch.no_grad()
    def fitted_model(self) -> FittedModel:
        everyone = torch.arange(len(self.inputs.users), device=self.present.device)
        items = normalize(self.network.item_tower(self.columns), dim=1)
        return FittedModel(
            method=self.method.name,
            users=self.inputs.users,
            items=self.inputs.items,
            user_vectors=torch.cat([self._vectors(part).cpu() for part in torch.split(everyone, 4096)]).numpy(),
            item_vectors=items.cpu().numpy(),
            item_bias=torch.zeros(len(items)).numpy(),
            seen=self.inputs.ratings,
            in_release=self.inputs.present,
        )
