"""Whether one model is better than another over the same users: an interval, a test, and a sentence.

A model helps where the 95 % interval of its gain lies above 0 and a paired test agrees (p ≤ 0.05); it hurts where both
say the opposite. The two differ over a handful of users: there the bootstrap's interval is too narrow, and the test,
which flips signs, cannot reach 0.05 with fewer than six.

Verdicts on warm, few and cold users are not corrected for being three: each is acted on by itself, and must agree with
the interval beside it. The price: where nothing differs, about one comparison in seven has a word other than "cannot be
told" for one of them. Repetitions over several splits bring that to light.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from itertools import groupby
from typing import Any, Final, NamedTuple

import numpy as np

from pricdr.arrays import Float64Array
from pricdr.errors import InputError
from pricdr.randomness import Simulation

CONFIDENCE: Final = 0.95
_RESAMPLES: Final = 10_000
_CELLS: Final = 1 << 19  # users x resamples that are held in memory at a time


@dataclass(frozen=True)
class Difference:
    """A mean difference: with a bootstrap's interval and a sign-flip test over users, Student's over repetitions."""

    mean: float
    low: float
    high: float
    p_value: float


def standard_error(values: Float64Array) -> float:
    """Return the standard error of a mean over users; nan for fewer than two."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def clearly_above(own: Float64Array, other: Float64Array) -> bool:
    """Return whether one model beats another, user by user, by more than a standard error; no for a single user.

    The rule by which every method decides whether a release is worth using.

    >>> clearly_above(np.array([1.0, 1.0, 1.0]), np.array([0.0, 0.5, 0.0])), clearly_above(np.ones(1), np.zeros(1))
    (True, False)
    """
    gain = own - other
    return bool(gain.mean() > standard_error(gain))


def compare(left: Float64Array, right: Float64Array, *, seed: int = 0) -> Difference:
    """Compare two models user by user.

    The interval resamples users (percentile bootstrap); the test flips the sign of each user's difference, which is
    exact for "no user prefers either model systematically".

    >>> d = compare(np.array([1.0, 0.0, 1.0, 1.0]), np.array([1.0, 0.0, 1.0, 1.0]))
    >>> d.mean, d.p_value
    (0.0, 1.0)
    """
    if left.shape != right.shape or left.ndim != 1 or not len(left):
        raise InputError(f"two models can be compared over the same users only, got {len(left)} and {len(right)}")
    difference, simulation = left - right, Simulation(seed)
    low, high = _interval(difference, simulation)
    return Difference(float(difference.mean()), low, high, _sign_flip_p_value(difference, simulation))


def over_repetitions(differences: Float64Array) -> Difference:
    """Return the mean of one difference per repetition, with Student's interval and test.

    >>> over_repetitions(np.array([0.01, 0.02, 0.03])).low < 0 < over_repetitions(np.array([0.019, 0.02, 0.021])).low
    True
    """
    from scipy.special import stdtr, stdtrit  # not scipy.stats, whose test takes a hundred times as long

    n = len(differences)
    if n < 2:
        raise InputError(f"an interval over repetitions needs two or more, got {n}")
    mean = float(differences.mean())
    if not np.ptp(differences):  # no spread at all: Student's formula would divide by it
        return Difference(mean, mean, mean, 0.0 if mean else 1.0)
    error = standard_error(differences)
    half = float(stdtrit(n - 1, (1 + CONFIDENCE) / 2)) * error
    return Difference(mean, mean - half, mean + half, 2 * float(stdtr(n - 1, -abs(mean) / error)))


