"""Privacy-preserving cross-domain recommendation: two parties, one folder between them.

    source = pricdr.read_ratings("movies.csv").positives(threshold=3)
    release = pricdr.publish(source, pricdr.Guarantee(epsilon=4, delta=1e-6))
    release.save("movies.release")

    target = pricdr.read_ratings("books.csv").positives(threshold=3)
    split = pricdr.split(target, cold=0.2)
    release = pricdr.Release.load("movies.release")
    model = pricdr.HeteroCDR().fit(split.train, release, validation=split.validation)
    print(pricdr.evaluate({"with the release": model}, split))

Names load when they are first used, so that importing one part does not import the others' dependencies.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pricdr import models as models, strategies as strategies
    from pricdr._publish import publish as publish
    from pricdr._repeat import repeat as repeat
    from pricdr._transfer import transfer as transfer
    from pricdr.data.features import read_features as read_features
    from pricdr.data.ids import read_ids as read_ids
    from pricdr.data.pairs import DomainPair as DomainPair, prepare as prepare
    from pricdr.data.ratings import Ratings as Ratings
    from pricdr.data.reading.read import read_ratings as read_ratings
    from pricdr.data.splits import Split as Split, split as split
    from pricdr.data.synthetic import synthetic_pair as synthetic_pair
    from pricdr.errors import PriCDRError as PriCDRError
    from pricdr.evaluation.comparison import Comparison as Comparison, evaluate as evaluate
    from pricdr.models.fitted import FittedModel as FittedModel
    from pricdr.models.methods.hetero import HeteroCDR as HeteroCDR
    from pricdr.privacy.accounting import Guarantee as Guarantee, Unit as Unit
    from pricdr.privacy.ledger import Ledger as Ledger
    from pricdr.privacy.steps import Bounds as Bounds
    from pricdr.release import Release as Release, verify as verify

__version__ = "0.9.0"

_NAMES = {
    "_publish": ("publish",),
    "_repeat": ("repeat",),
    "_transfer": ("transfer",),
    "data.features": ("read_features",),
    "data.ids": ("read_ids",),
    "data.pairs": ("DomainPair", "prepare"),
    "data.ratings": ("Ratings",),
    "data.reading.read": ("read_ratings",),
    "data.splits": ("Split", "split"),
    "data.synthetic": ("synthetic_pair",),
    "errors": ("PriCDRError",),
    "evaluation.comparison": ("Comparison", "evaluate"),
    "models.fitted": ("FittedModel",),
    "models.methods.hetero": ("HeteroCDR",),
    "privacy.accounting": ("Guarantee", "Unit"),
    "privacy.ledger": ("Ledger",),
    "privacy.steps": ("Bounds",),
    "release": ("Release", "verify"),
}
_HOME = {name: f"pricdr.{module}" for module, names in _NAMES.items() for name in names}

__all__ = [*_HOME, "models", "strategies"]


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name in ("models", "strategies"):  # modules with public names of their own
        return import_module(f"pricdr.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'pricdr' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
