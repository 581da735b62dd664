"""Every method, and what it is fitted into. Names load when they are first used: most of them load torch.

from pricdr.models import HeteroCDR, TrainingOptions

model = HeteroCDR(options=TrainingOptions(epochs=100)).fit(target, release)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what type checkers see; the table below is what there is
    from pricdr.models.base import *  # noqa: F403
    from pricdr.models.catalogue import *  # noqa: F403
    from pricdr.models.fitted import *  # noqa: F403
    from pricdr.models.interaction import *  # noqa: F403
    from pricdr.models.methods.crossdomain import *  # noqa: F403
    from pricdr.models.methods.dmf import *  # noqa: F403
    from pricdr.models.methods.factorisation import *  # noqa: F403
    from pricdr.models.methods.hetero import *  # noqa: F403
    from pricdr.models.methods.linear import *  # noqa: F403
    from pricdr.models.methods.paper import *  # noqa: F403
    from pricdr.training.loop import *  # noqa: F403
    from pricdr.training.run_log import *  # noqa: F403

_NAMES = {
    "models.base": "DataAccess Method PlaintextMethod ReleaseMethod TargetMethod",
    "models.catalogue": "method_of register",
    "models.fitted": "Basis Chosen FittedModel Origin Recommendation Recommendations Trust",
    "models.interaction": "Interaction",
    "models.methods.crossdomain": "CoNet CoNetConfig DARec DARecConfig DDTCDR DDTCDRConfig ETL ETLConfig",
    "models.methods.dmf": "DMF TargetStageConfig",
    "models.methods.factorisation": "BPR BPRConfig NeuMF NeuMFConfig",
    "models.methods.hetero": "HeteroCDR SourceStageConfig SymmetricCDR",
    "models.methods.linear": "EASE EASEConfig EASERelease EASEReleaseConfig EASESource EASESourceConfig ItemKNN "
    "ItemKNNConfig Popularity RidgeRelease RidgeReleaseConfig compare_with_ridge",
    "models.methods.paper": "PaperCDR PaperConfig",
    "training.loop": "TrainingOptions",
    "training.run_log": "RunLog",
}
_HOME = {name: f"pricdr.{module}" for module, names in _NAMES.items() for name in names.split()}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name not in _HOME:
        raise AttributeError(f"module 'pricdr.models' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
