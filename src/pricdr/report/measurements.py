"""One number per seed: its mean, its error, what a difference comes to, and how a page shows it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from pricdr.evaluation.verdict import Difference, Verdict, over_repetitions
from pricdr.experiments.results import Mean, mean
from pricdr.pages import Cell

ABSENT: Final = Cell("–")


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

    def cell(self, *, mark: str = "", strong: bool = False) -> Cell:
        """Return the mean with its standard error, and every seed for those who point at it."""
        if not self:
            return ABSENT
        error = "" if math.isnan(self.mean.error) else f"± {self.mean.error:.4f}"
        seeds = [f"seed {seed}: {number(one, 5)}" for seed, one in sorted(self.by_seed.items())]
        return Cell(number(self.value), self.value, error, seeds, mark, strong)

    def share_cell(self) -> Cell:
        """Return the same for a share, in per cent."""
        if not self:
            return ABSENT
        shown, _, error = self.percent().removesuffix(" %").partition(" ± ")
        seeds = [f"seed {seed}: {number(100 * one, 1)} %" for seed, one in sorted(self.by_seed.items())]
        return Cell(f"{shown} %", self.value, f"± {error}" if error else "", seeds)


NOTHING: Final = Measurement({})
"""Of an arm without results."""


def number(value: float, digits: int = 4, *, signed: bool = False) -> str:
    """Return a number with a proper minus sign, and none on a zero.

    >>> number(-0.00001), number(-0.5, 1), number(0.5, 1, signed=True)
    ('0.0000', '−0.5', '+0.5')
    """
    text = f"{value:{'+' if signed else ''}.{digits}f}"
    return text.replace("-", "−") if math.isnan(value) or float(text) else f"{0:.{digits}f}"
