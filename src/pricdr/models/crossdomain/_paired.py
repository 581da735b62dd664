"""What CoNet and DDTCDR share: ratings of both domains, users in batches, and a network over pairs that scores."""

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from pricdr.data.domains import DomainPair
from pricdr.models._examples import SILENT, Examples
from pricdr.models.fitted import Factors
from pricdr.models.interaction import Interaction, Layer


class PairedRun(ABC):
    """A training on every rating of a batch of users in both domains, beside drawn negatives."""

    method: ClassVar[str]

    def __init__(self, pair: DomainPair, negatives: int, device: torch.device) -> None:
        self.pair, self.device = pair, device
        self.source = Examples(pair.source, negatives, device)
        self.target = Examples(pair.target, negatives, device)

    @abstractmethod
    def user_parts(self, users: Tensor) -> Tensor:
        """What users add to the first layer."""

    @abstractmethod
    def item_parts(self) -> Tensor:
        """What the target's items add to it."""

    @abstractmethod
    def layers(self) -> tuple[tuple[Tensor, Tensor], ...]:
        """Weights and biases of what follows the sum."""

    def rows(self) -> Tensor:
        """The users with a rating in either domain."""
        return torch.nonzero(self._known(torch.arange(len(self.pair.users), device=self.device))).squeeze(1)

    def heard(self, users: Tensor) -> Tensor:
        """The parts of users; those of whom nothing is known have no say, which leaves the log-odds of items."""
        return torch.where(self._known(users)[:, None], self.user_parts(users), SILENT)

    @torch.no_grad()
    def factors(self) -> Factors:
        """No vectors: the network is the model, with the items' log-odds as their bias."""
        n_users, n_items = self.pair.target.matrix.shape
        everyone = torch.arange(n_users, device=self.device)
        return Factors(
            method=self.method,
            users=self.pair.users,
            items=self.pair.target.items,
            user_vectors=torch.zeros(n_users, 0).numpy(),
            item_vectors=torch.zeros(n_items, 0).numpy(),
            item_bias=self.target.log_odds.cpu().numpy(),
            seen=self.pair.target.matrix,
            in_release=(self.source.rows.counts > 0).cpu().numpy(),
            interaction=Interaction(
                torch.cat([self.heard(part).cpu() for part in torch.split(everyone, 4096)]).numpy(),
                self.item_parts().cpu().numpy(),
                tuple(_layer(weights, bias) for weights, bias in self.layers()),
            ),
        )

    def _known(self, users: Tensor) -> Tensor:
        return (self.source.rows.counts[users] > 0) | (self.target.rows.counts[users] > 0)


def _layer(weights: Tensor, bias: Tensor) -> Layer:
    return weights.detach().cpu().numpy(), bias.detach().cpu().numpy()
