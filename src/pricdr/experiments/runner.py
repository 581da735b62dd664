"""Run what a spec asks for: every arm with every seed, in parallel, resuming where it stopped."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from pricdr._transfer import transfer
from pricdr.data.splits import Split
from pricdr.evaluation.metrics import Metrics, per_user
from pricdr.evaluation.ranking import ranks, sampled_ranks
from pricdr.experiments.arms import Arm
from pricdr.experiments.outline import NOT_PRESENT, SUFFIX, outline, write_outline
from pricdr.experiments.releases import sampled_source, seeded_release
from pricdr.experiments.results import ReleaseFacts, Result, append, peak_memory, provenance, read, watch_memory
from pricdr.experiments.spec import Spec
from pricdr.experiments.tasks import RunContext, Task, is_present, spread
from pricdr.models.catalogue import configure
from pricdr.models.fitted import FittedModel
from pricdr.progress import Progress, silent
from pricdr.release.folder import Release
from pricdr.training.checkpoints import Checkpoints
from pricdr.training.run_log import RunLog


@dataclass(frozen=True)
class Failure:
    """A run that failed, and why."""

    spec: str
    arm: str
    seed: int
    reason: str


def known_results(spec: Spec, results: Path) -> list[Result]:
    """Return the results of a spec's arms and seeds that a file (JSON lines) holds, in the order of the arms.

    Results of other settings, under the same names or not, are left out. Of two for one run the last counts.
    """
    known = {(result.key, result.seed): result for result in read(results)}
    keys = [(arm, spec.key(arm)) for arm in spec.arms]
    named = [(arm, known.get((key, seed))) for arm, key in keys for seed in spec.seeds]
    # An arm may have been measured under another name: in another table, or before it was renamed.
    return [replace(found, spec=spec.name, arm=arm.name) for arm, found in named if found is not None]


def missing_runs(spec: Spec, results: Path) -> list[tuple[Arm, int]]:
    """Return the arms and seeds of a spec that a file of results lacks."""
    known = {(result.arm, result.seed) for result in known_results(spec, results)}
    return [(arm, seed) for arm in spec.arms for seed in spec.seeds if (arm.name, seed) not in known]


def adopt(spec: Spec, folder: Path) -> None:
    """Copy the results that other tables in ``folder`` have for the same settings, data and seeds to this table's."""
    results = folder / f"{spec.name}.jsonl"
    keys = {arm.name: spec.key(arm) for arm in spec.arms}
    missing = {(keys[arm.name], seed): arm for arm, seed in missing_runs(spec, results)}
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        other = path.with_name(path.name.removesuffix(SUFFIX) + ".jsonl")
        for result in read(other) if missing and other != results else ():
            arm = missing.pop((result.key, result.seed), None)
            if arm is not None:
                append(results, replace(result, spec=spec.name, arm=arm.name))


def run(
    spec: Spec,
    folder: Path,
    context: RunContext,
    *,
    only: Sequence[str] = (),
    seeds: Sequence[int] = (),
    progress: Progress = silent,
) -> list[Failure]:
    """Run what ``folder`` lacks of a spec's results and add it there; return the runs that failed.

    ``folder`` gets the spec's outline too. Where the data is not there, that is all it gets, and results that were
    measured elsewhere stay.

    Args:
        spec: what to run.
        folder: of results.
        context: where the data is, and what to run on.
        only: the arms to run, those of a curve by its name too; all of them where none is named.
        seeds: the seeds to run, instead of the spec's.
        progress: called after every run.
    """
    results = folder / f"{spec.name}.jsonl"
    if not is_present(spec.data, context.data, context.prepared):
        write_outline(folder, outline(spec, "" if known_results(spec, results) else NOT_PRESENT))
        return []
    write_outline(folder, outline(spec))
    wanted = spec.only(only, seeds)
    adopt(wanted, folder)
    missing = missing_runs(wanted, results)
    done, failures = 0, []
    with TemporaryDirectory() as shared:  # arms with the same target network train it once
        plans = [(spec, arm, seed, Checkpoints(finished=Path(shared))) for arm, seed in missing]
        for outcome in spread(run_arm, spec.data, context, plans):
            _, arm, seed, _ = outcome.plan
            done += 1
            if outcome.value is None:
                failures.append(Failure(spec.name, arm.name, seed, outcome.failure))
            else:
                append(results, outcome.value)
            progress("runs", done, len(missing), f"{arm.name}, seed {seed}{'' if outcome.value else ': failed'}")
    return failures


def waiting_runs(
    spec: Spec, folder: Path, context: RunContext, *, only: Sequence[str] = (), seeds: Sequence[int] = ()
) -> int | None:
    """Return how many runs :func:`run` would make, once other tables' results are taken over; None without the data."""
    if not is_present(spec.data, context.data, context.prepared):
        return None
    wanted = spec.only(only, seeds)
    adopt(wanted, folder)
    return len(missing_runs(wanted, folder / f"{spec.name}.jsonl"))


def run_arm(task: Task, device: str, spec: Spec, arm: Arm, seed: int, networks: Checkpoints | None = None) -> Result:
    """Train one arm with one seed and score it once on test; ``networks`` are shared with other arms."""
    started = time.perf_counter()
    watch_memory()
    split = task.split(seed)
    release = _release(task, split, arm, seed)
    model, epochs, used = fit(task, split, arm, seed, device, release=release, networks=networks)
    figures = {"sampled": _strata(per_user(sampled_ranks(model.score_candidates, split.test)), split)}
    if spec.full:
        figures["full"] = _strata(per_user(ranks(model.score, split.test, split.train.matrix)[1]), split)
    trust = model.chosen.trust
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
        release=None if release is None else _facts(release),
        trust=None if trust is None else {"warm": trust.warm, "cold": trust.cold},
        memory=peak_memory(used),
        provenance=provenance(used),
    )


def fit(
    task: Task,
    split: Split,
    arm: Arm,
    seed: int,
    device: str,
    *,
    release: Release | None = None,
    networks: Checkpoints | None = None,
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

    model = transfer(
        split.train,
        _release(task, split, arm, seed) if release is None else release,
        method=method,
        plaintext_source=sampled_source(task.pair.source, arm.source_share, seed) if arm.plaintext else None,
        validation=split.validation,
        allow_not_private=True,  # bits that repeat protect nobody: an experiment's release says so
        log=RunLog(progress=count, checkpoints=networks),
    )
    return model, epochs, device_used


def _release(task: Task, split: Split, arm: Arm, seed: int) -> Release | None:
    if arm.release is None:
        return None
    source = sampled_source(task.pair.source, arm.source_share, seed)
    return seeded_release(source, arm.release, seed, target=split.train)


def _facts(release: Release) -> ReleaseFacts:
    certificate = release.certificate
    return ReleaseFacts(
        dim=release.matrix.shape[1], sigma=certificate.sigma, epsilon=certificate.epsilon, delta=certificate.delta
    )


def validation_ndcg(model: FittedModel, split: Split) -> float:
    """Return NDCG@10 on the validation items: what searches choose by."""
    return float(per_user(sampled_ranks(model.score_candidates, split.validation))["NDCG@10"].mean())


def _strata(metrics: Metrics, split: Split) -> dict[str, dict[str, float]]:
    return {
        name: {metric: round(float(values[part].mean()), 6) for metric, values in metrics.items()}
        for name, part in split.strata().items()
        if part.any()
    }
