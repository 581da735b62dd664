"""A results folder: what was asked for, what was measured, and what is missing or out of date."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

from pricdr.data.reading.text_files import shorten
from pricdr.errors import InputError
from pricdr.evaluation.verdict import Verdict
from pricdr.experiments.arms import Guide, RowContent
from pricdr.experiments.outline import SUFFIX as SUFFIX
from pricdr.experiments.outline import ArmOutline, Outline, read_outline
from pricdr.experiments.results import Result, read
from pricdr.experiments.search import Trial, read_trials
from pricdr.experiments.tables import DECISIVE
from pricdr.progress import Progress, silent
from pricdr.report.measurements import NOTHING, Measurement
from pricdr.untrusted import Folder

LINES: Final = ".jsonl"
SYNTHETIC: Final = "frontier_synthetic.jsonl"
TABLE3: Final = "table3.json"
SEARCH: Final = "search"
MOST_ENTRIES: Final = 10_000
STRATA: Final = {"warm": "warm users", "few": "users with few ratings", "cold": "cold users"}


class Access(Enum):
    """What an arm saw beside the target's ratings, and whether that protects the source."""

    TARGET = "target alone"
    PRIVATE = "private"
    CONTROL = "control"
    CLEAR_GUIDE = "target NOT PRIVATE"
    """Along a guide without noise, which protects nobody at the target."""
    NOISELESS = "NOT PRIVATE: no noise"
    PLAINTEXT = "NOT PRIVATE: plaintext"

    @classmethod
    def of(cls, arm: ArmOutline) -> "Access":
        """Return what an arm saw."""
        if arm.plaintext:
            return cls.PLAINTEXT
        if arm.release is None:
            return cls.TARGET
        if arm.release.rows in (RowContent.SHUFFLED, RowContent.NOISE):
            return cls.CONTROL
        if arm.release.rows is RowContent.NOISELESS:
            return cls.NOISELESS
        # A guide counts for guided releases alone: the others have none, whatever the field says.
        clear = arm.release.strategy == "guided" and arm.release.guide is Guide.CLEAR
        return cls.CLEAR_GUIDE if clear else cls.PRIVATE


class Crossing(NamedTuple):
    """Whether an arm is better than the reference and every control."""

    verdict: Verdict
    difference: Measurement
    """That decided it."""
    against: str
    """The arm that the difference is to; empty where there is none."""


