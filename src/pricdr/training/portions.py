"""Portions of a batch that several processes share: each draws random numbers for the whole batch and keeps its own.

So the draws of a training do not depend on the number of processes, and neither does the network they end with.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple

import torch
from torch import Tensor


class Portion(NamedTuple):
    """The rows of a batch that this process computes."""

    own: slice
    whole: int

    @property
    def is_all(self) -> bool:
        """Whether this process computes every row."""
        return self.own == slice(0, self.whole)


_PORTION: Final[ContextVar[Portion | None]] = ContextVar("_PORTION", default=None)


@contextmanager
def drawing_for(portion: Portion) -> Iterator[None]:
    """Make :func:`draw_for_portion` draw for this portion of a batch while the block runs."""
    token = _PORTION.set(None if portion.is_all else portion)
    try:
        yield
    finally:
        _PORTION.reset(token)


def is_shared() -> bool:
    """Return whether the current rows are only a portion of a batch."""
    return _PORTION.get() is not None


def draw_for_portion(shape: torch.Size, draw: Callable[[torch.Size], Tensor]) -> Tensor:
    """Call ``draw`` for every row of the batch and return the rows of the current portion, which have this shape.

    >>> import torch
    >>> with drawing_for(Portion(slice(2, 4), 4)):
    ...     draw_for_portion(torch.Size([2]), lambda shape: torch.arange(shape[0]))
    tensor([2, 3])
    """
    portion = _PORTION.get()
    return draw(shape) if portion is None else draw(torch.Size([portion.whole, *shape[1:]]))[portion.own]
