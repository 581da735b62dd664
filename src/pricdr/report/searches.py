"""What searches tried, what they chose on validation, and what that gave on test."""

from collections.abc import Sequence
from dataclasses import dataclass

from pricdr.experiments.outline import ArmOutline
from pricdr.experiments.search import Trial
from pricdr.report.folder import Experiment, ResultsFolder
from pricdr.report.measurements import NOTHING, Measurement
from pricdr.report.table2 import FAMILY


@dataclass(frozen=True)
class SearchRow:
    """One method in one search."""

    search: str
    method: str
    trials: int
    failed: int
    default: float | None
    """NDCG@10 on validation of the method's defaults; None where they were not tried or failed."""
    best: float | None
    settings: str
    seconds: float
    """Of all its trials."""
    tested_as: str
    """The arm with these settings that was run on test; empty where there is none."""
    tested_in: str
    """The results it is from."""
    test: Measurement
    """NDCG@10 of all users on test."""


def searches(folder: ResultsFolder) -> tuple[SearchRow, ...]:
    """Return a row for every method of every search."""
    rows = []
    for name, trials in folder.trials.items():
        for method in dict.fromkeys(trial.method for trial in trials):
            rows.append(_row(name, method, [trial for trial in trials if trial.method == method], folder))
    return tuple(rows)


def _row(name: str, method: str, trials: Sequence[Trial], folder: ResultsFolder) -> SearchRow:
    finished = [trial for trial in trials if not trial.failure]
    best = max(finished, key=lambda trial: trial.validation, default=None)
    default = next((trial for trial in finished if trial.number == 0), None)
    tested = None if best is None else _tested(best, folder)
    return SearchRow(
        name,
        method,
        len(trials),
        len(trials) - len(finished),
        None if default is None else float(default.validation),
        None if best is None else float(best.validation),
        "" if best is None else ", ".join(f"{key} = {value}" for key, value in best.settings.items()) or "defaults",
        sum(float(trial.seconds) for trial in trials),
        "" if tested is None else tested[1].name,
        "" if tested is None else tested[0].outline.name,
        NOTHING if tested is None else tested[0].measured(tested[1], "all"),
    )


def _tested(best: Trial, folder: ResultsFolder) -> tuple[Experiment, ArmOutline] | None:
    """Return the arm of this method, on these files and with these settings, that was measured most like the trial.

    A trial does not say how the data was split nor what the release was: of the arms that it may be, the one whose
    figure on validation is nearest had the same, of Table 2 where several do.
    """
    found: list[tuple[float, Experiment, ArmOutline]] = []
    for experiment in (*folder.family(FAMILY), *folder.experiments):
        data = experiment.outline.data
        # Data without duplicate items keeps the settings of a search on all of it, where it had none of its own.
        if best.data not in (data.folder, f"{data.folder}_distinct"):
            continue
        for arm in experiment.outline.arms:
            chosen = all(arm.settings.get(name) == value for name, value in best.settings.items())
            if arm.method == best.method and chosen and experiment.results_of(arm):
                found.append((abs(experiment.validation(arm).value - float(best.validation)), experiment, arm))
    nearest = min(found, key=lambda one: one[0], default=None)
    return None if nearest is None else nearest[1:]
