"""HeteroCDR as the paper prints it: the `paper` preset, always reported beside the default."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from pricdr.arrays import BoolArray
from pricdr.data.splits import HeldOut
from pricdr.memory import require_memory
from pricdr.models.base import Config, ReleaseMethod, Trained
from pricdr.models.fitted import Chosen, FittedModel, Trust
from pricdr.models.gates import Gates, Newcomers, best_above
from pricdr.models.methods.networks import NetworkMethod, NetworkRun, SparseTower, dense_tower, in_blocks
from pricdr.models.training_data import TrainingData
from pricdr.training.loop import (
    ScorePairs,
    TrainingOptions,
    arrays_identity,
    ndcg_by_user,
    require_trainable,
    train_network,
)
from pricdr.training.losses import alignment, normalised_cross_entropy
from pricdr.training.rows import SparseRows
from pricdr.training.run_log import RunLog

_PER_SCORE: Final = 9  # numbers in memory per score of a batch: label, values within the loss, gradients
_PER_UNIT: Final = 4  # numbers in memory per hidden unit of each item


@dataclass(frozen=True, kw_only=True)
class PaperConfig(Config):
    """The paper's settings: k → 500 → 200 → 500 → k, towers of the same sizes, α = 100."""

    hidden: int = 500
    width: int = 200
    alignment: float = 100.0
    gated: bool = True
    """Let evidence and newcomers decide whether the release is used. If false, it always is, as in the paper."""


class _PaperRun(NetworkRun):
    config: PaperConfig

    def prepare(self) -> None:
        data, config = self.data, self.config
        assert isinstance(data.source, np.ndarray)
        (n_users, n_items), dim = data.ratings.shape, data.source.shape[1]
        require_trainable(config.hidden * (n_users + n_items + 2 * dim))  # before it is allocated; the rest is small
        # The printed loss covers every item: a batch of scores and a hidden layer, with what their gradients need.
        cells = n_items * (_PER_SCORE * min(self.method.options.batch, n_users) + _PER_UNIT * config.hidden)
        require_memory(4 * cells, f"the paper's loss over all {n_items:,} items")
        self.rows = SparseRows(data.ratings, self.device, scaled=False)
        self.columns = SparseRows(data.ratings.T.tocsr(), self.device, scaled=False).all()
        self.release = torch.as_tensor(data.source, device=self.device)
        self.present = torch.as_tensor(data.present, device=self.device)
        self.visible = self.present
        self.examples = torch.nonzero(self.rows.counts > 0).squeeze(1)

    def build(self) -> None:
        (n_users, n_items), dim = self.rows.shape, self.release.shape[1]
        hidden, width = self.config.hidden, self.config.width
        self.user_tower = SparseTower(n_items, hidden, width, 0.0)
        self.item_tower = SparseTower(n_users, hidden, width, 0.0)
        self.encoder = dense_tower(dim, hidden, width, 0.0)
        self.decoder = dense_tower(width, hidden, dim, 0.0)

    def hide(self, users: BoolArray) -> None:  # they stand in for cold users: their rows are kept from training
        self.visible = self.present & ~torch.as_tensor(users, device=self.device)
        self.identity += f" {arrays_identity(users)}"

    def step(self, batch: Tensor) -> Tensor:
        rated = self.rows.batch(batch)
        own, other = self.user_tower(rated), self.encoder(self.release[batch])
        cosines = normalize(own, dim=1) @ self._item_vectors().T
        regression = normalised_cross_entropy(cosines, rated.dense(self.rows.shape[1]))
        # Users without a release row are left out of reconstruction and alignment.
        has_row = self.visible[batch][:, None]
        reconstruction = (((self.decoder(other) - self.release[batch]) * has_row) ** 2).mean(dim=1).sum()
        total: Tensor = reconstruction + regression + self.config.alignment * alignment(other * has_row, own * has_row)
        return total

    @torch.no_grad()
    def trust_in_rows(self, newcomers: Newcomers) -> Trust:
        """Return full trust for warm users, and for cold ones where newcomers are served better than by popularity."""
        popularity = self.rows.popularity().to(self.device)
        own, popular = (
            ndcg_by_user(score, newcomers.held_out, self.device)
            for score in (self._scorer(self._by_row), lambda users, items: popularity[items])
        )
        return Trust(1.0, best_above({1.0: own}, popular) or 0.0)

    def _item_vectors(self) -> Tensor:
        return normalize(self.item_tower(self.columns), dim=1)

    def _by_row(self, users: Tensor) -> Tensor:
        return normalize(self.encoder(self.release[users]) * self.present[users][:, None], dim=1)

    def _by_history_or_row(self, users: Tensor) -> Tensor:
        own = normalize(self.user_tower(self.rows.batch(users)), dim=1)
        return torch.where((self.rows.counts[users] > 0)[:, None], own, self._by_row(users))

    def _scorer(self, user_vectors: Callable[[Tensor], Tensor]) -> ScorePairs:
        vectors = self._item_vectors()
        return lambda users, items: (user_vectors(users)[:, None] * vectors[items]).sum(2)

    @torch.no_grad()
    def scorer(self) -> ScorePairs:
        return self._scorer(self._by_history_or_row)

    @torch.no_grad()
    def fitted_model(self) -> FittedModel:
        users = in_blocks(len(self.data.users), lambda at: self._by_history_or_row(at).cpu(), self.device).numpy()
        items = self._item_vectors().cpu().numpy()
        return self.data.model(self.method.name, users, items, np.zeros(len(items), dtype=np.float32))


