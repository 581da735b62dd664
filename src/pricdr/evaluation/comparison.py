"""``Comparison``: how good models are on one split or on several, and whether the others beat the first."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from pricdr.arrays import BoolArray, Float64Array, IntArray
from pricdr.data.ratings import Ids
from pricdr.data.splits import ONE_AT_RANDOM, Split
from pricdr.errors import InputError, ParameterError, printable
from pricdr.evaluation.metrics import CUTOFFS, MEASURES, OF_ONE_ITEM, Metrics, averaged, of_lists, require_cutoffs
from pricdr.evaluation.ranking import ScoreArray, ranks, sampled_ranks
from pricdr.evaluation.verdict import (
    CONFIDENCE,
    JUDGED,
    Difference,
    PairedDifference,
    Training,
    compare,
    over_repetitions,
    standard_error,
    verdict_lines,
)
from pricdr.pages import Table, summary_html, table
from pricdr.progress import Progress, shown

if TYPE_CHECKING:
    from pricdr.data.tables import Library


Ranking: TypeAlias = Literal["sampled", "full"]
ReleaseGroups: TypeAlias = Sequence[tuple[tuple[int, ...], BoolArray]]  # numbers of releases, and whose rows these are
RANKINGS: Final[tuple[Ranking, ...]] = ("sampled", "full")
_TITLES: Final = {
    "sampled": "sampled ranking (99 stored negatives)",
    "full": "full ranking (all unrated items)",
}
_AVERAGED: Final = "sampled ranking (each test item among its own 99 stored negatives, averaged per user)"
ONE_ITEM: Final = "one test item per user: Recall is HR, and MAP is MRR"
_COLUMNS: Final = 7  # figures side by side in a table of text: the number of users, and two times three metrics
_SCHEMA_VERSION: Final = 3


class ScoringModel(Protocol):
    """A model that can be evaluated: it scores items for users, both given as positions in its own lists."""

    @property
    def users(self) -> Ids:
        """Return the users it can score for: those of the split first, in the same order."""

    @property
    def items(self) -> Ids:
        """Return the items it can score: those of the split, in the same order."""

    def score(self, users: IntArray, /) -> ScoreArray:
        """Return the scores of all items, one row per user."""

    def score_candidates(self, users: IntArray, candidates: IntArray, /) -> ScoreArray:
        """Return the scores of a few items per user: those in the same row of ``candidates``."""


class _Compared(ABC):
    """What a comparison on one split and one over several share."""

    @cached_property
    @abstractmethod
    def differences(self) -> tuple[PairedDifference, ...]:
        """Return the difference between each further model and the first, by the metric that models are compared by."""

    @abstractmethod
    def lines(self) -> list[str]:
        """Return tables and verdicts line by line. Names are as given: whoever shows a line to people escapes them."""

    @property
    def verdicts(self) -> tuple[PairedDifference, ...]:
        """Return whether each further model helps over the first, for warm users, those with few ratings and cold."""
        return tuple(one for one in self.differences if one.stratum in JUDGED)

    def __str__(self) -> str:
        """Return tables and verdicts as text, one line each whatever the models are called."""
        return "\n".join(map(printable, self.lines()))

    __repr__ = __str__


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(_Compared):
    """Every metric of every evaluated user under each model; printing it shows the tables of ``pricdr evaluate``."""

    users: Ids
    """The evaluated users."""
    strata: Mapping[str, BoolArray]
    """Masks over ``users``: ``all``, ``warm`` (with ratings to train on), ``few`` (1 to 3 of them), ``cold``."""
    values: Mapping[str, Mapping[Ranking, Metrics]]
    """Model → ranking → metric → one value per user."""
    trainings: Mapping[str, Training] = field(default_factory=dict)
    """Model → its method, and whether it saw a release or the target alone; a model that does not say is missing."""
    cutoffs: tuple[int, ...] = CUTOFFS
    """The k of the metrics, ascending."""
    test_items: int | None = None
    """How many items are held out to test by, where a user may have several."""
    protocol: str = ONE_AT_RANDOM
    """What was tested by, in words."""
    release_rows: Mapping[str, ReleaseGroups] = field(default_factory=dict)
    """Model → users by the releases of which it uses their rows; a model without a release is missing."""

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
    def metrics(self) -> tuple[str, ...]:
        """Return the metrics worth showing, by k: with one test item per user Recall and MAP repeat HR and MRR."""
        measures = OF_ONE_ITEM if self.one_item_each else MEASURES
        names = (f"{measure}@{k}" for k in self.cutoffs for measure in measures)
        return tuple(name for name in names if name in self.values[self.models[0]][self.rankings[0]])

    @property
    def one_item_each(self) -> bool:
        """Return whether every user has one test item."""
        return self.test_items is None or self.test_items == len(self.users)

    @property
    def compared_by(self) -> str:
        """Return the metric that models are compared by: NDCG@10, or at the largest k where 10 is none of them."""
        return f"NDCG@{10 if 10 in self.cutoffs else self.cutoffs[-1]}"

    @cached_property
    def differences(self) -> tuple[PairedDifference, ...]:
        """Return the difference between each further model and the first, per ranking and stratum."""
        baseline, *others = self.models
        return tuple(
            self.difference(model, ranking, stratum, compare(self._compared(model, ranking)[keep], base[keep]))
            for ranking in self.rankings
            for base in (self._compared(baseline, ranking),)
            for model in others
            for stratum, keep in self.strata.items()
            if keep.any()
        )

    def difference(
        self, model: str, ranking: Ranking, stratum: str, difference: Difference, by_split: tuple[float, ...] = ()
    ) -> PairedDifference:
        """Return a difference between a model and the first, with all that a verdict on it needs."""
        first, metric = self.models[0], self.compared_by
        trainings = self.trainings.get(model), self.trainings.get(first)
        return PairedDifference(model, first, ranking, stratum, metric, difference, by_split, trainings)

    def to_dict(self) -> dict[str, Any]:
        """Return all that ``pricdr evaluate`` shows, as ``--json`` writes it; the user guide lists the keys.

        Beside the keys of this version stand the figures where version 1 had them: under ``sampled`` and ``full``, or
        under the models' names where there are several. A stratum without users has zeros.
        """
        figures: dict[str, Any] = {
            model: {
                ranking: {stratum: self._figures(model, ranking, stratum) for stratum in self.strata}
                for ranking in rankings
            }
            for model, rankings in self.values.items()
        }
        layout = {
            "schema_version": _SCHEMA_VERSION,
            "protocol": self.protocol,
            "users": len(self.users),
            "test_items": len(self.users) if self.test_items is None else self.test_items,
            "cutoffs": list(self.cutoffs),
            "rankings": list(self.rankings),
            "models": figures,
            "compared_by": self.compared_by,
            "differences": [
                {**one.about(), "confidence": CONFIDENCE, **asdict(one.difference)} for one in self.differences
            ],
            "verdicts": [one.to_dict() for one in self.verdicts],
            "trainings": {name: one._asdict() for name, one in self.trainings.items()},
            "release_rows": list(self._row_groups()),
        }
        before: dict[str, Any] = figures if len(figures) > 1 else figures[self.models[0]]
        return {**layout, **{name: value for name, value in before.items() if name not in layout}}

    def to_frame(self, library: "Library | None" = None) -> Any:  # noqa: ANN401 - of whatever library there is
        """Return a data frame with one row per model, ranking, stratum and metric; of which library, ``Ratings`` says.

        Its value and its standard error are missing where a stratum has no users, and the latter where it has one.
        """
        from pricdr.data.tables import texts, to_frame

        names = [
            (model, ranking, stratum, metric)
            for model, rankings in self.values.items()
            for ranking, metrics in rankings.items()
            for stratum, metric in product(self.strata, metrics)
        ]
        text = zip(("model", "ranking", "stratum", "metric"), map(texts, zip(*names, strict=True)), strict=True)
        means, errors, users = map(np.array, zip(*(self.figure(*name) for name in names), strict=True))
        return to_frame({**dict(text), "value": means, "standard_error": errors, "users": users}, library)

    def figure(self, model: str, ranking: Ranking, stratum: str, metric: str) -> tuple[float, float, int]:
        """Return a mean, its standard error and the number of users; nan where there are too few of them."""
        kept = self.values[model][ranking][metric][self.strata[stratum]]
        return float(kept.mean()) if len(kept) else np.nan, standard_error(kept), len(kept)

    def per_user(self, library: "Library | None" = None) -> Any:  # noqa: ANN401 - of whatever library there is
        """Return a data frame with one row per model, ranking and user, and every metric; see :meth:`to_frame`."""
        from pricdr.data.tables import to_frame

        return to_frame(self.columns_per_user(), library)

    def columns_per_user(self) -> "dict[str, npt.NDArray[Any]]":
        """Return every metric of every user under each model and ranking: what ``evaluate --per-user`` writes."""
        from pricdr.data.tables import texts

        measured = [(model, *ranked) for model, rankings in self.values.items() for ranked in rankings.items()]
        each = np.repeat(np.arange(len(measured)), len(self.users))
        metrics = {name: np.concatenate([values[name] for *_, values in measured]) for name in measured[0][2]}
        return {
            "user": np.tile(texts(self.users), len(measured)),
            "cold": np.tile(self.strata["cold"], len(measured)),
            **metrics,
            "model": texts([model for model, *_ in measured], each),
            "ranking": texts([ranking for _, ranking, _ in measured], each),
        }

    def lines(self) -> list[str]:
        """Return the tables and verdicts line by line, as ``pricdr evaluate`` prints them."""
        lines = [] if self.protocol == ONE_AT_RANDOM else [f"tested by {self.protocol}"]
        for ranking in self.rankings:
            lines += [self.title(ranking), *_text_of(self.tables(ranking))]
        return lines + ([ONE_ITEM] if self.one_item_each else []) + verdict_lines(self.verdicts)

    def title(self, ranking: Ranking) -> str:
        """Return what a ranking is called, and among which candidates it ranks."""
        return _TITLES[ranking] if self.one_item_each or ranking != "sampled" else _AVERAGED

    def cell(self, model: str, ranking: Ranking, stratum: str, metric: str) -> str:
        """Return a mean with its standard error as text."""
        return _cell(*self.figure(model, ranking, stratum, metric))

    def tables(self, ranking: Ranking) -> list[Table]:
        """Return one row per model and kind of users with every metric, and the differences from the first model."""
        figures = [
            (model, stratum, f"{keep.sum():,}", *(self.cell(model, ranking, stratum, name) for name in self.metrics))
            for model, (stratum, keep) in product(self.models, self.strata.items())
        ]
        header = ("model", "kind", "users", *self.metrics)
        tables = [table(f"{ranking}-figures", f"{ranking} ranking", header, figures, names=2)]
        differences = [
            (one.model, one.stratum, f"{d.mean:+.4f}", f"[{d.low:+.4f}, {d.high:+.4f}]", f"{d.p_value:.4f}")
            for one in self.differences
            for d in (one.difference,)
            if one.ranking == ranking
        ]
        if differences:
            header = ("model", "kind", self.compared_by, "95 % interval", "p-value")
            caption = f"{ranking} ranking, difference from {self.models[0]}"
            tables.append(table(f"{ranking}-differences", caption, header, differences, names=2))
        return tables

    def _repr_html_(self) -> str:
        tables = [table for ranking in self.rankings for table in self.tables(ranking)]
        facts = {"models": f"{len(self.models):,}", "users": f"{len(self.users):,}"}
        note = "A figure is a mean over users ± its standard error; an interval covers 95 %."
        return summary_html("Comparison", facts, tables=tables, notes=(note, *verdict_lines(self.verdicts)))

    def _row_groups(self) -> Iterator[dict[str, Any]]:
        """Yield who gains from releases: for each model, users by the releases it has rows of, warm and cold."""
        first = self.models[0]
        groups = [(model, *group) for model, found in self.release_rows.items() for group in found]
        for (model, releases, members), ranking, stratum in product(groups, self.rankings, ("warm", "cold")):
            keep = self.strata[stratum] & members
            own, other = (self._compared(name, ranking)[keep] for name in (model, first))
            compares = model != first and len(own) > 0
            yield {
                "model": model,
                "ranking": ranking,
                "stratum": stratum,
                "row": bool(releases),
                "releases": list(releases),
                "users": len(own),
                "value": float(own.mean()) if len(own) else None,
                "baseline": None if model == first else first,
                "baseline_value": float(other.mean()) if compares else None,
                "difference": asdict(compare(own, other)) if compares else None,
            }

    def _compared(self, model: str, ranking: Ranking) -> Float64Array:
        return self.values[model][ranking][self.compared_by]

    def _figures(self, model: str, ranking: Ranking, stratum: str) -> dict[str, Any]:
        """Return every mean, 0 without users, and every standard error, null for fewer than two users."""
        found = {metric: self.figure(model, ranking, stratum, metric) for metric in self.values[model][ranking]}
        means = {name: mean if users else 0.0 for name, (mean, _, users) in found.items()}
        errors = {name: error if users > 1 else None for name, (_, error, users) in found.items()}
        return {**means, "users": int(self.strata[stratum].sum()), "standard_error": errors}


def _text_of(tables: Iterable[Table]) -> Iterator[str]:
    """Yield tables line by line, with some figures side by side, and the others below them."""
    for one in tables:
        yield f"  {one.caption}"
        shown = [[column.name for column in one.columns], *(list(map(str, row)) for row in one.rows)]
        names = sum(not column.numeric for column in one.columns)
        for start in range(names, len(one.columns), _COLUMNS):
            rows = [[*row[:names], *row[start : start + _COLUMNS]] for row in shown]
            widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
            for row in rows:
                cells = zip(row, widths, strict=True)
                padded = (f"{c:<{w}}" if at < names else f"{c:>{w}}" for at, (c, w) in enumerate(cells))
                yield "    " + "  ".join(padded)


def _cell(mean: float, error: float, count: int) -> str:
    return f"{mean:.4f}" + (f" ± {error:.4f}" if count > 1 else "") if count else "–"


def evaluate(
    models: Mapping[str, ScoringModel] | Iterable[tuple[str, ScoringModel]],
    split: Split,
    *,
    ranking: Literal["both", "sampled", "full"] = "both",
    cutoffs: Sequence[int] = CUTOFFS,
    progress: Progress | bool = False,
) -> Comparison:
    """Rank every user's held-out test items under each model and compare the models, user by user.

    ``print`` shows the figures as tables, ``to_frame`` gives a data frame. A model that has other users or items than
    the split, or was trained on what the split holds out, is refused (``InputError``).

    Args:
        models: Models trained on ``split.train``, by name; the others are compared with the first. Of pairs of a name
            and a model, one model at a time is held.
        split: What :func:`pricdr.split` held out.
        ranking: Among the 99 stored negatives (sampled), among all items the user has not rated (full), or both.
        cutoffs: The values of k, at which HR, NDCG, MRR, Recall and MAP are measured.
        progress: True shows how far it has come; a function is called while users are ranked.
    """
    rankings = RANKINGS if ranking == "both" else tuple(name for name in RANKINGS if name == ranking)
    if not rankings:
        raise ParameterError(f"ranking must be both, sampled or full, got {ranking!r:.40}")
    cutoffs, evaluated = require_cutoffs(cutoffs), split.test.evaluated
    values: dict[str, dict[Ranking, Metrics]] = {}
    trainings: dict[str, Training] = {}
    release_rows: dict[str, ReleaseGroups] = {}
    with shown(progress) as report:
        for name, model in models.items() if isinstance(models, Mapping) else models:
            values[name] = _measured(name, model, split, rankings, cutoffs, report)
            training = Training.of(model)
            if training is not None:
                trainings[name] = training
                if training.with_release and hasattr(model, "release_groups"):
                    release_rows[name] = [(numbers, mask[evaluated]) for numbers, mask in model.release_groups()]
            del model  # before the next is read: two large ones may not fit into memory together
    return Comparison(
        users=tuple(split.train.users[at] for at in evaluated),
        strata=split.strata(),
        values=values,
        trainings=trainings,
        cutoffs=cutoffs,
        test_items=len(split.test),
        protocol=split.protocol,
        release_rows=release_rows,
    )


def _measured(
    name: str,
    model: ScoringModel,
    split: Split,
    rankings: Sequence[Ranking],
    cutoffs: tuple[int, ...],
    progress: Progress,
) -> dict[Ranking, Metrics]:
    """Return every metric of every evaluated user under one model; ``name`` is what errors call it.

    In the full ranking a user has one list of all test items, in the sampled one a list for each, which are averaged.
    """
    test, users = split.test, split.train.users
    if model.users[: len(users)] != users or model.items != split.train.items:
        raise InputError(f"{name} has other users or items than the split")
    # Models here remember what they were trained on; an export does not, and of other kinds nothing can be checked.
    if getattr(model, "summary", None) is not None:
        raise InputError(f"{name} was exported: it no longer records what it was trained on")
    seen = getattr(model, "seen", None)
    if seen is not None and seen[test.users, test.items].any():
        raise InputError(f"{name} was not trained on this split: it has seen ratings that are held out here")
    if "full" not in rankings:
        sampled = sampled_ranks(model.score_candidates, test, progress=progress)
        return {"sampled": averaged(sampled, test.starts, cutoffs)}
    # All items have to be scored for the full ranking, and the sampled one then comes for free.
    sampled, full = ranks(model.score, test, split.train.matrix, progress=progress)
    metrics: dict[Ranking, Metrics] = {
        "sampled": averaged(sampled, test.starts, cutoffs),
        "full": of_lists(full, test.starts, cutoffs),
    }
    return {ranking: metrics[ranking] for ranking in rankings}


@dataclass(frozen=True, eq=False, repr=False)
class RepeatedComparison(_Compared):
    """The comparisons of the same methods on several splits; printing it shows what ``evaluate --repeat`` does.

    Its interval is Student's, over one mean difference per split. It covers what chance did in dividing the ratings and
    in training, for these users and ratings: the splits share both, so nothing follows for other ratings.
    """

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
    def differences(self) -> tuple[PairedDifference, ...]:
        """Return the difference split by split; a stratum that fewer than two splits have users of is left out."""
        baseline, *others = self.models
        found = []
        for ranking, model, stratum in product(self._first.rankings, others, self._first.strata):
            gains = self._means(model, ranking, stratum) - self._means(baseline, ranking, stratum)
            if len(gains) > 1:
                by_split = tuple(gains.tolist())
                found.append(self._first.difference(model, ranking, stratum, over_repetitions(gains), by_split))
        return tuple(found)

    def to_dict(self) -> dict[str, Any]:
        """Return what ``evaluate --repeat`` adds to its JSON: every mean, split by split, and the verdicts."""
        return {
            "seeds": list(self.comparisons),
            "metric": self._first.compared_by,
            "models": {
                model: {
                    ranking: {stratum: self._means(model, ranking, stratum).tolist() for stratum in self._first.strata}
                    for ranking in self._first.rankings
                }
                for model in self.models
            },
            "verdicts": [one.to_dict() for one in self.verdicts],
        }

    def lines(self) -> list[str]:
        """Return the figures and the verdicts line by line."""
        return [*_text_of(self.tables()), *verdict_lines(self.verdicts)]

    @property
    def title(self) -> str:
        """Return over which splits the figures are, and what they are."""
        seeds = ", ".join(map(str, self.comparisons))
        return f"over {len(self.comparisons)} splits (seeds {seeds}), {self._first.compared_by} ± standard error"

    def tables(self) -> list[Table]:
        """Return the means over splits, and the differences from the first model split by split."""
        names = ("model", "ranking", "kind")
        means = []
        for ranking, model, stratum in product(self._first.rankings, self.models, self._first.strata):
            values = self._means(model, ranking, stratum)
            if len(values) > 1:
                means.append((model, ranking, stratum, _cell(values.mean(), standard_error(values), len(values))))
        gains = [
            (one.model, one.ranking, one.stratum, " ".join(f"{gain:+.4f}" for gain in one.by_split))
            for one in self.differences
        ]
        caption = f"difference from {self.models[0]}, split by split"
        return [
            table("splits-means", self.title, (*names, "mean"), means, names=3),
            table("splits-differences", caption, (*names, "differences"), gains, names=3),
        ]

    def _repr_html_(self) -> str:
        facts = {"models": f"{len(self.models):,}", "splits": f"{len(self.comparisons):,}"}
        notes = verdict_lines(self.verdicts)
        return summary_html("RepeatedComparison", facts, tables=self.tables(), notes=notes)

    @property
    def _first(self) -> Comparison:
        return next(iter(self.comparisons.values()))

    def _means(self, model: str, ranking: Ranking, stratum: str) -> Float64Array:
        """Return the mean over users of each split that has any in the stratum."""
        metric = self._first.compared_by
        figures = (comparison.figure(model, ranking, stratum, metric) for comparison in self.comparisons.values())
        return np.array([mean for mean, _, users in figures if users])
