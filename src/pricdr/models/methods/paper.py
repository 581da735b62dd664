"""HeteroCDR as the paper prints it: the `paper` preset, always reported beside the default."""

from dataclasses import dataclass, field, replace
from typing import ClassVar, Final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from pricdr.data.ratings import Ratings
from pricdr.data.splits import HeldOut
from pricdr.errors import require_count, require_not_negative
from pricdr.memory import require_memory
from pricdr.models.base import ReleaseMethod, Trained
from pricdr.models.fitted import TRUSTED, UNTRUSTED, Chosen, FittedModel, Trust
from pricdr.models.gates import Newcomers, is_refused, select_newcomers, shows_gain, trust_is_settled, with_evidence
from pricdr.models.methods.networks import SparseTower, TrainingRun, dense_tower, train_run
from pricdr.models.training_data import Inputs, ReleaseRows
from pricdr.training.loop import ScorePairs, TrainingOptions, arrays_identity, ndcg_by_user, require_trainable, seeded
from pricdr.training.losses import alignment, normalised_cross_entropy
from pricdr.training.rows import SparseRows
from pricdr.training.run_log import RunLog

_PER_SCORE: Final = 9
"""Numbers in memory per score of a batch: its label, the intermediate values of the loss, and the gradients."""
_PER_UNIT: Final = 4
"""Numbers in memory per hidden unit of each item."""


@dataclass(frozen=True, kw_only=True)
class PaperConfig:
    """The paper's settings: k → 500 → 200 → 500 → k, towers of the same sizes, α = 100."""

    hidden: int = 500
    width: int = 200
    alignment: float = 100.0
    gated: bool = True
    """Let evidence and newcomers decide whether the release is used. If false, it always is, as in the paper."""

    def __post_init__(self) -> None:
        require_count(hidden=self.hidden, width=self.width)
        require_not_negative(alignment=self.alignment)


@dataclass(frozen=True, kw_only=True)
class PaperCDR(ReleaseMethod):
    """L = L_rec + L_reg + α L_ali, summed over users as printed; scores are bare cosines.

    A user without target ratings is scored by Uᴬ, which alignment has pulled towards where Uᴮ would be. The gates are
    our addition: a release that fails the evidence test is neither reconstructed nor aligned, and cold users get
    popular items unless Uᴬ serves newcomers (:mod:`pricdr.models.gates`) better. With ``gated=False`` nothing is
    added to the paper's method.
    """

    name: ClassVar[str] = "hetero-paper"
    summary: ClassVar[str] = "HeteroCDR as the paper prints it"

    config: PaperConfig = field(default_factory=PaperConfig)
    options: TrainingOptions = field(
        default_factory=lambda: TrainingOptions(batch=128, learning_rate=5e-4, weight_decay=0.0)
    )

    def training_run(self, target: Ratings, release: ReleaseRows) -> TrainingRun:
        """Return the untrained networks for these ratings and this release."""
        return _Run(Inputs.of(target, release), self, None)

    def _train(
        self, target: Ratings, release: ReleaseRows, *, validation: HeldOut | None, chosen: Chosen, log: RunLog
    ) -> Trained:
        inputs = Inputs.of(target, release)
        settled = chosen.trust if trust_is_settled(validation, chosen) else None
        newcomers = None
        if self.config.gated:
            chosen = with_evidence(inputs, validation, chosen)
        p_value = chosen.evidence
        if not self.config.gated:
            settled = TRUSTED
        elif is_refused(validation, chosen):
            # Without release rows nothing is reconstructed or aligned: only the target's own towers are left.
            inputs, settled = replace(inputs, present=np.zeros_like(inputs.present)), UNTRUSTED
        elif settled is None:
            newcomers = select_newcomers(inputs, validation, seed=self.options.seed)
        run = _Run(inputs, self, newcomers)
        model, chosen = train_run(run, self.options, validation=validation, chosen=chosen, log=log)
        trust = settled or Trust(1.0, 1.0 if run.rows_help() else 0.0)
        return _popular_for_unserved(model, trust), replace(chosen, trust=trust, evidence=p_value)


class _Network(nn.Module):
    def __init__(self, n_users: int, n_items: int, dim: int, config: PaperConfig) -> None:
        super().__init__()
        self.user_tower = SparseTower(n_items, config.hidden, config.width, 0.0)
        self.item_tower = SparseTower(n_users, config.hidden, config.width, 0.0)
        self.encoder = dense_tower(dim, config.hidden, config.width, 0.0)
        self.decoder = dense_tower(config.width, config.hidden, dim, 0.0)


