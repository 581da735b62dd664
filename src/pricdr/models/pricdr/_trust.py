"""How far a source is trusted, for users with history and without: as far as validation shows a gain."""

from collections.abc import Callable
from typing import Final

from pricdr.data.splits import HeldOut
from pricdr.evaluation.compare import clearly_above
from pricdr.models.chosen import Chosen, Trust
from pricdr.models.evidence import has_evidence
from pricdr.models.fitting import ndcg_by_user
from pricdr.models.pricdr._source_stage import SourceStage

LEVELS: Final = (0.0, 0.25, 0.5, 0.75, 1.0)
"""What validation chooses from."""


def choose_trust(stage: SourceStage, validation: HeldOut | None, chosen: Chosen, *, tested: bool) -> Trust:
    """Return how far to trust the source.

    A release without evidence (:mod:`pricdr.models.evidence`) is not trusted at all; ``tested`` is false for plaintext
    ratings, which need none. Without validation what was chosen before holds; where nothing was, cold users trust the
    source fully, and warm users their own history.
    """
    if validation is None and chosen.trust is not None:
        return chosen.trust
    if tested and not has_evidence(stage.inputs):
        return Trust(0.0, 0.0)
    if validation is None:
        return Trust(0.0, 1.0)
    cold = stage.is_cold(validation)
    return Trust(
        warm=_best_level(stage, validation.only(~cold), lambda level: Trust(level, 0.0)),
        # One user tells nothing, and nobody even less.
        cold=_best_level(stage, validation.only(cold), lambda level: Trust(0.0, level)) if cold.sum() > 1 else 1.0,
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
