"""How the rows of a sparse matrix are shared out for adding up: one row is as long as thousands of others."""

from typing import Final, NamedTuple

import torch
from torch import Tensor

_LONGEST: Final = 128
"""Entries that are added up in one go; a longer row is cut into pieces, whose sums are added up in turn."""


class Pieces(NamedTuple):
    """The rows of a matrix and the pieces of long ones; bounds are pairs, where entries begin and where they end."""

    bounds: Tensor
    """Of every row."""
    short: Tensor
    """The rows that are added up in one go, by number."""
    long: Tensor
    """The others."""
    cuts: Tensor
    """The bounds of all pieces of long rows."""
    cuts_of: Tensor
    """For each long row, where its pieces begin and end among all of them."""

    @classmethod
    def of(cls, offsets: Tensor, n_entries: int) -> "Pieces":
        """Return the pieces of rows that begin at these offsets, one after the other.

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
