"""One number per seed: its mean, its error, and what a difference comes to."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pricdr.evaluation.verdict import Difference, Verdict, over_repetitions
from pricdr.experiments.results import mean

MINUS = "−"


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

    @property
    def seeds(self) -> int:
        """How many seeds it has."""
        return len(self.by_seed)

    @property
    def value(self) -> float:
        """The mean over seeds; nan without any."""
        return mean(self.by_seed.values()).value if self.by_seed else math.nan

    @property
    def error(self) -> float:
        """Its standard error; nan with fewer than two seeds."""
        return mean(self.by_seed.values()).error if self.by_seed else math.nan

    @cached_property
    def interval(self) -> Difference | None:
        """Student's 95 % interval and test over seeds; None with fewer than two."""
        # Results have six digits; what differs in the ninth is equal, and Student's formula would divide by it.
        return over_repetitions(np.round([*self.by_seed.values()], 9)) if self.seeds > 1 else None

    @property
    def verdict(self) -> Verdict:
        """Whether a difference is above 0, below it, or cannot be told from it; a single seed tells nothing."""
        interval = self.interval
        return Verdict.UNCLEAR if interval is None else Verdict.of(interval)

    def in_words(self, digits: int = 4, *, signed: bool = False) -> str:
        """Return the mean and its standard error.

        >>> pair, single = Measurement({1: 0.31, 2: 0.33}), Measurement({1: -0.5})
        >>> pair.in_words(), single.in_words(2, signed=True), Measurement({}).in_words()
        ('0.3200 ± 0.0100', '−0.50', '')
        """
        if not self:
            return ""
        error = "" if math.isnan(self.error) else f" ± {self.error:.{digits}f}"
        return f"{number(self.value, digits, signed=signed)}{error}"

    def percent(self) -> str:
        """Return a share, in per cent.

        >>> Measurement({1: 0.71, 2: 0.77}).percent(), Measurement({1: -0.02}).percent()
        ('74 ± 3 %', '−2 %')
        """
        return f"{self.scaled(100).in_words(0)} %" if self else ""

    def seeds_in_words(self, digits: int = 4) -> str:
        """Return the number of each seed, for those who want to look closer.

        >>> Measurement({2: 0.33, 1: 0.31}).seeds_in_words(2)
        'seed 1: 0.31, seed 2: 0.33'
        """
        return ", ".join(f"seed {seed}: {number(self.by_seed[seed], digits)}" for seed in sorted(self.by_seed))

    def interval_in_words(self, digits: int = 4) -> str:
        """Return a difference and its 95 % interval over seeds, in brackets.

        >>> Measurement({1: 0.01, 2: 0.01}).interval_in_words(), Measurement({1: 0.01}).interval_in_words()
        ('+0.0100 with every seed', '+0.0100, one seed')
        >>> Measurement({1: 0.01, 2: 0.02, 3: 0.03}).interval_in_words(3)
        '+0.020 [−0.005, +0.045]'
        """
        interval, value = self.interval, number(self.value, digits, signed=True)
        if interval is None:
            return f"{value}, one seed" if self else "not measured"
        if interval.low == interval.high:
            return f"{value} with every seed"
        low, high = (number(end, digits, signed=True) for end in (interval.low, interval.high))
        return f"{value} [{low}, {high}]"


NOTHING = Measurement({})
"""Of an arm without results."""


def number(value: float, digits: int = 4, *, signed: bool = False) -> str:
    """Return a number with a proper minus sign, and none on a zero.

    >>> number(-0.00001), number(-0.5, 1), number(0.5, 1, signed=True)
    ('0.0000', '−0.5', '+0.5')
    """
    text = f"{value:{'+' if signed else ''}.{digits}f}"
    if not float(text):
        return f"{0:.{digits}f}"
    return text.replace("-", MINUS)
