"""What the arms of one table measured: figures by seed, means, differences, shares and verdicts; and the table."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from statistics import fmean
from typing import Final

import numpy as np

from pricdr.errors import plain
from pricdr.evaluation.metrics import NAMES
from pricdr.evaluation.verdict import Difference, Verdict, over_repetitions, standard_error
from pricdr.experiments.arms import Arm, Axis, Guide, RowContent
from pricdr.experiments.results import Outline, Result
from pricdr.experiments.spec import Spec

DECISIVE: Final = "NDCG@10"
"""The metric that is also compared seed by seed, and reported for full ranking."""
STRATA: Final = {"warm": "warm users", "few": "users with few ratings", "cold": "cold users"}


@dataclass(frozen=True)
class Measurement:
    """What was measured with each seed; nothing at all where an arm has no results."""

    by_seed: Mapping[int, float]

    def __bool__(self) -> bool:
        return bool(self.by_seed)

    def __sub__(self, other: "Measurement") -> "Measurement":
        """Return the difference, seed by seed, over the seeds that both have."""
        return Measurement(
            {seed: value - other.by_seed[seed] for seed, value in self.by_seed.items() if seed in other.by_seed}
        )

    def __str__(self) -> str:
        """The mean and its error, as tables print them.

        >>> print(Measurement({1: 0.1, 2: 0.2, 3: 0.3}), Measurement({1: 0.31662}))
        .2000 ± .0577 .3166
        """
        error = "" if math.isnan(self.error) else f" ± {self.error:.4f}"
        return f"{self.value:.4f}{error}".replace("0.", ".")

    @cached_property
    def value(self) -> float:
        """The mean over seeds; nan without any."""
        return float(np.mean([*self.by_seed.values()])) if self else math.nan

    @cached_property
    def error(self) -> float:
        """The standard error of the mean; nan where there are too few seeds."""
        return standard_error(np.array([*self.by_seed.values()]))

    @cached_property
    def interval(self) -> Difference | None:
        """Student's 95 % interval and test over seeds; None with fewer than two."""
        # Results have six digits; what differs in the ninth is equal, and Student's formula would divide by it.
        return over_repetitions(np.round([*self.by_seed.values()], 9)) if len(self.by_seed) > 1 else None

    @property
    def verdict(self) -> Verdict:
        """Whether a difference is above 0, below it, or cannot be told from it; a single seed tells nothing."""
        return Verdict.UNCLEAR if self.interval is None else Verdict.of(self.interval)

    def percent(self) -> str:
        """Return a share, in per cent.

        >>> Measurement({1: 0.71, 2: 0.77}).percent(), Measurement({1: -0.02}).percent(), Measurement({}).percent()
        ('74 ± 3 %', '−2 %', '')
        """
        error = "" if math.isnan(self.error) else f" ± {100 * self.error:.0f}"
        return f"{number(100 * self.value, 0)}{error} %" if self else ""

    def interval_in_words(self) -> str:
        """Return a difference and its 95 % interval over seeds, in brackets.

        >>> Measurement({1: 0.01, 2: 0.01}).interval_in_words(), Measurement({1: 0.01}).interval_in_words()
        ('+0.0100 with every seed', '+0.0100, one seed')
        >>> Measurement({1: 0.01, 2: 0.02, 3: 0.03}).interval_in_words()
        '+0.0200 [−0.0048, +0.0448]'
        """
        interval, value = self.interval, number(self.value, signed=True)
        if interval is None:
            return f"{value}, one seed" if self else "not measured"
        if interval.low == interval.high:
            return f"{value} with every seed"
        return f"{value} [{number(interval.low, signed=True)}, {number(interval.high, signed=True)}]"


NOTHING: Final = Measurement({})


