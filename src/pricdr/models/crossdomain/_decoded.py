"""What DARec and ETL share: rows of both domains in, a decoder's last layer over the target's items out."""

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from pricdr.data.domains import DomainPair
from pricdr.models.fitted import Factors
from pricdr.models.fitting import ScorePairs
from pricdr.training.rows import SparseRows


class DecodedRun(ABC):
    """A training on two rows of each user, one of each domain."""

    method: ClassVar[str]

    def __init__(self, pair: DomainPair, device: torch.device) -> None:
        self.pair, self.device = pair, device
        self.source = SparseRows(pair.source.matrix, device)
        self.target = SparseRows(pair.target.matrix, device)

    @property
    @abstractmethod
    def last(self) -> nn.Linear:
        """The last layer of the target's decoder."""

    @abstractmethod
    def decoded(self, users: Tensor) -> Tensor:
        """What it is given: from the target row, or from the source row where there is none."""

    def rows(self) -> Tensor:
        """The users with a rating in either domain."""
        return torch.nonzero((self.source.counts > 0) | (self.target.counts > 0)).squeeze(1)

    @torch.no_grad()
    def scorer(self) -> ScorePairs:
        """How validation scores."""
        last = self.last
        return lambda users, items: (self._vectors(users)[:, None] * last.weight[items]).sum(2) + last.bias[items]

    @torch.no_grad()
    def factors(self) -> Factors:
        """The decoder's last layer as items, what it is given as users."""
        everyone = torch.arange(len(self.pair.users), device=self.device)
        return Factors(
            method=self.method,
            users=self.pair.users,
            items=self.pair.target.items,
            user_vectors=torch.cat([self._vectors(part).cpu() for part in torch.split(everyone, 4096)]).numpy(),
            item_vectors=self.last.weight.detach().cpu().numpy(),
            item_bias=self.last.bias.detach().cpu().numpy(),
            seen=self.pair.target.matrix,
            in_release=(self.source.counts > 0).cpu().numpy(),
        )

    def _vectors(self, users: Tensor) -> Tensor:
        """Nothing for users of whom nothing is known, which leaves the decoder's bias."""
        known = (self.source.counts[users] > 0) | (self.target.counts[users] > 0)
        return self.decoded(users) * known[:, None]
