"""The two stages in order: train the target's network, fit the source's to it, choose how far to trust the source."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from pricdr.data.ratings import Ratings
from pricdr.data.splits import HeldOut
from pricdr.errors import InputError
from pricdr.models import evidence
from pricdr.models.base import ReleaseMethod, Trained
from pricdr.models.chosen import TRUSTED, UNTRUSTED, Chosen, Trust
from pricdr.models.evidence import is_refused, trust_is_settled
from pricdr.models.fitting import require_trainable
from pricdr.models.inputs import Inputs, ReleaseRows
from pricdr.models.newcomers import select_newcomers
from pricdr.models.pricdr._joint import JointStage
from pricdr.models.pricdr._networks import TargetNetwork
from pricdr.models.pricdr._source_stage import SourceStage, SourceStageConfig
from pricdr.models.pricdr._target_stage import TargetStage, target_options
from pricdr.models.pricdr._trust import choose_trust
from pricdr.training.options import TrainingOptions
from pricdr.training.run_log import RunLog

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
            if require_evidence and not trust_is_settled(validation, chosen):
                chosen = replace(chosen, evidence=evidence.p_value(inputs))
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
