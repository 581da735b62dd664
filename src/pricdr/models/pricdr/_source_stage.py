"""The source stage: maps a source row to a user vector, trained against the items of the finished target stage.

The target's own network is frozen by now. So a worthless release costs nothing: where validation finds no use for it,
the result is the model of the target stage, number for number.

total = regression + ρ · reconstruction + α · alignment, each per user, so that the weights do not depend on the batch
size.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from pricdr.data.splits import BoolArray, HeldOut
from pricdr.errors import require_not_negative, require_share
from pricdr.models.chosen import Trust
from pricdr.models.fitted import FittedModel
from pricdr.models.fitting import ScorePairs, arrays_identity, train_network
from pricdr.models.inputs import NARROW, Inputs
from pricdr.models.newcomers import Newcomers
from pricdr.models.pricdr._networks import SourceNetwork
from pricdr.models.pricdr._target_stage import TargetStage, TargetStageConfig
from pricdr.training.loop import seeded
from pricdr.training.losses import alignment, mean_cross_entropy, pair_scores
from pricdr.training.rows import Bags, SparseRows
from pricdr.training.run_log import RunLog
from pricdr.training.sampling import ItemSample, sample_items

_USERS_AT_ONCE = 4096


@dataclass(frozen=True, kw_only=True)
class SourceStageConfig(TargetStageConfig):
    """Sizes and dropouts of both networks, and the weights in the source's loss."""

    release_dropout: float = 0.5
    """Share of a wide release row's numbers dropped in each batch."""
    narrow_dropout: float = 0.0
    """Share of a narrow release row's numbers dropped in each batch."""
    plaintext_dropout: float = 0.7
    """Share of a plaintext source row's ratings dropped in each batch."""
    reconstruction: float = 0.1
    """ρ: weight of the auto-encoder's squared error; a narrow release is not reconstructed."""
    alignment: float = 0.01
    """α: weight of the squared distance between the two user vectors; not for a narrow release."""
    joint: bool = False
    """Train both networks together, as the paper does, instead of one after the other. For ablations only: the source
    then moves items and histories too, and no gate can undo it."""
    gated: bool = True
    """Let evidence, newcomers and validation decide how far the source is trusted. If false (for ablations), the source
    is trusted fully, and the model may be worse than one of the target alone."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_share(
            release_dropout=self.release_dropout,
            narrow_dropout=self.narrow_dropout,
            plaintext_dropout=self.plaintext_dropout,
        )
        require_not_negative(reconstruction=self.reconstruction, alignment=self.alignment)


class SourceStage:
    """Fits source rows to the item vectors of a finished target stage."""

    def __init__(self, target_stage: TargetStage, inputs: Inputs, config: SourceStageConfig) -> None:
        assert inputs.source is not None
        self.inputs, self.config, self.options = inputs, config, target_stage.options
        self.target_stage, self.target_network, self.device = target_stage, target_stage.network, target_stage.device
        self.rows = SparseRows(inputs.ratings, self.device)
        self.present = torch.as_tensor(inputs.present, device=self.device)
        self.warm = self.rows.counts > 0
        self.stand_ins = torch.zeros_like(self.warm)
        self.take_target_vectors()
        self.source = _on_device(inputs, self.device)
        self.narrow = isinstance(self.source, Tensor) and self.source.shape[1] <= NARROW
        sizes = (inputs.source.shape[1], config.hidden, config.width, config.dropout)
        with seeded(self.options.seed, self.device):
            if isinstance(self.source, SparseRows):
                network = SourceNetwork.of_ratings(*sizes)
            elif self.narrow:
                network = SourceNetwork.of_narrow_release(*sizes)
            else:
                network = SourceNetwork.of_release(*sizes)
        self.network = network.to(self.device)

    def take_target_vectors(self) -> None:
        """Store the item and history vectors of the target's network in its current state."""
        self.target_network.eval()
        extra_users = len(self.inputs.users) - len(self.target_stage.target.users)
        self.item_vectors = self.target_stage.item_vectors()
        self.history_vectors = torch.nn.functional.pad(self.target_stage.history_vectors(), (0, 0, 0, extra_users))

    @property
    def examples(self) -> Tensor:
        """The users with a history and a source row, without the stand-ins for cold users."""
        return torch.nonzero(self.fitted_to).squeeze(1)

    @property
    def fitted_to(self) -> Tensor:
        """Which users have rows that are fitted to their histories."""
        return self.warm & self.present & ~self.stand_ins

    @property
    def identity(self) -> str:
        """The configuration and a hash of all training data, including the frozen network."""
        source: Any = self.inputs.source
        ratings = self.inputs.ratings
        sparse = isinstance(self.source, SparseRows)
        numbers = [source.indptr, source.indices] if sparse else [source]
        frozen = [weights.cpu().numpy() for weights in self.target_network.state_dict().values()]
        digest = arrays_identity(
            self.inputs.present, self.stand_ins.cpu().numpy(), ratings.indptr, ratings.indices, *frozen, *numbers
        )
        # Gates come after training, so they do not change the network; a joint training adds a word of its own.
        return f"source {replace(self.config, gated=True, joint=False)!r} {digest}"

    def train(
        self, validation: HeldOut | None, epochs: int | None, log: RunLog, newcomers: Newcomers | None = None
    ) -> int:
        """Train the source's network and return the epoch it ends with, see :func:`train_network`.

        Newcomers pick the epoch where there is validation, since only their rows serve them. They are not trained on.
        """
        # Frozen, so that the source cannot change what the target has learnt.
        for parameter in self.target_network.parameters():
            parameter.requires_grad_(False)
        if newcomers is not None:
            self.leave_out(newcomers)
            if validation is not None and len(newcomers.held_out):
                validation = newcomers.held_out
        return train_network(self, self.options, validation=validation, epochs=epochs, log=log)

    def leave_out(self, newcomers: Newcomers) -> None:
        """Leave the stand-ins for cold users out of training."""
        self.stand_ins = torch.as_tensor(newcomers.stand_ins, device=self.device)

    def step(self, batch: Tensor) -> Tensor:
        """Return the loss of a batch of users: their ratings predicted from their source rows alone."""
        vectors = self.training_vectors(batch)
        sample = sample_items(self.rows.batch(batch), self.rows.shape[1], self.config.other_items)
        return self.loss(batch, vectors, sample, self.item_vectors[sample.items], self.history_vectors[batch])

    def training_vectors(self, batch: Tensor) -> Tensor:
        """Return the vectors of a batch of users, each from a random part of the source row."""
        if isinstance(self.source, SparseRows):
            rows: Tensor | Bags = self.source.batch(batch).keep(1 - self.config.plaintext_dropout)
        else:
            share = self.config.narrow_dropout if self.narrow else self.config.release_dropout
            rows = torch.nn.functional.dropout(self.source[batch], share)
        vectors: Tensor = self.network(rows)
        return vectors

    def loss(self, batch: Tensor, vectors: Tensor, sample: ItemSample, items: Tensor, histories: Tensor) -> Tensor:
        """Return the loss of the source's user vectors, given the vectors of items and histories."""
        network = self.target_network
        logits = network.users(vectors) @ items.T + network.item_bias[sample.items]
        loss = mean_cross_entropy(logits, sample.labels, sample.weights)
        if self.narrow:  # reconstructing so few numbers would only copy their noise
            return loss
        total = self.config.alignment * alignment(vectors, histories)
        if self.network.decoder is not None:
            assert isinstance(self.source, Tensor)
            reconstructed = self.network.decoder(vectors)
            total = total + self.config.reconstruction * ((reconstructed - self.source[batch]) ** 2).sum()
        return loss + total / len(batch)

    def scorer(self) -> ScorePairs:
        """Return the scores that validation uses in training: by the source alone."""
        return self.score_with(self.source_alone(1.0))

    @torch.no_grad()
    def user_vectors(self, trust: Trust) -> Tensor:
        """Return the users' histories plus what the source adds; the source alone where there is no history."""
        both = self.target_network.users(self.history_vectors + trust.warm * self._source_vectors())
        return torch.where(self.warm[:, None], both, self.source_alone(trust.cold))

    @torch.no_grad()
    def score_with(self, user_vectors: Tensor) -> ScorePairs:
        """Return a function that scores items with these user vectors."""
        bias = self.target_network.item_bias
        return lambda users, items: pair_scores(user_vectors, self.item_vectors, bias, users, items)

    def is_cold(self, held_out: HeldOut) -> BoolArray:
        """Return which held-out items belong to users without a history."""
        cold: BoolArray = ~self.warm.cpu().numpy()[held_out.users]
        return cold

    def fitted_model(self, method: str, trust: Trust) -> FittedModel:
        """Return both stages folded into plain vectors."""
        used = self.present & torch.where(self.warm, trust.warm > 0, trust.cold > 0)
        return FittedModel(
            method=method,
            users=self.inputs.users,
            items=self.inputs.items,
            user_vectors=self.user_vectors(trust).cpu().numpy(),
            item_vectors=self.item_vectors.cpu().numpy(),
            item_bias=self.target_network.item_bias.detach().cpu().numpy(),
            seen=self.inputs.ratings,
            in_release=used.cpu().numpy(),
        )

    @torch.no_grad()
    def _source_vectors(self) -> Tensor:
        """Return the vector of each user's source row; zeros where there is none."""
        everyone = torch.arange(len(self.inputs.users), device=self.device)
        blocks = [self.network(self._source_rows(users)) for users in torch.split(everyone, _USERS_AT_ONCE)]
        return torch.cat(blocks) * self.present[:, None]

    @torch.no_grad()
    def source_alone(self, trust: float) -> Tensor:
        """Return user vectors from the source alone, times ``trust``: last, since the network sets their length."""
        return trust * self.target_network.users(self._source_vectors()) * self.present[:, None]

    def _source_rows(self, users: Tensor) -> Tensor | Bags:
        return self.source.batch(users) if isinstance(self.source, SparseRows) else self.source[users]


def _on_device(inputs: Inputs, device: torch.device) -> Tensor | SparseRows:
    if isinstance(inputs.source, sp.csr_array):
        return SparseRows(inputs.source, device)
    return torch.as_tensor(np.asarray(inputs.source), device=device)
