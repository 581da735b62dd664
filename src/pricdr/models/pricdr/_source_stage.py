"""Part two: a row of the source to a user vector, trained against the items as part one left them.

The target's own network is finished and frozen by now. So a release that is worth nothing costs nothing: where the
evidence test or validation closes the gates, what is left is the target-only model, number for number.

total = regression + ρ · reconstruction + α · alignment, each per user, so that they mean the same at any batch size.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from pricdr.data.ratings import Ratings
from pricdr.data.splits import HeldOut
from pricdr.errors import InputError, require_not_negative, require_share
from pricdr.evaluation.compare import clearly_above
from pricdr.models.evidence import has_evidence
from pricdr.models.fitted import Factors
from pricdr.models.fitting import ScorePairs, arrays_identity, fit_network, ndcg_by_user, require_trainable
from pricdr.models.inputs import Inputs
from pricdr.models.pricdr._networks import HistoryNetwork, SourceNetwork
from pricdr.models.pricdr._target_stage import HistoryConfig, HistoryRun
from pricdr.training.loop import Choices, Recording, TrainingOptions, seeded
from pricdr.training.losses import alignment, all_items
from pricdr.training.rows import Bags, SparseRows

GATES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""How far a source row may be trusted; validation decides, for users with and without history apart."""
NARROW: Final = 32
"""The most numbers per row of a narrow release. They are few because each was chosen: none is left out, restored or
aligned, which is what a wide release of poor numbers needs against overfitting."""


