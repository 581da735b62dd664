"""What the arms of one table measured: figures by seed, means and their errors, differences, shares and verdicts."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from pricdr.errors import plain
from pricdr.evaluation.metrics import NAMES
from pricdr.evaluation.verdict import Difference, Verdict, over_repetitions
from pricdr.experiments.arms import Guide, RowContent
from pricdr.experiments.results import ArmOutline, Mean, Outline, Result, mean, outline
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

    def scaled(self, factor: float) -> "Measurement":
        """Return every number times ``factor``."""
        return Measurement({seed: factor * value for seed, value in self.by_seed.items()})

    @cached_property
    def mean(self) -> Mean:
        """The mean over seeds and its standard error; nan where there are too few."""
        return mean(self.by_seed.values())

    @property
    def value(self) -> float:
        """The mean over seeds; nan without any."""
        return self.mean.value

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
        error = "" if math.isnan(self.mean.error) else f" ± {100 * self.mean.error:.0f}"
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
"""Of an arm without results."""


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


class AgainstControls(NamedTuple):
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

    @classmethod
    def of(cls, outline: Outline, results: Iterable[Result]) -> "Experiment":
        """Return what an outline asks for with the results that belong to it; of two for one run the last counts."""
        by_key: dict[str, dict[int, Result]] = {arm.key: {} for arm in outline.arms}
        stale = 0
        for result in results:
            stale += result.key not in by_key
            by_key.get(result.key, {})[result.seed] = result
        return cls(outline, by_key, stale)

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

    def beats_controls(self, arm: ArmOutline, stratum: str) -> AgainstControls:
        """Return whether an arm is better than the reference and every control, and the difference that decided it.

        The worst of the differences decides: helping over popularity but not over noise is not a transfer.
        """
        own, reference = self.measured(arm, stratum), self.reference(stratum)
        others = [*([] if reference is None else [reference]), *self.controls]
        found = {other.name: gain for other in others if (gain := own - self.measured(other, stratum))}
        if not found:
            return AgainstControls(Verdict.UNCLEAR, NOTHING, "")
        order = [Verdict.HURTS, Verdict.UNCLEAR, Verdict.HELPS]
        against, worst = min(found.items(), key=lambda one: (order.index(one[1].verdict), one[1].value))
        return AgainstControls(worst.verdict, worst, against)

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


_USERS: Final = {
    "warm": "users with target history (warm)",
    "few": "warm users with 1 to 3 target ratings (few)",
    "cold": "users without target history (cold)",
}


def markdown_report(spec: Spec, results: Sequence[Result]) -> str:
    """Return all results of a spec as Markdown: a table for each kind of user that every run evaluated."""
    found = Experiment.of(outline(spec), results)
    runs = [run for arm in found.outline.arms for run in found.results_of(arm).values()]
    strata = [name for name in _USERS if runs and all(run.users.get(name) for run in runs)]
    note = "\n".join(map(plain, spec.note.strip().split("\n")))
    tables = [_table(found, name, [run.users[name] for run in runs]) for name in strata]
    parts = [f"## {plain(spec.title)}", note, *tables, _measured_by(found, runs), _not_run(found)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _table(found: Experiment, stratum: str, counts: Sequence[int]) -> str:
    arms = [arm for arm in found.outline.arms if found.results_of(arm)]
    baseline, ceiling = (found.arms.get(name or "") for name in (found.outline.baseline, found.outline.ceiling))
    # Shares are of what cold users gain; warm users have a history anyway.
    shares = baseline is not None and ceiling is not None and stratum == "cold"
    full = all("full" in run.figures for arm in arms for run in found.results_of(arm).values())
    header = ["", *NAMES]
    header += [] if baseline is None else [f"{DECISIVE} − {baseline.name}"]
    header += [f"share of the gain of {found.outline.ceiling}"] if shares else []
    header += [f"{DECISIVE}, full ranking"] if full else []

    def cells(arm: ArmOutline) -> list[str]:
        row = [arm.name, *(str(found.measured(arm, stratum, metric).mean) for metric in NAMES)]
        if baseline is not None:
            gain = found.measured(arm, stratum) - found.measured(baseline, stratum)
            row.append("" if arm is baseline or not gain else str(gain.mean))
        row += [found.share(arm).percent().replace("−", "-")] if shares else []
        return row + ([str(found.measured(arm, stratum, ranking="full").mean)] if full else [])

    rows = [[plain(cell) for cell in row] for row in (header, *map(cells, arms))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rows.insert(1, ["-" * width for width in widths])
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    # How many users have few ratings differs between splits.
    users = " to ".join(f"{count:,}" for count in sorted({min(counts), max(counts)}))
    return "\n".join([f"### {users} {_USERS[stratum]}, ranked among 99 negatives", "", *lines])


def _measured_by(found: Experiment, runs: Sequence[Result]) -> str:
    """Return how often and where arms ran. Most ran on one device; which ran elsewhere is said, for devices differ."""
    if not runs:
        return ""
    arms: dict[str, list[str]] = {}
    for arm in found.outline.arms:
        if by_seed := found.results_of(arm):
            arms.setdefault(" and ".join(sorted({run.device for run in by_seed.values()})), []).append(arm.name)
    most, *others = sorted(arms, key=lambda device: -len(arms[device]))
    devices = most + "".join(f"; on {device}: {' · '.join(arms[device])}" for device in others)
    n_seeds = len(found.outline.seeds)
    seeds = "one seed" if n_seeds == 1 else f"{n_seeds} seeds, mean ± standard error over seeds"
    versions = " and ".join(sorted({run.provenance.version for run in runs}))
    return f"{seeds}; run on {plain(devices)}, version {plain(versions)}."


def _not_run(found: Experiment) -> str:
    lacking: dict[str, list[str]] = {}
    for arm, seed in found.missing:
        lacking.setdefault(arm, []).append(str(seed))
    all_seeds = len(found.outline.seeds)
    names = [arm + (f" (seeds {', '.join(seeds)})" if len(seeds) < all_seeds else "") for arm, seeds in lacking.items()]
    return f"Not run: {plain(' · '.join(names))}." if names else ""
