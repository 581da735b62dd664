"""HeteroCDR and its ablations: train the target's network, fit the source's to it, choose the trust in the source."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from pricdr.data.pairs import DomainPair
from pricdr.data.ratings import Ratings
from pricdr.data.splits import BoolArray, HeldOut
from pricdr.errors import InputError, require_not_negative, require_share
from pricdr.models.base import PlaintextMethod, ReleaseMethod, SearchSpace, Trained
from pricdr.models.fitted import TRUSTED, UNTRUSTED, Chosen, FittedModel, Trust
from pricdr.models.gates import Newcomers, is_refused, select_newcomers, shows_gain, trust_is_settled, with_evidence
from pricdr.models.methods.dmf import Sizes, TargetNetwork, TargetStage, TargetStageConfig, TwoTowers, target_options
from pricdr.models.methods.networks import Dropout, SparseTower, dense_tower
from pricdr.models.training_data import NARROW, Inputs, ReleaseRows
from pricdr.training.loop import (
    ScorePairs,
    TrainingOptions,
    arrays_identity,
    ndcg_by_user,
    require_trainable,
    seeded,
    train_network,
)
from pricdr.training.losses import alignment, mean_cross_entropy, pair_scores
from pricdr.training.rows import Bags, ItemSample, SparseRows, sample_items
from pricdr.training.run_log import RunLog


class AutoEncoder(TargetNetwork):
    """Encodes a target row as a vector and decodes it: the decoder scores the items."""

    def __init__(self, sizes: Sizes, popularity: Tensor) -> None:
        super().__init__(sizes, popularity)
        self.first = nn.Sequential(nn.Linear(sizes.width, sizes.hidden), nn.ReLU(), Dropout(sizes.dropout))
        self.last = nn.Parameter(torch.empty(sizes.items, sizes.hidden).uniform_(-1, 1) / math.sqrt(sizes.hidden))

    def items(self, numbers: Tensor, columns: Bags) -> Tensor:
        """Return rows of the decoder's last layer."""
        return self.last[numbers]

    def users(self, vectors: Tensor) -> Tensor:
        """Return the decoder's hidden layer."""
        hidden: Tensor = self.first(relu(vectors))
        return hidden


class SourceNetwork(nn.Module):
    """Maps a source row to a user vector, and with a decoder back: then it is an auto-encoder."""

    def __init__(self, encoder: nn.Module, decoder: nn.Module | None) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    @classmethod
    def of_release(cls, dim: int, hidden: int, width: int, dropout: float) -> "SourceNetwork":
        """Return the network for dense rows."""
        return cls(dense_tower(dim, hidden, width, dropout), dense_tower(width, hidden, dim, 0.0))

    @classmethod
    def of_narrow_release(cls, dim: int, hidden: int, width: int, dropout: float) -> "SourceNetwork":
        """Return the network for narrow dense rows, which are not reconstructed."""
        return cls(dense_tower(dim, hidden, width, dropout), None)

    @classmethod
    def of_ratings(cls, n: int, hidden: int, width: int, dropout: float) -> "SourceNetwork":
        """Return the network for plaintext ratings, which are not reconstructed."""
        return cls(SparseTower(n, hidden, width, dropout), None)

    def forward(self, rows: Tensor | Bags) -> Tensor:
        """Return one user vector per row."""
        vectors: Tensor = self.encoder(rows)
        return vectors


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
    """Fits source rows to the item vectors of a finished target stage, whose network is frozen by now.

    So a worthless release costs nothing: where validation finds no use for it, the result is the model of the target
    stage, number for number.

    total = regression + ρ · reconstruction + α · alignment, each per user, so that the weights do not depend on the
    batch size.
    """

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


_AS_TRAINED = Trust(warm=0.0, cold=1.0)
"""How validation scores: by history alone or by source row alone, as the two losses fit them."""


class JointStage:
    """Trains a source stage and the target stage under it by the sum of their losses."""

    def __init__(self, source_stage: SourceStage) -> None:
        self.source_stage, self.target_stage = source_stage, source_stage.target_stage
        self.network = nn.ModuleDict({"target": self.target_stage.network, "source": source_stage.network})

    @property
    def examples(self) -> Tensor:
        """The users with a history, with or without a source row."""
        return self.target_stage.examples

    @property
    def identity(self) -> str:
        """The identity of the source stage, which covers the untrained target network, marked as joint."""
        return f"joint {self.source_stage.identity}"

    def train(self, validation: HeldOut | None, epochs: int | None, log: RunLog, newcomers: Newcomers | None) -> int:
        """Train both networks and return the epoch they end with, see :func:`train_network`."""
        if newcomers is not None:
            self.source_stage.leave_out(newcomers)
        epoch = train_network(self, self.source_stage.options, validation=validation, epochs=epochs, log=log)
        self.source_stage.take_target_vectors()
        return epoch

    def step(self, batch: Tensor) -> Tensor:
        """Return the loss of a batch of users: that of their histories, plus that of their source rows if any."""
        target, source = self.target_stage.training_pass(batch), self.source_stage
        known = torch.nonzero(source.fitted_to[batch]).squeeze(1)
        if not len(known):
            return target.loss
        sample = target.sample._replace(labels=target.sample.labels[known])
        users = batch[known]
        # Nothing is detached: source rows move items and histories too.
        loss = source.loss(users, source.training_vectors(users), sample, target.items, target.histories[known])
        return target.loss + loss * (len(known) / len(batch))  # a mean over fewer users, rescaled to the whole batch

    def scorer(self) -> ScorePairs:
        """Return how validation scores: by history, or by the source where there is none."""
        self.source_stage.take_target_vectors()
        return self.source_stage.score_with(self.source_stage.user_vectors(_AS_TRAINED))


