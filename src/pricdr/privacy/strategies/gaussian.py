"""``jlt``: random Gaussian rows of unit norm, each a keyed function of its item's id alone."""

from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt

from pricdr.data.ratings import Ids
from pricdr.parallel import each_block
from pricdr.privacy.guarantee import Guarantee
from pricdr.privacy.run import Entries, Run
from pricdr.privacy.steps import Declared, Step
from pricdr.privacy.strategies.base import FloatArray
from pricdr.privacy.strategies.dims import require_dim
from pricdr.privacy.strategies.fixed import fixed_steps, publish_fixed
from pricdr.progress import Progress
from pricdr.randomness import BLOCK, Bytes, Randomness, Stream

_ITEMS_PER_BLOCK: Final = 512


@dataclass(frozen=True, kw_only=True)
class JLT:
    """The paper's Johnson-Lindenstrauss projection, with rows normalised so that the sensitivity is exact.

    An item's row depends on its id and on the release's key, not on which other items exist, so no catalogue has to
    be public.
    """

    name: ClassVar[str] = "jlt"
    needs_catalogue: ClassVar[bool] = False
    rows_cancel: ClassVar[bool] = True
    learns: ClassVar[bool] = False

    dim: int | None = 200
    """Columns of the published matrix; None chooses by a small, accounted part of the budget."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", require_dim(self.dim))

    def with_dim(self, dim: int | None) -> "JLT":
        """The same strategy with ``dim`` columns, or with the choice left open."""
        return replace(self, dim=dim)

    def resolved(self, guarantee: Guarantee, users: Ids) -> "JLT":
        """Itself: a dimension that was not given is chosen by a small part of the budget."""
        return self

    @classmethod
    def described(cls, dim: int, parameters: dict[str, float]) -> "JLT":
        """The strategy that a certificate describes."""
        return cls(dim=dim, **parameters)

    def steps(self, declared: Declared) -> tuple[Step, ...]:
        """One step, and one before it where the dimension is to be chosen."""
        return fixed_steps(declared, self.dim)

    def publish(self, entries: Entries, run: Run) -> FloatArray:
        """Products with random rows."""
        return publish_fixed(self.item_rows(entries.items, run.randomness, run.progress), entries, run)

    def parameters(self) -> dict[str, float]:
        """Public parameters for the certificate: none beyond the dimension."""
        return {}

    def item_rows(self, items: Ids, randomness: Randomness, progress: Progress) -> FloatArray:
        """Row i is a standard Gaussian vector, a function of the key and ``items[i]``, scaled to norm 1."""
        assert self.dim is not None, "the dimension is settled before the rows are drawn"
        stream = randomness.stream("jlt rows")
        rows = np.empty((len(items), self.dim), dtype=np.float32)

        def fill(part: slice) -> None:
            normals = _keyed_normals(stream, items[part], rows.shape[1])
            rows[part] = unit_rows(normals)

        each_block(len(items), _ITEMS_PER_BLOCK, fill, what="item rows", progress=progress)
        return rows


def unit_rows(rows: FloatArray) -> FloatArray:
    """Rows scaled to norm 1 in place; rows of zeros stay.

    >>> unit_rows(np.array([[3, 4], [0, 0]], dtype=np.float32)).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    np.divide(rows, norms, out=rows, where=norms > 0)
    return rows


def unit_gaussian_rows(stream: Stream, count: int, dim: int) -> FloatArray:
    """So many unit rows in independent random directions, in the stream's order."""
    numbers = count * dim + count * dim % 2
    return unit_rows(normals_from(stream.read(0, 4 * numbers))[: count * dim].reshape(count, dim))


def normals_from(bits: Bytes) -> FloatArray:
    """Standard normals, one for every 4 random bytes (a multiple of 8), by Box-Muller on 32-bit uniforms.

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


def _keyed_normals(stream: Stream, items: Ids, dim: int) -> FloatArray:
    """One row of ``dim`` normals per item, read at the stream address that the item's id hashes to."""
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
