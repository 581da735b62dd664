"""Run what a spec asks for: every arm with every seed, in parallel, resuming where it stopped."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from pricdr._publish import publish
from pricdr._transfer import transfer
from pricdr.data.csr import sp
from pricdr.data.ratings import Ratings
from pricdr.data.splits import Split
from pricdr.evaluation.metrics import Metrics, per_user
from pricdr.evaluation.ranking import ranks, sampled_ranks
from pricdr.experiments import results
from pricdr.experiments.arms import DELTA, GUIDE_DIM, Arm, Guide, ReleaseSpec, RowContent
from pricdr.experiments.results import NOT_PRESENT, SUFFIX, Outline, ReleaseFacts, Result, append, read
from pricdr.experiments.spec import Spec
from pricdr.experiments.tasks import RunContext, Task, missing_files, spread
from pricdr.models.base import MAX_SOURCES
from pricdr.models.catalogue import configure
from pricdr.models.fitted import FittedModel
from pricdr.privacy.accounting import Guarantee
from pricdr.privacy.strategies import BY_NAME
from pricdr.progress import Progress, silent
from pricdr.randomness import Simulation
from pricdr.release.folder import Release
from pricdr.strategies import Guided, Spectral, Strategy
from pricdr.training.checkpoints import Checkpoints
from pricdr.training.run_log import RunLog

_APART: Final = 10_000_000
"""Between the seeds of releases of one arm, which share no bits: neither those of two sources nor two of one."""


def missing_runs(
    spec: Spec, folder: Path, only: Sequence[str] = (), seeds: Sequence[int] = ()
) -> list[tuple[Arm, int]]:
    """Return the arms and seeds that a folder lacks, as in :func:`run`, after copying what other tables there have."""
    own = folder / f"{spec.name}.jsonl"
    arms = [arm for arm in spec.arms if not only or arm.is_called(only)]
    missing = {(spec.key(arm), seed): (arm, seed) for arm in arms for seed in seeds or spec.seeds}
    for result in read(own):
        missing.pop((result.key, result.seed), None)
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        other = path.with_name(path.name.removesuffix(SUFFIX) + ".jsonl")
        for result in read(other) if missing and other != own else ():
            if run := missing.pop((result.key, result.seed), None):
                append(own, replace(result, spec=spec.name, arm=run[0].name))
    return [*missing.values()]


def run(
    spec: Spec,
    folder: Path,
    context: RunContext,
    *,
    only: Sequence[str] = (),
    seeds: Sequence[int] = (),
    progress: Progress = silent,
) -> list[str]:
    """Run what ``folder`` lacks of a spec's results and add it there; return which runs failed, and why.

    ``only`` names arms or curves; ``seeds`` stand in for the spec's. Without data only an outline is written.
    """
    outline, own = Outline.of(spec), folder / f"{spec.name}.jsonl"
    if missing_files(spec.data, context.data, context.prepared):
        elsewhere = any(result.key in outline.keys.values() for result in read(own))
        replace(outline, missing="" if elsewhere else NOT_PRESENT).write(folder)
        return []
    outline.write(folder)
    missing = missing_runs(spec, folder, only, seeds)
    failures = []
    with TemporaryDirectory() as shared:  # arms with the same target network train it once
        plans = [(spec, arm, seed, Checkpoints(finished=Path(shared))) for arm, seed in missing]
        for done, outcome in enumerate(spread(run_arm, spec.data, context, plans), 1):
            _, arm, seed, _ = outcome.plan
            if outcome.value is None:
                failures.append(f"{spec.name}, {arm.name}, seed {seed}: {outcome.failure}")
            else:
                append(own, outcome.value)
            progress("runs", done, len(missing), f"{arm.name}, seed {seed}{'' if outcome.value else ': failed'}")
    return failures


def run_arm(task: Task, device: str, spec: Spec, arm: Arm, seed: int, networks: Checkpoints | None = None) -> Result:
    """Train one arm with one seed and score it once on test; ``networks`` are shared with other arms."""
    started = time.perf_counter()
    results.watch_memory()
    split = task.split(seed)
    model, releases, epochs, used = fit(task, split, arm, seed, device, networks=networks)
    figures = {"sampled": _strata(per_user(sampled_ranks(model.score_candidates, split.test)), split)}
    if spec.full:
        figures["full"] = _strata(per_user(ranks(model.score, split.test, split.train.matrix)[1]), split)
    trust, facts = model.chosen.trust, None
    if releases:
        c = releases[0].certificate
        facts = ReleaseFacts(dim=releases[0].matrix.shape[1], sigma=c.sigma, epsilon=c.epsilon, delta=c.delta)
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
        release=facts,
        trust=None if trust is None else {"warm": trust.warm, "cold": trust.cold},
        memory=results.peak_memory(used),
        provenance=results.provenance(used),
        releases_used=model.chosen.used if len(releases) > 1 else None,
    )


def fit(
    task: Task, split: Split, arm: Arm, seed: int, device: str, *, networks: Checkpoints | None = None
) -> tuple[FittedModel, list[Release], int, str]:
    """Release what the arm is given, and train its method; return also the epochs and the kind of device it took."""
    method, used, epochs = configure(arm.method_name, arm.settings), "cpu", 0
    if method.options is not None:
        options = replace(method.options, seed=seed, device=device)
        method, used = replace(method, options=options), options.torch_device().type

    def count(what: str, done: float, total: int, note: str = "") -> None:
        nonlocal epochs
        epochs = max(epochs, int(done))

    sources = [sampled_source(one, arm.source_share, seed) for one in (task.pair.source, *task.more_sources)]
    plaintext = _side_by_side(sources) if arm.plaintext else None
    if task.more_sources:  # a company lists the users whom it has
        sources = [source.rated() for source in sources]
    releases: list[Release] = []
    for number, spec in enumerate(arm.releases):
        before = sum(one.source == spec.source for one in arm.releases[:number])
        own_seed = seed + _APART * (spec.source - 1 + MAX_SOURCES * before)
        releases.append(seeded_release(sources[spec.source - 1], spec, own_seed, target=split.train))
    model = transfer(
        split.train,
        releases or None,
        method=method,
        plaintext_source=plaintext,
        validation=split.validation,
        allow_not_private=True,  # bits that repeat protect nobody: an experiment's release says so
        log=RunLog(progress=count, checkpoints=networks),
    )
    return model, releases, epochs, used


def validation_ndcg(model: FittedModel, split: Split) -> float:
    """Return NDCG@10 on the validation items: what searches choose by."""
    return float(per_user(sampled_ranks(model.score_candidates, split.validation))["NDCG@10"].mean())


def _strata(metrics: Metrics, split: Split) -> dict[str, dict[str, float]]:
    return {
        name: {metric: round(float(values[part].mean()), 6) for metric, values in metrics.items()}
        for name, part in split.strata().items()
        if part.any()
    }


def sampled_source(source: Ratings, share: float, seed: int) -> Ratings:
    """Return a share of the ratings, over the same users and items; with one seed smaller shares lie in larger ones.

    The number is exact, not a coin for every rating: the density is what the axis says. A user may be left without any.
    """
    if share == 1:
        return source
    # One order for every share, of which the first so many are kept: that is what nests them.
    order = Simulation(seed).generator("sampled source").permutation(len(source))
    chosen = np.zeros(len(source), dtype=bool)
    chosen[order[: round(share * len(source))]] = True
    return source.only(chosen)


def _side_by_side(sources: Sequence[Ratings]) -> Ratings:
    """Return the ratings of several sources over the same users as those of one; no two share an item."""
    if len(sources) == 1:
        return sources[0]
    items = tuple(f"{number} {item}" for number, source in enumerate(sources, 1) for item in source.items)
    matrix = sp.csr_array(sp.hstack([source.matrix for source in sources], format="csr"))
    return replace(sources[0], matrix=matrix, items=items)


def seeded_release(source: Ratings, spec: ReleaseSpec, seed: int, *, target: Ratings | None = None) -> Release:
    """Publish ``source`` (each rating as 1) with bits of ``seed``, or a control; a guide is of ``target``."""
    kind, shuffled = BY_NAME.find(spec.strategy_name), spec.rows is RowContent.SHUFFLED
    given: dict[str, Any] = {"dim": spec.dim, "density": spec.density}
    if kind is Guided:
        assert target is not None, "a guide is a release of the other party"
        theirs, noisy = target.select(users=source.users), spec.guide is not Guide.CLEAR
        # A seed of its own: the two parties share none.
        guide = _publish(theirs, Spectral(dim=GUIDE_DIM), spec, 1_000_000 + seed, noisy=noisy)
        given |= {"guide": guide, "refine": spec.refine}
    strategy = kind(**{name: value for name, value in given.items() if value is not None})
    # Along one cycle through all users, so that nobody keeps their own row.
    order = Simulation(seed).generator("shuffled rows").permutation(len(source.users))
    taken_from = np.empty_like(order)
    taken_from[order] = np.roll(order, 1)
    if spec.rows is RowContent.NOISE:
        source = source.only(np.zeros(len(source), dtype=bool))
    if shuffled and strategy.learns:
        # Before anything is learnt: a guide would recognise rows that were only moved afterwards.
        source = replace(source, matrix=source.matrix[taken_from])
    noisy = spec.rows in (RowContent.PRIVATE, RowContent.NOISE) or (shuffled and strategy.learns)
    release = _publish(source, strategy, spec, seed, noisy=noisy)
    return replace(release, matrix=release.matrix[taken_from]) if shuffled and not strategy.learns else release


def _publish(ratings: Ratings, strategy: Strategy, spec: ReleaseSpec, seed: int, *, noisy: bool) -> Release:
    """Publish with declared lists of users and items, as two companies would agree on."""
    return publish(
        ratings,
        Guarantee(epsilon=spec.epsilon, delta=DELTA if spec.delta is None else spec.delta),
        strategy=strategy,
        users=ratings.users,
        items=ratings.items,
        calibration=spec.calibration,
        insecure_seed=seed,
        insecure_no_noise=not noisy,
        allow_not_private_guide=True,
    )
