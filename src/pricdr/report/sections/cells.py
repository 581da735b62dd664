"""Cells that several sections share: a measurement with its error, and its seeds for those who point at it."""

import math

from pricdr.evaluation.verdict import Verdict
from pricdr.pages import Cell
from pricdr.report.measurements import Measurement, number

ABSENT = Cell("–")


def measured(value: Measurement, *, digits: int = 4, signed: bool = False, strong: bool = False) -> Cell:
    """Return a mean with its standard error."""
    if not value:
        return ABSENT
    return Cell(
        number(value.value, digits, signed=signed),
        sort=value.value,
        detail="" if math.isnan(value.error) else f"± {value.error:.{digits}f}",
        hover=[f"seed {seed}: {number(one, digits + 1)}" for seed, one in sorted(value.by_seed.items())],
        strong=strong,
    )


def share(value: Measurement) -> Cell:
    """Return a share in per cent."""
    if not value:
        return ABSENT
    percent = value.scaled(100)
    return Cell(
        f"{number(percent.value, 0)} %",
        sort=value.value,
        detail="" if math.isnan(percent.error) else f"± {percent.error:.0f}",
        hover=[f"seed {seed}: {number(one, 1)} %" for seed, one in sorted(percent.by_seed.items())],
    )


def judged(value: Measurement, words: dict[Verdict, str]) -> Cell:
    """Return what a difference comes to, in a word, with the interval behind it."""
    if not value:
        return ABSENT
    verdict = value.verdict
    return Cell(
        words[verdict], sort=value.value, hover=[value.interval_in_words()], strong=verdict is not Verdict.UNCLEAR
    )


def decimal(value: float | None, digits: int = 4, *, signed: bool = False) -> Cell:
    """Return a number of which there is only one."""
    return ABSENT if value is None else Cell(number(value, digits, signed=signed), sort=value)