@dataclass(frozen=True, kw_only=True)
class PaperCDR(NetworkMethod, ReleaseMethod):
    """L = L_rec + L_reg + α L_ali, summed over users as printed; scores are bare cosines.

    A user without target ratings is scored by Uᴬ, which alignment has pulled towards where Uᴮ would be. The gates are
    ours: a release without evidence is neither reconstructed nor aligned, and cold users get popular items unless Uᴬ
    serves newcomers (:mod:`pricdr.models.gates`) better. With ``gated=False`` nothing is added to the paper's method.
    """

    name: ClassVar[str] = "hetero-paper"
    summary: ClassVar[str] = "HeteroCDR as the paper prints it"
    config: PaperConfig = PaperConfig()
    options: TrainingOptions = TrainingOptions(batch=128, learning_rate=5e-4, weight_decay=0.0)
    _run = _PaperRun

    def _train(self, data: TrainingData, *, validation: HeldOut | None, chosen: Chosen, log: RunLog) -> Trained:
        gates = Gates.of(data, validation, chosen, seed=self.options.seed, enabled=self.config.gated)
        if gates.refused:
            # Without release rows nothing is reconstructed or aligned: only the target's own towers are left.
            data = replace(
                data, sources=tuple(part._replace(present=np.zeros_like(part.present)) for part in data.sources)
            )
        else:
            data = gates.data
        run = _PaperRun(data, self)
        if self.config.gated and gates.newcomers is not None:
            run.hide(gates.newcomers.stand_ins)
        state = train_network(run, self.options, validation=validation, epochs=chosen.epochs, log=log)
        if validation is not None:
            chosen = Chosen(epochs={log.network: state.best_epoch})
        trust = gates.settle(run.trust_in_rows)
        return _popular_for_unserved(run.fitted_model(), trust), gates.noted(replace(chosen, trust=trust))


def _popular_for_unserved(model: FittedModel, trust: Trust) -> FittedModel:
    """Return the model with popular items, as an extra dimension, for users without history and trusted row."""
    warm = np.diff(model.seen.indptr) > 0
    used = model.in_release & np.where(warm, trust.warm > 0, trust.cold > 0)[:, None]
    served = (warm | used.any(axis=1)).astype(np.float32)[:, None]
    popularity = model.popularity()[:, None]
    return replace(
        model,
        user_vectors=np.hstack([model.user_vectors * served, 1 - served]),
        item_vectors=np.hstack([model.item_vectors, popularity / max(float(popularity.max()), 1.0)]),
        in_release=used,
    )
