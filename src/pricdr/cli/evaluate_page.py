"""``pricdr evaluate --html``: the figures of a comparison as one page that needs nothing else."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from pricdr.cli.repeat import ONE_RUN
from pricdr.demo.page import Dot, FigureTable, Plot, Section, dot_plot, figure_table, render_page

if TYPE_CHECKING:
    from pricdr.evaluation.comparison import Comparison, PairedDifference, Ranking
    from pricdr.evaluation.repeated import RepeatedComparison
    from pricdr.evaluation.verdict import Judgement

_LONGEST_NAME: Final = 28
"""Characters of a model's name beside a plot, whose end tells two paths apart better than its beginning."""
_STRATA: Final = {
    "all": "All evaluated users.",
    "warm": "Users with ratings to train on.",
    "few": "Warm users with 1 to 3 of them.",
    "cold": "Users with none.",
}


def evaluation_page(comparison: "Comparison", split: str, repeated: "RepeatedComparison | None" = None) -> str:
    """Return the page: what was measured on which split, a plot of the differences, every table, and repetitions."""
    items = len(comparison.users) if comparison.test_items is None else comparison.test_items
    measured = f"{len(comparison.users):,} users and {items:,} test items of the split {split}: {comparison.protocol}."
    first = f"Every model is compared with the first, {comparison.models[0]}, user by user."
    intro = Section(paragraphs=[measured] + ([first] if len(comparison.models) > 1 else []))
    sections = [intro, *_over_splits(repeated, comparison)]
    for ranking in comparison.rankings:
        sections += _ranking_sections(comparison, ranking)
    meanings = [f"{name}: {meaning}" for name, meaning in _STRATA.items() if name in comparison.strata]
    notes = [*meanings, "± is one standard error over users.", *_metric_notes(comparison)]
    return render_page("How good are these models?", [*sections, Section("How to read it", bullets=notes)])


def _over_splits(repeated: "RepeatedComparison | None", comparison: "Comparison") -> Iterator[Section]:
    """Yield what the repetitions come to, or a warning that there are none."""
    if repeated is None:
        if comparison.verdicts:
            yield Section(paragraphs=[ONE_RUN[0].upper() + ONE_RUN[1:] + "."])
        return
    rows = [[model, ranking, stratum, figure] for model, ranking, stratum, figure in repeated.rows()]
    title = repeated.title[0].upper() + repeated.title[1:]
    sentences = [f"{one.model}, {one.ranking} ranking, {one.sentence}." for one in repeated.verdicts]
    yield Section(title, bullets=[*sentences, *_advice(repeated.verdicts)])
    yield Section(table=figure_table(["", "ranking", "users", "mean over splits"], rows))
    gains = [[one.model, one.ranking, one.stratum, one.gains] for one in repeated.differences]
    yield Section(table=figure_table(["", "ranking", "users", f"difference to {repeated.models[0]}"], gains))


def _ranking_sections(comparison: "Comparison", ranking: "Ranking") -> Iterator[Section]:
    title = comparison.title(ranking)
    differences = [one for one in comparison.differences if one.ranking == ranking]
    heading = title[0].upper() + title[1:]
    if differences:
        yield Section(heading, plot=_plot(comparison, differences), table=_difference_table(comparison, differences))
        verdicts = [one for one in comparison.verdicts if one.ranking == ranking]
        yield Section(bullets=[*map(_sentence, verdicts), *_advice(verdicts)])
        heading = ""
    for model in comparison.models:
        for names in comparison.tables():
            yield Section(heading, table=_figure_table(comparison, model, ranking, names))
            heading = ""


def _figure_table(comparison: "Comparison", model: str, ranking: "Ranking", metrics: Sequence[str]) -> FigureTable:
    rows = [[stratum, f"{users:,}", *cells] for stratum, users, cells in comparison.rows(model, ranking, metrics)]
    return figure_table(["", "users", *metrics], rows, spans=[(model, len(metrics) + 2)])


def _difference_table(comparison: "Comparison", differences: Sequence["PairedDifference"]) -> FigureTable:
    rows = []
    for one in differences:
        d = one.difference
        rows.append([one.model, one.stratum, f"{d.mean:+.4f} [{d.low:+.4f}, {d.high:+.4f}]", f"{d.p_value:.4f}"])
    return figure_table(["", "users", f"{comparison.compared_by}, difference [95 %]", "p"], rows)


def _plot(comparison: "Comparison", differences: Sequence["PairedDifference"]) -> Plot:
    """Lay out the differences, one group per kind of user."""
    strata = list(comparison.strata)
    dots = [
        Dot(_short(one.model), one.stratum, one.difference.mean, one.difference.low, one.difference.high)
        for one in sorted(differences, key=lambda one: strata.index(one.stratum))
    ]
    label = f"{comparison.compared_by}, difference to {_short(comparison.models[0])}"
    return dot_plot(dots, label=label, digits=4)


def _sentence(one: "Judgement") -> str:
    return f"{one.model}, {one.sentence}."


def _advice(verdicts: Sequence["Judgement"]) -> list[str]:
    return list(dict.fromkeys(f"{one.model}: {text}." for one in verdicts for text in one.advice))


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"…{name[1 - _LONGEST_NAME :]}"


def _metric_notes(comparison: "Comparison") -> list[str]:
    from pricdr.evaluation.comparison import ONE_ITEM

    relevant = "All test items of a user are relevant in the full ranking."
    return [ONE_ITEM[0].upper() + ONE_ITEM[1:] + "." if comparison.one_item_each else relevant]
