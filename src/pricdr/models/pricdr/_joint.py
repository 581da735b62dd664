"""Training both networks at once, as the paper does: an ablation of training one after the other."""

import torch
from torch import Tensor, nn

from pricdr.data.splits import HeldOut
from pricdr.models.chosen import Trust
from pricdr.models.fitting import ScorePairs, train_network
from pricdr.models.newcomers import Newcomers
from pricdr.models.pricdr._source_stage import SourceStage
from pricdr.training.run_log import RunLog

_AS_TRAINED = Trust(warm=0.0, cold=1.0)
"""How validation scores: by history alone or by source row alone, as the two losses fit them."""


class JointStage:
    """Trains a source stage and the target stage under it by the sum of their losses."""

    def __init__(self, source_stage: SourceStage) -> None:
        self.source_stage, self.target_stage = source_stage, source_stage.target_stage
        self.network = nn.ModuleDict({"target": self.target_stage.network, "source": source_stage.network})

    @property
    def examples(self) -> Tensor:
        """The users with a history, with or without a source row."""
        return self.target_stage.examples

    @property
    def identity(self) -> str:
        """The identity of the source stage, which covers the untrained target network, marked as joint."""
        return f"joint {self.source_stage.identity}"

    def train(self, validation: HeldOut | None, epochs: int | None, log: RunLog, newcomers: Newcomers | None) -> int:
        """Train both networks and return the epoch they end with, see :func:`train_network`."""
        if newcomers is not None:
            self.source_stage.leave_out(newcomers)
        epoch = train_network(self, self.source_stage.options, validation=validation, epochs=epochs, log=log)
        self.source_stage.take_target_vectors()
        return epoch

    def step(self, batch: Tensor) -> Tensor:
        """Return the loss of a batch of users: that of their histories, plus that of their source rows if any."""
        target, source = self.target_stage.training_pass(batch), self.source_stage
        known = torch.nonzero(source.fitted_to[batch]).squeeze(1)
        if not len(known):
            return target.loss
        sample = target.sample._replace(labels=target.sample.labels[known])
        users = batch[known]
        # Nothing is detached: source rows move items and histories too.
        loss = source.loss(users, source.training_vectors(users), sample, target.items, target.histories[known])
        return target.loss + loss * (len(known) / len(batch))  # a mean over fewer users, rescaled to the whole batch

    def scorer(self) -> ScorePairs:
        """Return how validation scores: by history, or by the source where there is none."""
        self.source_stage.take_target_vectors()
        return self.source_stage.score_with(self.source_stage.user_vectors(_AS_TRAINED))
