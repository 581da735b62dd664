"""Run what a spec asks for: every arm with every seed, in parallel, resuming where it stopped."""

import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from pricdr._transfer import transfer
from pricdr.data.splits import Split
from pricdr.evaluation.metrics import Metrics, per_user
from pricdr.evaluation.ranking import ranks, sampled_ranks
from pricdr.experiments.releases import seeded_release
from pricdr.experiments.results import Result, append, read
from pricdr.experiments.spec import Arm, Spec
from pricdr.experiments.tasks import Task
from pricdr.experiments.workers import RunContext, spread
from pricdr.models.catalogue import configure
from pricdr.models.fitted import FittedModel
from pricdr.progress import Progress, silent
from pricdr.training.finished_networks import FinishedNetworks
from pricdr.training.run_log import RunLog


def run(spec: Spec, results: Path, context: RunContext, *, progress: Progress = silent) -> list[Result]:
    """Return every result of ``spec``; those that ``results`` (JSON lines) lacks are run now and added to it."""
    known = {(result.key, result.seed): result for result in read(results)}
    wanted = [(arm, seed) for arm in spec.arms for seed in spec.seeds]
    missing = [(arm, seed) for arm, seed in wanted if (spec.key(arm), seed) not in known]
    done = len(wanted) - len(missing)
    with TemporaryDirectory() as folder:  # arms with the same target network train it once
        plans = [(spec, arm, seed, FinishedNetworks(Path(folder))) for arm, seed in missing]
        for result in spread(run_arm, spec.data, context, plans):
            append(results, result)
            known[(result.key, result.seed)] = result
            done += 1
            progress("runs", done, len(wanted), f"{result.arm}, seed {result.seed}")
    return [known[(spec.key(arm), seed)] for arm, seed in wanted]


def run_arm(
    task: Task, device: str, spec: Spec, arm: Arm, seed: int, networks: FinishedNetworks | None = None
) -> Result:
    """Train one arm with one seed and score it once on test; ``networks`` are shared with other arms."""
    started = time.perf_counter()
    split = task.split(seed)
    model, epochs, used = fit(task, split, arm, seed, device, networks)
    figures = {"sampled": _strata(per_user(sampled_ranks(model.score_candidates, split.test)), split)}
    if spec.full:
        figures["full"] = _strata(per_user(ranks(model.score, split.test, split.train.matrix)[1]), split)
    return Result(
        spec=spec.name,
        arm=arm.name,
        key=spec.key(arm),
        seed=seed,
        figures=figures,
        users={name: int(part.sum()) for name, part in split.strata().items() if name != "all"},
        validation=validation_ndcg(model, split),
        epochs=epochs,
        seconds=round(time.perf_counter() - started, 2),
        device=used,
    )


def fit(
    task: Task, split: Split, arm: Arm, seed: int, device: str, networks: FinishedNetworks | None = None
) -> tuple[FittedModel, int, str]:
    """Return the fitted model, how many epochs were run for it, and on what kind of device."""
    method = configure(arm.method_name, arm.settings)
    device_used = "cpu"
    if method.options is not None:
        method = replace(method, options=replace(method.options, seed=seed, device=device))
        device_used = method.options.torch_device().type if method.options is not None else "cpu"
    epochs = 0

    def count(what: str, done: float, total: int, note: str = "") -> None:
        nonlocal epochs
        epochs = max(epochs, int(done))

    release = None
    if arm.release is not None:
        release = seeded_release(task.pair.source, arm.release, seed, target=split.train)
    model = transfer(
        split.train,
        release,
        method=method,
        plaintext_source=task.pair.source if arm.plaintext else None,
        validation=split.validation,
        allow_not_private=True,  # bits that repeat protect nobody: an experiment's release says so
        log=RunLog(progress=count, checkpoints=networks),
    )
    return model, epochs, device_used


def validation_ndcg(model: FittedModel, split: Split) -> float:
    """Return NDCG@10 on the validation items: what searches choose by."""
    return float(per_user(sampled_ranks(model.score_candidates, split.validation))["NDCG@10"].mean())


def _strata(metrics: Metrics, split: Split) -> dict[str, dict[str, float]]:
    return {
        name: {metric: round(float(values[part].mean()), 6) for metric, values in metrics.items()}
        for name, part in split.strata().items()
        if part.any()
    }