LEVELS: Final = (0.0, 0.25, 0.5, 0.75, 1.0)
"""The levels of trust to choose from."""


def choose_trust(stage: SourceStage, validation: HeldOut | None, newcomers: Newcomers) -> Trust:
    """Return how far to trust a source that was not refused.

    Newcomers decide it for cold users, and validation for warm users; without validation the trust for warm users is 0.
    """

    def vectors_with_history(level: float) -> Tensor:
        return stage.user_vectors(Trust(level, 0.0))

    warm = None if validation is None else validation.only(~stage.is_cold(validation))
    return Trust(
        warm=0.0 if warm is None else _best_level(stage, warm, vectors_with_history),
        cold=_best_level(stage, newcomers.held_out, stage.source_alone),
    )


def _best_level(stage: SourceStage, held_out: HeldOut, user_vectors: Callable[[float], Tensor]) -> float:
    """Return the level with the best NDCG@10, or 0 unless it beats level 0 by more than a standard error.

    By chance alone the best of several levels looks better on held-out items, hence the margin.
    """
    if not len(held_out):
        return 0.0
    ndcg = {level: ndcg_by_user(stage.score_with(user_vectors(level)), held_out, stage.device) for level in LEVELS}
    best = max(LEVELS, key=lambda level: (ndcg[level].mean(), level))
    return best if shows_gain(ndcg[best], ndcg[0.0]) else 0.0


TARGET_NETWORK, SOURCE_NETWORK, JOINT_NETWORK = "target", "source", "joint"
"""The names of the two networks, and of both in one training, in logs, progress bars and chosen epochs."""


@dataclass(frozen=True, kw_only=True)
class TwoStageMethod(ReleaseMethod):
    """What HeteroCDR and its ablation share: everything except the target's network."""

    _target_network: ClassVar[type[TargetNetwork]]

    config: SourceStageConfig = field(default_factory=SourceStageConfig)
    options: TrainingOptions = field(default_factory=target_options)

    @property
    def starts_others(self) -> tuple[str, ...]:
        """The target's network, unless joint training lets the source change it."""
        return () if self.config.joint else (TARGET_NETWORK,)

    def target_stage(self, target: Ratings) -> TargetStage:
        """Return the untrained target stage."""
        return TargetStage(self._target_network, target, self.config, self.options)

    def source_stage(self, target_stage: TargetStage, inputs: Inputs) -> SourceStage:
        """Return the untrained source stage over a finished target stage."""
        return SourceStage(target_stage, inputs, self.config)

    def _train(
        self, target: Ratings, release: ReleaseRows, *, validation: HeldOut | None, chosen: Chosen, log: RunLog
    ) -> Trained:
        inputs = Inputs.of(target, release)
        return self._train_stages(target, inputs, validation, chosen, log, require_evidence=True)

    def _train_stages(
        self,
        target: Ratings,
        inputs: Inputs,
        validation: HeldOut | None,
        chosen: Chosen,
        log: RunLog,
        *,
        require_evidence: bool,
    ) -> Trained:
        """Train the target stage, then the source stage, or both at once; without the source if it is refused.

        With ``require_evidence`` the source has to pass the evidence test.
        """
        if not (inputs.present & (np.diff(inputs.ratings.indptr) > 0)).any():
            raise InputError("no user has both target ratings and a row of the source: there is nothing to learn from")
        assert inputs.source is not None
        # Checked now, before the target stage is trained: the wide layers of encoder and decoder.
        require_trainable(2 * inputs.source.shape[1] * self.config.hidden)
        if self.config.gated:
            log.working("evidence test")
            if require_evidence:
                chosen = with_evidence(inputs, validation, chosen)
            if is_refused(validation, chosen):
                return self._train_target_alone(target, inputs, validation, chosen, log)
        # Without validation and without gates there is nothing for newcomers to choose.
        no_gates = validation is None and not self.config.gated
        nothing_to_choose = trust_is_settled(validation, chosen) or no_gates
        newcomers = None if nothing_to_choose else select_newcomers(inputs, validation, seed=self.options.seed)

        target_stage = self.target_stage(target)
        epochs = {}
        if self.config.joint:
            source_stage = self.source_stage(target_stage, inputs)
            epochs[JOINT_NETWORK] = JointStage(source_stage).train(
                validation, chosen.epochs.get(JOINT_NETWORK), log.of_network(JOINT_NETWORK), newcomers
            )
        else:
            epochs[TARGET_NETWORK] = target_stage.train(
                validation, chosen.epochs.get(TARGET_NETWORK), log.of_network(TARGET_NETWORK)
            )
            source_stage = self.source_stage(target_stage, inputs)
            epochs[SOURCE_NETWORK] = source_stage.train(
                validation, chosen.epochs.get(SOURCE_NETWORK), log.of_network(SOURCE_NETWORK), newcomers
            )
        trust = TRUSTED
        if self.config.gated:
            log.working("trust in the source")
            settled = chosen.trust if newcomers is None else choose_trust(source_stage, validation, newcomers)
            assert settled is not None  # without newcomers an earlier training settled it
            trust = settled
        return source_stage.fitted_model(self.name, trust), _settled(epochs, trust, validation, chosen)

    def _train_target_alone(
        self, target: Ratings, inputs: Inputs, validation: HeldOut | None, chosen: Chosen, log: RunLog
    ) -> Trained:
        """Train only the target stage, because the source was refused."""
        stage = self.target_stage(target)
        epoch = stage.train(validation, chosen.epochs.get(TARGET_NETWORK), log.of_network(TARGET_NETWORK))
        return stage.fitted_model(self.name, inputs.users), _settled(
            {TARGET_NETWORK: epoch}, UNTRUSTED, validation, chosen
        )