def _interval(difference: Float64Array, simulation: Simulation) -> tuple[float, float]:
    from scipy.stats import bootstrap  # half a second to import, and models need nothing else of this module

    if len(difference) == 1:  # scipy refuses what has only one resample
        return float(difference[0]), float(difference[0])
    interval = bootstrap(
        (difference,),
        np.mean,
        n_resamples=_RESAMPLES,
        batch=max(1, _CELLS // len(difference)),
        vectorized=True,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=simulation.generator("bootstrap"),
    ).confidence_interval
    return float(interval.low), float(interval.high)


def _sign_flip_p_value(difference: Float64Array, simulation: Simulation) -> float:
    """Return how often random signs give a mean as far from 0: ``scipy.stats`` takes 46 s where this takes 0.3 s."""
    n, total, rng = len(difference), difference.sum(), simulation.generator("sign flips")
    block, width = max(1, _CELLS // n), -(-n // 8)
    # Sums that are equal on paper differ by rounding, depending on the order of their terms.
    least, beyond = abs(total) - 1e-12 * np.abs(difference).sum(), 0
    for start in range(0, _RESAMPLES, block):
        size = min(block, _RESAMPLES - start)
        random_bytes = np.frombuffer(rng.bytes(size * width), dtype=np.uint8).reshape(size, width)
        kept = np.unpackbits(random_bytes, axis=1, count=n) @ difference  # those whose sign is not flipped
        beyond += int((np.abs(2 * kept - total) >= least).sum())
    return (beyond + 1) / (_RESAMPLES + 1)


JUDGED: Final = {"warm": "warm users", "few": "users with few ratings", "cold": "cold users"}
"""The strata with a verdict, and what a sentence calls them; ``all`` would mix what must be kept apart."""
SIGNIFICANCE: Final = 0.05
WITHOUT_RELEASE: Final = {
    "hetero": "hetero",
    "hetero-paper": "dmf",
    "symmetric": "dmf",
    "ease-release": "ease",
    "ridge-release": "popularity",
}
"""What is left of each method without a release: only beside it does one show. EASE with any beats what is popular."""


class Training(NamedTuple):
    """What a model was trained by."""

    method: str
    with_release: bool

    @classmethod
    def of(cls, model: object) -> "Training | None":
        """Return what a model was trained by; None where it does not say, or saw the source's ratings."""
        origin = getattr(model, "origin", None)
        if origin is None or origin.plaintext_source:
            return None
        return cls(str(getattr(model, "method", "")), bool(origin.releases))


class Verdict(Enum):
    """What a difference comes to."""

    HELPS = "helps"
    HURTS = "hurts"
    UNCLEAR = "cannot be told"

    @classmethod
    def of(cls, difference: Difference) -> "Verdict":
        """Return the verdict on a difference: its interval and its test must agree.

        >>> Verdict.of(Difference(0.02, 0.01, 0.03, 0.001)), Verdict.of(Difference(0.02, 0.01, 0.03, 0.2))
        (<Verdict.HELPS: 'helps'>, <Verdict.UNCLEAR: 'cannot be told'>)
        """
        if difference.p_value > SIGNIFICANCE:
            return cls.UNCLEAR
        return cls.HELPS if difference.low > 0 else cls.HURTS if difference.high < 0 else cls.UNCLEAR


@dataclass(frozen=True)
class PairedDifference:
    """How much better a model is than the first one, over the same users of one stratum, or on the same splits."""

    model: str
    baseline: str
    ranking: str
    stratum: str
    metric: str
    difference: Difference
    by_split: tuple[float, ...] = ()
    """Of several splits: one mean over users for each that has such users."""
    trainings: tuple[Training | None, Training | None] = (None, None)

    def about(self) -> dict[str, str]:
        """Return what is compared with what, by whom, for whom and by which metric."""
        return {name: getattr(self, name) for name in ("model", "baseline", "ranking", "stratum", "metric")}

    @property
    def verdict(self) -> Verdict:
        """Return whether the model helps over the baseline."""
        return Verdict.of(self.difference)

    @property
    def fair_baseline(self) -> str | None:
        """Return the method beside which a release shows, where the model saw one and the baseline none."""
        model, baseline = self.trainings
        # Only where a release is on one side alone can the difference be about it.
        asked = model is not None and baseline is not None and model.with_release and not baseline.with_release
        return WITHOUT_RELEASE.get(model.method) if asked and model is not None else None

    @property
    def about_release(self) -> bool:
        """Return whether the release is what they differ in: the baseline is the model's method without one."""
        baseline = self.trainings[1]
        return baseline is not None and baseline.method == self.fair_baseline

    @property
    def sentence(self) -> str:
        """Return the verdict in words, with the interval it rests on. Names are as given."""
        d, splits = self.difference, max(len(self.by_split), 1)
        subject = "the release" if self.about_release else self.model
        against = "" if self.about_release else f" over {self.baseline}"
        if d.low == d.high == 0:
            same = f"{self.metric} is the same {'for every user' if splits == 1 else 'on every split'}"
            return f"{JUDGED[self.stratum]}: {subject} makes no difference{against}, {same}"
        unclear = self.verdict is Verdict.UNCLEAR
        words = f"it cannot be told whether {subject} helps" if unclear else f"{subject} {self.verdict.value}"
        interval = f"95 % interval {d.low:+.4f} to {d.high:+.4f}"
        over = f", over {splits} splits" if splits > 1 else ""
        return f"{JUDGED[self.stratum]}: {words}{against} ({self.metric} {d.mean:+.4f}, {interval}{over})"

    @property
    def advice(self) -> tuple[str, ...]:
        """Return what to compare with instead, where this comparison says nothing about the release."""
        fair = self.fair_baseline
        if fair is None or self.about_release:
            return ()
        return (f"what the release adds shows only beside {fair}: train that on the same split, and name it first",)

    def to_dict(self) -> dict[str, Any]:
        """Return it as ``pricdr evaluate --json`` writes a verdict."""
        d = self.difference
        figures = {"difference": d.mean, "low": d.low, "high": d.high, "p_value": d.p_value}
        says = {"verdict": self.verdict.value, "about_release": self.about_release}
        return {**self.about(), **says, **figures, "splits": max(len(self.by_split), 1), "sentence": self.sentence}


def verdict_lines(verdicts: Iterable[PairedDifference]) -> list[str]:
    """Return the sentences line by line, under one heading for each pair of models and ranking."""
    lines = []
    for pair, group in groupby(verdicts, key=lambda one: (one.model, one.baseline, one.ranking)):
        about, *others = group
        question = "does the release help?" if about.about_release else "does it help?"
        lines.append("{} against {}, {} ranking: {}".format(*pair, question))
        lines += [f"  {sentence}" for sentence in (*(one.sentence for one in (about, *others)), *about.advice)]
    return lines
