"""``Comparison``: how good models are on one split, and whether the others beat the first."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol, TypeAlias

from pricdr.data.ratings import Ids, IntArray
from pricdr.data.splits import BoolArray, Split
from pricdr.errors import InputError, ParameterError, printable
from pricdr.evaluation.metrics import NAMES, Float64Array, Metrics, per_user
from pricdr.evaluation.paired_tests import Difference, compare, standard_error
from pricdr.evaluation.ranking import ScoreArray, ranks, sampled_ranks
from pricdr.evaluation.verdict import Judgement, judged, trained_with_release, verdict_lines
from pricdr.progress import Progress, silent

if TYPE_CHECKING:
    import polars as pl

Ranking: TypeAlias = Literal["sampled", "full"]
RANKINGS: Final[tuple[Ranking, ...]] = ("sampled", "full")
_TITLES: Final = {
    "sampled": "sampled ranking (99 stored negatives)",
    "full": "full ranking (all unrated items)",
}
_COMPARED: Final = "NDCG@10"
"""The metric that models are compared by."""


class ScoringModel(Protocol):
    """A model that can be evaluated: it scores items for users, both given as positions in its own lists."""

    @property
    def users(self) -> Ids:
        """Return the users it can score for: those of the split first, in the same order."""
        ...

    @property
    def items(self) -> Ids:
        """Return the items it can score: those of the split, in the same order."""
        ...

    def score(self, users: IntArray, /) -> ScoreArray:
        """Return the scores of all items, one row per user."""
        ...

    def score_candidates(self, users: IntArray, candidates: IntArray, /) -> ScoreArray:
        """Return the scores of a few items per user: those in the same row of ``candidates``."""
        ...


class PairedDifference(NamedTuple):
    """How much better a model is than the first one, over the same users of one stratum."""

    model: str
    baseline: str
    ranking: Ranking
    stratum: str
    difference: Difference


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Every metric of every evaluated user under each model; printing it shows the tables of ``pricdr evaluate``."""

    users: Ids
    """The evaluated users."""
    strata: Mapping[str, BoolArray]
    """Masks over ``users``: ``all``, ``warm`` (with ratings to train on), ``few`` (1 to 3 of them), ``cold``."""
    values: Mapping[str, Mapping[Ranking, Metrics]]
    """Model → ranking → metric → one value per user."""
    uses_release: Mapping[str, bool] = field(default_factory=dict)
    """Model → whether it was trained with a release, or on the target alone; a model that does not say is missing."""

    def __post_init__(self) -> None:
        if not self.values:
            raise ParameterError("there must be at least one model to evaluate")

    @property
    def models(self) -> tuple[str, ...]:
        """Return the names of the models; the first is the baseline of every comparison."""
        return tuple(self.values)

    @property
    def rankings(self) -> tuple[Ranking, ...]:
        """Return the rankings that were measured."""
        return tuple(next(iter(self.values.values())))

    @property
    def compared_by(self) -> str:
        """Return the metric that models are compared by."""
        return _COMPARED

    @cached_property
    def differences(self) -> tuple[PairedDifference, ...]:
        """Return the difference in NDCG@10 between each further model and the first, per ranking and stratum."""
        baseline, *others = self.models
        return tuple(
            PairedDifference(
                model, baseline, ranking, stratum, compare(self._compared(model, ranking)[keep], base[keep])
            )
            for ranking in self.rankings
            for base in (self._compared(baseline, ranking),)
            for model in others
            for stratum, keep in self.strata.items()
            if keep.any()
        )

    @cached_property
    def verdicts(self) -> tuple[Judgement, ...]:
        """Return whether each further model helps over the first, for warm users, those with few ratings and cold."""
        return judged(self.differences, self.uses_release, metric=self.compared_by)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as ``pricdr evaluate --json`` writes them.

        Ranking → stratum → metric → mean over users, and how many users there are; under the model's name first where
        there is more than one model. A stratum without users has zeros.
        """
        figures: dict[str, Any] = {
            model: {ranking: self._means(metrics) for ranking, metrics in rankings.items()}
            for model, rankings in self.values.items()
        }
        return figures if len(figures) > 1 else dict(figures[self.models[0]])

    def to_frame(self) -> "pl.DataFrame":
        """Return one row per model, ranking, stratum and metric: its value, its standard error, and the users.

        Both are null where a stratum has no users, and the standard error where it has one.
        """
        import polars as pl

        rows = []
        for model, ranking, stratum, keep in self._cells():
            for metric, values in self.values[model][ranking].items():
                kept = values[keep]
                value = float(kept.mean()) if len(kept) else None
                error = standard_error(kept) if len(kept) > 1 else None
                rows.append((model, ranking, stratum, metric, value, error, len(kept)))
        texts = dict.fromkeys(("model", "ranking", "stratum", "metric"), pl.String)
        numbers = {"value": pl.Float64, "standard_error": pl.Float64, "users": pl.Int64}
        return pl.DataFrame(rows, schema={**texts, **numbers}, orient="row")

    def per_user(self) -> "pl.DataFrame":
        """Return one row per model, ranking and user, with every metric: what ``evaluate --per-user`` writes."""
        import polars as pl

        users, cold = pl.Series(self.users, dtype=pl.String), pl.Series(self.strata["cold"])
        return pl.concat(
            pl.DataFrame({"user": users, "cold": cold, **metrics}).with_columns(
                pl.lit(model).alias("model"), pl.lit(ranking).alias("ranking")
            )
            for model, rankings in self.values.items()
            for ranking, metrics in rankings.items()
        )

    def lines(self) -> list[str]:
        """Return the tables and comparisons line by line, as ``pricdr evaluate`` prints them.

        Names are as given: whoever shows a line to people escapes what is not printable in it.
        """
        lines = []
        for ranking in self.rankings:
            lines.append(_TITLES[ranking])
            for model in self.models:
                lines += [f"  {model}", *self._table(self.values[model][ranking])]
            for one in self.differences:
                if one.ranking == ranking:
                    d = one.difference
                    interval = f"[{d.low:+.4f}, {d.high:+.4f}], p = {d.p_value:.4f}"
                    lines.append(f"  {one.model} − {one.baseline}, {one.stratum}: {_COMPARED} {d.mean:+.4f} {interval}")
        return lines + verdict_lines(self.verdicts)

    def __str__(self) -> str:
        """Return the tables and comparisons as text, one line each whatever the models are called."""
        return "\n".join(map(printable, self.lines()))

    __repr__ = __str__

    def _cells(self) -> Iterator[tuple[str, Ranking, str, BoolArray]]:
        for model, rankings in self.values.items():
            for ranking in rankings:
                for stratum, keep in self.strata.items():
                    yield model, ranking, stratum, keep

    def _compared(self, model: str, ranking: Ranking) -> Float64Array:
        return self.values[model][ranking][_COMPARED]

    def _means(self, metrics: Metrics) -> dict[str, dict[str, float]]:
        return {
            stratum: {
                **{name: float(metrics[name][keep].mean()) if keep.any() else 0.0 for name in NAMES},
                "users": int(keep.sum()),
            }
            for stratum, keep in self.strata.items()
        }

    def _table(self, metrics: Metrics) -> Iterator[str]:
        yield f"    {'':<6}{'users':>8}" + "".join(f"{name:>18}" for name in NAMES)
        for stratum, keep in self.strata.items():
            kept = [metrics[name][keep] for name in NAMES]
            cells = [f"{own.mean():.4f} ± {standard_error(own):.4f}" if len(own) else "–" for own in kept]
            yield f"    {stratum:<6}{keep.sum():>8,}" + "".join(f"{cell:>18}" for cell in cells)


def evaluate(
    models: Mapping[str, ScoringModel],
    split: Split,
    *,
    ranking: Literal["both", "sampled", "full"] = "both",
    progress: Progress = silent,
) -> Comparison:
    """Rank every user's held-out test item under each model and compare the models, user by user.

    Args:
        models: Models trained on ``split.train``, by name; the others are compared with the first.
        split: What :func:`pricdr.split` held out.
        ranking: Among the 99 stored negatives (sampled), among all items the user has not rated (full), or both.
        progress: Called while users are ranked.

    Returns:
        The figures; ``print`` shows them as tables, ``to_frame`` gives a data frame.

    Raises:
        InputError: A model has other users or items than the split, or was trained on what the split holds out.
    """
    rankings = chosen_rankings(ranking)
    measured = {name: measure(name, model, split, rankings, progress) for name, model in models.items()}
    return compared(measured, split, {name: trained_with_release(model) for name, model in models.items()})


def chosen_rankings(ranking: str) -> tuple[Ranking, ...]:
    """Return the rankings that an option of ``both``, ``sampled`` or ``full`` stands for.

    >>> chosen_rankings("both"), chosen_rankings("full")
    (('sampled', 'full'), ('full',))
    """
    chosen = RANKINGS if ranking == "both" else tuple(name for name in RANKINGS if name == ranking)
    if not chosen:
        raise ParameterError(f"ranking must be both, sampled or full, got {ranking!r:.40}")
    return chosen


def compared(
    values: Mapping[str, Mapping[Ranking, Metrics]], split: Split, uses_release: Mapping[str, bool | None] | None = None
) -> Comparison:
    """Return the comparison of models that were measured on ``split``, see :func:`measure`.

    ``uses_release`` says which were trained with a release, see :func:`trained_with_release`.
    """
    known = {name: used for name, used in (uses_release or {}).items() if used is not None}
    return Comparison(tuple(split.train.users[at] for at in split.test.users), split.strata(), values, known)


def measure(
    name: str, model: ScoringModel, split: Split, rankings: Sequence[Ranking], progress: Progress = silent
) -> dict[Ranking, Metrics]:
    """Return every metric of every evaluated user under one model; ``name`` is what errors call it."""
    if model.users[: len(split.train.users)] != split.train.users or model.items != split.train.items:
        raise InputError(f"{name} has other users or items than the split")
    # Models here remember what they were trained on; an export does not, and of other kinds nothing can be checked.
    if getattr(model, "summary", None) is not None:
        raise InputError(f"{name} was exported: it no longer records what it was trained on")
    seen = getattr(model, "seen", None)
    if seen is not None and seen[split.test.users, split.test.items].any():
        raise InputError(f"{name} was not trained on this split: it has seen ratings that are held out here")
    # All items have to be scored for the full ranking, and the sampled one then comes for free.
    if list(rankings) == ["sampled"]:
        return {"sampled": per_user(sampled_ranks(model.score_candidates, split.test))}
    sampled, full = ranks(model.score, split.test, split.train.matrix, progress=progress)
    measured: dict[Ranking, Metrics] = {"sampled": per_user(sampled), "full": per_user(full)}
    return {ranking: measured[ranking] for ranking in rankings}