@dataclass(frozen=True)
class Experiment:
    """One task of one spec: its arms, and the results that belong to them."""

    outline: Outline
    results: Mapping[str, Mapping[int, Result]]
    """By key and seed; a key may be that of several arms' names over time, so names are not asked."""
    stale: int = 0
    """Lines whose key is that of no arm: measured with other settings."""
    alone_elsewhere: tuple[ArmOutline, ...] = ()
    """Arms of other specs that saw the target alone, on this very data and its splits; ``results`` has theirs too."""

    @property
    def title(self) -> str:
        """What its data is called, with a label where it only stands in for the paper's."""
        data = self.outline.data
        return data.title if not data.stand_in or "stand-in" in data.title else f"{data.title} (stand-in)"

    @cached_property
    def arms(self) -> Mapping[str, ArmOutline]:
        """Its arms by name."""
        return {arm.name: arm for arm in self.outline.arms}

    @property
    def controls(self) -> tuple[ArmOutline, ...]:
        """The arms that must not gain, shuffled and noise."""
        return tuple(arm for arm in self.outline.arms if Access.of(arm) is Access.CONTROL)

    @property
    def runs(self) -> int:
        """How many results belong to an arm."""
        return sum(len(self.results_of(arm)) for arm in self.outline.arms)

    @property
    def missing(self) -> tuple[tuple[str, int], ...]:
        """Arms and seeds that were asked for and have no result."""
        return tuple(
            (arm.name, seed)
            for arm in self.outline.arms
            for seed in self.outline.seeds
            if seed not in self.results_of(arm)
        )

    def results_of(self, arm: ArmOutline) -> Mapping[int, Result]:
        """Return the results of an arm by seed."""
        return self.results.get(arm.key, {})

    def measured(self, arm: ArmOutline, stratum: str, metric: str = DECISIVE, ranking: str = "sampled") -> Measurement:
        """Return what an arm measured for one kind of users; nothing where there are none of them."""
        values = {}
        for seed, result in self.results_of(arm).items():
            value = result.figures.get(ranking, {}).get(stratum, {}).get(metric)
            if value is not None and (stratum == "all" or result.users.get(stratum)):
                values[seed] = float(value)
        return Measurement(values)

    def refused(self, arm: ArmOutline, stratum: str = "all") -> tuple[int, int]:
        """Return in how many runs the model trusted its release not at all, and how many runs tell.

        For all users: in how many it was refused for every kind of users there is.
        """
        refusals = []
        for result in self.results_of(arm).values():
            asked = [one for one in ("warm", "cold") if stratum in ("all", one) and result.users.get(one)]
            trusts = [] if result.trust is None else [result.trust[one] for one in asked if one in result.trust]
            if trusts:
                refusals.append(not any(trusts))
        return sum(refusals), len(refusals)

    def users(self, stratum: str) -> int:
        """Return how many users of a stratum were evaluated, at most, over all runs."""
        every = [result.users for runs in self.results.values() for result in runs.values()]
        return max((users.get(stratum, 0) for users in every), default=0)

    @property
    def strata(self) -> tuple[str, ...]:
        """The kinds of users that were evaluated."""
        return tuple(stratum for stratum in STRATA if self.users(stratum))

    def reference(self, stratum: str) -> ArmOutline | None:
        """Return what private releases have to beat: the spec's baseline, and for users with a history a better one.

        Cold users get from a model of the target alone what is popular, and that is the baseline. The others have a
        history, so they are compared with the arm that sees the target alone and did best on validation, whichever
        spec has it: a spec with a weak one must not make its releases look good.
        """
        if stratum == "cold":
            return self.arms.get(self.outline.baseline or "")
        alone = [arm for arm in self.outline.arms if Access.of(arm) is Access.TARGET] + [*self.alone_elsewhere]
        measured = [arm for arm in alone if self.results_of(arm)]
        return max(measured, key=lambda arm: self.validation(arm).value, default=None)

    def validation(self, arm: ArmOutline) -> Measurement:
        """Return what an arm measured on validation, for all users."""
        return Measurement({seed: float(result.validation) for seed, result in self.results_of(arm).items()})

    def gain(self, arm: ArmOutline, stratum: str) -> Measurement:
        """Return how far an arm is above the reference, seed by seed."""
        reference = self.reference(stratum)
        return NOTHING if reference is None else self.measured(arm, stratum) - self.measured(reference, stratum)

    def share(self, arm: ArmOutline) -> Measurement:
        """Return what an arm keeps, for cold users, of the ceiling's gain; nothing where the ceiling gains nothing.

        The error is that of the arm's gain; the ceiling's own gain is taken as it is.
        """
        whole = NOTHING if self.ceiling is None else self.gain(self.ceiling, "cold")
        if not whole or whole.value <= 0:
            return NOTHING
        return self.gain(arm, "cold").scaled(1 / whole.value)

    def crosses(self, arm: ArmOutline, stratum: str) -> Crossing:
        """Return whether an arm is better than the reference and every control, and the difference that decided it.

        The worst of the differences decides: helping over popularity but not over noise is not a transfer.
        """
        own, reference = self.measured(arm, stratum), self.reference(stratum)
        others = [*([] if reference is None else [reference]), *self.controls]
        found = {other.name: gain for other in others if (gain := own - self.measured(other, stratum))}
        if not found:
            return Crossing(Verdict.UNCLEAR, NOTHING, "")
        order = [Verdict.HURTS, Verdict.UNCLEAR, Verdict.HELPS]
        against, worst = min(found.items(), key=lambda one: (order.index(one[1].verdict), one[1].value))
        return Crossing(worst.verdict, worst, against)

    @property
    def ceiling(self) -> ArmOutline | None:
        """The arm whose gain is all there is to gain."""
        return self.arms.get(self.outline.ceiling or "")

    @property
    def has_ceiling(self) -> bool:
        """Whether plaintext gains something for certain, so that shares of it mean something."""
        return self.ceiling is not None and self.gain(self.ceiling, "cold").verdict is Verdict.HELPS

    def private_arms(self, stratum: str, epsilon: float | None = None) -> list[ArmOutline]:
        """Return the arms with a private release on an axis of ε that have figures for a stratum."""
        return [
            arm
            for arm in self.outline.arms
            if arm.axis == "epsilon"
            and arm.at is not None
            and arm.at > 0
            and epsilon in (None, arm.at)
            and Access.of(arm) is Access.PRIVATE
            and self.measured(arm, stratum)
        ]

    def best(self, stratum: str, epsilon: float | None) -> ArmOutline | None:
        """Return the private arm that does best on test at an ε: of many, so a little lucky."""
        arms = [] if epsilon is None else self.private_arms(stratum, epsilon)
        return max(arms, key=lambda arm: self.measured(arm, stratum).value, default=None)


