"""What every trained method shares: validation on the device, seeds, and checkpoints that belong to one run."""

import hashlib
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from pricdr.data.ratings import Ratings
from pricdr.data.splits import HeldOut
from pricdr.errors import InputError
from pricdr.evaluation.metrics import FloatArray, per_user, rank_of
from pricdr.training.checkpoints import Checkpoint
from pricdr.training.loop import Epoch, Recording, Step, TrainingOptions, train

ScorePairs: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""Users (b,) and items (b, c) to their scores (b, c)."""
Scorer: TypeAlias = Callable[[], ScorePairs]
"""Called once per validation, without gradients: what all users share (item vectors) is computed here."""

_USERS_AT_ONCE = 1024


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

    ``identity`` says what is trained on what: a checkpoint of another run is refused.
    """
    if not len(rows):
        raise InputError("there is nothing to train on: the target has no rating")
    checkpoint = None
    if recording.checkpoint is not None:
        digest = hashlib.sha256(f"{identity} {options!r} {_identity(validation)}".encode()).hexdigest()
        checkpoint = Checkpoint(recording.checkpoint, fingerprint=digest)
    return train(
        network,
        step,
        rows,
        options,
        validate=None if validation is None else lambda: held_out_ndcg(scorer(), validation, rows.device),
        checkpoint=checkpoint,
        recording=recording,
    )


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
    return per_user(rank_of(found[:, 0], found[:, 1:]))["NDCG@10"]


def ratings_identity(*sides: Ratings) -> str:
    """SHA-256 of who rated what, for :func:`fit_network`'s ``identity``."""
    digest = hashlib.sha256()
    for side in sides:
        for ids in (side.users, side.items):
            digest.update("\n".join(ids).encode() + b"\0")
        for part in (side.matrix.indptr, side.matrix.indices):
            digest.update(np.ascontiguousarray(part, dtype="<i8").tobytes())
    return digest.hexdigest()


def _identity(validation: HeldOut | None) -> str:
    """Validation picks the epoch, so another one makes another run."""
    if validation is None:
        return "none"
    parts = (validation.users, validation.items, validation.negatives)
    return hashlib.sha256(b"".join(np.ascontiguousarray(part, dtype="<i8").tobytes() for part in parts)).hexdigest()
