"""An adversary learns to tell two sets of vectors apart, and what made the vectors learns to stop it: DARec and ETL."""

from itertools import pairwise

from torch import Tensor, nn
from torch.nn.functional import softplus


def reversed_gradient(vectors: Tensor, strength: float) -> Tensor:
    """Return the vectors as they are; the gradient that comes back is reversed and scaled.

    >>> import torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> (3 * reversed_gradient(x, 0.5)).sum().backward()
    >>> x.grad
    tensor([-1.5000, -1.5000])
    """
    # Forward, the bracket is zero; backward, only the bracket has a gradient, with its sign reversed.
    still = vectors.detach()
    return still - strength * (vectors - still)


class Adversary(nn.Module):
    """A small network whose logit says how likely a vector is of the first set.

    Sigmoids, as DARec has them: with ReLUs the game does not settle, and an adversary whose units died looks beaten.
    """

    def __init__(self, width: int, hidden: tuple[int, ...], dropout: float) -> None:
        super().__init__()
        sizes = (width, *hidden)
        parts: list[nn.Module] = []
        for into, out in pairwise(sizes):
            parts += [nn.Linear(into, out), nn.Sigmoid(), nn.Dropout(dropout)]
        self.layers = nn.Sequential(*parts, nn.Linear(sizes[-1], 1))

    def forward(self, vectors: Tensor) -> Tensor:
        """Return one logit per vector."""
        logits: Tensor = self.layers(vectors).squeeze(1)
        return logits

    def errors(self, vectors: Tensor, *, first: bool, strength: float) -> Tensor:
        """Return the cross-entropy of each vector's set: the adversary lowers it, the network before it raises it."""
        logits = self(reversed_gradient(vectors, strength))
        return softplus(-logits if first else logits)
