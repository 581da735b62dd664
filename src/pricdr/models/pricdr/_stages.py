"""Both stages in order: the target's network, then the source's against it, then how far the source is trusted."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from pricdr.data.ratings import Ratings
from pricdr.data.splits import HeldOut
from pricdr.errors import InputError
from pricdr.models.base import ReleaseMethod, Trained
from pricdr.models.chosen import UNTRUSTED, Chosen
from pricdr.models.evidence import is_followed, is_refused
from pricdr.models.fitting import require_trainable
from pricdr.models.inputs import Inputs, ReleaseRows
from pricdr.models.newcomers import newcomers
from pricdr.models.pricdr._networks import TargetNetwork
from pricdr.models.pricdr._source_stage import SourceStage, SourceStageConfig
from pricdr.models.pricdr._target_stage import TargetStage, target_options
from pricdr.models.pricdr._trust import choose_trust
from pricdr.training.options import TrainingOptions
from pricdr.training.run_log import RunLog

TARGET_NETWORK, SOURCE_NETWORK = "target", "source"
"""What logs and progress bars call the two networks, and what their epochs are chosen under."""


@dataclass(frozen=True, kw_only=True)
class TwoStageMethod(ReleaseMethod):
    """What HeteroCDR and its ablation share: all but the network of the target."""

    _target_network: ClassVar[type[TargetNetwork]]

    starts_others: ClassVar[tuple[str, ...]] = (TARGET_NETWORK,)

    config: SourceStageConfig = field(default_factory=SourceStageConfig)
    options: TrainingOptions = field(default_factory=target_options)

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
        """Train the target stage, then the source stage, unless the source is refused: then the target stage is all.

        ``require_evidence`` says whether the source has to pass the evidence test.
        """
        if not (inputs.present & (np.diff(inputs.ratings.indptr) > 0)).any():
            raise InputError(
                "no user has both target ratings and a row of the source: there is nothing to learn it from"
            )
        assert inputs.source is not None
        # Now, and not when the target stage has been trained: the encoder's wide layer, and the decoder's.
        require_trainable(2 * inputs.source.shape[1] * self.config.hidden)
        log.working("evidence test")
        refused = is_refused(inputs, validation, chosen, require_evidence=require_evidence)

        target_stage = self.target_stage(target)
        target_epoch = target_stage.train(validation, chosen.epochs.get(TARGET_NETWORK), log.of_network(TARGET_NETWORK))
        if refused:
            epochs = {TARGET_NETWORK: target_epoch} if validation is not None else chosen.epochs
            settled = Chosen(epochs=epochs, trust=UNTRUSTED, not_chosen=chosen.not_chosen)
            return target_stage.fitted_model(self.name, inputs.users), settled

        source_stage = self.source_stage(target_stage, inputs)
        shown_by = None if is_followed(validation, chosen) else newcomers(inputs, validation, seed=self.options.seed)
        source_epoch = source_stage.train(
            validation, chosen.epochs.get(SOURCE_NETWORK), log.of_network(SOURCE_NETWORK), shown_by
        )
        log.working("trust in the source")
        trust = chosen.trust if shown_by is None else choose_trust(source_stage, validation, shown_by)
        assert trust is not None  # what is followed was settled
        epochs = (
            {TARGET_NETWORK: target_epoch, SOURCE_NETWORK: source_epoch} if validation is not None else chosen.epochs
        )
        settled = Chosen(epochs=epochs, trust=trust, not_chosen=chosen.not_chosen)
        return source_stage.fitted_model(self.name, trust), settled
