"""How far a source is trusted, for users with and without a history: as far as held-out items show a gain."""

from collections.abc import Callable
from typing import Final

from torch import Tensor

from pricdr.data.splits import HeldOut
from pricdr.models.chosen import Trust
from pricdr.models.fitting import ndcg_by_user
from pricdr.models.newcomers import Newcomers, shows_gain
from pricdr.models.pricdr._source_stage import SourceStage

LEVELS: Final = (0.0, 0.25, 0.5, 0.75, 1.0)
"""The levels of trust to choose from."""


def choose_trust(stage: SourceStage, validation: HeldOut | None, newcomers: Newcomers) -> Trust:
    """Return how far to trust a source that was not refused.

    Newcomers decide it for cold users, and validation for warm users; without validation the trust for warm users is 0.
    """

    def vectors_with_history(level: float) -> Tensor:
        return stage.user_vectors(Trust(level, 0.0))

    warm = None if validation is None else validation.only(~stage.is_cold(validation))
    return Trust(
        warm=0.0 if warm is None else _best_level(stage, warm, vectors_with_history),
        cold=_best_level(stage, newcomers.held_out, stage.source_alone),
    )


def _best_level(stage: SourceStage, held_out: HeldOut, user_vectors: Callable[[float], Tensor]) -> float:
    """Return the level with the best NDCG@10, or 0 unless it beats level 0 by more than a standard error.

    By chance alone the best of several levels looks better on held-out items, hence the margin.
    """
    if not len(held_out):
        return 0.0
    ndcg = {level: ndcg_by_user(stage.score_with(user_vectors(level)), held_out, stage.device) for level in LEVELS}
    best = max(LEVELS, key=lambda level: (ndcg[level].mean(), level))
    return best if shows_gain(ndcg[best], ndcg[0.0]) else 0.0
