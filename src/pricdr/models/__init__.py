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
    from pricdr.models.fitted import Basis as Basis
    from pricdr.models.fitted import Chosen as Chosen
    from pricdr.models.fitted import FittedModel as FittedModel
    from pricdr.models.fitted import Origin as Origin
    from pricdr.models.fitted import Recommendation as Recommendation
    from pricdr.models.fitted import Recommendations as Recommendations
    from pricdr.models.fitted import Trust as Trust
    from pricdr.models.interaction import Interaction as Interaction
    from pricdr.models.methods.crossdomain import DDTCDR as DDTCDR
    from pricdr.models.methods.crossdomain import ETL as ETL
    from pricdr.models.methods.crossdomain import CoNet as CoNet
    from pricdr.models.methods.crossdomain import CoNetConfig as CoNetConfig
    from pricdr.models.methods.crossdomain import DARec as DARec
    from pricdr.models.methods.crossdomain import DARecConfig as DARecConfig
    from pricdr.models.methods.crossdomain import DDTCDRConfig as DDTCDRConfig
    from pricdr.models.methods.crossdomain import ETLConfig as ETLConfig
    from pricdr.models.methods.dmf import DMF as DMF
    from pricdr.models.methods.dmf import TargetStageConfig as TargetStageConfig
    from pricdr.models.methods.factorisation import BPR as BPR
    from pricdr.models.methods.factorisation import BPRConfig as BPRConfig
    from pricdr.models.methods.factorisation import NeuMF as NeuMF
    from pricdr.models.methods.factorisation import NeuMFConfig as NeuMFConfig
    from pricdr.models.methods.hetero import HeteroCDR as HeteroCDR
    from pricdr.models.methods.hetero import SourceStageConfig as SourceStageConfig
    from pricdr.models.methods.hetero import SymmetricCDR as SymmetricCDR
    from pricdr.models.methods.linear import EASE as EASE
    from pricdr.models.methods.linear import EASEConfig as EASEConfig
    from pricdr.models.methods.linear import EASERelease as EASERelease
    from pricdr.models.methods.linear import EASEReleaseConfig as EASEReleaseConfig
    from pricdr.models.methods.linear import EASESource as EASESource
    from pricdr.models.methods.linear import EASESourceConfig as EASESourceConfig
    from pricdr.models.methods.linear import ItemKNN as ItemKNN
    from pricdr.models.methods.linear import ItemKNNConfig as ItemKNNConfig
    from pricdr.models.methods.linear import Popularity as Popularity
    from pricdr.models.methods.linear import RidgeRelease as RidgeRelease
    from pricdr.models.methods.linear import RidgeReleaseConfig as RidgeReleaseConfig
    from pricdr.models.methods.linear import compare_with_ridge as compare_with_ridge
    from pricdr.models.methods.paper import PaperCDR as PaperCDR
    from pricdr.models.methods.paper import PaperConfig as PaperConfig
    from pricdr.training.loop import TrainingOptions as TrainingOptions
    from pricdr.training.run_log import RunLog as RunLog

_NAMES = {
    "models.base": ("DataAccess", "Method", "PlaintextMethod", "ReleaseMethod", "TargetMethod"),
    "models.catalogue": ("method_of", "register"),
    "models.fitted": (
        "Basis",
        "Chosen",
        "FittedModel",
        "Origin",
        "Recommendation",
        "Recommendations",
        "Trust",
    ),
    "models.interaction": ("Interaction",),
    "models.methods.hetero": ("HeteroCDR", "SourceStageConfig", "SymmetricCDR"),
    "models.methods.paper": ("PaperCDR", "PaperConfig"),
    "models.methods.dmf": ("DMF", "TargetStageConfig"),
    "models.methods.factorisation": ("BPR", "BPRConfig", "NeuMF", "NeuMFConfig"),
    "models.methods.crossdomain": (
        "CoNet",
        "CoNetConfig",
        "DARec",
        "DARecConfig",
        "DDTCDR",
        "DDTCDRConfig",
        "ETL",
        "ETLConfig",
    ),
    "models.methods.linear": (
        "EASE",
        "EASEConfig",
        "EASERelease",
        "EASEReleaseConfig",
        "EASESource",
        "EASESourceConfig",
        "ItemKNN",
        "ItemKNNConfig",
        "Popularity",
        "RidgeRelease",
        "RidgeReleaseConfig",
        "compare_with_ridge",
    ),
    "training.loop": ("TrainingOptions",),
    "training.run_log": ("RunLog",),
}
_HOME = {name: f"pricdr.{module}" for module, names in _NAMES.items() for name in names}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name not in _HOME:
        raise AttributeError(f"module 'pricdr.models' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
