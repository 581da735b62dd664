"""Both stages in order: the target's network, then the source's against it, then how far the source is trusted."""

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
from pricdr.models.evidence import is_followed, is_refused
from pricdr.models.fitting import require_trainable
from pricdr.models.inputs import Inputs, ReleaseRows
from pricdr.models.newcomers import newcomers
from pricdr.models.pricdr._joint import JointStage
from pricdr.models.pricdr._networks import TargetNetwork
from pricdr.models.pricdr._source_stage import SourceStage, SourceStageConfig
from pricdr.models.pricdr._target_stage import TargetStage, target_options
from pricdr.models.pricdr._trust import choose_trust
from pricdr.training.distributed import processes
from pricdr.training.options import TrainingOptions
from pricdr.training.run_log import RunLog

TARGET_NETWORK, SOURCE_NETWORK, JOINT_NETWORK = "target", "source", "joint"
"""What logs and progress bars call the two networks, or both in one training; epochs are chosen under these names."""


@dataclass(frozen=True, kw_only=True)
class TwoStageMethod(ReleaseMethod):
    """What HeteroCDR and its ablation share: all but the network of the target."""

    _target_network: ClassVar[type[TargetNetwork]]

    config: SourceStageConfig = field(default_factory=SourceStageConfig)
    options: TrainingOptions = field(default_factory=target_options)

    @property
    def starts_others(self) -> tuple[str, ...]:
        """The target's network, unless the source has moved it."""
        return () if self.config.joint else (TARGET_NETWORK,)

    @property
    def is_shared(self) -> bool:
        """Whether both stages share their batches among processes; trained jointly, they do not."""
        return not self.config.joint

    def target_stage(self, target: Ratings) -> TargetStage:
        """Return the target's network, not trained yet."""
        return TargetStage(self._target_network, target, self.config, self.options)

    def source_stage(self, target_stage: TargetStage, inputs: Inputs) -> SourceStage:
        """Return the source's network, not trained yet, over a finished target stage."""
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
        """Train the target stage, then the source stage, or both at once; a refused source leaves the target stage.

        ``require_evidence`` says whether the source has to pass the evidence test.
        """
        if not (inputs.present & (np.diff(inputs.ratings.indptr) > 0)).any():
            raise InputError(
                "no user has both target ratings and a row of the source: there is nothing to learn it from"
            )
        assert inputs.source is not None
        # Now, and not when the target stage has been trained: the encoder's wide layer, and the decoder's.
        require_trainable(2 * inputs.source.shape[1] * self.config.hidden)
        if self.config.gated:
            log.working("evidence test")
            if require_evidence and not is_followed(validation, chosen):
                # Settled by one process: rounding differs from machine to machine, and all must go on alike.
                p_value = processes().from_first(lambda: evidence.p_value(inputs), self.options.torch_device())
                chosen = replace(chosen, evidence=p_value)
            if is_refused(validation, chosen):
                return self._train_target_alone(target, inputs, validation, chosen, log)
        followed = is_followed(validation, chosen)
        # Without validation and without gates there is nothing that newcomers could choose.
        nothing_to_choose = followed or (validation is None and not self.config.gated)
        shown_by = None if nothing_to_choose else newcomers(inputs, validation, seed=self.options.seed)

        target_stage = self.target_stage(target)
        epochs = {}
        if self.config.joint:
            source_stage = self.source_stage(target_stage, inputs)
            epochs[JOINT_NETWORK] = JointStage(source_stage).train(
                validation, chosen.epochs.get(JOINT_NETWORK), log.of_network(JOINT_NETWORK), shown_by
            )
        else:
            epochs[TARGET_NETWORK] = target_stage.train(
                validation, chosen.epochs.get(TARGET_NETWORK), log.of_network(TARGET_NETWORK)
            )
            source_stage = self.source_stage(target_stage, inputs)
            epochs[SOURCE_NETWORK] = source_stage.train(
                validation, chosen.epochs.get(SOURCE_NETWORK), log.of_network(SOURCE_NETWORK), shown_by
            )
        trust = TRUSTED
        if self.config.gated:
            log.working("trust in the source")
            settled = chosen.trust if shown_by is None else choose_trust(source_stage, validation, shown_by)
            assert settled is not None  # what is followed was settled
            trust = settled
        return source_stage.fitted_model(self.name, trust), _settled(epochs, trust, validation, chosen)

    def _train_target_alone(
        self, target: Ratings, inputs: Inputs, validation: HeldOut | None, chosen: Chosen, log: RunLog
    ) -> Trained:
        """Train the target stage, which is all there is where the source is refused."""
        stage = self.target_stage(target)
        epoch = stage.train(validation, chosen.epochs.get(TARGET_NETWORK), log.of_network(TARGET_NETWORK))
        return stage.fitted_model(self.name, inputs.users), _settled(
            {TARGET_NETWORK: epoch}, UNTRUSTED, validation, chosen
        )


def _settled(epochs: Mapping[str, int], trust: Trust, validation: HeldOut | None, chosen: Chosen) -> Chosen:
    """Return what was chosen, or what was followed where there was no validation to choose the epochs by."""
    followed = chosen.epochs if validation is None else epochs
    return Chosen(epochs=followed, trust=trust, evidence=chosen.evidence, not_chosen=chosen.not_chosen)
