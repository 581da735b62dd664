"""The same search for every method: settings drawn by a seed from its declared space, judged on validation alone."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pricdr.data.reading.text_files import read_toml
from pricdr.errors import ParameterError, PriCDRError
from pricdr.experiments.arms import Arm, DataSpec, ReleaseSpec, result_key
from pricdr.experiments.records import Line, Number, Settings, Text, Whole, record
from pricdr.experiments.results import NOT_PRESENT, append, read_lines
from pricdr.experiments.runner import fit, validation_ndcg
from pricdr.experiments.tasks import RunContext, Task, missing_files, spread
from pricdr.files import replace_file
from pricdr.models.base import DataAccess
from pricdr.models.catalogue import method_class
from pricdr.models.training_data import NARROW
from pricdr.progress import Progress, silent
from pricdr.randomness import Simulation

SEED: Final = 0
"""Splits, releases and networks of a search; reported figures use other seeds."""
RELEASE: Final = ReleaseSpec(strategy="jlt", dim=200, epsilon=8.0)
NONE: Final[Mapping[str, Any]] = {}
MAX_TRIALS: Final = 1_000
"""Of one method: far more than any declared space is worth."""


@record
class Trial:
    """One draw from a method's space and what it gave on validation."""

    data: Line
    method: Line
    number: Whole
    settings: Settings
    validation: Number
    """NDCG@10 of all validation items; 0 where training failed."""
    epochs: Whole
    seconds: Number
    failure: Text = ""
    key: Line | None = None
    """:func:`result_key`. Trials from before there were keys have none, and no search takes them for its own."""


def draws(
    method: str, trials: int, fixed: Mapping[str, Any] = NONE, *, dim: int | None = RELEASE.dim
) -> list[dict[str, Any]]:
    """Return the settings of each trial, the method's defaults first, no two alike; ``fixed`` ones are in all of them.

    ``dim`` is how many numbers a release row has (a few, where None): some methods have a space for narrow releases.
    """
    if not 1 <= trials <= MAX_TRIALS:
        raise ParameterError(f"trials must be a whole number from 1 to {MAX_TRIALS:,}, got {trials}")
    kind, narrow = method_class(method), dim is None or dim <= NARROW
    space = kind.narrow_space if narrow and kind.narrow_space is not None else kind.space
    rng = Simulation(SEED).generator(f"search {method}")
    trial_settings: list[dict[str, Any]] = [dict(fixed)]
    for _ in range(50 * trials if space else 0):  # a small space may hold fewer settings than trials were asked for
        drawn = {name: values[int(rng.integers(len(values)))] for name, values in space.items()} | dict(fixed)
        if drawn not in trial_settings and len(trial_settings) < trials:
            trial_settings.append(drawn)
    return trial_settings


def search(
    data: DataSpec,
    methods: list[str],
    trials: int,
    log: Path,
    context: RunContext,
    *,
    release: ReleaseSpec = RELEASE,
    progress: Progress = silent,
) -> dict[str, dict[str, Any]]:
    """Return the best settings of each method on validation; every trial is a line of ``log``, and none is run twice.

    A log is for one ``release``. What ``data.search`` has is not searched. A method whose trials all fail is left out.
    """
    release = replace(release, delta=release.delta or data.delta)
    done = {trial.key: trial for trial in read_lines(log, Trial)}
    planned: dict[str, tuple[Trial, Arm]] = {}
    for method in methods:
        access = method_class(method).data_access()
        read = release if DataAccess.RELEASE in access else None
        for number, settings in enumerate(draws(method, trials, data.search.get(method, {}), dim=release.dim)):
            plaintext = access == (DataAccess.PLAINTEXT,)
            arm = Arm(name=method, method=method, release=read, plaintext=plaintext, settings=settings)
            key = result_key(data, arm, full=False)
            planned[key] = Trial(data.search_name, method, number, settings, 0.0, 0, 0.0, key=key), arm
    missing = [plan for key, plan in planned.items() if key not in done]
    for outcome in spread(run_trial, data, context, missing):
        trial = outcome.value or replace(outcome.plan[0], failure=outcome.failure)
        if outcome.value is not None:  # otherwise the machine is to blame, and the next search tries again
            append(log, trial)
        done[trial.key] = trial
        progress("trials", len(planned.keys() & done.keys()), len(planned), f"{trial.method} {trial.validation:.4f}")
    best: dict[str, Trial] = {}
    for trial in (done[key] for key in planned):
        if not trial.failure and (trial.method not in best or trial.validation > best[trial.method].validation):
            best[trial.method] = trial
    return {method: trial.settings for method, trial in best.items()}


def searchable(data: Sequence[DataSpec], context: RunContext) -> list[str]:
    """Return why each data set cannot be searched; refuse two whose settings would be filed under one name."""
    reasons: list[str] = []
    filed: dict[str, DataSpec] = {}
    for one in data:
        missing = missing_files(one, context.data, context.prepared)
        reason = f"{NOT_PRESENT} ({'; '.join(missing)})" if missing else ""
        reasons.append(f"not searched, since it uses the settings chosen for {one.tuned}" if one.tuned else reason)
        first = one if reasons[-1] else filed.setdefault(one.search_name, one)
        if first.content() != one.content():
            names = f"{one.name or 'one'} and {first.name or 'data before it'}"
            raise ParameterError(f"{names} are different data in one folder, {one.folder}: search one of them")
    return reasons


def update_tuned(path: Path, best: Mapping[str, Mapping[str, Any]], heading: str) -> None:
    """Write chosen settings to a file as TOML; it keeps those of methods that were not searched this time."""
    before = read_toml(path) if path.exists() else {}
    parts = [f"# {heading}\n"]
    for method, settings in {**before, **best}.items():
        lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
        parts.append("\n".join([f"[{method}]", *lines]) + "\n")
    replace_file(path, "\n".join(parts).encode())


def run_trial(task: Task, device: str, trial: Trial, arm: Arm) -> Trial:
    """Train with these settings and score the model on validation; a diverging trial counts as 0."""
    split = task.split(SEED)
    started = time.perf_counter()
    try:
        model, _, epochs, _ = fit(task, split, arm, SEED, device)
        ndcg = round(validation_ndcg(model, split), 6)
    except PriCDRError as error:
        return replace(trial, failure=str(error))
    return replace(trial, validation=ndcg, epochs=epochs, seconds=round(time.perf_counter() - started, 2))