def number(value: float, digits: int = 4, *, signed: bool = False) -> str:
    """Return a number with a proper minus sign, and none on a zero.

    >>> number(-0.00001), number(-0.5, 1), number(0.5, 1, signed=True)
    ('0.0000', '−0.5', '+0.5')
    """
    text = f"{value:{'+' if signed else ''}.{digits}f}"
    return text.replace("-", "−") if math.isnan(value) or float(text) else f"{0:.{digits}f}"


class Access(Enum):
    """What an arm saw beside the target's ratings, and whether that protects the source."""

    TARGET = "target alone"
    PRIVATE = "private"
    CONTROL = "control"
    CLEAR_GUIDE = "target NOT PRIVATE"
    """Along a guide without noise, which protects nobody at the target."""
    NOISELESS = "NOT PRIVATE: no noise"
    PLAINTEXT = "NOT PRIVATE: plaintext"


@dataclass(frozen=True)
class MeasuredArm:
    """An arm and its results, by seed."""

    arm: Arm
    runs: Mapping[int, Result]

    @property
    def name(self) -> str:
        """What the table calls it."""
        return self.arm.name

    @property
    def access(self) -> Access:
        """What it saw."""
        release = self.arm.release
        if self.arm.plaintext:
            return Access.PLAINTEXT
        if release is None:
            return Access.TARGET
        if release.rows in (RowContent.SHUFFLED, RowContent.NOISE):
            return Access.CONTROL
        if release.rows is RowContent.NOISELESS:
            return Access.NOISELESS
        # A guide counts for guided releases alone: the others have none, whatever the field says.
        clear = release.strategy == "guided" and release.guide is Guide.CLEAR
        return Access.CLEAR_GUIDE if clear else Access.PRIVATE

    def epsilon_on_axis(self) -> float | None:
        """Return the ε at which it lies on a curve along ε; None where there is none that a logarithmic axis has."""
        point = self.arm.point
        return None if point is None or point.axis is not Axis.EPSILON or point.at <= 0 else float(point.at)

    def measured(self, stratum: str, metric: str = DECISIVE, ranking: str = "sampled") -> Measurement:
        """Return what it measured for one kind of users; nothing where there are none of them."""
        values = {}
        for seed, result in self.runs.items():
            value = result.figures.get(ranking, {}).get(stratum, {}).get(metric)
            if value is not None and (stratum == "all" or result.users.get(stratum)):
                values[seed] = float(value)
        return Measurement(values)

    def refused(self, stratum: str = "all") -> tuple[int, int]:
        """Return in how many runs the release was trusted for no kind of these users at all, and how many runs tell."""
        kinds = ("warm", "cold") if stratum == "all" else (stratum,)
        told = [
            [run.trust[one] for one in kinds if one in run.trust and run.users.get(one)]
            for run in self.runs.values()
            if run.trust
        ]
        return sum(not any(trusts) for trusts in told if trusts), sum(map(bool, told))


