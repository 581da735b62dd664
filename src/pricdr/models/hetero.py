"""HeteroCDR: the release through an auto-encoder, the target through DMF towers, and the two user vectors together.

total = regression + ρ · reconstruction + α · alignment. The history of some training users is hidden in every batch, so
that the release learns to carry a prediction on its own: that is what a cold user needs.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pricdr.blocks import Progress, silent
from pricdr.data.ratings import Ratings
from pricdr.data.splits import HeldOut
from pricdr.errors import ParameterError
from pricdr.evaluation.metrics import per_user, rank_of
from pricdr.models.factors import Factors
from pricdr.models.inputs import Inputs, ReleaseRows
from pricdr.models.networks import Sizes, TwoTowers
from pricdr.training.checkpoints import Checkpoint
from pricdr.training.loop import Epoch, TrainingOptions, train
from pricdr.training.losses import alignment, all_items
from pricdr.training.rows import Bags, SparseRows

GATES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""How far a release row may be trusted; validation decides, for users with and without history apart."""


@dataclass(frozen=True, kw_only=True)
class HeteroConfig:
    """What the network is and what it minimises."""

    hidden: int = 500
    width: int = 200
    dropout: float = 0.5
    entry_dropout: float = 0.5
    """Share of a row's ratings left out in each batch."""
    release_dropout: float = 0.2
    hide: float = 0.4
    """Share of training users whose history is hidden in each batch, so that the release learns to do without."""
    hide_release: float = 0.4
    """Share of the others whose release row is hidden, so that the history learns to do without it too."""
    reconstruction: float = 0.1
    """ρ: weight of the auto-encoder's squared error, per user."""
    alignment: float = 0.01
    """α: weight of the squared distance between the two user vectors, per user."""

    def __post_init__(self) -> None:
        for name in ("dropout", "entry_dropout", "release_dropout", "hide", "hide_release"):
            if not 0 <= getattr(self, name) < 1:
                raise ParameterError(f"{name} must lie in [0, 1), got {getattr(self, name)!r}")


@dataclass(frozen=True, kw_only=True)
class HeteroCDR:
    """Train on target ratings and a release; without a release it is DMF, target only."""

    config: HeteroConfig = field(default_factory=HeteroConfig)
    options: TrainingOptions = field(default_factory=TrainingOptions)

    def fit(
        self,
        target: Ratings,
        release: ReleaseRows | None = None,
        *,
        validation: HeldOut | None = None,
        checkpoint: Path | None = None,
        log: Path | None = None,
        progress: Progress = silent,
    ) -> Factors:
        """Fit to ``target`` and to the rows of a release.

        ``validation`` picks the epoch and how far cold users' release rows are trusted; it is about ``target``'s users.
        """
        inputs = Inputs.of(target, release)
        run = _Run(inputs, self.config, self.options, validation)
        kept = None
        if checkpoint is not None:
            identity = hashlib.sha256(f"{self!r} {inputs.fingerprint()} {_identity(validation)}".encode()).hexdigest()
            kept = Checkpoint(checkpoint, fingerprint=identity)
        run.train(checkpoint=kept, log=log, progress=progress)
        return run.factors()


def _identity(validation: HeldOut | None) -> str:
    """Validation picks the epoch, so another one makes another run."""
    if validation is None:
        return "none"
    parts = (validation.users, validation.items, validation.negatives)
    return hashlib.sha256(b"".join(np.ascontiguousarray(part, dtype="<i8").tobytes() for part in parts)).hexdigest()


