"""``jlt``: random Gaussian rows of unit norm, each a keyed function of its item's id alone."""

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt

from pricdr.arrays import Float32Array
from pricdr.data.ratings import Ids
from pricdr.parallel import each_block
from pricdr.privacy.mechanism import squared_norms
from pricdr.privacy.strategies.base import RandomProjection
from pricdr.progress import Progress
from pricdr.randomness import BLOCK, Bytes, Randomness, Stream

_ITEMS_PER_BLOCK: Final = 512


@dataclass(frozen=True, kw_only=True)
class JLT(RandomProjection):
    """The paper's Johnson-Lindenstrauss projection, with rows normalised so that the sensitivity is exact.

    An item's row depends on its id and on the release's key, not on which other items exist, so no catalogue has to
    be public.
    """

    name: ClassVar[str] = "jlt"
    summary: ClassVar[str] = "the paper's random projection"

    def item_rows(self, items: Ids, randomness: Randomness, progress: Progress) -> Float32Array:
        """Return E, whose row i is a Gaussian vector scaled to norm 1: a function of the key and ``items[i]`` alone."""
        stream = randomness.stream("jlt rows")
        rows = np.empty((len(items), self.columns), dtype=np.float32)

        def fill(part: slice) -> None:
            normals = _keyed_normals(stream, items[part], rows.shape[1])
            rows[part] = unit_rows(normals)

        each_block(len(items), _ITEMS_PER_BLOCK, fill, what="item rows", progress=progress)
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

    The tail ends at 6.8 standard deviations: good for E, whose law matters for utility only. Privacy noise never
    comes from here.
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
