"""EASE: a linear item-to-item model in closed form, on the target alone or with the source's data as more columns."""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from pricdr.data.pairs import DomainPair
from pricdr.data.ratings import Ratings
from pricdr.data.splits import HeldOut
from pricdr.errors import require_positive
from pricdr.evaluation.metrics import per_user
from pricdr.evaluation.ranking import sampled_ranks
from pricdr.models.base import PlaintextMethod, ReleaseMethod, SearchSpace, TargetMethod, Trained
from pricdr.models.chosen import UNTRUSTED, Chosen, Trust
from pricdr.models.evidence import is_refused, trust_is_settled, with_evidence
from pricdr.models.fitted import FittedModel, Vectors
from pricdr.models.inputs import BoolArray, Inputs, ReleaseRows
from pricdr.models.linear.closed_form import solve_ease
from pricdr.models.newcomers import select_newcomers, shows_gain
from pricdr.training.run_log import RunLog


@dataclass(frozen=True, kw_only=True)
class EASEConfig:
    """The one setting of EASE."""

    regularisation: float = 300.0
    """λ: the larger, the less a pair of items that met by chance counts."""

    def __post_init__(self) -> None:
        require_positive(regularisation=self.regularisation)


@dataclass(frozen=True, kw_only=True)
class EASE(TargetMethod):
    """Each item predicted from all the others by ridge regression with a zero diagonal (Steck, WWW 2019).

    A user without ratings gets what is popular. There is nothing that validation could choose.
    """

    name: ClassVar[str] = "ease"
    summary: ClassVar[str] = "linear item-item model in closed form"
    space: ClassVar[SearchSpace] = {"regularisation": (10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)}

    config: EASEConfig = field(default_factory=EASEConfig)

    def _train(self, target: Ratings, *, validation: HeldOut | None, chosen: Chosen, log: RunLog) -> Trained:
        return solve_ease(self.name, Inputs.target_only(target), regularisation=self.config.regularisation), chosen


@dataclass(frozen=True, kw_only=True)
class EASESourceConfig(EASEConfig):
    """EASE's setting, and how much the source counts."""

    weight: float = 0.3
    """What a source rating counts beside a target rating's 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(weight=self.weight)


@dataclass(frozen=True, kw_only=True)
class EASESource(PlaintextMethod):
    """NOT PRIVATE. EASE with the source's items as further columns: predictors, never recommended.

    A user without target ratings is scored by its source row. There is nothing that validation could choose.
    """

    name: ClassVar[str] = "ease-source"
    summary: ClassVar[str] = "EASE on target and source ratings together"
    space: ClassVar[SearchSpace] = {
        "regularisation": (30.0, 100.0, 300.0, 1000.0, 3000.0),
        "weight": (0.1, 0.2, 0.3, 0.5, 1.0, 2.0),
    }

    config: EASESourceConfig = field(default_factory=EASESourceConfig)

    def _train_plaintext(self, pair: DomainPair, *, validation: HeldOut | None, chosen: Chosen, log: RunLog) -> Trained:
        config = self.config
        inputs = Inputs.plaintext(pair)
        return solve_ease(self.name, inputs, regularisation=config.regularisation, weight=config.weight), chosen


@dataclass(frozen=True, kw_only=True)
class EASEReleaseConfig(EASEConfig):
    """EASE's setting, and how much the release counts."""

    weight: float = 1.0
    """Norm of an average release row; a target row's is the square root of its ratings."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(weight=self.weight)


@dataclass(frozen=True, kw_only=True)
class EASERelease(ReleaseMethod):
    """EASE with the release's numbers as further columns: predictors, never recommended.

    The zero diagonal on those columns plays no part, since none of them is predicted. A release that fails the evidence
    test leaves EASE on the target alone. A user without target ratings is scored by its release row where that helps:
    unless the rows of newcomers (:mod:`pricdr.models.newcomers`) beat popularity by more than a standard error, cold
    users get what is popular.
    """

    name: ClassVar[str] = "ease-release"
    summary: ClassVar[str] = "EASE on target ratings and release rows together"
    space: ClassVar[SearchSpace] = {
        "regularisation": (30.0, 100.0, 300.0, 1000.0, 3000.0),
        "weight": (0.1, 0.3, 1.0, 3.0, 10.0),
    }

    config: EASEReleaseConfig = field(default_factory=EASEReleaseConfig)

    def _train(
        self, target: Ratings, release: ReleaseRows, *, validation: HeldOut | None, chosen: Chosen, log: RunLog
    ) -> Trained:
        config = self.config
        inputs = Inputs.of(target, release)
        chosen = with_evidence(inputs, validation, chosen)
        if is_refused(validation, chosen):
            # Not a weight of 0: the release's columns would still be inverted.
            unused = replace(inputs, source=None, present=np.zeros_like(inputs.present))
            model = solve_ease(self.name, unused, regularisation=config.regularisation)
            return model, replace(chosen, trust=UNTRUSTED)
        model = self._solved(inputs)
        trust = chosen.trust
        if trust is None or not trust_is_settled(validation, chosen):
            newcomers = select_newcomers(inputs, validation, seed=0)
            # Stand-ins are cold in a solution of their own: in the model itself their rows were fitted to them.
            unseen = self._solved(newcomers.hidden_from(inputs)) if newcomers.stand_ins.any() else model
            trust = Trust(1.0, 1.0 if _helps(unseen, newcomers.held_out) else 0.0)
        return model if trust.cold else _popular_for_cold_users(model), replace(chosen, trust=trust)

    def _solved(self, inputs: Inputs) -> FittedModel:
        config = self.config
        return solve_ease(self.name, inputs, regularisation=config.regularisation, weight=config.weight)


def _helps(model: FittedModel, cold: HeldOut) -> bool:
    """Return whether the release beats popularity for these cold users."""
    by_release, by_popularity = (
        per_user(sampled_ranks(scored.score_candidates, cold))["NDCG@10"]
        for scored in (model, _popular_for_cold_users(model))
    )
    return shows_gain(by_release, by_popularity)


def _popular_for_cold_users(model: FittedModel) -> FittedModel:
    """Return the model with what is popular for every user without target ratings."""
    warm = np.diff(model.seen.indptr) > 0
    return replace(model, user_vectors=_rows_or_zeros(model.user_vectors, warm), in_release=model.in_release & warm)


def _rows_or_zeros(vectors: Vectors, keep: BoolArray) -> Vectors:
    """Return the rows to keep as they are, and zeros for the others."""
    kept = keep.astype(np.float32)
    return (
        sp.csr_array(sp.diags_array(kept) @ vectors) if isinstance(vectors, sp.csr_array) else vectors * kept[:, None]
    )
