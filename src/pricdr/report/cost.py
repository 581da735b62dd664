"""What each method costs: time, epochs and memory, by task and device."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from pricdr.experiments.results import Result
from pricdr.report.folder import Experiment, ResultsFolder
from pricdr.report.table2 import FAMILY

YARDSTICK = "dmf"
"""The method that others are compared with: the target's network alone."""


@dataclass(frozen=True)
class CostRow:
    """One arm on one task and device."""

    task: str
    arm: str
    device: str
    runs: int
    seconds: float
    """Median over runs."""
    epochs: float
    memory: float | None
    """The largest peak over runs, in bytes; None where it was not measured."""
    ratio: float | None
    """Of the seconds, to those of the target's network alone on the same task and device."""


def costs(folder: ResultsFolder) -> tuple[CostRow, ...]:
    """Return the cost of every arm of Table 2's specs, or of all specs where there is no such one."""
    experiments = [one for one in folder.family(FAMILY) if one.runs] or [one for one in folder.experiments if one.runs]
    return tuple(row for experiment in experiments for row in _rows(experiment))


def _rows(experiment: Experiment) -> list[CostRow]:
    rows = []
    for arm in experiment.outline.arms:
        runs = list(experiment.results_of(arm).values())
        for device in sorted({run.device for run in runs}):
            there = [run for run in runs if run.device == device]
            seconds, whole = _seconds(there), _yardstick(experiment, device)
            memories = [float(run.memory) for run in there if run.memory is not None]
            rows.append(
                CostRow(
                    experiment.title,
                    arm.name,
                    device,
                    len(there),
                    seconds,
                    median(run.epochs for run in there),
                    max(memories, default=None),
                    seconds / whole if whole else None,
                )
            )
    return rows


def _seconds(runs: Sequence[Result]) -> float:
    return median(float(run.seconds) for run in runs)


def _yardstick(experiment: Experiment, device: str) -> float | None:
    """Return the seconds of the target's network alone, where it ran on this device."""
    runs = [
        run
        for arm in experiment.outline.arms
        if arm.method == YARDSTICK and arm.release is None
        for run in experiment.results_of(arm).values()
        if run.device == device
    ]
    return _seconds(runs) if runs else None
