"""EASE on [target | release]: what a linear model gains from a release, in seconds."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from pricdr.data.ratings import Ratings
from pricdr.data.splits import HeldOut
from pricdr.errors import require_positive
from pricdr.evaluation.compare import clearly_above
from pricdr.evaluation.metrics import per_user
from pricdr.evaluation.ranking import sampled_ranks
from pricdr.models.base import UNRECORDED, ReleaseMethod
from pricdr.models.evidence import has_evidence
from pricdr.models.fitted import Factors, Vectors
from pricdr.models.inputs import BoolArray, Inputs, ReleaseRows
from pricdr.models.linear._closed_form import ease
from pricdr.training.loop import Recording


@dataclass(frozen=True, kw_only=True)
class EASEReleaseConfig:
    """EASE's setting, and how much the release counts."""

    regularisation: float = 300.0
    weight: float = 1.0
    """Norm of an average release row; a target row's is the square root of its ratings."""

    def __post_init__(self) -> None:
        require_positive(regularisation=self.regularisation, weight=self.weight)


@dataclass(frozen=True, kw_only=True)
class EASERelease(ReleaseMethod):
    """EASE (Steck, WWW 2019) with the release's numbers as further columns: predictors, never recommended.

    The zero diagonal on those columns plays no part, since none of them is predicted.
    """

    config: EASEReleaseConfig = field(default_factory=EASEReleaseConfig)
    space: ClassVar[Mapping[str, tuple[object, ...]]] = {
        "regularisation": (30.0, 100.0, 300.0, 1000.0, 3000.0),
        "weight": (0.1, 0.3, 1.0, 3.0, 10.0),
    }

    def fit(
        self,
        target: Ratings,
        release: ReleaseRows,
        *,
        validation: HeldOut | None = None,
        recording: Recording = UNRECORDED,
    ) -> Factors:
        """Solve; a user without target ratings is scored by its release row, where that helps.

        A release that the evidence test refuses leaves EASE on the target alone. ``validation`` has no epoch to pick,
        but its cold users decide for all cold users: unless their rows beat popularity by more than a standard error,
        they get what is popular.
        """
        config = self.config
        inputs = Inputs.of(target, release)
        if not has_evidence(inputs):
            unused = replace(inputs, source=None, present=np.zeros_like(inputs.present))
            return ease("ease-release", unused, regularisation=config.regularisation)
        model = ease("ease-release", inputs, regularisation=config.regularisation, weight=config.weight)
        return model if validation is None else _gated(model, validation)


def _gated(model: Factors, validation: HeldOut) -> Factors:
    """Return the model, or one that gives cold users what is popular where validation shows no gain for them."""
    warm = np.diff(model.seen.indptr) > 0
    popular = replace(
        model,
        user_vectors=_only(model.user_vectors, warm),
        in_release=model.in_release & warm,
    )
    cold = validation.only(~warm[validation.users])
    if not len(cold):
        return model
    own, popularity = (per_user(sampled_ranks(scored.score_candidates, cold))["NDCG@10"] for scored in (model, popular))
    return model if clearly_above(own, popularity) else popular


def _only(vectors: Vectors, keep: BoolArray) -> Vectors:
    """Return the rows to keep as they are, and zeros for the others."""
    kept = keep.astype(np.float32)
    return sp.csr_array(sp.diags_array(kept) @ vectors) if sp.issparse(vectors) else vectors * kept[:, None]
