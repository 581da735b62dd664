"""DMF, deep matrix factorisation: HeteroCDR's towers on the target alone, and the model a release has to beat."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from pricdr.data.ratings import Ratings
from pricdr.data.splits import HeldOut
from pricdr.models.base import UNRECORDED, TargetMethod
from pricdr.models.fitted import Factors
from pricdr.models.pricdr._networks import TwoTowers
from pricdr.models.pricdr._target_stage import HistoryConfig, HistoryRun
from pricdr.training.loop import Recording, TrainingOptions


@dataclass(frozen=True, kw_only=True)
class DMF(TargetMethod):
    """User rows and item columns through towers, cosine times a learnt scale, cross-entropy over all items.

    Xue et al. (IJCAI 2017) take the bare cosine, clamped, with sampled negatives; a learnt scale and an item bias
    train faster and rank better (``PaperCDR`` keeps the printed form). Every rating counts as 1, rows and
    columns are scaled by 1/√(entries), and the ReLU comes between the two layers, not after them.
    """

    space: ClassVar[Mapping[str, tuple[object, ...]]] = {
        "learning_rate": (2e-4, 5e-4, 1e-3),
        "weight_decay": (1e-4, 1e-2),
        "batch": (128, 256, 512),
        "hidden": (250, 500, 1000),
        "dropout": (0.3, 0.5, 0.7),
        "entry_dropout": (0.3, 0.5, 0.7),
    }

    config: HistoryConfig = field(default_factory=HistoryConfig)
    options: TrainingOptions = field(default_factory=TrainingOptions)

    def fit(self, target: Ratings, *, validation: HeldOut | None = None, recording: Recording = UNRECORDED) -> Factors:
        """Fit to ``target``; a user without ratings gets what is popular."""
        run = HistoryRun(TwoTowers, target, self.config, self.options)
        run.train(validation, recording)
        return Factors(
            method="dmf",
            users=target.users,
            items=target.items,
            user_vectors=run.user_vectors().cpu().numpy(),
            item_vectors=run.item_vectors().cpu().numpy(),
            item_bias=run.network.item_bias.detach().cpu().numpy(),
            seen=target.matrix,
            in_release=np.zeros(len(target.users), dtype=bool),
        )
