"""The section of a card that needs an evaluation: how good a model is, with and without a release, and who gains."""

from collections.abc import Sequence
from typing import Final

from pricdr.evaluation.measured import Evaluation, MeasuredFigure, MeasuredRows, RankingName
from pricdr.evaluation.verdict import JUDGED
from pricdr.models.card.info import ModelInfo
from pricdr.models.card.sections import group_name, measuring_commands
from pricdr.models.card.texts import NOT_MEASURED
from pricdr.pages import (
    Block,
    Bullets,
    Cell,
    Column,
    Commands,
    Details,
    Dot,
    Figure,
    Note,
    Row,
    Section,
    Table,
    dot_plot,
)

STRATA: Final = ("warm", "few", "cold", "all")
_STRATUM_NAMES: Final = {**JUDGED, "all": "all users"}
_RANKING_NAMES: Final = {
    "sampled": "held-out items, ranked among 99 items that the user has not rated",
    "full": "held-out items, ranked among all items that the user has not rated",
}
_ONE_SPLIT: Final = "A single split can be misleading: pricdr evaluate --repeat N gives a verdict over several."
_GROUP_COLUMNS: Final = [Column("users", numeric=False), Column("number")]


def quality(info: ModelInfo, evaluation: Evaluation | None) -> Section:
    """Return the figures, where they come from, and who gains; without an evaluation, how to measure them."""
    title = "How good it is, and who gains"
    if evaluation is None:
        note = f"Quality: {NOT_MEASURED}."
        if info.with_release:
            note += f" With and without the release: {NOT_MEASURED}. Who gains: {NOT_MEASURED}."
        note += " To measure it, run:"
        return Section(title, [Note(note), Commands(measuring_commands(info))], id="quality")
    measured = evaluation.model_of(info.name, info.training)
    blocks: list[Block | str] = [_provenance(info, evaluation, measured)]
    alone = measured == evaluation.baseline
    if alone and info.with_release:
        blocks.append(
            Note(
                f"With and without the release: {NOT_MEASURED}. The evaluation does not start with a model without it."
            )
        )
    for ranking in evaluation.rankings:
        blocks += _ranking(evaluation, measured, ranking, alone=alone)
    repeated = evaluation.repeated_verdicts(measured)
    if repeated:
        lines = [f"Over several splits, {verdict.ranking} ranking, {verdict.sentence}." for verdict in repeated]
        blocks.append(Bullets(lines))
    elif not alone:
        blocks.append(_ONE_SPLIT)
    return Section(title, blocks, id="quality")


def _provenance(info: ModelInfo, evaluation: Evaluation, measured: str) -> str:
    layout = evaluation.layout
    subject = (
        "this model"
        if evaluation.is_folder(measured, info.name)
        else f"“{measured}”, a model trained the same way on a split,"
    )
    return (
        f"From {evaluation.file}, written by pricdr evaluate: figures of {subject} over {layout.users:,} users and "
        f"{layout.test_items:,} held-out items ({layout.protocol}). ± is one standard error over users."
    )


def _ranking(evaluation: Evaluation, measured: str, ranking: RankingName, *, alone: bool) -> list[Block | str]:
    # With one held-out item per user, Recall equals HR and MAP equals MRR.
    redundant = {"Recall", "MAP"} if evaluation.one_item_each else set()
    metrics = [name for name in evaluation.metrics(measured, ranking) if name.partition("@")[0] not in redundant]
    columns = [*_GROUP_COLUMNS, *(Column(metric) for metric in metrics)]
    rows = []
    for stratum in STRATA:
        figures = [evaluation.figure(measured, ranking, stratum, metric) for metric in metrics]
        users = next((f"{figure.users:,}" for figure in figures if figure is not None), "0")
        rows.append(Row([_STRATUM_NAMES[stratum], users, *map(_cell, figures)]))
    caption = f"All figures, {ranking} ranking: {_RANKING_NAMES[ranking]}"
    all_figures = Table(f"card-{ranking}-all", caption, columns, rows)
    if alone:
        return [all_figures]
    gains = _gains(evaluation, measured, ranking)
    return [*gains, Details(f"All figures of the {ranking} ranking", [all_figures])]


