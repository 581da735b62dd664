"""What CoNet and DDTCDR share: ratings of both domains, users in batches, and a network over pairs that scores."""

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from pricdr.data.pairs import DomainPair
from pricdr.models._examples import MASKED, DomainExamples
from pricdr.models.fitted import FittedModel
from pricdr.models.interaction import Interaction, Layer

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
