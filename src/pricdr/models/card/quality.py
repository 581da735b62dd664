"""The section of a card that needs an evaluation: how good a model is, with and without the release, and who gains."""

from collections.abc import Sequence
from typing import Final

from pricdr.evaluation.measured import Evaluation, MeasuredFigure, MeasuredRows, RankingName
from pricdr.evaluation.verdict import JUDGED
from pricdr.models.card.known import KnownModel
from pricdr.models.card.sections import group_name, measuring_commands
from pricdr.models.card.words import NOT_MEASURED
from pricdr.pages import Bullets, Commands, Details, Dot, Figure, Note, Row, Section, Table, dot_plot
from pricdr.pages.blocks import Block
from pricdr.pages.tables import Cell, Column

STRATA: Final = ("warm", "few", "cold", "all")
_KINDS: Final = {**JUDGED, "all": "all of them"}
_RANKED: Final = {
    "sampled": "held-out items among 99 that the user has not rated",
    "full": "held-out items among all that the user has not rated",
}
_ONE_RUN: Final = "One split can mislead: pricdr evaluate --repeat N gives the verdict over several."
_ROWS_AND_USERS: Final = [Column("users", numeric=False), Column("how many")]


def quality(known: KnownModel, evaluation: Evaluation | None) -> Section:
    """Return the figures, where each comes from, and who gains; without an evaluation, how to measure."""
    title = "How good it is, and who gains"
    if evaluation is None:
        told = f"Quality: {NOT_MEASURED}."
        if known.with_release:
            told += f" With the release and without: {NOT_MEASURED}. Who gains: {NOT_MEASURED}."
        told += " These commands measure it:"
        return Section(title, [Note(told), Commands(measuring_commands(known))], id="quality")
    measured = evaluation.model_of(known.name, known.training)
    blocks: list[Block | str] = [_where_from(known, evaluation, measured)]
    alone = measured == evaluation.baseline
    if alone and known.with_release:
        blocks.append(
            Note(f"With and without the release: {NOT_MEASURED}. The evaluation has no model without it, named first.")
        )
    for ranking in evaluation.rankings:
        blocks += _ranking(evaluation, measured, ranking, alone=alone)
    repeated = evaluation.repeated_verdicts(measured)
    if repeated:
        blocks.append(Bullets([f"Over several splits, {one.ranking} ranking, {one.sentence}." for one in repeated]))
    elif not alone:
        blocks.append(_ONE_RUN)
    return Section(title, blocks, id="quality")


def _where_from(known: KnownModel, evaluation: Evaluation, measured: str) -> str:
    layout = evaluation.layout
    own = (
        "this model"
        if evaluation.is_folder(measured, known.name)
        else f"“{measured}”, a model trained alike on a split,"
    )
    return (
        f"From {evaluation.file}, which pricdr evaluate wrote: figures of {own} over {layout.users:,} users and "
        f"{layout.test_items:,} held-out items ({layout.protocol}). ± is one standard error over users."
    )


def _ranking(evaluation: Evaluation, measured: str, ranking: RankingName, *, alone: bool) -> list[Block | str]:
    repeats = {"Recall", "MAP"} if evaluation.one_item_each else set()  # they are HR and MRR then
    metrics = [one for one in evaluation.metrics(measured, ranking) if one.partition("@")[0] not in repeats]
    columns = [*_ROWS_AND_USERS, *(Column(metric) for metric in metrics)]
    rows = []
    for stratum in STRATA:
        figures = [evaluation.figure(measured, ranking, stratum, metric) for metric in metrics]
        users = next((f"{one.users:,}" for one in figures if one is not None), "0")
        rows.append(Row([_KINDS[stratum], users, *map(_cell, figures)]))
    caption = f"All figures, {ranking} ranking: {_RANKED[ranking]}"
    everything = Table(f"card-{ranking}-all", caption, columns, rows)
    if alone:
        return [everything]
    shown = _gains(evaluation, measured, ranking)
    return [*shown, Details(f"All figures of the {ranking} ranking", [everything])]


