"""DMF: deep matrix factorisation. HeteroCDR's target stage on its own."""

from dataclasses import dataclass, field
from typing import ClassVar

from pricdr.data.ratings import Ratings
from pricdr.data.splits import HeldOut
from pricdr.models.base import SearchSpace, TargetMethod, Trained
from pricdr.models.chosen import Chosen
from pricdr.models.fitting import train_run
from pricdr.models.pricdr._networks import TwoTowers
from pricdr.models.pricdr._target_stage import TargetStage, TargetStageConfig, target_options
from pricdr.training.options import TrainingOptions
from pricdr.training.run_log import NO_LOG, RunLog


@dataclass(frozen=True, kw_only=True)
class DMF(TargetMethod):
    """Towers for user rows and item columns, a cosine times a learnt scale, and cross-entropy over items.

    Xue et al. (IJCAI 2017) use the bare cosine, clamped, with sampled negatives; a learnt scale and an item bias
    train faster and rank better (``PaperCDR`` keeps the printed form). A batch is trained on the items it rated and on
    a sample that stands for all others: the same loss on average, at a fraction of the time. Every rating counts as 1,
    rows and columns are scaled by 1/√(entries), and the ReLU is between the two layers, not after them.
    """

    name: ClassVar[str] = "dmf"
    summary: ClassVar[str] = "deep matrix factorisation: user and item towers"
    space: ClassVar[SearchSpace] = {
        "learning_rate": (2e-4, 5e-4, 1e-3),
        "weight_decay": (1e-4, 1e-2),
        "batch": (128, 256, 512),
        "hidden": (250, 500, 1000),
        "dropout": (0.3, 0.5, 0.7),
        "entry_dropout": (0.3, 0.5, 0.7),
    }

    config: TargetStageConfig = field(default_factory=TargetStageConfig)
    options: TrainingOptions = field(default_factory=target_options)

    @property
    def starts_others(self) -> tuple[str, ...]:
        """Its only network, which other methods use as their target stage."""
        return (NO_LOG.network,)

    def training_run(self, target: Ratings) -> TargetStage:
        """Return the untrained network for these ratings."""
        return TargetStage(TwoTowers, target, self.config, self.options)

    def _train(self, target: Ratings, *, validation: HeldOut | None, chosen: Chosen, log: RunLog) -> Trained:
        return train_run(self.training_run(target), self.options, validation=validation, chosen=chosen, log=log)
