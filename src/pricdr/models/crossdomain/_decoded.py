"""What DARec and ETL share: rows of both domains in, a decoder's last layer over the target's items out."""

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from pricdr.data.pairs import DomainPair
from pricdr.models.fitted import FittedModel
from pricdr.models.fitting import ScorePairs
from pricdr.training.rows import SparseRows

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
