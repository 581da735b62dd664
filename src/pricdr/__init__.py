"""Privacy-preserving cross-domain recommendation: two parties, one folder between them.

    source = pricdr.read_ratings("movies.csv").positives(threshold=3)
    release = pricdr.publish(source, pricdr.Guarantee(epsilon=4, delta=1e-6))
    release.save("movies.release")

Names load when they are first used, so that importing one part does not import the others' dependencies.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pricdr.data.domains import DomainPair as DomainPair
    from pricdr.data.feature_files import read_features as read_features
    from pricdr.data.pairs import prepare as prepare
    from pricdr.data.ratings import Ratings as Ratings
    from pricdr.data.readers import read_ratings as read_ratings
    from pricdr.data.synthetic import synthetic_pair as synthetic_pair
    from pricdr.errors import PriCDRError as PriCDRError
    from pricdr.models.hetero import HeteroCDR as HeteroCDR
    from pricdr.privacy.bounds import Bounds as Bounds
    from pricdr.privacy.calibration import Calibration as Calibration
    from pricdr.privacy.guarantee import Guarantee as Guarantee
    from pricdr.privacy.guarantee import Unit as Unit
    from pricdr.privacy.ledger import Ledger as Ledger
    from pricdr.privacy.strategies import JLT as JLT
    from pricdr.privacy.strategies import SJLT as SJLT
    from pricdr.privacy.strategies import Features as Features
    from pricdr.privacy.strategies import Guided as Guided
    from pricdr.privacy.strategies import Spectral as Spectral
    from pricdr.publish import publish as publish
    from pricdr.release import Release as Release
    from pricdr.release import verify as verify
    from pricdr.transfer import transfer as transfer

__version__ = "0.3.0"

_HOME = {
    "Bounds": "pricdr.privacy.bounds",
    "Calibration": "pricdr.privacy.calibration",
    "DomainPair": "pricdr.data.domains",
    "Features": "pricdr.privacy.strategies",
    "Guarantee": "pricdr.privacy.guarantee",
    "Guided": "pricdr.privacy.strategies",
    "HeteroCDR": "pricdr.models.hetero",
    "JLT": "pricdr.privacy.strategies",
    "Ledger": "pricdr.privacy.ledger",
    "PriCDRError": "pricdr.errors",
    "Ratings": "pricdr.data.ratings",
    "Release": "pricdr.release",
    "SJLT": "pricdr.privacy.strategies",
    "Spectral": "pricdr.privacy.strategies",
    "Unit": "pricdr.privacy.guarantee",
    "prepare": "pricdr.data.pairs",
    "publish": "pricdr.publish",
    "read_features": "pricdr.data.feature_files",
    "read_ratings": "pricdr.data.readers",
    "synthetic_pair": "pricdr.data.synthetic",
    "transfer": "pricdr.transfer",
    "verify": "pricdr.release",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name not in _HOME:
        raise AttributeError(f"module 'pricdr' has no attribute {name!r}")
    found = getattr(import_module(_HOME[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


class _Package(ModuleType):
    """Importing ``pricdr.publish`` or ``pricdr.transfer``, the modules, must not hide the functions of these names."""

    def __setattr__(self, name: str, value: object) -> None:
        if name in ("publish", "transfer") and isinstance(value, ModuleType):
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