def _settled(epochs: Mapping[str, int], trust: Trust, validation: HeldOut | None, chosen: Chosen) -> Chosen:
    """Return the choices of this training; without validation, the epochs are those that it was given."""
    chosen_epochs = chosen.epochs if validation is None else epochs
    return Chosen(epochs=chosen_epochs, trust=trust, evidence=chosen.evidence, not_chosen=chosen.not_chosen)


@dataclass(frozen=True, kw_only=True)
class HeteroCDR(TwoStageMethod, PlaintextMethod):
    """Train on target ratings and a release: the `default` preset, which works best. The paper's form is ``PaperCDR``.

    It trains in two stages: DMF on the target, then the release rows into the same space, against the finished items.
    Trained jointly, as in the paper, a release at ε = 8 cost users with history NDCG@10 (.009 ± .006 for sjlt on
    Douban). ``fit_plaintext`` trains on the source's ratings themselves, to measure what there is to gain; they are not
    reconstructed.
    """

    name: ClassVar[str] = "hetero"
    summary: ClassVar[str] = "HeteroCDR: auto-encoder on the release, DMF towers on the target, aligned users"
    space: ClassVar[SearchSpace] = {
        "learning_rate": (2e-4, 5e-4, 1e-3),
        "batch": (128, 256, 512),
        "dropout": (0.3, 0.5, 0.7),
        "entry_dropout": (0.3, 0.5, 0.7),
        "release_dropout": (0.2, 0.5),
        "reconstruction": (0.0, 0.1, 1.0),
        "alignment": (0.0, 0.01, 0.1),
    }
    narrow_space: ClassVar[SearchSpace | None] = {
        "learning_rate": (2e-4, 5e-4, 1e-3),
        "weight_decay": (1e-4, 1e-2, 1e-1),
        "batch": (128, 256, 512),
        "dropout": (0.3, 0.5, 0.7),
        "entry_dropout": (0.3, 0.5, 0.7),
        "narrow_dropout": (0.0, 0.1, 0.2),
    }

    _target_network: ClassVar[type[TargetNetwork]] = TwoTowers

    def _train_plaintext(self, pair: DomainPair, *, validation: HeldOut | None, chosen: Chosen, log: RunLog) -> Trained:
        inputs = Inputs.plaintext(pair)
        return self._train_stages(pair.target, inputs, validation, chosen, log, require_evidence=False)


@dataclass(frozen=True, kw_only=True)
class SymmetricCDR(TwoStageMethod):
    """Like :class:`HeteroCDR`, but the decoder of the target's auto-encoder scores the items, not an item tower."""

    name: ClassVar[str] = "symmetric"
    summary: ClassVar[str] = "PriCDR-SYM: auto-encoders on both sides"
    space: ClassVar[SearchSpace] = {
        "learning_rate": (5e-4, 1e-3, 2e-3, 5e-3),
        "batch": (128, 256, 512),
        "dropout": (0.1, 0.3, 0.5),
        "entry_dropout": (0.3, 0.5, 0.7),
        "release_dropout": (0.2, 0.5),
        "reconstruction": (0.0, 0.1, 1.0),
        "alignment": (0.0, 0.01, 0.1),
    }
    narrow_space: ClassVar[SearchSpace | None] = {
        "learning_rate": (5e-4, 1e-3, 2e-3, 5e-3),
        "weight_decay": (1e-4, 1e-2, 1e-1),
        "batch": (128, 256, 512),
        "dropout": (0.1, 0.3, 0.5),
        "entry_dropout": (0.3, 0.5, 0.7),
        "narrow_dropout": (0.0, 0.1, 0.2),
    }

    _target_network: ClassVar[type[TargetNetwork]] = AutoEncoder

    config: SourceStageConfig = field(default_factory=lambda: SourceStageConfig(dropout=0.3, entry_dropout=0.3))
    options: TrainingOptions = field(default_factory=lambda: replace(target_options(), batch=128))
