"""The same search for every method: so many settings drawn at random from its declared space, judged on validation.

No method is tuned on test: a trial is never scored on it. Trials are drawn from a seed, so a search repeats, and it
needs nothing beyond numpy and torch.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pricdr.data.reading.text_files import read_toml
from pricdr.errors import ParameterError, PriCDRError
from pricdr.experiments.arms import Arm, DataSpec, ReleaseSpec, result_key
from pricdr.experiments.records import RECORD, Line, Number, Settings, Text, Whole
from pricdr.experiments.results import NOT_PRESENT, append, read_lines
from pricdr.experiments.runner import fit, validation_ndcg
from pricdr.experiments.tasks import RunContext, Task, missing_files, spread
from pricdr.files import replace_file
from pricdr.models.base import DataAccess, SearchSpace
from pricdr.models.catalogue import method_class
from pricdr.models.training_data import NARROW
from pricdr.progress import Progress, silent
from pricdr.randomness import Simulation

SEED = 0
"""Splits, releases and networks of a search; reported figures use other seeds."""
RELEASE = ReleaseSpec(strategy="jlt", dim=200, epsilon=8.0)
"""What methods that need a release are searched with."""
NONE: Mapping[str, Any] = {}
MAX_TRIALS = 1_000
"""Of one method: far more than any declared space is worth."""


@dataclass(frozen=True)
class Trial:
    """One draw from a method's space and what it gave on validation."""

    __pydantic_config__ = RECORD

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
    """:func:`result_key` of what was tried, defaults included. Trials from before there were keys have none: they
    are history, and no search takes them for its own."""


def space(method: str, dim: int | None) -> SearchSpace:
    """Return what a method declares to be worth trying with ``dim`` numbers per release row (a few, where None).

    Nothing where it has no settings. Some methods have other settings for narrow releases.
    """
    kind = method_class(method)
    narrow = dim is None or dim <= NARROW
    return kind.narrow_space if narrow and kind.narrow_space is not None else kind.space


def draws(
    method: str, trials: int, fixed: Mapping[str, Any] = NONE, *, dim: int | None = RELEASE.dim
) -> list[dict[str, Any]]:
    """Return the settings of each trial, the method's defaults first, no two alike; ``fixed`` ones are in all of them.

    >>> draws("popularity", 8)
    [{}]
    """
    if not 1 <= trials <= MAX_TRIALS:
        raise ParameterError(f"trials must be a whole number from 1 to {MAX_TRIALS:,}, got {trials}")
    declared = space(method, dim)
    rng = Simulation(SEED).generator(f"search {method}")
    trial_settings: list[dict[str, Any]] = [dict(fixed)]
    for _ in range(50 * trials):  # a small space may hold fewer settings than trials were asked for
        if len(trial_settings) == trials or not declared:
            break
        drawn = {name: values[int(rng.integers(len(values)))] for name, values in declared.items()} | dict(fixed)
        if drawn not in trial_settings:
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

    Methods that read a release see ``release``; a log is for one. What ``data.search`` has is not searched. A method
    all of whose trials failed has no best settings and is left out.
    """
    release = replace(release, delta=release.delta or data.delta)
    done = {trial.key: trial for trial in read_trials(log)}
    planned = [
        _Planned(number, arm := _arm(method, release, drawn), result_key(data, arm, full=False))
        for method in methods
        for number, drawn in enumerate(draws(method, trials, data.search.get(method, {}), dim=release.dim))
    ]
    missing = [one for one in planned if one.key not in done]
    for outcome in spread(run_trial, data, context, [(data.search_name, one) for one in missing]):
        name, one = outcome.plan
        trial = outcome.value or _failed(name, one, outcome.failure)
        if outcome.value is not None:  # otherwise the machine is to blame, and the next search tries again
            append(log, trial)
        done[trial.key] = trial
        progress(
            "trials", sum(one.key in done for one in planned), len(planned), f"{trial.method} {trial.validation:.4f}"
        )
    best: dict[str, dict[str, Any]] = {}
    for method in methods:
        tried = [done[one.key] for one in planned if one.arm.method == method and not done[one.key].failure]
        if tried:
            best[method] = max(tried, key=lambda trial: trial.validation).settings
    return best


def searchable(data: Sequence[DataSpec], context: RunContext) -> list[tuple[DataSpec, str]]:
    """Return each data set with why it cannot be searched, empty where it can.

    What two of them chose would be filed under one name if they were in one folder: that is refused.
    """
    reasons: list[tuple[DataSpec, str]] = []
    filed: dict[str, DataSpec] = {}
    for one in data:
        missing = missing_files(one, context.data, context.prepared)
        if one.tuned is not None:
            reason = f"not searched, since it uses the settings chosen for {one.tuned}"
        else:
            reason = f"{NOT_PRESENT} ({'; '.join(missing)})" if missing else ""
        first = one if reason else filed.setdefault(one.search_name, one)
        if first.content() != one.content():
            names = f"{one.name or 'one'} and {first.name or 'data before it'}"
            raise ParameterError(f"{names} are different data in one folder, {one.folder}: search one of them")
        reasons.append((one, reason))
    return reasons


@dataclass(frozen=True)
class _Planned:
    """A trial that a search asks for."""

    number: int
    arm: Arm
    key: str


def _arm(method: str, release: ReleaseSpec, settings: dict[str, Any]) -> Arm:
    access = method_class(method).data_access()
    given = release if DataAccess.RELEASE in access else None
    return Arm(
        name=method, method=method, release=given, plaintext=access == (DataAccess.PLAINTEXT,), settings=settings
    )


def read_trials(log: Path) -> list[Trial]:
    """Return every trial of a log."""
    return read_lines(log, Trial)


def tuned_table(best: Mapping[str, Mapping[str, Any]], heading: str) -> str:
    """Return the chosen settings as TOML.

    >>> print(tuned_table({"bpr": {"width": 64, "bias": True}}, "chosen"))
    # chosen
    <BLANKLINE>
    [bpr]
    width = 64
    bias = true
    <BLANKLINE>
    """
    parts = [f"# {heading}\n"]
    for method, settings in best.items():
        lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
        parts.append("\n".join([f"[{method}]", *lines]) + "\n")
    return "\n".join(parts)


def update_tuned(path: Path, best: Mapping[str, Mapping[str, Any]], heading: str) -> None:
    """Write chosen settings to a file, which keeps those of methods that were not searched this time."""
    before = read_toml(path) if path.exists() else {}
    replace_file(path, tuned_table({**before, **best}, heading).encode())


def run_trial(task: Task, device: str, data: str, planned: _Planned) -> Trial:
    """Train with these settings and score the model on validation; a diverging trial counts as 0."""
    split = task.split(SEED)
    started = time.perf_counter()
    try:
        model, _, epochs, _ = fit(task, split, planned.arm, SEED, device)
        ndcg = validation_ndcg(model, split)
    except PriCDRError as error:
        return _failed(data, planned, str(error))
    seconds = round(time.perf_counter() - started, 2)
    method, settings = planned.arm.method, planned.arm.settings
    return Trial(data, method, planned.number, settings, round(ndcg, 6), epochs, seconds, key=planned.key)


def _failed(data: str, planned: _Planned, reason: str) -> Trial:
    return Trial(data, planned.arm.method, planned.number, planned.arm.settings, 0.0, 0, 0.0, reason, planned.key)
