"""``pricdr evaluate --report``: the figures of a comparison as one page that needs nothing else."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from pricdr.cli.repeat import ONE_RUN
from pricdr.pages import (
    Bullets,
    Cell,
    Column,
    Content,
    Figure,
    Note,
    Page,
    Row,
    Section,
    Table,
    render,
)
from pricdr.pages.charts import Dot, dot_plot

if TYPE_CHECKING:
    from pricdr.evaluation.comparison import Comparison, Ranking, RepeatedComparison
    from pricdr.evaluation.metrics import Float64Array
    from pricdr.evaluation.verdict import Judgement, PairedDifference

_LONGEST_NAME: Final = 28
"""Characters of a model's name beside a plot, whose end tells two paths apart better than its beginning."""
_STRATA: Final = {
    "all": "All evaluated users.",
    "warm": "Users with ratings to train on.",
    "few": "Warm users with 1 to 3 of them.",
    "cold": "Users with none.",
}
_MODEL: Final = Column("model", numeric=False)
_KIND: Final = Column("users", help="All evaluated users, or those of one kind", numeric=False)


def evaluation_page(comparison: "Comparison", split: str, repeated: "RepeatedComparison | None" = None) -> str:
    """Return the page: what was measured on which split, a plot of the differences, every table, and repetitions."""
    items = len(comparison.users) if comparison.test_items is None else comparison.test_items
    lead: list[str | Note] = [
        f"{len(comparison.users):,} users and {items:,} test items of the split {split}: {comparison.protocol}."
    ]
    if len(comparison.models) > 1:
        lead.append(f"Every model is compared with the first, {comparison.models[0]}, user by user.")
    if repeated is None and comparison.verdicts:
        lead.append(Note(ONE_RUN[0].upper() + ONE_RUN[1:] + "."))
    sections = [] if repeated is None else [_over_splits(repeated)]
    sections += [_ranking_section(comparison, ranking) for ranking in comparison.rankings]
    meanings = [f"{name}: {meaning}" for name, meaning in _STRATA.items() if name in comparison.strata]
    notes = [*meanings, "± is one standard error over users.", *_metric_notes(comparison)]
    return render(
        Page("How good are these models?", [*sections, Section("How to read it", [Bullets(notes)])], lead=lead)
    )


def _over_splits(repeated: "RepeatedComparison") -> Section:
    """Return what the repetitions come to."""
    sentences = [f"{one.model}, {one.ranking} ranking, {one.sentence}." for one in repeated.verdicts]
    by_split = repeated.to_dict()["models"]
    ranked = Column("ranking", numeric=False)
    figures = []
    for model, ranking, stratum, figure in repeated.rows():
        cell = Cell.of(figure)
        values = by_split[model][ranking][stratum]
        shown = Cell(cell.text, sum(values) / len(values), cell.detail, _each_split(values))
        figures.append(Row([model, ranking, stratum, shown]))
    gains = []
    for one in repeated.differences:
        mean = sum(one.by_split) / len(one.by_split)
        shown = Cell(f"{mean:+.4f}", mean, hover=_each_split(one.by_split))
        gains.append(Row([one.model, one.ranking, one.stratum, shown, Cell(one.gains, mean)]))
    names = [_MODEL, ranked, _KIND]
    against = f"Difference to {repeated.models[0]}"
    return Section(
        repeated.title[0].upper() + repeated.title[1:],
        [
            Bullets([*sentences, *_advice(repeated.verdicts)]),
            Table("splits-means", "Means over splits", [*names, Column("mean over splits")], figures),
            Table("splits-gains", against, [*names, Column("mean"), Column("split by split")], gains),
        ],
        id="splits",
    )


def _each_split(values: Sequence[float]) -> list[str]:
    return [f"split {number}: {value:.6f}" for number, value in enumerate(values, 1)]


def _ranking_section(comparison: "Comparison", ranking: "Ranking") -> Section:
    title = comparison.title(ranking)
    blocks = [*_compared(comparison, ranking), *_figure_tables(comparison, ranking)]
    return Section(title[0].upper() + title[1:], blocks, id=ranking)


