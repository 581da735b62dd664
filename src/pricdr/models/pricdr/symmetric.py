"""PriCDR-SYM: auto-encoders on both sides. The paper's ablation of HeteroCDR, with JLT releases."""

from dataclasses import dataclass, field, replace
from typing import ClassVar

from pricdr.models.base import SearchSpace
from pricdr.models.pricdr._networks import AutoEncoder, TargetNetwork
from pricdr.models.pricdr._source_stage import SourceStageConfig
from pricdr.models.pricdr._stages import TwoStageMethod
from pricdr.models.pricdr._target_stage import target_options
from pricdr.training.options import TrainingOptions


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