@dataclass(frozen=True)
class Experiment:
    """One task of one spec: its arms, and the results that belong to them."""

    outline: Outline
    arms: Mapping[str, MeasuredArm]
    stale: int = 0
    """Lines of no arm: measured with other settings or seeds."""
    alone_elsewhere: tuple[MeasuredArm, ...] = ()
    """Arms of other specs that saw the target alone, on this very data and its splits."""

    @classmethod
    def of(cls, outline: Outline, results: Iterable[Result]) -> "Experiment":
        """Return what an outline asks for with the results that belong to it; of two for one run the last counts."""
        # By key and not by name: an arm may have had several names over time.
        by_key: defaultdict[str, dict[int, Result]] = defaultdict(dict)
        stale = 0
        for result in results:
            if result.key in outline.keys.values() and result.seed in outline.spec.seeds:
                by_key[result.key][result.seed] = result
            else:
                stale += 1
        arms = {arm.name: MeasuredArm(arm, by_key[outline.keys[arm.name]]) for arm in outline.spec.arms}
        return cls(outline, arms, stale)

    @property
    def spec(self) -> Spec:
        """What was asked for."""
        return self.outline.spec

    @property
    def title(self) -> str:
        """What its data is called, with a label where it only stands in for the paper's."""
        data, title = self.spec.data, self.spec.data.title or self.spec.data.folder
        return title if not data.stand_in or "stand-in" in title else f"{title} (stand-in)"

    @property
    def baseline(self) -> MeasuredArm | None:
        """The arm that the others are compared with."""
        return self.arms.get(self.spec.baseline or "")

    @property
    def ceiling(self) -> MeasuredArm | None:
        """The arm whose gain is all there is to gain."""
        return self.arms.get(self.spec.ceiling or "")

    @property
    def has_ceiling(self) -> bool:
        """Whether plaintext gains something for certain, so that shares of it mean something."""
        return self.ceiling is not None and self.gain(self.ceiling, "cold").verdict is Verdict.HELPS

    @property
    def controls(self) -> tuple[MeasuredArm, ...]:
        """The arms that must not gain, shuffled and noise."""
        return tuple(arm for arm in self.arms.values() if arm.access is Access.CONTROL)

    @property
    def runs(self) -> list[Result]:
        """All results that belong to an arm."""
        return [run for arm in self.arms.values() for run in arm.runs.values()]

    @property
    def missing(self) -> Mapping[str, list[int]]:
        """The seeds that were asked for and have no result, by arm."""
        lacking = {name: [seed for seed in self.spec.seeds if seed not in arm.runs] for name, arm in self.arms.items()}
        return {name: seeds for name, seeds in lacking.items() if seeds}

    @cached_property
    def users(self) -> Mapping[str, int]:
        """How many users of each kind were evaluated, at most, over all runs."""
        most = {stratum: max((run.users.get(stratum, 0) for run in self.runs), default=0) for stratum in STRATA}
        return {stratum: users for stratum, users in most.items() if users}

    def reference(self, stratum: str) -> MeasuredArm | None:
        """Return what private releases have to beat: the spec's baseline, and for users with a history a better one.

        That one sees the target alone and did best on validation, in any spec: a weak one must not flatter releases.
        """
        if stratum == "cold":
            return self.baseline
        alone = [arm for arm in self.arms.values() if arm.access is Access.TARGET]
        measured = [arm for arm in (*alone, *self.alone_elsewhere) if arm.runs]
        return max(measured, key=lambda arm: fmean(run.validation for run in arm.runs.values()), default=None)

    def gain(self, arm: MeasuredArm, stratum: str) -> Measurement:
        """Return how far an arm is above the reference, seed by seed."""
        reference = self.reference(stratum)
        return NOTHING if reference is None else arm.measured(stratum) - reference.measured(stratum)

    def share(self, arm: MeasuredArm) -> Measurement:
        """Return what an arm keeps, for cold users, of the ceiling's gain, taken as it is; nothing where it is none."""
        whole = NOTHING if self.ceiling is None else self.gain(self.ceiling, "cold")
        if not whole or whole.value <= 0:
            return NOTHING
        return Measurement({seed: gain / whole.value for seed, gain in self.gain(arm, "cold").by_seed.items()})

    def worst_gain(self, arm: MeasuredArm, stratum: str) -> tuple[Measurement, str]:
        """Return the least of an arm's gains over the reference and every control, and which arm it is over.

        Its verdict is that on the release: helping over popularity but not over noise is not a transfer.
        """
        own, reference = arm.measured(stratum), self.reference(stratum)
        others = [*([] if reference is None else [reference]), *self.controls]
        found = {other.name: gain for other in others if (gain := own - other.measured(stratum))}
        order = [Verdict.HURTS, Verdict.UNCLEAR, Verdict.HELPS]
        against = min(found, key=lambda name: (order.index(found[name].verdict), found[name].value), default="")
        return found.get(against, NOTHING), against

    def private_arms(self, stratum: str) -> list[MeasuredArm]:
        """Return the arms with a private release on an axis of ε that have figures for a stratum, the best first."""
        private = [arm for arm in self.arms.values() if arm.epsilon_on_axis() and arm.access is Access.PRIVATE]
        measured = [arm for arm in private if arm.measured(stratum)]
        return sorted(measured, key=lambda arm: -arm.measured(stratum).value)


