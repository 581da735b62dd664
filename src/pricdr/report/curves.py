"""RQ4 and RQ5: a figure along ε, n, sp or sd, and whether its shape is the one that the paper describes.

A claim about a shape is one or two contrasts: weights over the axis whose sum with the figures is above 0 where the
claim holds. They are computed seed by seed, so that they have intervals over seeds like any other difference.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from pricdr.evaluation.verdict import Verdict
from pricdr.experiments.outline import ArmOutline
from pricdr.privacy.accounting import Calibration
from pricdr.report.folder import Access, Experiment, ResultsFolder
from pricdr.report.measurements import NOTHING, Measurement
from pricdr.report.table2 import exact_epsilon

_EQUAL: Final = 1e-9
"""Means that differ by less are equal: results have six digits."""


class Shape(Enum):
    """What a curve does along its axis, according to the paper."""

    RISING = "rises"
    BELL = "is highest in the middle"

    def weights(self, places: Sequence[float]) -> list[list[float]]:
        """Return the weights of each contrast for figures at these places, at least :attr:`least_places` of them.

        RISING has one: what a straight line over the logarithm of the axis rises by from end to end. BELL has two: how
        far the places between the ends are above the first, and how far above the last.
        """
        count = len(places)
        if self is Shape.BELL:
            inner = [0.0, *[1 / (count - 2)] * (count - 2), 0.0]
            return [[-1.0, *inner[1:]], [*inner[:-1], -1.0]]
        logs = [math.log(place) for place in places]
        centre = math.fsum(logs) / count
        squares = math.fsum((value - centre) ** 2 for value in logs)
        return [[(logs[-1] - logs[0]) * (value - centre) / squares for value in logs]]

    @property
    def least_places(self) -> int:
        """How many places the contrasts need."""
        return 3 if self is Shape.BELL else 2

    @property
    def otherwise(self) -> str:
        """What a curve is called that is neither flat nor of this shape."""
        return "of another shape" if self is Shape.BELL else "the other way"


@dataclass(frozen=True)
class Question:
    """One of the paper's figures: its axis, and what the paper says about it."""

    family: str
    title: str
    axis: str
    label: str
    logarithmic: bool
    shape: Shape
    claim: str
    also: str = ""
    """Another family whose curves belong into the same charts: a control along the same axis."""


QUESTIONS: Final = (
    Question(
        *("rq4_epsilon", "RQ4: privacy loss ε", "epsilon", "ε, exact", True, Shape.RISING),
        claim="performance improves with ε and then stays level",
    ),
    Question(
        *("rq4_dim", "RQ4: dimension n", "dim", "n, numbers per user", False, Shape.BELL),
        claim="performance first rises with n and then slightly falls",
        also="rq4_noise",
    ),
    Question(
        *("rq4_density", "RQ4: density sp", "density", "sp, density of the projection", False, Shape.BELL),
        claim="a medium sp does best",
    ),
    Question(
        *("rq5", "RQ5: source sparsity sd", "source_share", "sd, share of the source's ratings", True, Shape.RISING),
        claim="performance falls as the source grows sparser, less so for sjlt than for jlt",
    ),
)


class Variant(Enum):
    """How the curves of one chart belong together."""

    UNGATED = "gates off: the release is used whatever it is worth"
    GATED = "gates on: a release that fails the evidence test is refused"
    CLEAR = "NOT PRIVATE: without noise, or in plaintext"

    @classmethod
    def of(cls, arm: ArmOutline) -> "Variant":
        """Return the variant that an arm belongs to."""
        if Access.of(arm) in (Access.NOISELESS, Access.PLAINTEXT):
            return cls.CLEAR
        return cls.UNGATED if arm.settings.get("gated") is False else cls.GATED


@dataclass(frozen=True)
class CurvePoint:
    """One value on the axis, measured."""

    task: str
    stratum: str
    curve: str
    variant: Variant
    at: float
    """As the spec has it: for the paper's noise the nominal ε."""
    exact: float | None
    """On an axis of ε, the one that the noise delivers; None where it is not known."""
    nominal: bool
    """Whether ``at`` is only nominal."""
    control: bool
    """Whether its release is worth nothing: a curve that has the paper's shape all the same is no sign of anything."""
    measured: Measurement
    refused: int
    """Runs in which the model did not trust the release at all."""
    runs: int
    """Those that tell."""


@dataclass(frozen=True)
class Level:
    """An arm without an axis: a line across the chart."""

    task: str
    stratum: str
    name: str
    variant: Variant
    measured: Measurement
    drawn: bool
    """Whether the charts have a line for it: not for popularity, which is far below what warm users get anyway."""
    everywhere: bool
    """Whether it belongs into every chart: what sees no release knows no gates."""


