"""HeteroCDR and its ablations: train the target's network, fit the source's to it, choose the trust in the source."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, relu

from pricdr.data.splits import HeldOut
from pricdr.errors import InputError
from pricdr.models.base import PlaintextMethod, ReleaseMethod, SearchSpace, TargetMethod, Trained
from pricdr.models.base_scores import WEIGHT, base_method, best_weight, require_vectors, with_base
from pricdr.models.fitted import UNTRUSTED, Chosen, FittedModel, Trust
from pricdr.models.gates import Gates, Newcomers, best_above
from pricdr.models.methods.dmf import TARGET_OPTIONS, TargetNetwork, TargetStage, TargetStageConfig, TwoTowers
from pricdr.models.methods.networks import Dropout, SparseTower, dense_tower, in_blocks, numbers
from pricdr.models.training_data import TrainingData
from pricdr.training.loop import (
    ScorePairs,
    TrainableNetwork,
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

TARGET_METHOD: Final = "dmf"  # what the target's network is by itself
TARGET_NETWORK, SOURCE_NETWORK, JOINT_NETWORK = "target", "source", "joint"  # in logs, progress bars, chosen epochs
LEVELS: Final = (1.0, 0.75, 0.5, 0.25, 0.0)  # of trust to choose from: the larger of two that are equally good
_HISTORY_OR_SOURCE: Final = Trust(warm=0.0, cold=1.0)  # in a joint training, as the two losses fit them


class AutoEncoder(TargetNetwork):
    """Encodes a target row as a vector and decodes it: the decoder scores the items."""

    def __init__(self, shape: tuple[int, int], config: TargetStageConfig, popularity: Tensor) -> None:
        super().__init__(shape, config, popularity)
        self.first = nn.Sequential(nn.Linear(config.width, config.hidden), nn.ReLU(), Dropout(config.dropout))
        self.last = nn.Parameter(torch.empty(shape[1], config.hidden).uniform_(-1, 1) / math.sqrt(config.hidden))

    def items(self, numbers: Tensor, columns: Bags) -> Tensor:
        """Return rows of the decoder's last layer."""
        return self.last[numbers]

    def users(self, vectors: Tensor) -> Tensor:
        """Return the decoder's hidden layer."""
        return cast(Tensor, self.first(relu(vectors)))


@dataclass(frozen=True, kw_only=True)
class SourceStageConfig(TargetStageConfig):
    """Sizes and dropouts of both networks, and the weights in the source's loss."""

    shares = (*TargetStageConfig.shares, "release_dropout", "narrow_dropout", "plaintext_dropout")

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
    base: str = "bpr"
    """A method of the target alone whose scores are added for users with a history, as far as validation shows a gain;
    dmf adds nothing, since it is the target's network already."""
    gated: bool = True
    """Let evidence, newcomers and validation decide how far the source is trusted. If false (for ablations), the source
    is trusted fully, and the model may be worse than one of the target alone."""