_USERS: Final = {
    "warm": "users with target history (warm)",
    "few": "warm users with 1 to 3 target ratings (few)",
    "cold": "users without target history (cold)",
}


def markdown_report(spec: Spec, results: Sequence[Result]) -> str:
    """Return all results of a spec as Markdown: a table of means for each kind of user that every run evaluated."""
    found = Experiment.of(Outline.of(spec), results)
    strata = [name for name in _USERS if found.runs and all(run.users.get(name) for run in found.runs)]
    note = "\n".join(map(plain, spec.note.strip().split("\n")))
    parts = [f"## {plain(spec.title)}", note, *(_table(found, name) for name in strata)]
    parts += [_measured_by(found) if found.runs else "", _not_run(found) if found.missing else ""]
    return "\n\n".join(part for part in parts if part) + "\n"


def _table(found: Experiment, stratum: str) -> str:
    baseline, full = found.baseline, all("full" in run.figures for run in found.runs)
    # Shares are of what cold users gain; warm users have a history anyway.
    shares = baseline is not None and found.ceiling is not None and stratum == "cold"

    def cells(arm: MeasuredArm) -> dict[str, str]:
        row = {"": arm.name, **{metric: str(arm.measured(stratum, metric)) for metric in NAMES}}
        if baseline is not None:
            gain = arm.measured(stratum) - baseline.measured(stratum)
            row[f"{DECISIVE} − {baseline.name}"] = "" if arm is baseline or not gain else str(gain)
        if shares:
            row[f"share of the gain of {found.spec.ceiling}"] = found.share(arm).percent().replace("−", "-")
        return row | ({f"{DECISIVE}, full ranking": str(arm.measured(stratum, ranking="full"))} if full else {})

    shown = [cells(arm) for arm in found.arms.values() if arm.runs]
    rows = [[plain(cell) for cell in row] for row in ([*shown[0]], *(one.values() for one in shown))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rows.insert(1, ["-" * width for width in widths])
    lines = [f"| {' | '.join(map(str.ljust, row, widths))} |" for row in rows]
    # How many users have few ratings differs between splits.
    counts = {run.users[stratum] for run in found.runs}
    users = " to ".join(f"{count:,}" for count in sorted({min(counts), max(counts)}))
    return "\n".join([f"### {users} {_USERS[stratum]}, ranked among 99 negatives", "", *lines])


def _measured_by(found: Experiment) -> str:
    """Return how often and where arms ran. Most ran on one device; which ran elsewhere is said, for devices differ."""
    arms: defaultdict[str, list[str]] = defaultdict(list)
    for arm in found.arms.values():
        if arm.runs:
            arms[" and ".join(sorted({run.device for run in arm.runs.values()}))].append(arm.name)
    most, *others = sorted(arms, key=lambda device: -len(arms[device]))
    devices = most + "".join(f"; on {device}: {' · '.join(arms[device])}" for device in others)
    n_seeds = len(found.spec.seeds)
    seeds = "one seed" if n_seeds == 1 else f"{n_seeds} seeds, mean ± standard error over seeds"
    versions = " and ".join(sorted({run.provenance.version for run in found.runs}))
    return f"{seeds}; run on {plain(devices)}, version {plain(versions)}."


def _not_run(found: Experiment) -> str:
    seeds = len(found.spec.seeds)
    names = [
        f"{name} (seeds {', '.join(map(str, lacking))})" if len(lacking) < seeds else name
        for name, lacking in found.missing.items()
    ]
    return f"Not run: {plain(' · '.join(names))}."