@dataclass(frozen=True, kw_only=True)
class SourceConfig(HistoryConfig):
    """What both networks are, and what the source's minimises."""

    release_dropout: float = 0.5
    """Share of a wide release row's numbers left out in each batch."""
    narrow_dropout: float = 0.0
    """Share of a narrow release row's numbers left out in each batch."""
    plaintext_dropout: float = 0.7
    """Share of a plaintext source row's ratings left out in each batch."""
    reconstruction: float = 0.1
    """ρ: weight of the auto-encoder's squared error; a narrow release is not reconstructed."""
    alignment: float = 0.01
    """α: weight of the squared distance between the two user vectors; not for a narrow release."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_share(
            release_dropout=self.release_dropout,
            narrow_dropout=self.narrow_dropout,
            plaintext_dropout=self.plaintext_dropout,
        )
        require_not_negative(reconstruction=self.reconstruction, alignment=self.alignment)


def fit_both(
    kind: type[HistoryNetwork],
    name: str,
    target: Ratings,
    inputs: Inputs,
    config: SourceConfig,
    options: TrainingOptions,
    validation: HeldOut | None,
    recording: Recording,
) -> Factors:
    """Part one, then part two."""
    if not (inputs.present & (np.diff(inputs.ratings.indptr) > 0)).any():
        raise InputError("no user has both target ratings and a row of the source: there is nothing to learn it from")
    assert inputs.source is not None
    # Now, and not when part one has been trained: the encoder's wide layer, and the decoder's.
    require_trainable(2 * inputs.source.shape[1] * config.hidden)
    history = HistoryRun(kind, target, config, options)
    history.train(validation, recording.of_part("history"))
    source = SourceRun(history, inputs, config)
    source.train(validation, recording.of_part("source"))
    return source.factors(name, source.gates(validation, recording.choices))


class SourceRun:
    """Source rows against the finished item vectors; then how far they are to be trusted."""

    def __init__(self, history: HistoryRun, inputs: Inputs, config: SourceConfig) -> None:
        self.history, self.inputs, self.config = history, inputs, config
        self.network, self.device = history.network, history.device
        self.rows = SparseRows(inputs.ratings, self.device)
        self.present = torch.as_tensor(inputs.present, device=self.device)
        self.warm = self.rows.counts > 0
        self.items = history.item_vectors()
        newcomers = len(inputs.users) - len(history.target.users)
        self.own = torch.nn.functional.pad(history.vectors(), (0, 0, 0, newcomers))
        self.source = _source(inputs, self.device)
        assert inputs.source is not None
        self.narrow = isinstance(self.source, Tensor) and self.source.shape[1] <= NARROW
        sizes = (inputs.source.shape[1], config.hidden, config.width, config.dropout)
        with seeded(history.options.seed, self.device):
            if isinstance(self.source, SparseRows):
                encoder = SourceNetwork.of_ratings(*sizes)
            else:
                encoder = (SourceNetwork.of_narrow_release if self.narrow else SourceNetwork.of_release)(*sizes)
        self.encoder = encoder.to(self.device)

    def train(self, validation: HeldOut | None, recording: Recording) -> None:
        """Train the source's network; users without history pick the epoch, or everybody where all have one."""
        for parameter in self.network.parameters():
            parameter.requires_grad_(False)
        if validation is not None and self._cold(validation).any():
            validation = validation.only(self._cold(validation))
        fit_network(
            self.encoder,
            self.step,
            torch.nonzero(self.warm & self.present).squeeze(1),
            self.history.options,
            scorer=lambda: self._scorer(self._alone(1.0)),
            identity=f"source {self.config!r} {self._identity()}",
            validation=validation,
            recording=recording,
        )

    def step(self, users: Tensor) -> Tensor:
        """The loss of one batch: what their source rows alone say of all items."""
        bags = self.rows.batch(users)
        vectors = self.encoder(self._source_rows(users, training=True))
        loss = all_items(self.network.logits(vectors, self.items), bags.dense(self.rows.shape[1]))
        if self.narrow:
            return loss
        total = self.config.alignment * alignment(vectors, self.own[users])
        if self.encoder.decoder is not None:
            assert isinstance(self.source, Tensor)
            restored = self.encoder.decoder(vectors)
            total = total + self.config.reconstruction * ((restored - self.source[users]) ** 2).sum()
        return loss + total / len(users)

    def factors(self, name: str, gates: tuple[float, float]) -> Factors:
        """Everything folded into plain vectors."""
        used = self.present & torch.where(self.warm, gates[0] > 0, gates[1] > 0)
        return Factors(
            method=name,
            users=self.inputs.users,
            items=self.inputs.items,
            user_vectors=self._users(gates).cpu().numpy(),
            item_vectors=self.items.cpu().numpy(),
            item_bias=self.network.item_bias.detach().cpu().numpy(),
            seen=self.inputs.ratings,
            in_release=used.cpu().numpy(),
        )

    @torch.no_grad()
    def _others(self) -> Tensor:
        """What each user's source row says; zero where there is none."""
        everyone = torch.arange(len(self.inputs.users), device=self.device)
        parts = [self.encoder(self._source_rows(part)) for part in torch.split(everyone, 4096)]
        return torch.cat(parts) * self.present[:, None]

    @torch.no_grad()
    def _alone(self, gate: float) -> Tensor:
        """User vectors from the source alone. Their length is the learnt one, so the gate scales the result."""
        return gate * self.network.users(self._others()) * self.present[:, None]

    @torch.no_grad()
    def _users(self, gates: tuple[float, float]) -> Tensor:
        """Own history plus what the source adds to it; the source alone where there is no history."""
        both = self.network.users(self.own + gates[0] * self._others())
        return torch.where(self.warm[:, None], both, self._alone(gates[1]))

    @torch.no_grad()
    def _scorer(self, users: Tensor) -> ScorePairs:
        bias = self.network.item_bias
        return lambda chosen, items: (users[chosen][:, None] * self.items[items]).sum(2) + bias[items]

    def _cold(self, held_out: HeldOut) -> Any:  # noqa: ANN401 - an array of booleans
        return ~self.warm.cpu().numpy()[held_out.users]

    def gates(self, validation: HeldOut | None, choices: Choices | None = None) -> tuple[float, float]:
        """Return how far to trust the source for warm and for cold users: as far as validation items show a gain.

        A release without evidence (:mod:`pricdr.models.evidence`) is not trusted at all. The best of several gates is
        better on validation by chance alone, so it has to be better than a closed one by more than a standard error.
        Without validation what was chosen before holds; where nothing was, cold users trust the source fully, and warm
        users their own history.
        """
        if validation is None and choices is not None and choices.gates is not None:
            return choices.gates
        if isinstance(self.source, Tensor) and not has_evidence(self.inputs):
            found = (0.0, 0.0)
        elif validation is None:
            found = (0.0, 1.0)
        else:
            found = self._validated_gates(validation)
        if choices is not None and validation is not None:
            choices.gates = found
        return found

    def _validated_gates(self, validation: HeldOut) -> tuple[float, float]:
        cold = self._cold(validation)
        return (
            self._gate(validation.only(~cold), lambda gate: self._users((gate, 0.0))),
            # one user tells nothing, and nobody even less
            self._gate(validation.only(cold), lambda gate: self._users((0.0, gate))) if cold.sum() > 1 else 1.0,
        )

    def _gate(self, held_out: HeldOut, users: Any) -> float:  # noqa: ANN401 - a gate to user vectors
        if not len(held_out):
            return 0.0
        found = {gate: ndcg_by_user(self._scorer(users(gate)), held_out, self.device) for gate in GATES}
        best = max(GATES, key=lambda gate: (found[gate].mean(), gate))
        return best if clearly_above(found[best], found[0.0]) else 0.0

    def _source_rows(self, users: Tensor, *, training: bool = False) -> Tensor | Bags:
        if isinstance(self.source, SparseRows):
            return self.source.batch(users).keep(1 - self.config.plaintext_dropout if training else 1.0)
        left_out = self.config.narrow_dropout if self.narrow else self.config.release_dropout
        return torch.nn.functional.dropout(self.source[users], left_out, training)

    def _identity(self) -> str:
        """SHA-256 of what part two is trained on, the frozen network included."""
        source: Any = self.inputs.source
        ratings = self.inputs.ratings
        parts = [source.indptr, source.indices] if sp.issparse(source) else [source]
        frozen = [weights.cpu().numpy() for weights in self.network.state_dict().values()]
        return arrays_identity(self.inputs.present, ratings.indptr, ratings.indices, *frozen, *parts)


def _source(inputs: Inputs, device: torch.device) -> Tensor | SparseRows:
    if sp.issparse(inputs.source):
        return SparseRows(inputs.source, device)
    return torch.as_tensor(np.asarray(inputs.source), device=device)
