"""The work of each of two processes that torchrun starts: fit methods together, and collect refusals.

Each process writes ``METHOD.RANK.npz`` for each method, and its refusals to ``refused.RANK.txt``.
"""

import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

import pricdr
from pricdr import PriCDRError, SyntheticConfig
from pricdr.models import DMF, EASE, FittedModel
from pricdr.models.base import Method
from pricdr.models.catalogue import method_class
from pricdr.training.distributed import Processes, processes
from pricdr.training.run_log import RunLog

WIDE, NARROW, PLAINTEXT = "wide", "narrow", "plaintext"
SETTINGS = {"hidden": 24, "width": 8, "other_items": 60}
TRAINED = {"dmf": "", "hetero-wide": WIDE, "hetero-narrow": NARROW, "hetero-plaintext": PLAINTEXT, "symmetric": WIDE}


def fitted(name: str, log: RunLog) -> FittedModel:
    """Fit a method."""
    source = TRAINED[name]
    pair = pricdr.synthetic_pair(SyntheticConfig(users=154, source_items=200, target_items=320))
    kind: type[Method] = method_class(name.partition("-")[0])
    method = kind()
    split = pricdr.split(pair.target, cold=0.2, seed=1)
    # The last batch of the target stage is a single user, so that one process has an empty portion.
    warm = int((np.diff(split.train.matrix.indptr) > 0).sum())
    batch = next(size for size in range(20, warm) if warm % size == 1)
    options = replace(method.options, epochs=4, batch=batch, device="cpu")
    gates = {"gated": False} if source else {}
    method = replace(method, options=options, config=replace(method.config, **SETTINGS, **gates))
    if not source:
        return method.fit(split.train, validation=split.validation, log=log)
    if source == PLAINTEXT:
        return method.fit_plaintext(split.train, pair.source, validation=split.validation, log=log)
    release = pricdr.publish(
        pair.source,
        pricdr.Guarantee(epsilon=8, delta=1e-6),
        strategy=pricdr.JLT(dim=40 if source == WIDE else 12),
        users=pair.users,
        insecure_seed=3,
    )
    return method.fit(split.train, release, validation=split.validation, allow_not_private=True, log=log)


def save(model: FittedModel, path: Path) -> None:
    epochs = np.array(sorted(model.chosen.epochs.values()))
    np.savez(path, users=model.user_vectors, items=model.item_vectors, bias=model.item_bias, epochs=epochs)


def refusals(together: Processes) -> list[str]:
    """Return the messages for processes that differ, a failed validation and a method that cannot be distributed."""
    device = torch.device("cpu")
    pair = pricdr.synthetic_pair(SyntheticConfig(users=30, source_items=120, target_items=60))

    def broken() -> float:
        raise PriCDRError("no metric")

    attempts = (
        lambda: together.require_same_run(f"{together.rank:02x}" * 32, device),
        lambda: together.compute_on_first(broken, device),
        lambda: EASE().fit(pair.target),
        lambda: replace(DMF(), options=replace(DMF().options, seed=together.rank, epochs=1)).fit(pair.target),
    )
    messages = []
    for attempt in attempts:
        try:
            attempt()
        except PriCDRError as error:
            messages.append(str(error))
    return messages


def gradients(together: Processes) -> bool:
    """Return whether the gradients of large tables are summed correctly, with few or all rows touched."""
    few, many = (torch.nn.Parameter(torch.zeros(1 << 18, 4)) for _ in range(2))
    few.grad, many.grad = torch.zeros_like(few), torch.full_like(many, 1.0 + together.rank)
    few.grad[[5, 10 + together.rank]] = 2.0 + together.rank
    together.all_reduce_gradients([few, many])
    touched = {row: float(few.grad[row, 0]) for row in torch.nonzero(few.grad[:, 0]).squeeze(1).tolist()}
    for size in (1, 5):  # of one row, the first process has an empty portion
        portion = together.portion(size)
        own = torch.arange(float(size))[portion.own, None].requires_grad_()
        rows = together.gather_rows(own, portion)
        assert rows.tolist() == [[row] for row in range(size)]
        (rows.sum() * (1 + together.rank)).backward()
        assert own.grad.tolist() == [[3.0]] * len(own)
    return touched == {5: 5.0, 10: 2.0, 11: 3.0} and bool((many.grad == 3.0).all())


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    together = processes()
    for name in TRAINED:
        log = RunLog(file=folder / f"{name}.log.jsonl")
        model = fitted(name, log)
        save(model, folder / f"{name}.{together.rank}.npz")
    messages = refusals(together)
    assert gradients(together)
    (folder / f"refused.{together.rank}.txt").write_text("\n".join(messages))
    together.all_reduce(torch.zeros(1))  # no process leaves while another still needs the connection
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    # Everything is written. On a busy machine, torch's threads sometimes abort a process during a normal shutdown.
    os._exit(0)
