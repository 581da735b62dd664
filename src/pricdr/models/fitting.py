"""What every trained method shares: validation on the device, seeds, and checkpoints that belong to one run."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import load_file, save
from torch import Tensor, nn

from pricdr.data.splits import HeldOut
from pricdr.errors import InputError
from pricdr.evaluation.metrics import FloatArray, per_user, rank_of
from pricdr.files import replace_file
from pricdr.memory import require_memory
from pricdr.models.fitted import Factors
from pricdr.training.checkpoints import Checkpoint
from pricdr.training.loop import Epoch, Recording, Step, TrainingError, TrainingOptions, train

ScorePairs: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""Users (b,) and items (b, c) to their scores (b, c)."""
Scorer: TypeAlias = Callable[[], ScorePairs]
"""Called once per validation, without gradients: what all users share (item vectors) is computed here."""

_USERS_AT_ONCE = 1024
_COPIES: Final = 13
"""Of a network's weights at the height of training: its own, gradients, two moments, the best epoch's; and four of
these once more in a checkpoint, which is put together in memory out of copies of them."""


def require_trainable(weights: int) -> None:
    """Refuse a network of so many weights where memory is too small to train it."""
    require_memory(_COPIES * 4 * weights, f"training a network of {weights:,} weights")


def fit_network(
    network: nn.Module,
    step: Step,
    rows: Tensor,
    options: TrainingOptions,
    *,
    scorer: Scorer,
    identity: str,
    validation: HeldOut | None,
    recording: Recording,
) -> list[Epoch]:
    """Train ``network`` on ``rows`` (user or rating numbers); validation NDCG@10 of ``scorer`` picks the epoch.

    Without validation it is the last epoch, or the one the recording's choices name.
    ``identity`` says what is trained on what: a checkpoint of another run is refused.
    """
    if not len(rows):
        raise InputError("there is nothing to train on: the target has no rating")
    require_trainable(sum(weights.numel() for weights in network.parameters()))
    if validation is None and recording.choices is not None and recording.part in recording.choices.epochs:
        options = replace(options, epochs=recording.choices.epochs[recording.part])
    digest = hashlib.sha256(f"{identity} {options!r} {_identity(validation)}".encode()).hexdigest()
    finished = None if recording.finished is None else recording.finished / f"{digest}.safetensors"
    choosing = validation is not None and recording.choices is not None  # a finished network does not tell its epoch
    if finished is not None and finished.exists() and not choosing:
        network.load_state_dict(load_file(finished, device=str(rows.device)))
        network.eval()
        return []
    history = train(
        network,
        step,
        rows,
        options,
        validate=None if validation is None else lambda: held_out_ndcg(scorer(), validation, rows.device),
        checkpoint=None if recording.checkpoint is None else Checkpoint(recording.checkpoint, fingerprint=digest),
        recording=recording,
    )
    if finished is not None:
        replace_file(finished, save({name: value.contiguous() for name, value in network.state_dict().items()}))
    return history


class TrainingRun(Protocol):
    """What a method's training consists of; thrown away when the factors are out."""

    @property
    def network(self) -> nn.Module:
        """What is trained."""
        ...

    def step(self, rows: Tensor, /) -> Tensor:
        """The loss of some rows."""
        ...

    def scorer(self) -> ScorePairs:
        """How validation scores."""
        ...

    def factors(self) -> Factors:
        """The fitted model."""
        ...


def fit_run(
    run: TrainingRun,
    rows: Tensor,
    options: TrainingOptions,
    identity: str,
    validation: HeldOut | None,
    recording: Recording,
) -> Factors:
    """Train a whole run, see :func:`fit_network`, and return what it comes down to."""
    fit_network(
        run.network,
        run.step,
        rows,
        options,
        scorer=run.scorer,
        identity=identity,
        validation=validation,
        recording=recording,
    )
    return run.factors()


def held_out_ndcg(score: ScorePairs, held_out: HeldOut, device: torch.device) -> float:
    """NDCG@10 of the held-out items among their stored negatives."""
    return float(ndcg_by_user(score, held_out, device).mean())


@torch.no_grad()
def ndcg_by_user(score: ScorePairs, held_out: HeldOut, device: torch.device) -> FloatArray:
    """The same for each user; scored on the device in blocks."""
    candidates = torch.as_tensor(np.column_stack([held_out.items, held_out.negatives]), device=device)
    users = torch.as_tensor(held_out.users, device=device)
    parts = [
        score(users[start : start + _USERS_AT_ONCE], candidates[start : start + _USERS_AT_ONCE])
        for start in range(0, len(users), _USERS_AT_ONCE)
    ]
    found = torch.cat(parts).double().cpu().numpy()
    if not np.isfinite(found).all():
        raise TrainingError("scores are no longer finite numbers: try a lower learning rate")
    return per_user(rank_of(found[:, 0], found[:, 1:]))["NDCG@10"]


def arrays_identity(*arrays: npt.NDArray[Any]) -> str:
    """SHA-256 of the numbers, whatever the width of integers they come in."""
    digest = hashlib.sha256()
    for array in arrays:
        wide = array.astype("<i8") if array.dtype.kind == "i" else array
        digest.update(np.ascontiguousarray(wide).tobytes() + b"\0")
    return digest.hexdigest()


def _identity(validation: HeldOut | None) -> str:
    """Validation picks the epoch, so another one makes another run."""
    if validation is None:
        return "none"
    return arrays_identity(validation.users, validation.items, validation.negatives)