def _compared(comparison: "Comparison", ranking: "Ranking") -> Content:
    """Return verdicts, a plot and a table of the differences, where there is more than one model."""
    differences = [one for one in comparison.differences if one.ranking == ranking]
    if not differences:
        return []
    verdicts = [one for one in comparison.verdicts if one.ranking == ranking]
    sentences = [*(f"{one.model}, {one.sentence}." for one in verdicts), *_advice(verdicts)]
    plot = _plot(comparison, differences, ranking)
    return [
        *([Bullets(sentences)] if sentences else []),
        *([plot] if plot else ["There is nothing to plot."]),
        _difference_table(comparison, differences, ranking),
    ]


def _figure_tables(comparison: "Comparison", ranking: "Ranking") -> Iterator[Table]:
    """Yield every figure of every model: as many tables as it takes to set the metrics side by side."""
    for at, metrics in enumerate(comparison.tables()):
        rows = [
            Row(
                [
                    model,
                    stratum,
                    f"{int(keep.sum()):,}",
                    *(_measured(comparison.values[model][ranking][metric][keep]) for metric in metrics),
                ],
            )
            for model in comparison.models
            for stratum, keep in comparison.strata.items()
        ]
        columns = [_MODEL, _KIND, Column("how many"), *map(Column, metrics)]
        caption = f"{', '.join(metrics[:-1])} and {metrics[-1]}, {ranking} ranking"
        yield Table(f"{ranking}-figures-{at + 1}", caption, columns, rows)


def _measured(values: "Float64Array") -> Cell:
    """Return a mean and its standard error, which a single user does not have."""
    from pricdr.evaluation.verdict import standard_error

    if not len(values):
        return Cell("–")
    mean = float(values.mean())
    if len(values) == 1:
        return Cell(f"{mean:.4f}", mean)
    error = standard_error(values)
    exact = f"{mean:.6f} ± {error:.6f}"
    return Cell(f"{mean:.4f}", mean, f"± {error:.4f}", (exact, f"95 % interval ± {1.96 * error:.6f}"))


def _difference_table(comparison: "Comparison", differences: Sequence["PairedDifference"], ranking: "Ranking") -> Table:
    rows = []
    for one in differences:
        d = one.difference
        cell = Cell(
            f"{d.mean:+.4f}", d.mean, f"[{d.low:+.4f}, {d.high:+.4f}]", (f"{d.mean:+.6f}", f"p = {d.p_value:.6f}")
        )
        rows.append(Row([one.model, one.stratum, cell, Cell(f"{d.p_value:.4f}", d.p_value)]))
    columns = [_MODEL, _KIND, Column(f"{comparison.compared_by}, difference [95 %]"), Column("p")]
    caption = f"Differences to {comparison.models[0]}, user by user, {ranking} ranking"
    return Table(f"{ranking}-differences", caption, columns, rows)


def _plot(comparison: "Comparison", differences: Sequence["PairedDifference"], ranking: "Ranking") -> Figure | None:
    """Draw the differences, one group per kind of user."""
    strata = list(comparison.strata)
    dots = [
        Dot(
            _short(one.model),
            one.stratum,
            one.difference.mean,
            one.difference.low,
            one.difference.high,
        )
        for one in sorted(differences, key=lambda one: strata.index(one.stratum))
    ]
    label = f"{comparison.compared_by}, difference to {_short(comparison.models[0])}"
    caption = f"Differences in {comparison.compared_by}, {ranking} ranking"
    return dot_plot(f"{ranking}-plot", caption, dots, label=label, digits=4, note="Bars: 95 % intervals.")


def _advice(verdicts: Sequence["Judgement"]) -> list[str]:
    return list(dict.fromkeys(f"{one.model}: {text}." for one in verdicts for text in one.advice))


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"…{name[1 - _LONGEST_NAME :]}"


def _metric_notes(comparison: "Comparison") -> list[str]:
    from pricdr.evaluation.comparison import ONE_ITEM

    relevant = "All test items of a user are relevant in the full ranking."
    return [ONE_ITEM[0].upper() + ONE_ITEM[1:] + "." if comparison.one_item_each else relevant]
