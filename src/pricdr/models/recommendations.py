"""Recommendations as a list that converts to a data frame."""

from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pricdr.data.ratings import Ids

if TYPE_CHECKING:
    from pricdr.data.tables import Library


class Basis(Enum):
    """What a user's recommendations are based on."""

    HISTORY = "history"
    RELEASE = "release"
    """The source's data: its release, or its ratings in a model that is not private."""
    BOTH = "both"
    POPULARITY = "popularity"


class Recommendation(NamedTuple):
    """One recommended item."""

    user: str
    item: str
    score: float
    rank: int
    """1 is the best."""
    basis: Basis


class WrittenRecommendations(NamedTuple):
    """A summary of the recommendations that were written to a file."""

    path: Path
    rows: int
    """Recommended items, one row each."""
    users: int
    """The number of users that were requested."""
    unknown_users: int
    """How many of them the model does not know: they get popular items."""


class Recommendations(list[Recommendation]):
    """Recommended items, user by user and best first, and the users that the model does not know."""

    def __init__(self, recommended: Iterable[Recommendation] = (), *, unknown_users: Ids = ()) -> None:
        super().__init__(recommended)
        self.unknown_users = unknown_users
        """The users that the model does not know, each once: they get popular items."""

    def __repr__(self) -> str:
        """Show sizes only: a repr ends up in logs."""
        users = len({recommendation.user for recommendation in self})
        return f"Recommendations({len(self)} items for {users} users, {len(self.unknown_users)} of them unknown)"

    def to_frame(self, library: "Library | None" = None) -> Any:  # noqa: ANN401 - of whatever library there is
        """Return a data frame with one row per recommended item: ``user``, ``item``, ``score``, ``rank``, ``basis``.

        It is of polars, pandas or pyarrow: the first of them that is installed, or the ``library`` asked for.
        """
        from pricdr.data.tables import texts, to_frame

        columns = {
            "user": texts([one.user for one in self]),
            "item": texts([one.item for one in self]),
            "score": np.array([one.score for one in self], dtype=np.float64),
            "rank": np.array([one.rank for one in self], dtype=np.int64),
            "basis": texts([one.basis.value for one in self]),
        }
        return to_frame(columns, library)