@dataclass(frozen=True)
class ResultsFolder:
    """Everything in a results folder that the page shows."""

    path: Path
    experiments: tuple[Experiment, ...]
    trials: Mapping[str, tuple[Trial, ...]] = field(default_factory=dict)
    """By the name of their file."""
    unclaimed: tuple[str, ...] = ()
    """Files of results that belong to no spec in the folder."""

    def family(self, name: str) -> tuple[Experiment, ...]:
        """Return the experiments of one spec file, one for each task."""
        return tuple(one for one in self.experiments if one.outline.family == name)


def read_folder(path: Path, *, progress: Progress = silent) -> ResultsFolder:
    """Return what a results folder holds, every record checked; refuse a folder that holds no outline of a spec."""
    names, searches = _names(path, LINES, SUFFIX), []
    outlines = [name for name in names if name.endswith(SUFFIX)]
    if not outlines:
        raise InputError(f"{path} is not a results folder: it holds no *{SUFFIX} (pricdr reproduce writes them)")
    experiments = []
    for number, name in enumerate(outlines):
        progress("reading results", number, len(outlines), name)
        experiments.append(_experiment(path, name))
    claimed = {f"{name.removesuffix(SUFFIX)}{LINES}" for name in outlines} | {SYNTHETIC}
    if (path / SEARCH).is_dir():
        searches = _names(path / SEARCH, LINES)
    return ResultsFolder(
        path,
        tuple(_beside(one, experiments) for one in experiments),
        {name.removesuffix(LINES): tuple(read_trials(_plain(path / SEARCH / name))) for name in searches},
        tuple(name for name in names if name.endswith(LINES) and name not in claimed),
    )


def _names(path: Path, *endings: str) -> list[str]:
    with Folder.opened(path, "a results folder") as folder:
        found = [name for ending in endings for name in folder.names(ending=ending, limit=MOST_ENTRIES)]
    return sorted(found)


def _plain(path: Path) -> Path:
    """Return a path whose file can be read to its end: a pipe in the folder would be waited for without one."""
    if not path.is_file():
        raise InputError(f"{path} is not a file of results: it is a folder, a pipe, or a link to nothing")
    return path


def _experiment(path: Path, name: str) -> Experiment:
    outline = read_outline(_plain(path / name))
    stem = name.removesuffix(SUFFIX)
    if outline.name != stem:
        raise InputError(f"{path / name} is the outline of {shorten(outline.name)}, not of {shorten(stem)}")
    lines = path / f"{stem}{LINES}"
    by_key: dict[str, dict[int, Result]] = {arm.key: {} for arm in outline.arms}
    stale = 0
    for result in read(_plain(lines)) if os.path.lexists(lines) else []:
        if result.key in by_key:
            by_key[result.key][result.seed] = result
        else:
            stale += 1
    return Experiment(outline, by_key, stale)


def _beside(experiment: Experiment, others: Sequence[Experiment]) -> Experiment:
    """Return an experiment that knows what other specs measured on its data with the target alone."""
    own = {arm.key for arm in experiment.outline.arms}
    found: dict[str, ArmOutline] = {}
    results = dict(experiment.results)
    for other in others:
        if other is not experiment and other.outline.data == experiment.outline.data:
            for arm in other.outline.arms:
                if Access.of(arm) is Access.TARGET and arm.key not in own:
                    found.setdefault(arm.key, arm)
                    results.setdefault(arm.key, other.results_of(arm))
    return replace(experiment, results=results, alone_elsewhere=tuple(found.values()))
