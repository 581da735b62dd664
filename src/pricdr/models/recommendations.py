"""Recommendations as a list that converts to a data frame of any kind."""

from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pricdr.data.ratings import Ids

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa


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

    def to_polars(self) -> "pl.DataFrame":
        """Return one row per recommended item: ``user``, ``item``, ``score``, ``rank`` and ``basis``."""
        from pricdr.data.frames import recommendations_to_polars

        return recommendations_to_polars((*row[:4], row.basis.value) for row in self)

    def to_pandas(self) -> "pd.DataFrame":
        """Return the rows of :meth:`to_polars` as a pandas data frame; pandas must be installed."""
        from pricdr.data.frames import to_pandas

        return to_pandas(self.to_polars())

    def to_arrow(self) -> "pa.Table":
        """Return the rows of :meth:`to_polars` as a pyarrow table; pyarrow must be installed."""
        from pricdr.data.frames import to_arrow

        return to_arrow(self.to_polars())