class SourceStage:
    """Fits source rows to the item vectors of a finished target stage, whose network is frozen by now.

    A worthless release then costs nothing: the result is the target stage's model, number for number. The loss is
    regression + ρ · reconstruction + α · alignment, each per user, so that weights do not depend on the batch size.
    """

    def __init__(
        self, target_stage: TargetStage, config: SourceStageConfig, newcomers: Newcomers | None = None
    ) -> None:
        data, source, sparse = target_stage.data, cast(Any, target_stage.data.source), target_stage.data.is_plaintext
        # It cannot change what the target has learnt, unless both are joint.
        target_stage.network.requires_grad_(config.joint)
        self.data, self.config, self.target_stage, self.device = data, config, target_stage, target_stage.device
        self.rows = SparseRows(data.ratings, self.device)
        self.present, self.warm = torch.as_tensor(data.present, device=self.device), self.rows.counts > 0
        # The stand-ins for cold users are left out of training: only unfitted rows show what a row is worth.
        stand_ins = np.zeros_like(data.present) if newcomers is None else newcomers.stand_ins
        self.fitted_to = self.warm & self.present & ~torch.as_tensor(stand_ins, device=self.device)
        self.examples = torch.nonzero(self.fitted_to).squeeze(1)
        frozen = [weights.cpu().numpy() for weights in target_stage.network.state_dict().values()]
        # Gates come after training, so they do not change the network; a joint training adds a word of its own.
        own = replace(config, gated=True, joint=False, base=TARGET_METHOD)
        self.identity = f"source {own!r} {arrays_identity(*data.arrays(), stand_ins, *frozen)}"
        self.take_target_vectors()
        self.source: Tensor | SparseRows = (
            SparseRows(source, self.device) if sparse else torch.as_tensor(source, device=self.device)
        )
        dim, hidden, width = source.shape[1], config.hidden, config.width
        self.narrow = data.narrow
        with seeded(target_stage.options.seed, self.device):
            tower = SparseTower if sparse else dense_tower
            self.network = nn.ModuleDict({"encoder": tower(dim, hidden, width, config.dropout)})
            if not sparse and not self.narrow:
                self.network["decoder"] = dense_tower(width, hidden, dim, 0.0)
        self.network.to(self.device)

    def take_target_vectors(self) -> None:
        """Store the item and history vectors of the target's network in its current state."""
        self.target_stage.network.eval()
        self.item_vectors = self.target_stage.item_vectors()
        self.history_vectors = self.target_stage.padded(self.target_stage.history_vectors())

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
            rows = dropout(self.source[batch], share)
        return cast(Tensor, self.network["encoder"](rows))

    def loss(self, batch: Tensor, vectors: Tensor, sample: ItemSample, items: Tensor, histories: Tensor) -> Tensor:
        """Return the loss of the source's user vectors, given the vectors of items and histories."""
        network = self.target_stage.network
        logits = network.users(vectors) @ items.T + network.item_bias[sample.items]
        loss = mean_cross_entropy(logits, sample.labels, sample.weights)
        if self.narrow:  # reconstructing so few numbers would only copy their noise
            return loss
        total = self.config.alignment * alignment(vectors, histories)
        if "decoder" in self.network:
            assert isinstance(self.source, Tensor)
            reconstructed = self.network["decoder"](vectors)
            total = total + self.config.reconstruction * ((reconstructed - self.source[batch]) ** 2).sum()
        return loss + total / len(batch)

    def scorer(self) -> ScorePairs:
        """Return the scores that validation uses in training: by the source alone."""
        return self.score_with(self.source_alone(1.0))

    @torch.no_grad()
    def user_vectors(self, trust: Trust) -> Tensor:
        """Return the users' histories plus what the source adds; the source alone where there is no history."""
        both = self.target_stage.network.users(self.history_vectors + trust.warm * self._source_vectors())
        return torch.where(self.warm[:, None], both, self.source_alone(trust.cold))

    def score_with(self, user_vectors: Tensor) -> ScorePairs:
        """Return a function that scores items with these user vectors."""
        bias = self.target_stage.network.item_bias
        return lambda users, items: pair_scores(user_vectors, self.item_vectors, bias, users, items)

    def choose_trust(self, validation: HeldOut | None, newcomers: Newcomers) -> Trust:
        """Return the trust as far as newcomers show a gain for cold users, and validation (none: 0) for warm ones."""
        warm = 0.0
        if validation is not None:
            of_warm = validation.only(self.warm.cpu().numpy()[validation.users])
            warm = self._best_level(of_warm, lambda level: self.user_vectors(Trust(level, 0.0)))
        return Trust(warm, self._best_level(newcomers.held_out, self.source_alone))

    def fitted_model(self, method: str, trust: Trust) -> FittedModel:
        """Return both stages folded into plain vectors."""
        used = self.data.covered & np.where(self.warm.cpu(), trust.warm > 0, trust.cold > 0)[:, None]
        arrays = map(numbers, (self.user_vectors(trust), self.item_vectors, self.target_stage.network.item_bias))
        encoders = self.target_stage.encoders(self.network["encoder"])
        return self.data.model(method, *arrays, in_release=used, encoders=encoders)

    @torch.no_grad()
    def source_alone(self, trust: float) -> Tensor:
        """Return user vectors from the source alone, times ``trust``: last, since the network sets their length."""
        return trust * self.target_stage.network.users(self._source_vectors()) * self.present[:, None]

    def _best_level(self, held_out: HeldOut, user_vectors: Callable[[float], Tensor]) -> float:
        """Return the level of trust with the best NDCG@10, the larger of equals, or 0 where it shows no gain."""
        ndcg = {level: ndcg_by_user(self.score_with(user_vectors(level)), held_out, self.device) for level in LEVELS}
        return best_above(ndcg, ndcg[0.0]) or 0.0

    @torch.no_grad()
    def _source_vectors(self) -> Tensor:
        source = self.source
        rows = source.batch if isinstance(source, SparseRows) else source.__getitem__
        vectors = in_blocks(len(self.data.users), lambda users: self.network["encoder"](rows(users)), self.device)
        return vectors * self.present[:, None]


class JointStage:
    """Trains a source stage and the target stage under it by the sum of their losses: an ablation, as in the paper."""

    def __init__(self, source_stage: SourceStage) -> None:
        self.source_stage, self.target_stage = source_stage, source_stage.target_stage
        self.network = nn.ModuleDict({"target": self.target_stage.network, "source": source_stage.network})
        self.examples = self.target_stage.examples
        self.identity = f"joint {source_stage.identity}"  # which covers the untrained network of the target

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
        return self.source_stage.score_with(self.source_stage.user_vectors(_HISTORY_OR_SOURCE))


