"""Every method, and what it is fitted into. Names load when they are first used: most of them load torch.

from pricdr.models import HeteroCDR, TrainingOptions

model = HeteroCDR(options=TrainingOptions(epochs=100)).fit(target, release)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pricdr.models.base import DataAccess as DataAccess
    from pricdr.models.base import Method as Method
    from pricdr.models.base import PlaintextMethod as PlaintextMethod
    from pricdr.models.base import ReleaseMethod as ReleaseMethod
    from pricdr.models.base import TargetMethod as TargetMethod
    from pricdr.models.catalogue import method_of as method_of
    from pricdr.models.catalogue import register as register
    from pricdr.models.chosen import Chosen as Chosen
    from pricdr.models.chosen import Trust as Trust
    from pricdr.models.crossdomain.conet import CoNet as CoNet
    from pricdr.models.crossdomain.conet import CoNetConfig as CoNetConfig
    from pricdr.models.crossdomain.darec import DARec as DARec
    from pricdr.models.crossdomain.darec import DARecConfig as DARecConfig
    from pricdr.models.crossdomain.ddtcdr import DDTCDR as DDTCDR
    from pricdr.models.crossdomain.ddtcdr import DDTCDRConfig as DDTCDRConfig
    from pricdr.models.crossdomain.etl import ETL as ETL
    from pricdr.models.crossdomain.etl import ETLConfig as ETLConfig
    from pricdr.models.factorisation.bpr import BPR as BPR
    from pricdr.models.factorisation.bpr import BPRConfig as BPRConfig
    from pricdr.models.factorisation.neumf import NeuMF as NeuMF
    from pricdr.models.factorisation.neumf import NeuMFConfig as NeuMFConfig
    from pricdr.models.fitted import Basis as Basis
    from pricdr.models.fitted import FittedModel as FittedModel
    from pricdr.models.fitted import HistorySummary as HistorySummary
    from pricdr.models.fitted import Origin as Origin
    from pricdr.models.fitted import Recommendation as Recommendation
    from pricdr.models.fitted import Recommendations as Recommendations
    from pricdr.models.fitted import WrittenRecommendations as WrittenRecommendations
    from pricdr.models.interaction import Interaction as Interaction
    from pricdr.models.linear.ease import EASE as EASE
    from pricdr.models.linear.ease import EASEConfig as EASEConfig
    from pricdr.models.linear.ease import EASERelease as EASERelease
    from pricdr.models.linear.ease import EASEReleaseConfig as EASEReleaseConfig
    from pricdr.models.linear.ease import EASESource as EASESource
    from pricdr.models.linear.ease import EASESourceConfig as EASESourceConfig
    from pricdr.models.linear.itemknn import ItemKNN as ItemKNN
    from pricdr.models.linear.itemknn import ItemKNNConfig as ItemKNNConfig
    from pricdr.models.linear.popularity import Popularity as Popularity
    from pricdr.models.linear.ridge_release import RidgeRelease as RidgeRelease
    from pricdr.models.linear.ridge_release import RidgeReleaseConfig as RidgeReleaseConfig
    from pricdr.models.pricdr._source_stage import SourceStageConfig as SourceStageConfig
    from pricdr.models.pricdr._target_stage import TargetStageConfig as TargetStageConfig
    from pricdr.models.pricdr.dmf import DMF as DMF
    from pricdr.models.pricdr.hetero import HeteroCDR as HeteroCDR
    from pricdr.models.pricdr.paper import PaperCDR as PaperCDR
    from pricdr.models.pricdr.paper import PaperConfig as PaperConfig
    from pricdr.models.pricdr.symmetric import SymmetricCDR as SymmetricCDR
    from pricdr.training.checkpoints import Checkpoint as Checkpoint
    from pricdr.training.checkpoints import CheckpointFiles as CheckpointFiles
    from pricdr.training.checkpoints import Checkpoints as Checkpoints
    from pricdr.training.checkpoints import State as State
    from pricdr.training.options import TrainingOptions as TrainingOptions
    from pricdr.training.run_log import Epoch as Epoch
    from pricdr.training.run_log import RunLog as RunLog

_NAMES = {
    "base": ("DataAccess", "Method", "PlaintextMethod", "ReleaseMethod", "TargetMethod"),
    "catalogue": ("method_of", "register"),
    "chosen": ("Chosen", "Trust"),
    "fitted": (
        "Basis",
        "FittedModel",
        "HistorySummary",
        "Origin",
        "Recommendation",
        "Recommendations",
        "WrittenRecommendations",
    ),
    "interaction": ("Interaction",),
    "pricdr.hetero": ("HeteroCDR",),
    "pricdr.symmetric": ("SymmetricCDR",),
    "pricdr.paper": ("PaperCDR", "PaperConfig"),
    "pricdr.dmf": ("DMF",),
    "pricdr._target_stage": ("TargetStageConfig",),
    "pricdr._source_stage": ("SourceStageConfig",),
    "factorisation.bpr": ("BPR", "BPRConfig"),
    "factorisation.neumf": ("NeuMF", "NeuMFConfig"),
    "crossdomain.conet": ("CoNet", "CoNetConfig"),
    "crossdomain.ddtcdr": ("DDTCDR", "DDTCDRConfig"),
    "crossdomain.darec": ("DARec", "DARecConfig"),
    "crossdomain.etl": ("ETL", "ETLConfig"),
    "linear.popularity": ("Popularity",),
    "linear.itemknn": ("ItemKNN", "ItemKNNConfig"),
    "linear.ease": ("EASE", "EASEConfig", "EASESource", "EASESourceConfig", "EASERelease", "EASEReleaseConfig"),
    "linear.ridge_release": ("RidgeRelease", "RidgeReleaseConfig"),
}
_HOME = {name: f"pricdr.models.{module}" for module, names in _NAMES.items() for name in names} | {
    "TrainingOptions": "pricdr.training.options",
    "RunLog": "pricdr.training.run_log",
    "Epoch": "pricdr.training.run_log",
    "Checkpoint": "pricdr.training.checkpoints",
    "CheckpointFiles": "pricdr.training.checkpoints",
    "Checkpoints": "pricdr.training.checkpoints",
    "State": "pricdr.training.checkpoints",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name not in _HOME:
        raise AttributeError(f"module 'pricdr.models' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
