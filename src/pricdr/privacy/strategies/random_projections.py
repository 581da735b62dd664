"""The paper's random projections: ``jlt``, and ``sjlt``, which is sparse."""

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt

from pricdr.arrays import Float32Array
from pricdr.data.ratings import Ids
from pricdr.errors import ParameterError
from pricdr.parallel import each_block
from pricdr.privacy.accounting import Guarantee
from pricdr.privacy.mechanism import squared_norms
from pricdr.privacy.strategies.base import Projection
from pricdr.progress import Progress, silent
from pricdr.randomness import BLOCK, Bytes, Randomness, Stream

DEFAULT_DIM: Final = 200  # columns where nobody asked for a number, as in the paper
_EXAMPLE_ITEMS: Final = tuple(f"item {number}" for number in range(500))
_ITEMS_PER_BLOCK: Final = 512
_COLUMNS_PER_BLOCK: Final = 16
_ROWS_PER_BLOCK: Final = 4096


@dataclass(frozen=True, kw_only=True, eq=False)
class RandomProjection(Projection):
    """A projection along random item rows, as in the paper."""

    rows_cancel: ClassVar[bool] = True

    dim: int | None = DEFAULT_DIM

    @classmethod
    def default_dim(cls, guarantee: Guarantee) -> int | None:
        """Return 200, as in the paper."""
        return DEFAULT_DIM

    def example_rows(self, randomness: Randomness) -> Float32Array:
        """Return rows as they are drawn for any catalogue: nothing about it has to be known."""
        return self.item_rows(_EXAMPLE_ITEMS, randomness, silent)


@dataclass(frozen=True, kw_only=True)
class JLT(RandomProjection):
    """The paper's Johnson-Lindenstrauss projection, with rows normalised so that the sensitivity is exact.

    An item's row depends on its id and the release's key, not on which others exist: no catalogue has to be public.
    """

    name: ClassVar[str] = "jlt"
    summary: ClassVar[str] = "the paper's random projection"

    def item_rows(self, items: Ids, randomness: Randomness, progress: Progress) -> Float32Array:
        """Return E, whose row i is a Gaussian vector scaled to norm 1: a function of the key and ``items[i]`` alone."""
        stream = randomness.stream("jlt rows")
        rows = np.empty((len(items), self.columns), dtype=np.float32)

        def fill(part: slice) -> None:
            rows[part] = unit_rows(_keyed_normals(stream, items[part], self.columns))

        each_block(len(items), _ITEMS_PER_BLOCK, fill, what="item rows", progress=progress)
        return rows


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
            start, size = 4 * padded * part.start, 4 * padded * (part.stop - part.start)
            sparse = sparse_normals(entries.read(start, size), support.read(start, size), padded, self.density)
            rows[:, part] = (walsh_hadamard(sparse)[:, :n] * signs).T

        def normalise(part: slice) -> None:
            unit_rows(rows[part])

        each_block(dim, _COLUMNS_PER_BLOCK, fill, what="item rows", progress=progress)
        each_block(n, _ROWS_PER_BLOCK, normalise)
        return rows


def unit_rows(rows: Float32Array) -> Float32Array:
    """Scale rows to norm 1 in place, and return them; rows of zeros stay."""
    norms = np.sqrt(squared_norms(rows))[:, None]
    np.divide(rows, norms, out=rows, where=norms > 0)
    return rows


def unit_gaussian_rows(stream: Stream, count: int, dim: int) -> Float32Array:
    """Return ``count`` unit rows in independent random directions, in the stream's order."""
    numbers = count * dim + count * dim % 2
    return unit_rows(normals_from(stream.read(0, 4 * numbers))[: count * dim].reshape(count, dim))


def normals_from(bits: Bytes) -> Float32Array:
    """Return standard normals, one for every 4 random bytes (a multiple of 8), by Box-Muller on 32-bit uniforms.

    The tail ends at 6.8 standard deviations: good for E, whose law matters for utility only, and never privacy noise.
    """
    words = bits.view(np.uint32)
    half = words.size // 2
    radius = words[:half].astype(np.float32)
    radius += np.float32(0.5)
    radius *= np.float32(2.0**-32)
    np.log(radius, out=radius)
    radius *= np.float32(-2)
    np.sqrt(radius, out=radius)
    angle = words[half:].astype(np.float32)
    angle *= np.float32(2 * np.pi * 2.0**-32)
    out = np.empty(words.size, dtype=np.float32)
    np.multiply(radius, np.cos(angle), out=out[:half])
    np.multiply(radius, np.sin(angle), out=out[half:])
    return out


def _keyed_normals(stream: Stream, items: Ids, dim: int) -> Float32Array:
    """Return one row of ``dim`` normals per item, read at the stream address that the item's id hashes to."""
    blocks_per_row = 2 * -(-dim // 8)
    start = np.frombuffer(b"".join(map(stream.address, items)), dtype=np.uint64).reshape(-1, 1, 2)
    address = np.repeat(start, blocks_per_row, axis=1)
    address[:, :, 1] += np.arange(blocks_per_row, dtype=np.uint64)  # wraps round, which is as good a block as any
    bits = stream.at(address.reshape(-1).view(np.uint8))
    # Box-Muller wants all radii, then all angles: put every row's first half of the words in front.
    per_row = bits.view(np.uint32).reshape(len(items), 2, blocks_per_row * BLOCK // 8)
    halves: npt.NDArray[np.uint32] = np.ascontiguousarray(per_row.transpose(1, 0, 2))
    normals = normals_from(halves.reshape(-1).view(np.uint8)).reshape(2, len(items), -1)
    return np.concatenate((normals[0], normals[1]), axis=1)[:, :dim].copy()


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