@dataclass(frozen=True, kw_only=True)
class TwoStageMethod(ReleaseMethod):
    """What HeteroCDR and its ablation share: everything except the target's network."""

    _target_network: ClassVar[type[TargetNetwork]]
    config: SourceStageConfig = SourceStageConfig()
    options: TrainingOptions = TARGET_OPTIONS

    @property
    def starts_others(self) -> tuple[str, ...]:
        """The target's network, unless joint training lets the source change it."""
        return () if self.config.joint else (TARGET_NETWORK,)

    def _train(self, data: TrainingData, *, validation: HeldOut | None, chosen: Chosen, log: RunLog) -> Trained:
        if data.source is not None:
            if not (data.present & data.warm).any():
                raise InputError(
                    "no user has both target ratings and a row of a source: there is nothing to learn from"
                )
            # Checked now, before the target stage is trained: the wide layers of encoder and decoder.
            require_trainable(2 * data.source.shape[1] * self.config.hidden)
            if self.config.gated:
                log.progress("evidence test", 0, 0)
        gates = Gates.of(data, validation, chosen, seed=self.options.seed, enabled=self.config.gated)
        base, settings = None, chosen.settings
        epochs: dict[str, int] = {}
        if self.config.base != TARGET_METHOD and (validation is not None or settings.get(WEIGHT)):
            method = base_method(self.config.base, self.options)
            own = replace(log, network=method.name)
            base, found = method._train(data.only(()), validation=validation, chosen=chosen, log=own)
            require_vectors(base)
            epochs, settings = {**found.epochs}, {**settings, **found.settings}
        target_stage = TargetStage(self._target_network, gates.data, self.config, self.options)

        def train(run: TrainableNetwork, name: str, held_out: HeldOut | None) -> None:
            own = replace(log, network=name)
            state = train_network(run, self.options, validation=held_out, epochs=chosen.epochs, log=own)
            epochs[name] = state.best_epoch

        if gates.refused or not self.config.joint:
            train(target_stage, TARGET_NETWORK, validation)
        if gates.refused:
            trust, model = UNTRUSTED, target_stage.fitted_model(self.name)
        else:
            source_stage = SourceStage(target_stage, self.config, gates.newcomers)
            if self.config.joint:
                train(JointStage(source_stage), JOINT_NETWORK, validation)
                source_stage.take_target_vectors()
            else:
                # Newcomers pick the epoch where there is validation, since only their rows serve them.
                shown = None if validation is None or gates.newcomers is None else gates.newcomers.held_out
                train(source_stage, SOURCE_NETWORK, shown or validation)
            if self.config.gated:
                log.progress("trust in the source", 0, 0)
            trust = gates.settle(lambda newcomers: source_stage.choose_trust(validation, newcomers))
            model = source_stage.fitted_model(self.name, trust)
        if base is not None:
            if validation is not None:
                settings = {**settings, WEIGHT: best_weight(model, base, validation)}
            model = with_base(model, base, settings[WEIGHT])
        # Without validation, the epochs are those that it was given.
        kept = chosen.epochs if validation is None else epochs
        chosen = Chosen(epochs=kept, trust=trust, settings=settings, not_chosen=chosen.not_chosen)
        return model, gates.noted(chosen) if data.sources else replace(chosen, trust=None)


@dataclass(frozen=True, kw_only=True)
class HeteroCDR(TwoStageMethod, PlaintextMethod, TargetMethod):
    """Train on target ratings and a release: the `default` preset, which works best. The paper's form is ``PaperCDR``.

    It trains in two stages: DMF on the target, then the release rows into the same space, against the finished items.
    Trained jointly, as in the paper, a release at ε = 8 cost users with history NDCG@10 (.009 ± .006 for sjlt on
    Douban). Trained on the source's ratings themselves, it measures what there is to gain; they are not reconstructed.
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


@dataclass(frozen=True, kw_only=True)
class SymmetricCDR(TwoStageMethod):
    """PriCDR-SYM, the paper's ablation: the decoder of the target's auto-encoder scores the items, no item tower."""

    name: ClassVar[str] = "symmetric"
    summary: ClassVar[str] = "PriCDR-SYM: auto-encoders on both sides"
    _own_space: ClassVar[SearchSpace] = {"learning_rate": (5e-4, 1e-3, 2e-3, 5e-3), "dropout": (0.1, 0.3, 0.5)}
    space: ClassVar[SearchSpace] = {**HeteroCDR.space, **_own_space}
    narrow_space: ClassVar[SearchSpace | None] = {**(HeteroCDR.narrow_space or {}), **_own_space}
    _target_network: ClassVar[type[TargetNetwork]] = AutoEncoder
    config: SourceStageConfig = SourceStageConfig(dropout=0.3, entry_dropout=0.3, base=TARGET_METHOD)
    options: TrainingOptions = replace(TARGET_OPTIONS, batch=128)
