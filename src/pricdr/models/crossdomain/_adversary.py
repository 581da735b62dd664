"""An adversary learns to tell two sets of vectors apart, and what made the vectors learns to stop it: DARec and ETL."""

from itertools import pairwise

from torch import Tensor, nn
from torch.nn.functional import softplus


def reversed_gradient(vectors: Tensor, strength: float) -> Tensor:
    """The vectors as they are; the gradient that comes back is turned round and scaled.

    >>> import torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> (3 * reversed_gradient(x, 0.5)).sum().backward()
    >>> x.grad
    tensor([-1.5000, -1.5000])
    """
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
        """One logit per vector."""
        logits: Tensor = self.layers(vectors).squeeze(1)
        return logits

    def errors(self, vectors: Tensor, *, first: bool, strength: float) -> Tensor:
        """Cross-entropy of each vector's set: what the adversary lowers, and whoever made the vectors raises."""
        logits = self(reversed_gradient(vectors, strength))
        return softplus(-logits if first else logits)
