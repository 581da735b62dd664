"""Run what a spec asks for: every arm with every seed, in parallel, resuming where it stopped."""

import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pricdr.data.domains import DomainPair
from pricdr.data.splits import Split
from pricdr.evaluation.metrics import Metrics, per_user
from pricdr.evaluation.ranking import ranks, sampled_ranks
from pricdr.experiments.releases import simulate
from pricdr.experiments.results import Result, append, read
from pricdr.experiments.spec import Arm, Spec
from pricdr.experiments.tasks import Task
from pricdr.experiments.workers import Place, spread
from pricdr.models.base import PlaintextMethod, ReleaseMethod, TargetMethod
from pricdr.models.catalogue import METHODS
from pricdr.models.fitted import Factors
from pricdr.progress import Progress, silent
from pricdr.training.loop import Recording


def run(spec: Spec, results: Path, place: Place, *, progress: Progress = silent) -> list[Result]:
    """Every result of ``spec``, measured now or found in ``results`` (JSON lines, appended as they come)."""
    known = {(result.key, result.seed): result for result in read(results)}
    wanted = [(arm, seed) for arm in spec.arms for seed in spec.seeds]
    missing = [(arm, seed) for arm, seed in wanted if (spec.key(arm), seed) not in known]
    done = len(wanted) - len(missing)
    with TemporaryDirectory() as folder:  # arms with the same target network train it once
        plans = [(spec, arm, seed, Path(folder)) for arm, seed in missing]
        for result in spread(measure, spec.data, place, plans):
            append(results, result)
            known[(result.key, result.seed)] = result
            done += 1
            progress("runs", done, len(wanted), f"{result.arm}, seed {result.seed}")
    return [known[(spec.key(arm), seed)] for arm, seed in wanted]


def measure(task: Task, device: str, spec: Spec, arm: Arm, seed: int, finished: Path | None = None) -> Result:
    """Train one arm with one seed and score it once on test; ``finished`` as in :class:`Recording`."""
    started = time.perf_counter()
    split = task.split(seed)
    model, epochs, used = fit(task, split, arm, seed, device, finished)
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
    task: Task, split: Split, arm: Arm, seed: int, device: str, finished: Path | None = None
) -> tuple[Factors, int, str]:
    """The fitted model, how many epochs it took and on what; a cold user's source data is all there is of it."""
    method = METHODS[arm.method].configure(arm.settings, preset=arm.preset)
    used = "cpu"
    if hasattr(method, "options"):
        method = replace(method, options=replace(method.options, seed=seed, device=device))
        used = method.options.torch_device().type
    epochs = 0

    def count(what: str, done: int, total: int, note: str = "") -> None:
        nonlocal epochs
        epochs = max(epochs, done)

    told: dict[str, Any] = {"validation": split.validation, "recording": Recording(progress=count, finished=finished)}
    if arm.plaintext:
        assert isinstance(method, PlaintextMethod)
        model = method.fit_plaintext(DomainPair(task.pair.source, split.train), **told)
    elif arm.release is not None:
        assert isinstance(method, ReleaseMethod)
        release = simulate(task.pair.source, arm.release, seed, target=split.train)
        model = method.fit(split.train, release, **told)
    else:
        assert isinstance(method, TargetMethod)
        model = method.fit(split.train, **told)
    return model, epochs, used


def validation_ndcg(model: Factors, split: Split) -> float:
    """NDCG@10 on the validation items: what searches choose by."""
    return float(per_user(sampled_ranks(model.score_candidates, split.validation))["NDCG@10"].mean())


def _strata(metrics: Metrics, split: Split) -> dict[str, dict[str, float]]:
    return {
        name: {metric: round(float(values[part].mean()), 6) for metric, values in metrics.items()}
        for name, part in split.strata().items()
        if part.any()
    }
