"""Privacy-preserving cross-domain recommendation: two parties, one folder between them.

    source = pricdr.read_ratings("movies.csv").positives(threshold=3)
    release = pricdr.publish(source, pricdr.Guarantee(epsilon=4, delta=1e-6))
    release.save("movies.release")

Names load when they are first used, so that importing one part does not import the others' dependencies.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pricdr._publish import publish as publish
    from pricdr._transfer import transfer as transfer
    from pricdr.data.domains import DomainPair as DomainPair
    from pricdr.data.feature_files import read_features as read_features
    from pricdr.data.pairs import prepare as prepare
    from pricdr.data.ratings import Ratings as Ratings
    from pricdr.data.reading.readers import read_ratings as read_ratings
    from pricdr.data.synthetic import synthetic_pair as synthetic_pair
    from pricdr.errors import PriCDRError as PriCDRError
    from pricdr.models.pricdr.hetero import HeteroCDR as HeteroCDR
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
    from pricdr.release import Release as Release
    from pricdr.release import verify as verify

__version__ = "0.3.0"

_HOME = {
    "Bounds": "pricdr.privacy.bounds",
    "Calibration": "pricdr.privacy.calibration",
    "DomainPair": "pricdr.data.domains",
    "Features": "pricdr.privacy.strategies",
    "Guarantee": "pricdr.privacy.guarantee",
    "Guided": "pricdr.privacy.strategies",
    "HeteroCDR": "pricdr.models.pricdr.hetero",
    "JLT": "pricdr.privacy.strategies",
    "Ledger": "pricdr.privacy.ledger",
    "PriCDRError": "pricdr.errors",
    "Ratings": "pricdr.data.ratings",
    "Release": "pricdr.release",
    "SJLT": "pricdr.privacy.strategies",
    "Spectral": "pricdr.privacy.strategies",
    "Unit": "pricdr.privacy.guarantee",
    "prepare": "pricdr.data.pairs",
    "publish": "pricdr._publish",
    "read_features": "pricdr.data.feature_files",
    "read_ratings": "pricdr.data.reading.readers",
    "synthetic_pair": "pricdr.data.synthetic",
    "transfer": "pricdr._transfer",
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
