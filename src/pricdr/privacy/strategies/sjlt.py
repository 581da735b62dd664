"""``sjlt``: the sparse-aware projection P H D, a sparse Gaussian after a randomised Walsh-Hadamard transform."""

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from pricdr.arrays import Float32Array
from pricdr.data.ratings import Ids
from pricdr.errors import ParameterError
from pricdr.parallel import each_block
from pricdr.privacy.strategies.base import RandomProjection
from pricdr.privacy.strategies.jlt import normals_from, unit_rows
from pricdr.progress import Progress
from pricdr.randomness import Bytes, Randomness

_COLUMNS_PER_BLOCK: Final = 16
_ROWS_PER_BLOCK: Final = 4096


@dataclass(frozen=True, kw_only=True)
class SJLT(RandomProjection):
    """The paper's SJLT with unit rows: E = (P H D)ᵀ.

    P (dim x n) is sparse Gaussian, each entry non-zero with probability ``density`` and at least one in every row;
    H is the orthonormal Walsh-Hadamard matrix on n padded to a power of two; D holds random signs. H spreads every
    item over all coordinates, so that a sparse P still sees it.
    """

    name: ClassVar[str] = "sjlt"
    summary: ClassVar[str] = "the paper's sparse-aware random projection"
    needs_catalogue: ClassVar[bool] = True
    constants: ClassVar[tuple[str, ...]] = ("density",)

    density: float = 0.5
    """Share of non-zeros in P, the paper's sp."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.density <= 1:
            raise ParameterError(f"density must lie in (0, 1], got {self.density!r}")

    def item_rows(self, items: Ids, randomness: Randomness, progress: Progress) -> Float32Array:
        """Return the rows of (P H D)ᵀ for the catalogue ``items``, in its order, scaled to norm 1."""
        n, dim = len(items), self.columns
        padded = max(2, 1 << (n - 1).bit_length())  # a power of two
        entries = randomness.stream("sjlt entries")
        support = randomness.stream("sjlt support")
        signs = 1 - 2 * (randomness.stream("sjlt signs").read(0, n) & 1).astype(np.float32)
        rows = np.empty((n, dim), dtype=np.float32)

        def fill(part: slice) -> None:
            size = (part.stop - part.start) * padded * 4
            start = part.start * padded * 4
            sparse = sparse_normals(entries.read(start, size), support.read(start, size), padded, self.density)
            rows[:, part] = (walsh_hadamard(sparse)[:, :n] * signs).T

        def normalise(part: slice) -> None:
            unit_rows(rows[part])

        each_block(dim, _COLUMNS_PER_BLOCK, fill, what="item rows", progress=progress)
        each_block(n, _ROWS_PER_BLOCK, normalise)
        return rows


def walsh_hadamard(rows: Float32Array) -> Float32Array:
    """Multiply every row by the orthonormal Walsh-Hadamard matrix (Sylvester's order), in place: n log n a row."""
    n = rows.shape[1]
    width = 1
    while width < n:
        pairs = rows.reshape(rows.shape[0], -1, 2, width)
        left, right = pairs[:, :, 0], pairs[:, :, 1]
        difference = left - right
        left += right
        right[...] = difference
        width *= 2
    rows *= np.float32(n**-0.5)
    return rows


def sparse_normals(entry_bits: Bytes, support_bits: Bytes, n: int, density: float) -> Float32Array:
    """Return rows of P: normals kept with probability ``density``; a row that would be empty keeps a random one."""
    normals = normals_from(entry_bits).reshape(-1, n)
    chance = support_bits.view(np.uint32).reshape(-1, n)
    keep = chance < np.uint64(round(density * 2**32))
    empty = np.flatnonzero(~keep.any(axis=1))
    keep[empty, chance[empty].argmin(axis=1)] = True
    normals *= keep
    return normals
