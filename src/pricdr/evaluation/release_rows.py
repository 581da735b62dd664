"""Who gains from a release: users whose release row a model uses and users without one, warm and cold separately."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from pricdr.evaluation.paired_tests import Difference, compare
from pricdr.evaluation.verdict import training_of

if TYPE_CHECKING:
    from pricdr.data.splits import BoolArray, Split
    from pricdr.evaluation.comparison import Comparison, Ranking

STRATA: Final = ("warm", "cold")


@dataclass(frozen=True)
class RowGroup:
    """The users of one stratum with, or without, a release row that a model uses."""

    model: str
    ranking: "Ranking"
    stratum: str
    row: bool
    """Whether the model uses a row of these users."""
    users: int
    value: float | None
    """The mean of the metric that models are compared by; None if there are no such users."""
    baseline: str | None
    """The first model; None if this is the first."""
    baseline_value: float | None
    difference: Difference | None
    """The difference to the baseline over the same users."""

    def to_dict(self) -> dict[str, Any]:
        """Return the group as ``pricdr evaluate --json`` writes it."""
        return asdict(self)


def rows_used(model: object, split: "Split") -> "BoolArray | None":
    """Return for which evaluated users a model uses a release row; None without a release, or if that is not known.

    The users of the split come first among those of a model, in the same order.
    """
    used, training = getattr(model, "in_release", None), training_of(model)
    if used is None or training is None or not training.with_release:
        return None
    rows: BoolArray = used[split.test.evaluated]
    return rows


def row_groups(comparison: "Comparison") -> Iterator[RowGroup]:
    """Yield the four groups of every ranking, for each model that uses release rows."""
    first = comparison.models[0]
    for model, used in comparison.release_rows.items():
        for ranking in comparison.rankings:
            for stratum in STRATA:
                for row in (True, False):
                    keep = comparison.strata[stratum] & (used if row else ~used)
                    baseline = None if model == first else first
                    yield _group(comparison, model, ranking, stratum, row, keep, baseline)


def _group(
    comparison: "Comparison",
    model: str,
    ranking: "Ranking",
    stratum: str,
    row: bool,
    keep: "BoolArray",
    baseline: str | None,
) -> RowGroup:
    own, others = (
        None if name is None else comparison.values[name][ranking][comparison.compared_by][keep]
        for name in (model, baseline)
    )
    assert own is not None
    if not len(own):
        return RowGroup(model, ranking, stratum, row, 0, None, baseline, None, None)
    difference = None if others is None else compare(own, others)
    other_value = None if others is None else float(others.mean())
    return RowGroup(model, ranking, stratum, row, len(own), float(own.mean()), baseline, other_value, difference)
