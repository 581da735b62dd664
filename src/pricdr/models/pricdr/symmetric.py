"""PriCDR-SYM: auto-encoders on both sides. The paper's ablation of HeteroCDR, with JLT releases."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from pricdr.data.ratings import Ratings
from pricdr.data.splits import HeldOut
from pricdr.models.base import UNRECORDED, ReleaseMethod
from pricdr.models.fitted import Factors
from pricdr.models.inputs import Inputs, ReleaseRows
from pricdr.models.pricdr._networks import AutoEncoder
from pricdr.models.pricdr._source_stage import SourceConfig, fit_both
from pricdr.training.loop import Recording, TrainingOptions


@dataclass(frozen=True, kw_only=True)
class SymmetricCDR(ReleaseMethod):
    """As :class:`HeteroCDR`, but items are scored by the decoder of the target's auto-encoder, not by item towers."""

    space: ClassVar[Mapping[str, tuple[object, ...]]] = {
        "learning_rate": (5e-4, 1e-3, 2e-3, 5e-3),
        "batch": (128, 256, 512),
        "dropout": (0.1, 0.3, 0.5),
        "entry_dropout": (0.3, 0.5, 0.7),
        "release_dropout": (0.2, 0.5),
        "reconstruction": (0.0, 0.1, 1.0),
        "alignment": (0.0, 0.01, 0.1),
    }
    narrow_space: ClassVar[Mapping[str, tuple[object, ...]]] = {
        "learning_rate": (5e-4, 1e-3, 2e-3, 5e-3),
        "weight_decay": (1e-4, 1e-2, 1e-1),
        "batch": (128, 256, 512),
        "dropout": (0.1, 0.3, 0.5),
        "entry_dropout": (0.3, 0.5, 0.7),
        "narrow_dropout": (0.0, 0.1, 0.2),
    }
    """What a search tries with a release of at most 32 numbers per row."""

    config: SourceConfig = field(default_factory=lambda: SourceConfig(dropout=0.3, entry_dropout=0.3))
    options: TrainingOptions = field(default_factory=lambda: TrainingOptions(batch=128))

    def fit(
        self,
        target: Ratings,
        release: ReleaseRows,
        *,
        validation: HeldOut | None = None,
        recording: Recording = UNRECORDED,
    ) -> Factors:
        """Fit to ``target`` and to the rows of a release."""
        inputs = Inputs.of(target, release)
        return fit_both(AutoEncoder, "symmetric", target, inputs, self.config, self.options, validation, recording)
