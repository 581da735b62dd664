"""Parts of a batch that is shared among processes: random draws are made for all of it, and each takes its own.

So the draws of a training are the same however many processes share it, and so is the network they end with.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple

import torch
from torch import Tensor


class Portion(NamedTuple):
    """Which rows of a whole a process computes."""

    own: slice
    whole: int

    @property
    def is_all(self) -> bool:
        """Whether there is nothing that another process computes."""
        return self.own == slice(0, self.whole)


_PORTION: Final[ContextVar[Portion | None]] = ContextVar("_PORTION", default=None)


@contextmanager
def rows_of(portion: Portion) -> Iterator[None]:
    """Let what is drawn for rows inside belong to the own rows of a whole."""
    token = _PORTION.set(None if portion.is_all else portion)
    try:
        yield
    finally:
        _PORTION.reset(token)


def is_shared() -> bool:
    """Return whether the rows at hand are a part of a whole."""
    return _PORTION.get() is not None


def drawn(shape: torch.Size, draw: Callable[[torch.Size], Tensor]) -> Tensor:
    """Return what ``draw`` draws for rows of this shape: for all rows of the whole, of which the own are kept.

    >>> import torch
    >>> with rows_of(Portion(slice(2, 4), 4)):
    ...     drawn(torch.Size([2]), lambda shape: torch.arange(shape[0]))
    tensor([2, 3])
    """
    portion = _PORTION.get()
    return draw(shape) if portion is None else draw(torch.Size([portion.whole, *shape[1:]]))[portion.own]
