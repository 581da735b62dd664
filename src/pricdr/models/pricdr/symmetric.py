"""PriCDR-SYM: auto-encoders on both sides. The paper's ablation of HeteroCDR, with JLT releases."""

from dataclasses import dataclass, field
from typing import ClassVar

from pricdr.data.ratings import Ratings
from pricdr.data.splits import HeldOut
from pricdr.models.base import ReleaseMethod, SearchSpace, Trained
from pricdr.models.chosen import Chosen
from pricdr.models.inputs import Inputs, ReleaseRows
from pricdr.models.pricdr._networks import AutoEncoder
from pricdr.models.pricdr._source_stage import SourceStageConfig
from pricdr.models.pricdr._stages import train_both
from pricdr.models.pricdr._target_stage import TargetStage
from pricdr.training.options import TrainingOptions
from pricdr.training.run_log import RunLog


@dataclass(frozen=True, kw_only=True)
class SymmetricCDR(ReleaseMethod):
    """As :class:`HeteroCDR`, but items are scored by the decoder of the target's auto-encoder, not by item towers."""

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

    config: SourceStageConfig = field(default_factory=lambda: SourceStageConfig(dropout=0.3, entry_dropout=0.3))
    options: TrainingOptions = field(default_factory=lambda: TrainingOptions(batch=128))

    def target_stage(self, target: Ratings) -> TargetStage:
        """Return the target's network, not trained yet."""
        return TargetStage(AutoEncoder, target, self.config, self.options)

    def _train(
        self, target: Ratings, release: ReleaseRows, *, validation: HeldOut | None, chosen: Chosen, log: RunLog
    ) -> Trained:
        return train_both(
            self.name,
            AutoEncoder,
            target,
            Inputs.of(target, release),
            self.config,
            self.options,
            validation=validation,
            chosen=chosen,
            log=log,
            require_evidence=True,
        )