@dataclass(frozen=True)
class Trend:
    """What one curve does."""

    task: str
    stratum: str
    curve: str
    variant: Variant
    nominal: bool
    """Whether its values of ε are only nominal: the paper's noise."""
    control: bool
    spread: float
    """Between its highest and its lowest mean."""
    typical_error: float
    """The median standard error of its points."""
    shape: Shape
    contrasts: tuple[Measurement, ...]
    """One for each thing that the shape asks for; none where there are too few places."""
    refused: int
    runs: int

    @property
    def effect(self) -> Measurement:
        """By how much it has the shape: the smallest of its contrasts."""
        return min(self.contrasts, key=lambda one: one.value, default=NOTHING)

    @property
    def verdict(self) -> Verdict:
        """HELPS where it has the paper's shape, UNCLEAR where it is flat within error, HURTS where neither."""
        verdicts = {one.verdict for one in self.contrasts} or {Verdict.UNCLEAR}
        return verdicts.pop() if len(verdicts) == 1 else Verdict.HURTS

    @property
    def in_words(self) -> str:
        """What it does, in a word or two."""
        interval = self.effect.interval
        if interval is None:
            return "–"
        if self.spread < _EQUAL and interval.low == interval.high == 0:
            return "the same everywhere"
        if self.verdict is Verdict.UNCLEAR:
            return "flat within error"
        if self.verdict is Verdict.HELPS:
            return "as in the paper"
        if self.shape is not Shape.BELL:
            return "the other way"
        first, last = (one.verdict for one in self.contrasts)
        if first is last:
            return "lowest in the middle"
        return "rises, no fall" if Verdict.HELPS is first or Verdict.HURTS is last else "falls, no rise"


@dataclass(frozen=True)
class CurveStudy:
    """One of the paper's figures, as we measured it."""

    question: Question
    points: tuple[CurvePoint, ...]
    levels: tuple[Level, ...]
    trends: tuple[Trend, ...]
    absent: tuple[str, ...]
    """Tasks without results, and why."""


def studies(folder: ResultsFolder) -> tuple[CurveStudy, ...]:
    """Return the paper's figures that the folder has a spec for."""
    return tuple(
        _study(question, experiments)
        for question in QUESTIONS
        if (experiments := (*folder.family(question.family), *folder.family(question.also)))
    )


def _study(question: Question, experiments: Sequence[Experiment]) -> CurveStudy:
    points = tuple(point for one in experiments for point in _points(one, question))
    return CurveStudy(
        question,
        points,
        # Two families may share a task, and then they share its lines.
        tuple({(one.task, one.stratum, one.name): one for each in experiments for one in _levels(each)}.values()),
        tuple(_trends(points, question)),
        tuple(f"{one.title}: {one.outline.missing or 'not run yet'}" for one in experiments if not one.runs),
    )


def _points(experiment: Experiment, question: Question) -> list[CurvePoint]:
    arms = [arm for arm in experiment.outline.arms if arm.axis == question.axis and arm.at is not None]
    found = []
    for stratum in (stratum for stratum in experiment.strata if stratum != "few"):
        for arm in arms:
            measured, (refused, told) = experiment.measured(arm, stratum), experiment.refused(arm, stratum)
            if measured:
                nominal = arm.release is not None and arm.release.calibration is Calibration.PAPER
                point = CurvePoint(
                    *(experiment.title, stratum, arm.curve, Variant.of(arm), float(arm.at or 0.0)),
                    exact=_exact(experiment, arm) if question.axis == "epsilon" else None,
                    nominal=nominal and question.axis == "epsilon",
                    control=Access.of(arm) is Access.CONTROL,
                    measured=measured,
                    refused=refused,
                    runs=told,
                )
                found.append(point)
    return found


def _exact(experiment: Experiment, arm: ArmOutline) -> float | None:
    known = exact_epsilon(experiment, arm)
    if known is None and arm.release is not None and arm.release.calibration is Calibration.EXACT:
        return float(arm.release.epsilon)
    return known


def _levels(experiment: Experiment) -> list[Level]:
    return [
        Level(
            *(experiment.title, stratum, arm.name, Variant.of(arm), measured),
            drawn=arm.method != "popularity",
            everywhere=arm.release is None,
        )
        for stratum in experiment.strata
        for arm in experiment.outline.arms
        if not arm.axis and stratum != "few" and (measured := experiment.measured(arm, stratum))
    ]


def _trends(points: Sequence[CurvePoint], question: Question) -> list[Trend]:
    by_curve: dict[tuple[str, str, str], list[CurvePoint]] = {}
    for point in points:
        by_curve.setdefault((point.task, point.stratum, point.curve), []).append(point)
    return [_trend(sorted(curve, key=lambda one: one.at), question) for curve in by_curve.values()]


def _trend(points: Sequence[CurvePoint], question: Question) -> Trend:
    first = points[0]
    means = [point.measured.value for point in points]
    errors = sorted(point.measured.error for point in points if not math.isnan(point.measured.error))
    return Trend(
        *(first.task, first.stratum, first.curve, first.variant, first.nominal, first.control),
        spread=max(means) - min(means),
        typical_error=errors[len(errors) // 2] if errors else math.nan,
        shape=question.shape,
        contrasts=contrasts({point.at: point.measured for point in points}, question.shape),
        refused=sum(point.refused for point in points),
        runs=sum(point.runs for point in points),
    )


def contrasts(by_place: Mapping[float, Measurement], shape: Shape) -> tuple[Measurement, ...]:
    """Return by how much figures along an axis have a shape, seed by seed, over the seeds that all of them have."""
    # On a logarithmic axis there is no place for 0, and a spec may well come from elsewhere.
    places = sorted(place for place, found in by_place.items() if found and (place > 0 or shape is Shape.BELL))
    if len(places) < shape.least_places:
        return ()
    common = sorted(set.intersection(*(set(by_place[place].by_seed) for place in places)))
    found = [
        Measurement(
            {
                seed: math.fsum(w * by_place[place].by_seed[seed] for w, place in zip(weights, places, strict=True))
                for seed in common
            }
        )
        for weights in shape.weights(places)
    ]
    return tuple(one for one in found if one)
