"""How the rows of a sparse matrix are cut for summing: one row can be as long as thousands of others."""

from typing import Final, NamedTuple

import torch
from torch import Tensor

_LONGEST: Final = 128
"""Entries that are summed in one pass; a longer row is cut into pieces, whose sums are added afterwards."""


class Pieces(NamedTuple):
    """The rows of a matrix and the pieces of its long rows; bounds are pairs (first entry, end)."""

    bounds: Tensor
    """The bounds of every row."""
    short: Tensor
    """Numbers of the rows that are summed in one pass."""
    long: Tensor
    """Numbers of the other rows."""
    cuts: Tensor
    """The bounds of all pieces of long rows."""
    cuts_of: Tensor
    """For each long row, the bounds of its pieces within ``cuts``."""

    @classmethod
    def of(cls, offsets: Tensor, n_entries: int) -> "Pieces":
        """Return the pieces of consecutive rows that start at these offsets.

        >>> import torch
        >>> pieces = Pieces.of(torch.tensor([0, 300, 302]), 302)
        >>> pieces.short.tolist(), pieces.long.tolist(), pieces.cuts.tolist(), pieces.cuts_of.tolist()
        ([1, 2], [0], [[0, 128], [128, 256], [256, 300]], [[0, 3]])
        """
        ends = torch.cat([offsets[1:], torch.full_like(offsets[:1], n_entries)])
        counts = ends - offsets
        long = torch.nonzero(counts > _LONGEST).squeeze(1)
        cuts = -(-counts[long] // _LONGEST)
        last = torch.cumsum(cuts, 0)
        of = torch.repeat_interleave(torch.arange(len(long), device=long.device), cuts)
        number = torch.arange(len(of), device=of.device) - (last - cuts)[of]
        start = offsets[long][of] + _LONGEST * number
        return cls(
            bounds=torch.stack([offsets, ends], 1),
            short=torch.nonzero(counts <= _LONGEST).squeeze(1),
            long=long,
            cuts=torch.stack([start, torch.minimum(start + _LONGEST, ends[long][of])], 1),
            cuts_of=torch.stack([last - cuts, last], 1),
        )
