"""What a model recommends: a list of items for users, which leaves as a data frame of any kind."""

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
    """What a user's recommendations rest on."""

    HISTORY = "history"
    RELEASE = "release"
    """The source's data: its release, or, in a model that is not private, its ratings."""
    BOTH = "both"
    POPULARITY = "popularity"


class Recommendation(NamedTuple):
    """One recommended item."""

    user: str
    item: str
    score: float
    rank: int
    """From 1."""
    basis: Basis


class WrittenRecommendations(NamedTuple):
    """What was written to a file."""

    path: Path
    rows: int
    """Recommended items, one row each."""
    users: int
    """Users who were asked for."""
    unknown_users: int
    """How many of them the model never met: they get what is popular."""


class Recommendations(list[Recommendation]):
    """Recommended items, best first for each user in turn, and whom the model did not know."""

    def __init__(self, recommended: Iterable[Recommendation] = (), *, unknown_users: Ids = ()) -> None:
        super().__init__(recommended)
        self.unknown_users = unknown_users
        """The users the model never met, each once: they get what is popular."""

    def __repr__(self) -> str:
        """Show sizes only: a repr ends up in logs."""
        users = len({one.user for one in self})
        return f"Recommendations({len(self)} items for {users} users, {len(self.unknown_users)} of them unknown)"

    def to_polars(self) -> "pl.DataFrame":
        """Return one row per recommended item: ``user``, ``item``, ``score``, ``rank`` and ``basis``."""
        from pricdr.data.frames import recommendations_to_polars

        return recommendations_to_polars((*one[:4], one.basis.value) for one in self)

    def to_pandas(self) -> "pd.DataFrame":
        """Return the rows of :meth:`to_polars` as a pandas data frame; pandas must be installed."""
        from pricdr.data.frames import to_pandas

        return to_pandas(self.to_polars())

    def to_arrow(self) -> "pa.Table":
        """Return the rows of :meth:`to_polars` as a pyarrow table; pyarrow must be installed."""
        from pricdr.data.frames import to_arrow

        return to_arrow(self.to_polars())
