"""``ItemFeatures``: what the public knows about items, as numbers. They are kept apart from any ratings."""

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from pricdr.data.ratings import Ids
from pricdr.errors import InputError

Float64Array: TypeAlias = npt.NDArray[np.float64]

MOST_COLUMNS: Final = 4096
_LARGEST: Final = 1e100
_ROUNDING: Final = 1e-12
"""Of the largest number: a row that is nearer to the mean than this differs from it by rounding alone."""


@dataclass(frozen=True, eq=False)
class ItemFeatures:
    """One row of finite numbers per item."""

    items: Ids
    rows: Float64Array
    """Items x columns."""

    def __post_init__(self) -> None:
        if self.rows.ndim != 2 or self.rows.shape[0] != len(self.items) or not self.rows.size:
            raise InputError(f"item features of shape {self.rows.shape} do not fit {len(self.items):,} items")
        if len(set(self.items)) != len(self.items):
            raise InputError("item features must have one row per item")
        if self.rows.shape[1] > MOST_COLUMNS:
            raise InputError(f"item features can have at most {MOST_COLUMNS:,} columns, got {self.rows.shape[1]:,}")
        if not np.isfinite(self.rows).all() or np.abs(self.rows).max() > _LARGEST:
            raise InputError("item features must be finite numbers below 1e100")

    @classmethod
    def of_tags(cls, items: Ids, tags: list[tuple[str, ...]]) -> "ItemFeatures":
        """Make a column per tag, which weighs more the fewer items have it (inverse document frequency).

        Of more than 4,096 tags the most frequent are kept.

        >>> ItemFeatures.of_tags(("a", "b"), [("war",), ("war", "love")]).rows.round(2).tolist()
        [[1.0, 0.0], [1.0, 1.69]]
        """
        counts: dict[str, int] = {}
        for own in tags:
            for tag in set(own):
                counts[tag] = counts.get(tag, 0) + 1
        # By frequency, then by name: the same tags in any order of rows.
        kept = sorted(counts, key=lambda tag: (-counts[tag], tag))[:MOST_COLUMNS]
        if not kept:
            raise InputError("the item features hold no tag")
        at = {tag: position for position, tag in enumerate(kept)}
        rows = np.zeros((len(items), len(kept)))
        for row, own in enumerate(tags):
            for tag in own:
                if tag in at:
                    rows[row, at[tag]] = 1 + np.log(len(items) / counts[tag])
        return cls(items, rows)

    def leading(self, dim: int) -> npt.NDArray[np.float32]:
        """Project the centred features onto their ``dim`` leading principal directions, and scale rows to norm 1.

        A row of zeros says that nothing is known of its item: it has no part in the mean and stays a row of zeros. So
        does one that cannot be told from the mean.

        >>> ItemFeatures(("a", "b", "c"), np.array([[3.0], [5.0], [0.0]])).leading(1).tolist()
        [[-1.0], [1.0], [0.0]]
        """
        known = self.rows.any(axis=1)
        largest = float(np.abs(self.rows).max()) or 1.0
        scaled = self.rows[known] / largest  # so that squares neither overflow nor vanish
        centred = scaled - scaled.mean(axis=0) if len(scaled) else scaled
        if dim < self.rows.shape[1]:
            _, vectors = np.linalg.eigh(centred.T @ centred)
            centred = centred @ vectors[:, ::-1][:, :dim]
        norms = np.sqrt(np.einsum("ij,ij->i", centred, centred))[:, None]
        rows = np.zeros((len(self.items), min(dim, self.rows.shape[1])), dtype=np.float32)
        rows[known] = np.divide(centred, norms, out=np.zeros_like(centred), where=norms > _ROUNDING)
        return rows

    def tells_apart(self) -> bool:
        """Return whether items differ at all in what is known of them."""
        return bool(self.leading(self.rows.shape[1]).any())
