"""Ridge regression from release rows to target ratings: what a linear decoder gains from a release, in seconds."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from pricdr.data.csr import CSR
from pricdr.data.ratings import Ratings
from pricdr.data.splits import HeldOut
from pricdr.errors import require_positive
from pricdr.evaluation.metrics import Float64Array, per_user
from pricdr.evaluation.ranking import sampled_ranks
from pricdr.memory import require_memory
from pricdr.models.base import ReleaseMethod, Trained
from pricdr.models.chosen import TRUSTED, UNTRUSTED, Chosen
from pricdr.models.evidence import is_refused, trust_is_settled, with_evidence
from pricdr.models.fitted import FittedModel
from pricdr.models.inputs import Inputs, ReleaseRows, unit_rows
from pricdr.models.linear.closed_form import ones
from pricdr.models.networks import log_odds
from pricdr.models.newcomers import Newcomers, select_newcomers, shows_gain
from pricdr.training.run_log import RunLog

REGULARISATIONS: Final = (1.0, 10.0, 100.0, 1000.0)
SCALES: Final = (0.1, 0.2, 0.4, 0.7, 1.0, 1.5)
"""What validation chooses from."""
Choice: TypeAlias = tuple[float, float]
"""A regularisation and a scale."""


@dataclass(frozen=True, kw_only=True)
class RidgeReleaseConfig:
    """What holds where there is no validation to choose by."""

    regularisation: float = 100.0
    """λ, beside release rows of length 1."""
    scale: float = 0.4
    """Standard deviation, over users and items, of what the release adds to the log-odds of popularity."""

    def __post_init__(self) -> None:
        require_positive(regularisation=self.regularisation, scale=self.scale)


@dataclass(frozen=True, kw_only=True)
class RidgeRelease(ReleaseMethod):
    """Score items by popularity plus a linear function of the user's release row.

    The weights are the ridge regression of the target's centred ratings, each item divided by √popularity, on the
    release rows of users who have both. A user's own history is not used: warm users are scored by their row like cold
    ones. It is a yardstick for what a release holds rather than a recommender for warm users.

    What is left is popularity where the release fails the evidence test, or where the best choice does not beat
    popularity for newcomers (:mod:`pricdr.models.newcomers`) by more than a standard error.
    """

    name: ClassVar[str] = "ridge-release"
    summary: ClassVar[str] = "linear decoder of release rows in closed form"

    config: RidgeReleaseConfig = field(default_factory=RidgeReleaseConfig)

    def _train(
        self, target: Ratings, release: ReleaseRows, *, validation: HeldOut | None, chosen: Chosen, log: RunLog
    ) -> Trained:
        dim, n_items = release.matrix.shape[1], len(target.items)
        # The normal equations, λI and what solving copies; the products with items, and the weights.
        require_memory(8 * (5 * dim * dim + 4 * dim * n_items), f"ridge regression on {dim:,} numbers a release row")
        inputs = Inputs.of(target, release)
        popular = _popularity(inputs)
        chosen = with_evidence(inputs, validation, chosen)
        unused = Chosen(trust=UNTRUSTED, evidence=chosen.evidence, not_chosen=chosen.not_chosen)
        if is_refused(validation, chosen):
            return popular, unused
        regularisation = chosen.settings.get("regularisation", self.config.regularisation)
        scale = chosen.settings.get("scale", self.config.scale)
        if not trust_is_settled(validation, chosen):
            choices = [(regularisation, scale)] if validation is None else list(product(REGULARISATIONS, SCALES))
            best = _best(choices, inputs, popular, select_newcomers(inputs, validation, seed=0))
            if best is None:
                return popular, unused
            regularisation, scale = best
            if validation is not None:
                settings = {"regularisation": regularisation, "scale": scale}
                chosen = Chosen(settings=settings, evidence=chosen.evidence)
        return _Decoder(inputs, popular).model(regularisation, scale), replace(chosen, trust=TRUSTED)


def _best(choices: Sequence[Choice], inputs: Inputs, popular: FittedModel, newcomers: Newcomers) -> Choice | None:
    """Return the λ and the scale with the best NDCG@10 for newcomers; None where none of them beats popularity."""
    if not len(newcomers.held_out):
        return None
    decoder = _Decoder(newcomers.hidden_from(inputs), popular)
    by_choice = {choice: _ndcg(decoder.model(*choice), newcomers.held_out) for choice in choices}
    best = max(by_choice, key=lambda choice: float(by_choice[choice].mean()))
    return best if shows_gain(by_choice[best], _ndcg(popular, newcomers.held_out)) else None


class _Decoder:
    """The normal equations, to be solved for any λ."""

    def __init__(self, inputs: Inputs, popular: FittedModel) -> None:
        self.inputs, self.popular = inputs, popular
        source: Any = inputs.source
        known = inputs.present & (np.diff(inputs.ratings.indptr) > 0)
        rows = unit_rows(source)
        # Around those it is fitted to: the item bias holds what they have in common.
        rows -= rows[known].mean(axis=0)
        self.rows = rows * inputs.present[:, None]
        fitted = self.rows[known].astype(np.float64)
        ratings = ones(inputs.ratings[known])
        # Rows are centred, so centring the ratings would change nothing: Σ_u x_u (y_u − ȳ) = Σ_u x_u y_u.
        self.products = (ratings.T @ fitted) / np.sqrt(_counts(ratings) + 1)[:, None]
        self.gram = fitted.T @ fitted
        self.users = len(fitted)

    def model(self, regularisation: float, scale: float) -> FittedModel:
        """Return the model for one λ and one scale of what the release adds."""
        weights = np.linalg.solve(self.gram + regularisation * np.eye(len(self.gram)), self.products.T)
        # The mean square of all users' predictions, without making them: tr(XᵀX · WWᵀ) / (users · items).
        spread = np.sqrt((self.gram * (weights @ weights.T)).sum() / (self.users * weights.shape[1]))
        return FittedModel(
            method=self.popular.method,
            users=self.inputs.users,
            items=self.inputs.items,
            user_vectors=self.rows,
            item_vectors=np.ascontiguousarray(weights.T * (scale / max(spread, 1e-12)), dtype=np.float32),
            item_bias=self.popular.item_bias,
            seen=self.inputs.ratings,
            in_release=self.inputs.present,
            uses_history=False,
        )


def _popularity(inputs: Inputs) -> FittedModel:
    """Return the model that uses nothing of the release."""
    users = int((np.diff(inputs.ratings.indptr) > 0).sum())
    bias = log_odds(torch.as_tensor(_counts(inputs.ratings), dtype=torch.float32), users)
    return FittedModel(
        method="ridge-release",
        users=inputs.users,
        items=inputs.items,
        user_vectors=np.zeros((len(inputs.users), 0), dtype=np.float32),
        item_vectors=np.zeros((len(inputs.items), 0), dtype=np.float32),
        item_bias=bias.numpy(),
        seen=inputs.ratings,
        in_release=np.zeros(len(inputs.users), dtype=bool),
        uses_history=False,
    )


def _counts(ratings: CSR) -> npt.NDArray[np.int64]:
    return np.bincount(ratings.indices, minlength=ratings.shape[1])


def _ndcg(model: FittedModel, held_out: HeldOut) -> Float64Array:
    return per_user(sampled_ranks(model.score_candidates, held_out))["NDCG@10"]
