"""``RepeatedComparison``: models retrained over several splits, and verdicts that do not hang on one of them.

Student's interval, over one mean difference per split. It covers what chance did in dividing the ratings and in
training, for these users and ratings: the splits share both, so nothing follows for other ratings.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from pricdr.errors import ParameterError, printable
from pricdr.evaluation.comparison import Comparison, Ranking
from pricdr.evaluation.metrics import Float64Array
from pricdr.evaluation.paired_tests import Difference, over_repetitions, standard_error
from pricdr.evaluation.verdict import Judgement, judged, verdict_lines


class RepeatedDifference(NamedTuple):
    """How much better a model is than the first one for the users of one stratum, split by split."""

    model: str
    baseline: str
    ranking: Ranking
    stratum: str
    by_split: tuple[float, ...]
    """One mean over users for each split that has such users."""

    @property
    def difference(self) -> Difference:
        """Return the mean over splits, with Student's interval."""
        return over_repetitions(np.array(self.by_split))

    @property
    def gains(self) -> str:
        """Return the difference on each split, as text."""
        return " ".join(f"{gain:+.4f}" for gain in self.by_split)


@dataclass(frozen=True, eq=False, repr=False)
class RepeatedComparison:
    """The comparisons of the same methods on several splits; printing it shows what ``evaluate --repeat`` does."""

    comparisons: Mapping[int, Comparison]
    """By the seed of the split and of the trainings on it."""

    def __post_init__(self) -> None:
        if len(self.comparisons) < 2:
            raise ParameterError(f"a verdict over splits needs two or more, got {len(self.comparisons)}")

    @property
    def models(self) -> tuple[str, ...]:
        """Return the names of the models; the first is the baseline of every comparison."""
        return self._first.models

    @cached_property
    def differences(self) -> tuple[RepeatedDifference, ...]:
        """Return the difference in NDCG@10 between each further model and the first, split by split.

        A stratum that fewer than two splits have users of is left out.
        """
        baseline, *others = self.models
        all_of_them = (
            RepeatedDifference(model, baseline, ranking, stratum, tuple(self._gains(model, ranking, stratum)))
            for ranking in self._first.rankings
            for model in others
            for stratum in self._first.strata
        )
        return tuple(one for one in all_of_them if len(one.by_split) > 1)

    @cached_property
    def verdicts(self) -> tuple[Judgement, ...]:
        """Return whether each further model helps over the first, for warm users, those with few ratings and cold."""
        first = self._first
        return tuple(
            judgement
            for one in self.differences
            for judgement in judged([one], first.trainings, metric=first.compared_by, splits=len(one.by_split))
        )

    def to_dict(self) -> dict[str, Any]:
        """Return what ``evaluate --repeat`` adds to its JSON: every mean, split by split, and the verdicts."""
        return {
            "seeds": list(self.comparisons),
            "metric": self._first.compared_by,
            "models": {
                model: {
                    ranking: {stratum: list(self._means(model, ranking, stratum)) for stratum in self._first.strata}
                    for ranking in self._first.rankings
                }
                for model in self.models
            },
            "verdicts": [one.to_dict() for one in self.verdicts],
        }

    def lines(self) -> list[str]:
        """Return the figures and the verdicts line by line. Names are as given."""
        lines = [self.title]
        for (model, ranking), rows in groupby(self.rows(), key=lambda row: row[:2]):
            lines.append(f"  {model}, {ranking} ranking")
            lines += [f"    {stratum:<6}{figure:>17}" for *_, stratum, figure in rows]
        for one in self.differences:
            lines.append(f"  {one.model} − {one.baseline}, {one.stratum}, {one.ranking}: {one.gains}")
        return lines + verdict_lines(self.verdicts)

    @property
    def title(self) -> str:
        """Return over which splits the figures are, and what they are."""
        seeds = ", ".join(map(str, self.comparisons))
        return f"over {len(self.comparisons)} splits (seeds {seeds}), {self._first.compared_by} ± standard error"

    def rows(self) -> Iterator[tuple[str, Ranking, str, str]]:
        """Yield each model, ranking and stratum, with its mean over splits and the standard error as text."""
        for ranking in self._first.rankings:
            for model in self.models:
                for stratum in self._first.strata:
                    values = np.array(list(self._means(model, ranking, stratum)))
                    if len(values) > 1:
                        yield model, ranking, stratum, f"{values.mean():.4f} ± {standard_error(values):.4f}"

    def __str__(self) -> str:
        """Return the figures and the verdicts as text, one line each whatever the models are called."""
        return "\n".join(map(printable, self.lines()))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the figures and the verdicts for a notebook."""
        from pricdr.evaluation.comparison_html import repeated_html

        return repeated_html(self)

    @property
    def _first(self) -> Comparison:
        return next(iter(self.comparisons.values()))

    def _means(self, model: str, ranking: Ranking, stratum: str) -> Iterator[float]:
        """Yield the mean over users of each split that has any in the stratum."""
        for comparison in self.comparisons.values():
            kept = _values(comparison, model, ranking)[comparison.strata[stratum]]
            if len(kept):
                yield float(kept.mean())

    def _gains(self, model: str, ranking: Ranking, stratum: str) -> Iterator[float]:
        pairs = zip(self._means(model, ranking, stratum), self._means(self.models[0], ranking, stratum), strict=True)
        return (own - baseline for own, baseline in pairs)


def _values(comparison: Comparison, model: str, ranking: Ranking) -> Float64Array:
    return comparison.values[model][ranking][comparison.compared_by]
