"""What all trained methods share: validation on the device, memory checks, and the identity of a training."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pricdr.data.splits import HeldOut
from pricdr.errors import InputError, TrainingError
from pricdr.evaluation.metrics import Float64Array, per_user, rank_of
from pricdr.memory import require_memory
from pricdr.models.chosen import Chosen
from pricdr.models.fitted import FittedModel
from pricdr.training.loop import train
from pricdr.training.options import TrainingOptions
from pricdr.training.run_log import RunLog

ScorePairs: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""Maps users (b,) and items (b, c) to scores (b, c)."""

_USERS_AT_ONCE: Final = 1024
_COPIES_TO_RESUME: Final = 10
"""Copies of a network's weights in memory for a moment while a checkpoint is loaded: the network, and the file's four
more than twice. Training itself needs five: weights, gradients, two moments, the best epoch's."""


class TrainableNetwork(Protocol):
    """A network with everything its training needs."""

    @property
    def network(self) -> nn.Module:
        """The network whose parameters are trained."""
        ...

    @property
    def examples(self) -> Tensor:
        """What an epoch iterates over: numbers of users or of ratings."""
        ...

    @property
    def identity(self) -> str:
        """A text that identifies network, settings and data; checkpoints of any other training are refused."""
        ...

    def step(self, batch: Tensor, /) -> Tensor:
        """Return the loss of a batch of examples."""
        ...

    def scorer(self) -> ScorePairs:
        """Return the scores that validation uses; called once per validation, so compute what users share here."""
        ...


class TrainingRun(TrainableNetwork, Protocol):
    """The only network of a method, which ``train_run`` trains and turns into a model."""

    def fitted_model(self) -> FittedModel:
        """Return the model of the network in its current state."""
        ...


def train_run(
    run: TrainingRun, options: TrainingOptions, *, validation: HeldOut | None, chosen: Chosen, log: RunLog
) -> tuple[FittedModel, Chosen]:
    """Train a run and return its model, and the epoch that validation chose if there was validation."""
    epochs = chosen.epochs.get(log.network)
    best_epoch = train_network(run, options, validation=validation, epochs=epochs, log=log)
    if validation is not None:
        chosen = Chosen(epochs={log.network: best_epoch})
    return run.fitted_model(), chosen


def train_network(
    run: TrainableNetwork, options: TrainingOptions, *, validation: HeldOut | None, epochs: int | None, log: RunLog
) -> int:
    """Train a network on its examples and return the epoch whose weights it ends with.

    The NDCG@10 of its scorer on validation picks that epoch. Without validation it is the last one: ``epochs`` if an
    earlier training chose it, or else as many as the options allow.
    """
    examples = run.examples
    if not len(examples):
        raise InputError("there is nothing to train on: the target has no rating")
    require_trainable(sum(weights.numel() for weights in run.network.parameters()))
    if validation is None and epochs is not None:
        options = replace(options, epochs=epochs)
    # Everything that determines the network: what is trained, how, and what picks the epoch.
    fingerprint = hashlib.sha256(f"{run.identity} {options!r} {_identity(validation)}".encode()).hexdigest()
    result = train(
        run.network,
        run.step,
        examples,
        options,
        validate=None if validation is None else lambda: held_out_ndcg(run.scorer(), validation, examples.device),
        checkpoint=log.checkpoint(fingerprint),
        log=log,
    )
    return result.best_epoch


def require_trainable(weights: int) -> None:
    """Refuse to train a network of this many weights if memory is too small."""
    require_memory(_COPIES_TO_RESUME * 4 * weights, f"training a network of {weights:,} weights")


def held_out_ndcg(score: ScorePairs, held_out: HeldOut, device: torch.device) -> float:
    """Return the NDCG@10 of the held-out items among their stored negatives."""
    return float(ndcg_by_user(score, held_out, device).mean())


@torch.no_grad()
def ndcg_by_user(score: ScorePairs, held_out: HeldOut, device: torch.device) -> Float64Array:
    """Return the NDCG@10 of each held-out item among its stored negatives, scored on the device in blocks."""
    ranks = [np.zeros(0)]
    for start in range(0, len(held_out), _USERS_AT_ONCE):
        block = slice(start, start + _USERS_AT_ONCE)
        # In blocks: a hundred scores for each of millions of users would take gigabytes.
        candidates = np.column_stack([held_out.items[block], held_out.negatives[block]])
        users = torch.as_tensor(held_out.users[block], device=device)
        scores = score(users, torch.as_tensor(candidates, device=device)).double().cpu().numpy()
        if not np.isfinite(scores).all():
            raise TrainingError("scores are no longer finite numbers: try a lower learning rate")
        ranks.append(rank_of(scores[:, 0], scores[:, 1:]))
    return per_user(np.concatenate(ranks))["NDCG@10"]


def arrays_identity(*arrays: npt.NDArray[Any]) -> str:
    """Return the SHA-256 of the numbers, independent of the width of integers."""
    digest = hashlib.sha256()
    for array in arrays:
        wide = array.astype("<i8") if array.dtype.kind == "i" else array
        digest.update(np.ascontiguousarray(wide).tobytes() + b"\0")
    return digest.hexdigest()


def _identity(validation: HeldOut | None) -> str:
    """Return a text that identifies the validation items: they pick the epoch, and so belong to a training."""
    if validation is None:
        return "none"
    return arrays_identity(validation.users, validation.items, validation.negatives)
