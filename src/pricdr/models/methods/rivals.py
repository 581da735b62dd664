"""What the rivals share that read the source's ratings. NOT PRIVATE: for comparison only."""

from abc import ABC, abstractmethod
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from pricdr.data.pairs import DomainPair
from pricdr.models.fitted import FittedModel
from pricdr.models.interaction import Interaction, Layer
from pricdr.models.methods.networks import MASKED, DomainExamples
from pricdr.training.loop import ScorePairs
from pricdr.training.rows import SparseRows


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


_USERS_AT_ONCE = 4096


class DecodedRun(ABC):
    """A training on two rows of each user, one of each domain."""

    method: ClassVar[str]

    def __init__(self, pair: DomainPair, config: object, device: torch.device) -> None:
        self.pair, self.device = pair, device
        self.identity = f"{self.method} {config!r} {pair.fingerprint()}"
        self.source = SparseRows(pair.source.matrix, device)
        self.target = SparseRows(pair.target.matrix, device)

    @property
    def examples(self) -> Tensor:
        """The users with a rating in either domain."""
        return torch.nonzero((self.source.counts > 0) | (self.target.counts > 0)).squeeze(1)

    @property
    @abstractmethod
    def last_layer(self) -> nn.Linear:
        """The last layer of the target's decoder: one output per item."""

    @abstractmethod
    def decoder_input(self, users: Tensor) -> Tensor:
        """Return what the last layer is given: from the target row, or from the source row where there is none."""

    @torch.no_grad()
    def scorer(self) -> ScorePairs:
        """Return how validation scores."""
        last = self.last_layer
        return lambda users, items: (self._user_vectors(users)[:, None] * last.weight[items]).sum(2) + last.bias[items]

    @torch.no_grad()
    def fitted_model(self) -> FittedModel:
        """Return the decoder's last layer as item vectors, and what it is given as user vectors."""
        everyone = torch.arange(len(self.pair.users), device=self.device)
        user_vectors = [self._user_vectors(users).cpu() for users in torch.split(everyone, _USERS_AT_ONCE)]
        return FittedModel(
            method=self.method,
            users=self.pair.users,
            items=self.pair.target.items,
            user_vectors=torch.cat(user_vectors).numpy(),
            item_vectors=self.last_layer.weight.detach().cpu().numpy(),
            item_bias=self.last_layer.bias.detach().cpu().numpy(),
            seen=self.pair.target.matrix,
            in_release=(self.source.counts > 0).cpu().numpy(),
        )

    def _user_vectors(self, users: Tensor) -> Tensor:
        """Return zeros for users without any rating, which leaves the decoder's bias."""
        known = (self.source.counts[users] > 0) | (self.target.counts[users] > 0)
        return self.decoder_input(users) * known[:, None]


_USERS_AT_ONCE = 4096


class PairedRun(ABC):
    """A training on every rating of a batch of users in both domains, beside drawn negatives."""

    method: ClassVar[str]

    def __init__(self, pair: DomainPair, config: object, negatives: int, device: torch.device) -> None:
        self.pair, self.device = pair, device
        self.identity = f"{self.method} {config!r} {pair.fingerprint()}"
        self.source = DomainExamples(pair.source, negatives, device)
        self.target = DomainExamples(pair.target, negatives, device)

    @property
    def examples(self) -> Tensor:
        """The users with a rating in either domain."""
        return torch.nonzero(self._known(torch.arange(len(self.pair.users), device=self.device))).squeeze(1)

    @abstractmethod
    def user_parts(self, users: Tensor) -> Tensor:
        """Return what users add to the first layer."""

    @abstractmethod
    def item_parts(self) -> Tensor:
        """Return what the target's items add to the first layer."""

    @abstractmethod
    def layers(self) -> tuple[tuple[Tensor, Tensor], ...]:
        """Return the weights and biases of the layers after the first."""

    def masked_user_parts(self, users: Tensor) -> Tensor:
        """Return the users' parts, masked for users without any rating: what is left for them is the item bias."""
        return torch.where(self._known(users)[:, None], self.user_parts(users), MASKED)

    @torch.no_grad()
    def fitted_model(self) -> FittedModel:
        """Return the network as an interaction; there are no vectors, and the items' log-odds are their bias."""
        n_users, n_items = self.pair.target.matrix.shape
        everyone = torch.arange(n_users, device=self.device)
        user_parts = [self.masked_user_parts(users).cpu() for users in torch.split(everyone, _USERS_AT_ONCE)]
        return FittedModel(
            method=self.method,
            users=self.pair.users,
            items=self.pair.target.items,
            user_vectors=torch.zeros(n_users, 0).numpy(),
            item_vectors=torch.zeros(n_items, 0).numpy(),
            item_bias=self.target.log_odds.cpu().numpy(),
            seen=self.pair.target.matrix,
            in_release=(self.source.rows.counts > 0).cpu().numpy(),
            interaction=Interaction(
                torch.cat(user_parts).numpy(),
                self.item_parts().cpu().numpy(),
                tuple(_layer(weights, bias) for weights, bias in self.layers()),
            ),
        )

    def _known(self, users: Tensor) -> Tensor:
        return (self.source.rows.counts[users] > 0) | (self.target.rows.counts[users] > 0)


def _layer(weights: Tensor, bias: Tensor) -> Layer:
    return weights.detach().cpu().numpy(), bias.detach().cpu().numpy()
