"""What a notebook shows of a ``Comparison``, or of several: tables, whatever metrics they have, and the verdicts."""

from typing import TYPE_CHECKING

from pricdr.evaluation.verdict import verdict_lines
from pricdr.notebook import Table, summary_html

if TYPE_CHECKING:
    from pricdr.evaluation.comparison import Comparison, Ranking
    from pricdr.evaluation.repeated import RepeatedComparison


def comparison_html(comparison: "Comparison") -> str:
    """Return the figures of every model, and the differences from the first one, as HTML."""
    tables = []
    for ranking in comparison.rankings:
        tables.append(_figures(comparison, ranking))
        if len(comparison.models) > 1:
            tables.append(_differences(comparison, ranking))
    facts = {"models": f"{len(comparison.models):,}", "users": f"{len(comparison.users):,}"}
    note = "A figure is a mean over users ± its standard error; an interval covers 95 %."
    return summary_html("Comparison", facts, tables=tables, notes=(note, *verdict_lines(comparison.verdicts)))


def repeated_html(repeated: "RepeatedComparison") -> str:
    """Return the figures over all splits, the differences split by split, and the verdicts, as HTML."""
    figures = Table(repeated.title, ("model", "ranking", "kind", "mean"), list(repeated.rows()), names=3)
    cells = [(one.model, one.ranking, one.stratum, one.gains) for one in repeated.differences]
    caption = f"difference from {repeated.models[0]}, split by split"
    differences = Table(caption, ("model", "ranking", "kind", "differences"), cells, names=3)
    facts = {"models": f"{len(repeated.models):,}", "splits": f"{len(repeated.comparisons):,}"}
    notes = verdict_lines(repeated.verdicts)
    return summary_html("RepeatedComparison", facts, tables=(figures, differences), notes=notes)


def _figures(comparison: "Comparison", ranking: "Ranking") -> Table:
    """Return one row per model and kind of users, one column per metric."""
    measured = comparison.values[comparison.models[0]][ranking]
    metrics = [metric for metric in measured if not (comparison.one_item_each and _other_name(metric) in measured)]
    cells = [
        (model, stratum, f"{users:,}", *figures)
        for model in comparison.models
        for stratum, users, figures in comparison.rows(model, ranking, metrics)
    ]
    return Table(f"{ranking} ranking", ("model", "kind", "users", *metrics), cells, names=2)


def _other_name(metric: str) -> str:
    """Return the metric with the same value where a user has one test item; an empty text where there is none."""
    measure, _, k = metric.partition("@")
    same = {"Recall": "HR", "MAP": "MRR"}.get(measure)
    return "" if same is None else f"{same}@{k}"


def _differences(comparison: "Comparison", ranking: "Ranking") -> Table:
    """Return one row per further model and kind of users: how much better it is than the first."""
    cells = [
        (one.model, one.stratum, f"{d.mean:+.4f}", f"[{d.low:+.4f}, {d.high:+.4f}]", f"{d.p_value:.4f}")
        for one in comparison.differences
        for d in (one.difference,)
        if one.ranking == ranking
    ]
    caption = f"{ranking} ranking, difference from {comparison.models[0]}"
    return Table(caption, ("model", "kind", comparison.compared_by, "95 % interval", "p-value"), cells, names=2)
