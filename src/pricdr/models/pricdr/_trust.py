"""How far a source is trusted, for users with history and without: as far as validation shows a gain."""

from collections.abc import Callable
from typing import Final

from pricdr.data.splits import HeldOut
from pricdr.evaluation.paired_tests import clearly_above
from pricdr.models.chosen import FEWEST_COLD_USERS, UNTRUSTED, Chosen, Trust
from pricdr.models.evidence import has_evidence
from pricdr.models.fitting import ndcg_by_user
from pricdr.models.inputs import Inputs
from pricdr.models.pricdr._source_stage import SourceStage

LEVELS: Final = (0.0, 0.25, 0.5, 0.75, 1.0)
"""What validation chooses from."""


def is_refused(inputs: Inputs, validation: HeldOut | None, chosen: Chosen, *, require_evidence: bool) -> bool:
    """Return whether the source is not used at all, before anything is trained on it.

    An earlier choice is followed. Where there is none, a release has to pass the evidence test
    (:mod:`pricdr.models.evidence`); ``require_evidence`` is false for plaintext ratings.
    """
    if validation is None and chosen.trust is not None:
        return chosen.trust == UNTRUSTED
    return require_evidence and not has_evidence(inputs)


def choose_trust(stage: SourceStage, validation: HeldOut | None, chosen: Chosen) -> Trust:
    """Return how far to trust a source that was not refused.

    Without validation what was chosen before holds; where nothing was, cold users trust the source fully, and warm
    users keep to their own history.
    """
    if validation is None:
        return Trust(0.0, 1.0) if chosen.trust is None else chosen.trust
    cold = stage.is_cold(validation)
    return Trust(
        warm=_best_level(stage, validation.only(~cold), lambda level: Trust(level, 0.0)),
        cold=_best_level(stage, validation.only(cold), lambda level: Trust(0.0, level))
        if cold.sum() >= FEWEST_COLD_USERS
        else 1.0,
    )


def _best_level(stage: SourceStage, held_out: HeldOut, trust: Callable[[float], Trust]) -> float:
    """Return the level with the best NDCG@10, or 0 unless it is better than none by more than a standard error.

    The best of several levels is better on validation by chance alone, hence the margin.
    """
    if not len(held_out):
        return 0.0
    ndcg = {
        level: ndcg_by_user(stage.score_with(stage.user_vectors(trust(level))), held_out, stage.device)
        for level in LEVELS
    }
    best = max(LEVELS, key=lambda level: (ndcg[level].mean(), level))
    return best if clearly_above(ndcg[best], ndcg[0.0]) else 0.0