class _Run:
    """One training run: tensors on a device, thrown away when the factors are out."""

    def __init__(
        self, inputs: Inputs, config: HeteroConfig, options: TrainingOptions, validation: HeldOut | None
    ) -> None:
        self.inputs, self.config, self.options, self.validation = inputs, config, options, validation
        device = options.torch_device()
        self.rows = SparseRows(inputs.ratings, device)
        self.columns = SparseRows(inputs.ratings.T.tocsr(), device).all()
        self.release = None if inputs.release is None else torch.as_tensor(inputs.release, device=device)
        self.in_release = torch.as_tensor(inputs.in_release, device=device)
        n_users, n_items = inputs.ratings.shape
        sizes = Sizes(
            n_users,
            n_items,
            0 if self.release is None else self.release.shape[1],
            config.hidden,
            config.width,
            config.dropout,
        )
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(options.seed)
            popularity = torch.bincount(self.columns.row_of.cpu(), minlength=n_items).float()
            self.network = TwoTowers(sizes, popularity).to(device)

    def train(self, *, checkpoint: Checkpoint | None, log: Path | None, progress: Progress) -> list[Epoch]:
        trainable = torch.nonzero(self.rows.counts > 0).squeeze(1)
        validate: Callable[[], float] | None = None
        if self.validation is not None:
            held_out = self.validation
            validate = lambda: self._ndcg(held_out)  # noqa: E731
        return train(
            self.network,
            self.step,
            trainable,
            self.options,
            validate=validate,
            checkpoint=checkpoint,
            log=log,
            progress=progress,
        )

    def step(self, users: Tensor) -> Tensor:
        """The loss of one batch of users against all items."""
        config, network = self.config, self.network
        bags = self.rows.batch(users)
        labels = bags.dense(self.rows.shape[1])
        items = network.items(self.columns.keep(1 - config.entry_dropout))
        if self.release is None:
            seen = bags.keep(1 - config.entry_dropout)
            return all_items(network.logits(network.own(seen, torch.ones_like(users)), items), labels)
        chance = torch.rand(len(users), device=users.device)
        hidden = (chance < config.hide) & self.in_release[users]  # only where the release can take over
        own = network.own(bags.keep(1 - config.entry_dropout).without(hidden), ~hidden)
        known = self.in_release[users] & (hidden | (chance < 1 - config.hide_release * (1 - config.hide)))
        noisy = torch.nn.functional.dropout(self.release[users], config.release_dropout)
        other = network.release(noisy, known)
        loss = all_items(network.logits(own + other, items), labels)
        return loss + self._auxiliary(users, bags, other, known)

    def _auxiliary(self, users: Tensor, bags: Bags, other: Tensor, known: Tensor) -> Tensor:
        """ρ · reconstruction + α · alignment, both per user, so that they mean the same at any batch size."""
        assert self.release is not None
        assert self.network.decoder is not None
        restored = self.network.decoder(other) * known[:, None]
        reconstruction = ((restored - self.release[users]) ** 2).sum()
        own = self.network.own(bags, torch.ones_like(users)) * known[:, None]
        total = self.config.reconstruction * reconstruction + self.config.alignment * alignment(other, own)
        weighted: Tensor = total / len(users)
        return weighted

    @torch.no_grad()
    def factors(self) -> Factors:
        """Scale, normalisation and gate folded into plain vectors."""
        users = torch.arange(len(self.inputs.users), device=self.rows.counts.device)
        vectors = self._user_vectors(users, self._gates())
        return Factors(
            method="dmf" if self.release is None else "hetero",
            users=self.inputs.users,
            items=self.inputs.items,
            user_vectors=vectors.cpu().numpy(),
            item_vectors=self.network.items(self.columns).cpu().numpy(),
            item_bias=self.network.item_bias.detach().cpu().numpy(),
            seen=self.inputs.ratings,
            in_release=self.inputs.in_release,
        )

    def _user_vectors(self, users: Tensor, gates: tuple[float, float]) -> Tensor:
        """Own history plus what the release adds, trusted as far as ``gates`` (warm, cold) say.

        Without history a user's vector would be normalised whatever its length; there the gate scales the result.
        """
        present = self.rows.counts[users] > 0
        vectors = self.network.own(self.rows.batch(users), present)
        if self.release is not None:
            trust = torch.where(present, gates[0], 1.0)[:, None]
            vectors = vectors + trust * self.network.release(self.release[users], self.in_release[users])
        length = self.network.log_scale.exp() * torch.where(present, 1.0, gates[1])[:, None]
        scaled: Tensor = length * torch.nn.functional.normalize(vectors, dim=1)
        return scaled

    def _gates(self) -> tuple[float, float]:
        """How far to trust the release for warm and for cold users: what serves their validation items best."""
        if self.validation is None or self.release is None:
            return 1.0, 1.0
        empty = np.diff(self.inputs.ratings.indptr)[self.validation.users] == 0
        warm, cold = self.validation.only(~empty), self.validation.only(empty)
        return (
            max(GATES, key=lambda gate: self._ndcg(warm, (gate, 1.0))) if len(warm) else 1.0,
            max(GATES, key=lambda gate: self._ndcg(cold, (1.0, gate))) if len(cold) else 1.0,
        )

    @torch.no_grad()
    def _ndcg(self, held_out: HeldOut, gates: tuple[float, float] = (1.0, 1.0)) -> float:
        """Validation NDCG@10 among the stored negatives, on the device."""
        items = self.network.items(self.columns)
        candidates = torch.as_tensor(np.column_stack([held_out.items, held_out.negatives]), device=items.device)
        users = torch.as_tensor(held_out.users, device=items.device)
        scores = []
        for start in range(0, len(users), 1024):
            part, chosen = users[start : start + 1024], candidates[start : start + 1024]
            vectors = self._user_vectors(part, gates)
            scores.append((vectors[:, None] * items[chosen]).sum(dim=2) + self.network.item_bias[chosen])
        found = torch.cat(scores).double().cpu().numpy()
        return float(per_user(rank_of(found[:, 0], found[:, 1:]))["NDCG@10"].mean())
