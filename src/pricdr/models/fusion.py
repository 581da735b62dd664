"""Training of a user vector that is own history plus source, against all items: what DMF, HeteroCDR and SYM share.

total = regression + ρ · reconstruction + α · alignment. The history of some training users is hidden in every batch, so
that the source learns to carry a prediction on its own: that is what a cold user needs.
"""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from pricdr.data.ratings import Ratings
from pricdr.data.splits import HeldOut
from pricdr.errors import ParameterError, require_count
from pricdr.evaluation.compare import standard_error
from pricdr.models.factors import Factors
from pricdr.models.fitting import ScorePairs, fit_network, ndcg_by_user, ratings_identity
from pricdr.models.inputs import Inputs
from pricdr.models.networks import Fusion, Sizes
from pricdr.training.loop import Recording, TrainingOptions, seeded
from pricdr.training.losses import alignment, all_items
from pricdr.training.rows import Bags, SparseRows

GATES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""How far a source row may be trusted; validation decides, for users with and without history apart."""


@dataclass(frozen=True, kw_only=True)
class FusionConfig:
    """What the network is and what it minimises."""

    hidden: int = 500
    width: int = 200
    dropout: float = 0.5
    entry_dropout: float = 0.7
    """Share of a row's ratings left out in each batch."""
    release_dropout: float = 0.5
    """Share of a release row's numbers left out in each batch."""
    plaintext_dropout: float = 0.7
    """Share of a plaintext source row's ratings left out in each batch."""
    hide: float = 0.4
    """Share of training users whose history is hidden in each batch, so that the source learns to do without."""
    hide_otherwise: float = 0.2
    """The same where every user has history: hiding more costs them about .01 of NDCG@10 and serves nobody."""
    hide_source: float = 0.4
    """Share of the others whose source row is hidden, so that the history learns to do without it too."""
    reconstruction: float = 0.1
    """ρ: weight of the auto-encoder's squared error, per user."""
    alignment: float = 0.01
    """α: weight of the squared distance between the two user vectors, per user."""

    def __post_init__(self) -> None:
        require_count(hidden=self.hidden, width=self.width)
        for name in (
            "dropout",
            "entry_dropout",
            "release_dropout",
            "plaintext_dropout",
            "hide",
            "hide_otherwise",
            "hide_source",
        ):
            if not 0 <= getattr(self, name) < 1:
                raise ParameterError(f"{name} must lie in [0, 1), got {getattr(self, name)!r}")
        for name in ("reconstruction", "alignment"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ParameterError(f"{name} must be zero or more, got {getattr(self, name)!r}")


class FusionRun:
    """One training run: tensors on a device, thrown away when the factors are out."""

    def __init__(
        self,
        kind: type[Fusion],
        inputs: Inputs,
        config: FusionConfig,
        options: TrainingOptions,
    ) -> None:
        self.inputs, self.config, self.options = inputs, config, options
        self.device = options.torch_device()
        self.rows = SparseRows(inputs.ratings, self.device)
        self.columns = SparseRows(inputs.ratings.T.tocsr(), self.device).all()
        self.source = _source(inputs, self.device)
        self.present = torch.as_tensor(inputs.present, device=self.device)
        someone_is_cold = bool(((self.rows.counts == 0) & self.present).any())
        self.hide = config.hide if someone_is_cold else config.hide_otherwise
        n_users, n_items = inputs.ratings.shape
        width = 0 if inputs.source is None else inputs.source.shape[1]
        sparse = isinstance(self.source, SparseRows)
        sizes = Sizes(
            n_users,
            n_items,
            0 if sparse else width,
            width if sparse else 0,
            config.hidden,
            config.width,
            config.dropout,
        )
        with seeded(options.seed, self.device):
            popularity = torch.bincount(self.columns.row_of.cpu(), minlength=n_items).float()
            self.network = kind(sizes, popularity).to(self.device)

    def fit(self, name: str, validation: HeldOut | None, recording: Recording) -> Factors:
        """Train, settle the gates, and fold everything into plain vectors."""
        fit_network(
            self.network,
            self.step,
            torch.nonzero(self.rows.counts > 0).squeeze(1),
            self.options,
            scorer=lambda: self._scorer((1.0, 1.0)),
            identity=f"{name} {self.config!r} {self._fingerprint()}",
            validation=validation,
            recording=recording,
        )
        return self._factors(name, self._gates(validation))

    def step(self, users: Tensor) -> Tensor:
        """The loss of one batch of users against all items."""
        config, network = self.config, self.network
        bags = self.rows.batch(users)
        labels = bags.dense(self.rows.shape[1])
        items = network.items(self.columns.keep(1 - config.entry_dropout))
        if self.source is None:
            seen = bags.keep(1 - config.entry_dropout)
            return all_items(network.logits(network.own(seen, torch.ones_like(users)), items), labels)
        chance = torch.rand(len(users), device=users.device)
        hidden = (chance < self.hide) & self.present[users]  # only where the source can take over
        own = network.own(bags.keep(1 - config.entry_dropout).without(hidden), ~hidden)
        known = self.present[users] & (hidden | (chance < 1 - config.hide_source * (1 - self.hide)))
        other = network.other(self._source_rows(users, training=True), known)
        loss = all_items(network.logits(own + other, items), labels)
        return loss + self._auxiliary(users, bags, other, known)

    def _auxiliary(self, users: Tensor, bags: Bags, other: Tensor, known: Tensor) -> Tensor:
        """ρ · reconstruction + α · alignment, both per user, so that they mean the same at any batch size."""
        own = self.network.own(bags, torch.ones_like(users)) * known[:, None]
        total = self.config.alignment * alignment(other, own)
        if self.network.decoder is not None:
            assert isinstance(self.source, Tensor)
            restored = self.network.decoder(other) * known[:, None]
            wanted = self.source[users] * known[:, None]
            total = total + self.config.reconstruction * ((restored - wanted) ** 2).sum()
        weighted: Tensor = total / len(users)
        return weighted

    def _source_rows(self, users: Tensor, *, training: bool = False) -> Tensor | Bags:
        assert self.source is not None
        if isinstance(self.source, SparseRows):
            return self.source.batch(users).keep(1 - self.config.plaintext_dropout if training else 1.0)
        return torch.nn.functional.dropout(self.source[users], self.config.release_dropout, training)

    @torch.no_grad()
    def _factors(self, name: str, gates: tuple[float, float]) -> Factors:
        everyone = torch.arange(len(self.inputs.users), device=self.device)
        vectors = [self._user_vectors(part, gates).cpu() for part in torch.split(everyone, 4096)]
        return Factors(
            method=name,
            users=self.inputs.users,
            items=self.inputs.items,
            user_vectors=torch.cat(vectors).numpy(),
            item_vectors=self.network.items(self.columns).cpu().numpy(),
            item_bias=self.network.item_bias.detach().cpu().numpy(),
            seen=self.inputs.ratings,
            in_release=self.inputs.present,
        )

    def _user_vectors(self, users: Tensor, gates: tuple[float, float]) -> Tensor:
        """Own history plus what the source adds, trusted as far as ``gates`` (warm, cold) say.

        Without history a user's vector would be normalised whatever its length; there the gate scales the result.
        """
        warm = self.rows.counts[users] > 0
        vectors = self.network.own(self.rows.batch(users), warm)
        if self.source is not None:
            trust = torch.where(warm, gates[0], 1.0)[:, None]
            vectors = vectors + trust * self.network.other(self._source_rows(users), self.present[users])
        known = warm | self.present[users]  # of the others nothing is known but what is popular
        return self.network.users(vectors) * torch.where(warm, 1.0, gates[1] * known)[:, None]

    @torch.no_grad()
    def _scorer(self, gates: tuple[float, float]) -> ScorePairs:
        vectors, bias = self.network.items(self.columns), self.network.item_bias
        return lambda users, items: (self._user_vectors(users, gates)[:, None] * vectors[items]).sum(2) + bias[items]

    def _gates(self, validation: HeldOut | None) -> tuple[float, float]:
        """How far to trust the source for warm and for cold users: what serves their validation items best.

        Cold users fall back on what is popular, unless the source is better by more than a standard error: the best of
        several gates is better on validation by chance alone, and a useless release must not cost them anything.
        """
        if validation is None or self.source is None:
            return 1.0, 1.0
        empty = np.diff(self.inputs.ratings.indptr)[validation.users] == 0
        warm, cold = validation.only(~empty), validation.only(empty)
        gates = (1.0, 1.0)
        if len(warm):
            found = {gate: ndcg_by_user(self._scorer((gate, 1.0)), warm, self.device) for gate in GATES}
            gates = (max(GATES, key=lambda gate: found[gate].mean()), 1.0)
        if len(cold):
            found = {gate: ndcg_by_user(self._scorer((1.0, gate)), cold, self.device) for gate in GATES}
            best = max(GATES, key=lambda gate: found[gate].mean())
            gain = found[best] - found[0.0]
            gates = (gates[0], best if gain.mean() > standard_error(gain) else 0.0)
        return gates

    def _fingerprint(self) -> str:
        """SHA-256 of everything that is trained on."""
        inputs = self.inputs
        target = Ratings(inputs.ratings, inputs.users, inputs.items)
        digest = hashlib.sha256(ratings_identity(target).encode())
        digest.update(inputs.present.tobytes())
        source: Any = inputs.source
        parts = (source.indptr, source.indices) if sp.issparse(source) else () if source is None else (source,)
        for part in parts:
            digest.update(np.ascontiguousarray(part).tobytes())
        return digest.hexdigest()


def _source(inputs: Inputs, device: torch.device) -> Tensor | SparseRows | None:
    if inputs.source is None:
        return None
    if sp.issparse(inputs.source):
        return SparseRows(inputs.source, device)
    return torch.as_tensor(inputs.source, device=device)
