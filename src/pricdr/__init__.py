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
    from pricdr import models as models
    from pricdr import strategies as strategies
    from pricdr._publish import publish as publish
    from pricdr._repeat import repeat as repeat
    from pricdr._transfer import transfer as transfer
    from pricdr.alignment.record import AlignmentRecord as AlignmentRecord
    from pricdr.alignment.record import read_alignment as read_alignment
    from pricdr.data.blocks import RatingsSource as RatingsSource
    from pricdr.data.domains import DomainPair as DomainPair
    from pricdr.data.feature_files import read_features as read_features
    from pricdr.data.features import ItemFeatures as ItemFeatures
    from pricdr.data.pairs import prepare as prepare
    from pricdr.data.ratings import Ratings as Ratings
    from pricdr.data.reading.columns import Columns as Columns
    from pricdr.data.reading.query import Query as Query
    from pricdr.data.reading.readers import read_ids as read_ids
    from pricdr.data.reading.readers import read_ratings as read_ratings
    from pricdr.data.splits import HeldOut as HeldOut
    from pricdr.data.splits import Split as Split
    from pricdr.data.splits import split as split
    from pricdr.data.synthetic import SyntheticConfig as SyntheticConfig
    from pricdr.data.synthetic import synthetic_pair as synthetic_pair
    from pricdr.errors import PriCDRError as PriCDRError
    from pricdr.evaluation.comparison import Comparison as Comparison
    from pricdr.evaluation.comparison import PairedDifference as PairedDifference
    from pricdr.evaluation.comparison import ScoringModel as ScoringModel
    from pricdr.evaluation.comparison import evaluate as evaluate
    from pricdr.evaluation.paired_tests import Difference as Difference
    from pricdr.evaluation.repeated import RepeatedComparison as RepeatedComparison
    from pricdr.evaluation.repeated import RepeatedDifference as RepeatedDifference
    from pricdr.evaluation.verdict import Judgement as Judgement
    from pricdr.evaluation.verdict import Training as Training
    from pricdr.evaluation.verdict import Verdict as Verdict
    from pricdr.models.fitted import FittedModel as FittedModel
    from pricdr.models.pricdr.hetero import HeteroCDR as HeteroCDR
    from pricdr.privacy.accounting import Calibration as Calibration
    from pricdr.privacy.accounting import Guarantee as Guarantee
    from pricdr.privacy.accounting import Unit as Unit
    from pricdr.privacy.bounds import Bounds as Bounds
    from pricdr.privacy.ledger import Balance as Balance
    from pricdr.privacy.ledger import Ledger as Ledger
    from pricdr.privacy.ledger_lines import Spend as Spend
    from pricdr.privacy.strategies import JLT as JLT
    from pricdr.privacy.strategies import SJLT as SJLT
    from pricdr.privacy.strategies import Features as Features
    from pricdr.privacy.strategies import Guided as Guided
    from pricdr.privacy.strategies import Spectral as Spectral
    from pricdr.progress import Progress as Progress
    from pricdr.release import Release as Release
    from pricdr.release import verify as verify
    from pricdr.release.certificate import Certificate as Certificate

__version__ = "0.9.0"

_HOME = {
    "AlignmentRecord": "pricdr.alignment.record",
    "Balance": "pricdr.privacy.ledger",
    "Bounds": "pricdr.privacy.bounds",
    "Calibration": "pricdr.privacy.accounting",
    "Certificate": "pricdr.release.certificate",
    "Columns": "pricdr.data.reading.columns",
    "Comparison": "pricdr.evaluation.comparison",
    "Difference": "pricdr.evaluation.paired_tests",
    "DomainPair": "pricdr.data.domains",
    "Features": "pricdr.privacy.strategies",
    "FittedModel": "pricdr.models.fitted",
    "Guarantee": "pricdr.privacy.accounting",
    "Guided": "pricdr.privacy.strategies",
    "HeldOut": "pricdr.data.splits",
    "HeteroCDR": "pricdr.models.pricdr.hetero",
    "ItemFeatures": "pricdr.data.features",
    "JLT": "pricdr.privacy.strategies",
    "Judgement": "pricdr.evaluation.verdict",
    "Ledger": "pricdr.privacy.ledger",
    "PairedDifference": "pricdr.evaluation.comparison",
    "PriCDRError": "pricdr.errors",
    "Progress": "pricdr.progress",
    "Query": "pricdr.data.reading.query",
    "Ratings": "pricdr.data.ratings",
    "RatingsSource": "pricdr.data.blocks",
    "Release": "pricdr.release",
    "RepeatedComparison": "pricdr.evaluation.repeated",
    "RepeatedDifference": "pricdr.evaluation.repeated",
    "SJLT": "pricdr.privacy.strategies",
    "ScoringModel": "pricdr.evaluation.comparison",
    "Spectral": "pricdr.privacy.strategies",
    "Spend": "pricdr.privacy.ledger_lines",
    "Split": "pricdr.data.splits",
    "SyntheticConfig": "pricdr.data.synthetic",
    "Training": "pricdr.evaluation.verdict",
    "Unit": "pricdr.privacy.accounting",
    "Verdict": "pricdr.evaluation.verdict",
    "evaluate": "pricdr.evaluation.comparison",
    "prepare": "pricdr.data.pairs",
    "publish": "pricdr._publish",
    "read_alignment": "pricdr.alignment.record",
    "read_features": "pricdr.data.feature_files",
    "read_ids": "pricdr.data.reading.readers",
    "read_ratings": "pricdr.data.reading.readers",
    "repeat": "pricdr._repeat",
    "split": "pricdr.data.splits",
    "synthetic_pair": "pricdr.data.synthetic",
    "transfer": "pricdr._transfer",
    "verify": "pricdr.release",
}

_MODULES = ("models", "strategies")
"""Modules with public names of their own."""

__all__ = [*_HOME, *_MODULES]


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name in _MODULES:
        return import_module(f"pricdr.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'pricdr' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
