"""HeteroCDR as the paper prints it: the `paper` preset, reported beside the default whatever it gives."""

import hashlib
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from pricdr.data.ratings import Ratings
from pricdr.data.splits import HeldOut
from pricdr.errors import require_count, require_not_negative
from pricdr.models.base import UNRECORDED, ReleaseMethod
from pricdr.models.fitted import Factors
from pricdr.models.fitting import ScorePairs, fit_run, require_trainable
from pricdr.models.inputs import Inputs, ReleaseRows
from pricdr.models.networks import SparseTower, dense_tower
from pricdr.training.loop import Recording, TrainingOptions, seeded
from pricdr.training.losses import alignment, normalised_cross_entropy
from pricdr.training.rows import SparseRows


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

    config: PaperConfig = field(default_factory=PaperConfig)
    options: TrainingOptions = field(
        default_factory=lambda: TrainingOptions(batch=128, learning_rate=5e-4, weight_decay=0.0)
    )

    def fit(
        self,
        target: Ratings,
        release: ReleaseRows,
        *,
        validation: HeldOut | None = None,
        recording: Recording = UNRECORDED,
    ) -> Factors:
        """Fit to ``target`` and to the rows of a release."""
        inputs = Inputs.of(target, release)
        run = _Run(inputs, self.config, self.options)
        source = hashlib.sha256(inputs.source.tobytes()).hexdigest() if inputs.source is not None else ""
        rows = torch.nonzero(run.rows.counts > 0).squeeze(1)
        identity = f"{self!r} {target.fingerprint()} {source}"
        return fit_run(run, rows, self.options, identity, validation, recording)


class _Network(nn.Module):
    def __init__(self, n_users: int, n_items: int, dim: int, config: PaperConfig) -> None:
        super().__init__()
        self.user_tower = SparseTower(n_items, config.hidden, config.width, 0.0)
        self.item_tower = SparseTower(n_users, config.hidden, config.width, 0.0)
        self.encoder = dense_tower(dim, config.hidden, config.width, 0.0)
        self.decoder = dense_tower(config.width, config.hidden, dim, 0.0)


class _Run:
    def __init__(self, inputs: Inputs, config: PaperConfig, options: TrainingOptions) -> None:
        self.inputs, self.config = inputs, config
        device = options.torch_device()
        n_users, n_items = inputs.ratings.shape
        dim = 0 if inputs.source is None else inputs.source.shape[1]
        require_trainable(config.hidden * (n_users + n_items + 2 * dim))  # before it is there; the rest is small
        self.rows = SparseRows(inputs.ratings, device, scaled=False)
        self.columns = SparseRows(inputs.ratings.T.tocsr(), device, scaled=False).all()
        self.release = torch.as_tensor(inputs.source, device=device)
        self.present = torch.as_tensor(inputs.present, device=device)
        with seeded(options.seed, device):
            self.network = _Network(n_users, n_items, dim, config).to(device)

    def step(self, users: Tensor) -> Tensor:
        network = self.network
        bags = self.rows.batch(users)
        own, other = network.user_tower(bags), network.encoder(self.release[users])
        cosines = normalize(own, dim=1) @ normalize(network.item_tower(self.columns), dim=1).T
        regression = normalised_cross_entropy(cosines, bags.dense(self.rows.shape[1]))
        known = self.present[users][:, None]
        reconstruction = (((network.decoder(other) - self.release[users]) * known) ** 2).mean(dim=1).sum()
        total: Tensor = reconstruction + regression + self.config.alignment * alignment(other * known, own * known)
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
    def factors(self) -> Factors:
        everyone = torch.arange(len(self.inputs.users), device=self.present.device)
        items = normalize(self.network.item_tower(self.columns), dim=1)
        return Factors(
            method="hetero",
            users=self.inputs.users,
            items=self.inputs.items,
            user_vectors=torch.cat([self._vectors(part).cpu() for part in torch.split(everyone, 4096)]).numpy(),
            item_vectors=items.cpu().numpy(),
            item_bias=torch.zeros(len(items)).numpy(),
            seen=self.inputs.ratings,
            in_release=self.inputs.present,
        )