def _gains(evaluation: Evaluation, measured: str, ranking: RankingName) -> list[Block | str]:
    verdicts = evaluation.verdicts(measured, ranking)
    metric = evaluation.compared_by
    about_release = any(verdict.about_release for verdict in verdicts)
    method = evaluation.method_of(evaluation.baseline)
    names = ("without the release", "with the release") if about_release else (f"“{evaluation.baseline}”", "this model")
    figures = [Column(name) for name in (*names, "difference")]
    columns = [*_GROUP_COLUMNS, *figures, Column("verdict", numeric=False)]
    rows = []
    for stratum in STRATA:
        without, with_it = (
            evaluation.figure(name, ranking, stratum, metric) for name in (evaluation.baseline, measured)
        )
        if without is None or with_it is None:
            continue
        verdict = next((verdict for verdict in verdicts if verdict.stratum == stratum), None)
        change = (
            Cell(f"{with_it.value - without.value:+.4f}")
            if verdict is None
            else Cell(f"{verdict.difference:+.4f}", verdict.difference, f"[{verdict.low:+.4f}, {verdict.high:+.4f}]")
        )
        judged = Cell("–" if verdict is None else verdict.verdict, strong=verdict is not None and verdict.helps)
        group = [_STRATUM_NAMES[stratum], f"{with_it.users:,}"]
        rows.append(Row([*group, _cell(without), _cell(with_it), change, judged]))
    compared = f"“{evaluation.baseline}”{'' if method is None else f' ({method})'}"
    table = Table(
        f"card-{ranking}-gains",
        f"{metric} with and without the release, {ranking} ranking"
        if about_release
        else f"{metric} compared with {compared}, {ranking} ranking",
        columns,
        rows,
        note=f"{_RANKING_NAMES[ranking].capitalize()}. Compared with {compared}, user by user; 95 % intervals.",
    )
    plot = _plot(evaluation, measured, ranking, about_release=about_release)
    return [*([plot] if plot else []), table, *_by_row(evaluation, measured, ranking, names)]


def _plot(evaluation: Evaluation, measured: str, ranking: RankingName, *, about_release: bool) -> Figure | None:
    series = "The release" if about_release else "This model"
    dots = [
        Dot(_STRATUM_NAMES[verdict.stratum], series, verdict.difference, verdict.low, verdict.high)
        for verdict in evaluation.verdicts(measured, ranking)
        if verdict.stratum in _STRATUM_NAMES
    ]
    caption = f"Who gains, {ranking} ranking"
    label = f"difference in {evaluation.compared_by}"
    return dot_plot(f"card-{ranking}-plot", caption, dots, label=label, digits=4, note="Bars: 95 % intervals.")


def _by_row(evaluation: Evaluation, measured: str, ranking: RankingName, names: tuple[str, str]) -> Sequence[Table]:
    groups = [group for group in evaluation.release_rows(measured, ranking) if group.users]
    if not groups:
        return []
    rows = [Row([group_name(group.stratum, row=group.row), f"{group.users:,}", *_row_cells(group)]) for group in groups]
    columns = [*_GROUP_COLUMNS, *(Column(name) for name in names), Column("difference")]
    caption = f"{evaluation.compared_by} of users with and without a release row in use, {ranking} ranking"
    return [Table(f"card-{ranking}-rows", caption, columns, rows)]


def _row_cells(group: MeasuredRows) -> list[Cell]:
    values = ["–" if value is None else f"{value:.4f}" for value in (group.baseline_value, group.value)]
    d = group.difference
    change = Cell("–") if d is None else Cell(f"{d.mean:+.4f}", d.mean, f"[{d.low:+.4f}, {d.high:+.4f}]")
    return [*map(Cell, values), change]


def _cell(figure: MeasuredFigure | None) -> Cell:
    if figure is None:
        return Cell("–")
    return Cell(f"{figure.value:.4f}", figure.value, "" if figure.error is None else f"± {figure.error:.4f}")
