"""``features``: public item features as item rows. They were never trained on the ratings, so they cost nothing."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from pricdr.arrays import Float32Array
from pricdr.data.features import ItemFeatures
from pricdr.data.ratings import Ids
from pricdr.errors import InputError, ParameterError
from pricdr.privacy.accounting import Guarantee
from pricdr.privacy.strategies.base import Projection, default_dim
from pricdr.progress import Progress
from pricdr.randomness import Randomness


@dataclass(frozen=True, kw_only=True, eq=False)
class Features(Projection):
    """Each item's row is what the public knows about it: genres, tags, a text's embedding, scaled to norm 1.

    Where there are more columns than ``dim``, their leading principal directions over the catalogue are kept. The
    promise holds for any table that was not made from these ratings: rows are clipped to norm 1, last of all.
    """

    name: ClassVar[str] = "features"
    summary: ClassVar[str] = "public item features as directions"
    needs: ClassVar[tuple[str, ...]] = ("features",)
    needs_catalogue: ClassVar[bool] = True
    item_rows_are: ClassVar[str] = "PUBLIC item features, declared as such and scaled to norm 1"
    not_protected: ClassVar[tuple[str, ...]] = (
        "The item features: they were declared public, and the promise rests on their not being made from these "
        "ratings.",
    )

    features: ItemFeatures | None = None
    """None describes a strategy without the means to run it, as a certificate does."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dim is not None:
            # A certificate describes the strategy without its table: there is no number of columns to compare with.
            columns = self.dim if self.features is None else self.features.rows.shape[1]
            if self.dim > columns:
                raise ParameterError(f"dim {self.dim} is above the {columns} columns that the item features have")

    @property
    def catalogue(self) -> Ids | None:
        """The items that have features: what the public knows something about is the public catalogue."""
        return None if self.features is None else self.features.items

    def resolved(self, guarantee: Guarantee, users: Ids) -> Self:
        """Return it with the dimension that suits ε; features that are the same for all items are refused."""
        if self.features is None:
            raise ParameterError("strategy features needs item features")
        columns = self.features.rows.shape[1]
        if not self.features.leading(columns).any():
            raise InputError("the item features are the same for all items: they cannot tell anybody apart")
        return self if self.dim is not None else self.with_dim(min(default_dim(guarantee), columns))

    def item_rows(self, items: Ids, randomness: Randomness, progress: Progress) -> Float32Array:
        """Return one row of norm 1 per item, zeros where nothing is known of it; nothing is drawn."""
        assert self.features is not None
        leading = self.features.leading(self.columns)
        position_of = {item: position for position, item in enumerate(self.features.items)}
        positions = np.array([position_of.get(item, -1) for item in items], dtype=np.int64)
        known = positions >= 0
        rows = np.zeros((len(items), self.columns), dtype=np.float32)
        rows[known] = leading[positions[known]]
        return rows