class _Run:
    def __init__(self, inputs: Inputs, method: PaperCDR, newcomers: Newcomers | None) -> None:
        self.inputs, self.method, self.newcomers = inputs, method, newcomers
        config, options = method.config, method.options
        device = options.torch_device()
        n_users, n_items = inputs.ratings.shape
        dim = 0 if inputs.source is None else inputs.source.shape[1]
        require_trainable(config.hidden * (n_users + n_items + 2 * dim))  # before it is allocated; the rest is small
        # The printed loss covers every item: a batch of scores and a hidden layer, with what their gradients need.
        cells = n_items * (_PER_SCORE * min(options.batch, n_users) + _PER_UNIT * config.hidden)
        require_memory(4 * cells, f"the paper's loss over all {n_items:,} items")
        self.rows = SparseRows(inputs.ratings, device, scaled=False)
        self.columns = SparseRows(inputs.ratings.T.tocsr(), device, scaled=False).all()
        self.release = torch.as_tensor(inputs.source, device=device)
        self.present = torch.as_tensor(inputs.present, device=device)
        # The rows that training may see: not those of the stand-ins for cold users.
        visible = inputs.present if newcomers is None else inputs.present & ~newcomers.stand_ins
        self.visible = torch.as_tensor(visible, device=device)
        with seeded(options.seed, device):
            self.network = _Network(n_users, n_items, dim, config).to(device)

    @property
    def examples(self) -> Tensor:
        return torch.nonzero(self.rows.counts > 0).squeeze(1)

    @property
    def identity(self) -> str:
        ratings, source = self.inputs.ratings, np.asarray(self.inputs.source)
        present, visible = self.inputs.present, self.visible.cpu().numpy()
        return f"{self.method!r} {arrays_identity(ratings.indptr, ratings.indices, present, visible, source)}"

    def step(self, batch: Tensor) -> Tensor:
        network = self.network
        rated = self.rows.batch(batch)
        own, other = network.user_tower(rated), network.encoder(self.release[batch])
        cosines = normalize(own, dim=1) @ normalize(network.item_tower(self.columns), dim=1).T
        regression = normalised_cross_entropy(cosines, rated.dense(self.rows.shape[1]))
        # Users without a release row are left out of reconstruction and alignment.
        has_row = self.visible[batch][:, None]
        reconstruction = (((network.decoder(other) - self.release[batch]) * has_row) ** 2).mean(dim=1).sum()
        total: Tensor = (
            reconstruction + regression + self.method.config.alignment * alignment(other * has_row, own * has_row)
        )
        return total

    @torch.no_grad()
    def rows_help(self) -> bool:
        """Return whether release rows serve newcomers better than popularity does."""
        assert self.newcomers is not None
        held_out, popularity = self.newcomers.held_out, self.rows.popularity().to(self.present.device)
        if not len(held_out):
            return False
        vectors = normalize(self.network.item_tower(self.columns), dim=1)

        def by_row(users: Tensor, items: Tensor) -> Tensor:
            return (normalize(self._row_vectors(users), dim=1)[:, None] * vectors[items]).sum(2)

        scorers: tuple[ScorePairs, ...] = (by_row, lambda users, items: popularity[items])
        return shows_gain(*(ndcg_by_user(score, held_out, self.present.device) for score in scorers))

    def _row_vectors(self, users: Tensor) -> Tensor:
        vectors: Tensor = self.network.encoder(self.release[users]) * self.present[users][:, None]
        return vectors

    def _vectors(self, users: Tensor) -> Tensor:
        warm = (self.rows.counts[users] > 0)[:, None]
        own = self.network.user_tower(self.rows.batch(users))
        return normalize(torch.where(warm, own, self._row_vectors(users)), dim=1)

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
            user_vectors=torch.cat([self._vectors(users).cpu() for users in torch.split(everyone, 4096)]).numpy(),
            item_vectors=items.cpu().numpy(),
            item_bias=torch.zeros(len(items)).numpy(),
            seen=self.inputs.ratings,
            in_release=self.inputs.present,
        )


def _popular_for_unserved(model: FittedModel, trust: Trust) -> FittedModel:
    """Return the model with popular items for users who have neither a history nor a trusted row.

    Cosines leave no room for a bias, so popularity becomes an extra dimension, which is 0 for all other users.
    """
    warm = np.diff(model.seen.indptr) > 0
    used = model.in_release & np.where(warm, trust.warm > 0, trust.cold > 0)
    served = (warm | used).astype(np.float32)[:, None]
    popularity = model.popularity()[:, None]
    return replace(
        model,
        user_vectors=np.hstack([model.user_vectors * served, 1 - served]),
        item_vectors=np.hstack([model.item_vectors, popularity / max(float(popularity.max()), 1.0)]),
        in_release=used,
    )