def _gains(evaluation: Evaluation, measured: str, ranking: RankingName) -> list[Block | str]:
    verdicts = evaluation.verdicts(measured, ranking)
    metric = evaluation.compared_by
    about_release = any(one.about_release for one in verdicts)
    method = evaluation.method_of(evaluation.baseline)
    other = "without the release" if about_release else f"“{evaluation.baseline}”"
    own = "with the release" if about_release else "this model"
    figures = [Column(name) for name in (other, own, "difference")]
    columns = [*_ROWS_AND_USERS, *figures, Column("verdict", numeric=False)]
    rows = []
    for stratum in STRATA:
        without, with_it = (
            evaluation.figure(name, ranking, stratum, metric) for name in (evaluation.baseline, measured)
        )
        if without is None or with_it is None:
            continue
        verdict = next((one for one in verdicts if one.stratum == stratum), None)
        change = (
            Cell(f"{with_it.value - without.value:+.4f}")
            if verdict is None
            else Cell(f"{verdict.difference:+.4f}", verdict.difference, f"[{verdict.low:+.4f}, {verdict.high:+.4f}]")
        )
        said = Cell("–" if verdict is None else verdict.verdict, strong=verdict is not None and verdict.helps)
        rows.append(Row([_KINDS[stratum], f"{with_it.users:,}", _cell(without), _cell(with_it), change, said]))
    compared = f"“{evaluation.baseline}”{'' if method is None else f' ({method})'}"
    table = Table(
        f"card-{ranking}-gains",
        f"{metric} with the release and without, {ranking} ranking"
        if about_release
        else f"{metric} beside {compared}, {ranking} ranking",
        columns,
        rows,
        note=f"{_RANKED[ranking].capitalize()}. Compared with {compared}, user by user; 95 % intervals.",
    )
    plot = _plot(evaluation, measured, ranking, about_release=about_release)
    return [*([plot] if plot else []), table, *_by_row(evaluation, measured, ranking, (other, own))]


def _plot(evaluation: Evaluation, measured: str, ranking: RankingName, *, about_release: bool) -> Figure | None:
    what = "The release" if about_release else "This model"
    dots = [
        Dot(_KINDS[one.stratum], what, one.difference, one.low, one.high)
        for one in evaluation.verdicts(measured, ranking)
        if one.stratum in _KINDS
    ]
    caption = f"Who gains, {ranking} ranking"
    label = f"difference in {evaluation.compared_by}"
    return dot_plot(f"card-{ranking}-plot", caption, dots, label=label, digits=4, note="Bars: 95 % intervals.")


def _by_row(evaluation: Evaluation, measured: str, ranking: RankingName, names: tuple[str, str]) -> Sequence[Table]:
    groups = [one for one in evaluation.release_rows(measured, ranking) if one.users]
    if not groups:
        return []
    rows = [Row([group_name(one.stratum, row=one.row), f"{one.users:,}", *_row_cells(one)]) for one in groups]
    columns = [*_ROWS_AND_USERS, *(Column(name) for name in names), Column("difference")]
    caption = f"{evaluation.compared_by} of users with and without a release row in use, {ranking} ranking"
    return [Table(f"card-{ranking}-rows", caption, columns, rows)]


def _row_cells(one: MeasuredRows) -> list[Cell]:
    own, other = ("–" if value is None else f"{value:.4f}" for value in (one.value, one.baseline_value))
    d = one.difference
    change = Cell("–") if d is None else Cell(f"{d.mean:+.4f}", d.mean, f"[{d.low:+.4f}, {d.high:+.4f}]")
    return [Cell(other), Cell(own), change]


def _cell(figure: MeasuredFigure | None) -> Cell:
    if figure is None:
        return Cell("–")
    return Cell(f"{figure.value:.4f}", figure.value, "" if figure.error is None else f"± {figure.error:.4f}")
