"""Table 2 on the page: a table for every task that was measured, and the paper's figures for the others."""

from collections.abc import Sequence
from dataclasses import replace

from pricdr.evaluation.metrics import NAMES
from pricdr.pages import Bullets, Cell, Column, Details, Figure, Note, Row, Section, Table
from pricdr.pages.page import slug
from pricdr.report.charts import paper_and_ours
from pricdr.report.claims import claims
from pricdr.report.folder import Experiment, ResultsFolder
from pricdr.report.paper import PaperRow, Rule, paper_table
from pricdr.report.sections import cells
from pricdr.report.table2 import Row as MethodRow
from pricdr.report.table2 import Task, impossible_cells, tasks

HELP = {"ours": "Mean over seeds, ± its standard error.", "diff": "Ours minus the paper's."}
PRIVATE = (
    "Whether the source's ratings are protected: by a release at this ε, or not at all. Some methods read none of them."
)
MARKS = {
    Rule.NDCG_BELOW_MRR: "Impossible: NDCG@k is below MRR@k. With one held-out item per user, rank r counts "
    "1/log2(1 + r) for NDCG and 1/r for MRR, and the first is never smaller.",
    Rule.FALLING: "Impossible: the metric falls from k = 5 to k = 10, though whoever counts among the first five "
    "counts as much among the first ten.",
    Rule.STEP: "Impossible together with HR@5 and HR@10, if all are of the same rankings: users whose item is at rank "
    "6 to 10 count 0.29 to 0.36 each for NDCG and 0.10 to 0.17 for MRR, so HR's rise from 5 to 10 bounds theirs.",
}
"""What a mark on one of the paper's cells says, by the rule that the cell breaks."""


def section(folder: ResultsFolder) -> Section:
    """Return Table 2."""
    every = tasks(folder)
    measured = [task for task in every if any(row.ours("HR@10") for row in (*task.rows, *task.further))]
    measured.sort(key=lambda task: (task.rows[0].paper is None, not task.stands_for))
    others = [task for task in every if task not in measured and not task.stands_for]
    blocks: list[Section | Note | Details | str] = [
        "Ten methods on six tasks. Ours: mean ± standard error over seeds; over all users beside the paper's figures, "
        "over warm and cold users apart elsewhere; point at a figure for its seeds. Private or not is about the "
        "source's ratings: methods that read them in plaintext protect nobody.",
        Note(_impossible_in_words()),
        *(_task_section(task, name) for task, name in zip(measured, _names(measured), strict=True)),
    ]
    if others:
        blocks.append(_without_data(others))
    blocks.append(Details("Everything in the paper's Table 2 that contradicts itself", [_contradictions()]))
    return Section("Table 2: methods and tasks", blocks, id="table2")


def _impossible_in_words() -> str:
    found = impossible_cells()
    own = sum(row.method.startswith("PriCDR") for row in found.rows)
    return (
        f"Of the paper's {len(paper_table())} rows, {len(found.rows)} contradict themselves, {own} of them rows of "
        "PriCDR: no rankings of one held-out item per user give these figures together. NDCG is below MRR in "
        f"{found.ndcg_below_mrr} places, a metric falls as the list grows in {found.falling}, and the step from 5 to "
        f"10 does not fit HR in {found.steps}. The first two cannot be even if every figure is its own best over "
        "epochs or settings; the third takes the figures of a row to be of the same rankings, which the paper does not "
        "say. Such cells are marked with a letter."
    )


def _names(found: Sequence[Task]) -> list[str]:
    """Return a part of ids for each task: its title, and its place where another has the same."""
    names = [slug(task.title) for task in found]
    return [name if names.count(name) == 1 else f"{name}-{at}" for at, name in enumerate(names, 1)]


def _task_section(task: Task, name: str) -> Section:
    blocks: list[Note | Table | Details | Figure | Bullets | str] = []
    if task.stands_for:
        blocks.append(
            Note(
                f"A stand-in: other data than the paper's {task.stands_for}, so the paper's figures are not beside it."
            )
        )
    elif all(row.paper is None for row in task.rows):
        blocks.append("Not a task of the paper.")
    else:
        told = claims(task)
        if _has_one_split(task):
            blocks.append(
                "The split is that of the data's authors, the same for every seed: ± is about releases and training, "
                "and says nothing about other users or other hidden items."
            )
        blocks += [
            *([Bullets(told)] if told else []),
            paper_and_ours(task, id=f"table2-{name}-chart", metric="NDCG@10"),
        ]
    blocks.append(_task_table(task, 10, f"table2-{name}"))
    blocks.append(Details("The same at 5", [_task_table(task, 5, f"table2-{name}-at-5")]))
    return Section(task.title, blocks, id=f"table2-{name}-section")


def _task_table(task: Task, k: int, id: str) -> Table:
    metrics = [metric for metric in NAMES if metric.endswith(f"@{k}")]
    compared = any(row.paper is not None for row in task.rows)
    strata = _strata(task)
    per_metric = ("paper", "ours", "diff") if compared else strata
    columns = [Column("method", numeric=False), Column("private?", PRIVATE, numeric=False)]
    columns += [Column(name, HELP.get(name, "")) for _ in metrics for name in per_metric]
    spans = [("", 2), *((metric, len(per_metric)) for metric in metrics)]
    rows = [
        _row(row, metrics, () if compared else strata)
        for row in (*task.rows, *task.further)
        if compared or not row.absent
    ]
    beyond = " Methods below PriCDR-S are not in the paper: controls for all of it." if task.further else ""
    return Table(
        id,
        f"{task.title}, the first {k} places",
        columns,
        rows,
        spans,
        note=f"diff: ours − paper.{beyond}" if compared else beyond.strip(),
    )


def _experiment(task: Task) -> Experiment | None:
    return next((row.experiment for row in (*task.rows, *task.further) if row.experiment is not None), None)


def _has_one_split(task: Task) -> bool:
    experiment = _experiment(task)
    return experiment is not None and experiment.outline.data.official


def _strata(task: Task) -> tuple[str, ...]:
    """Return the kinds of users that a task has figures for, warm and cold apart."""
    experiment = _experiment(task)
    return () if experiment is None else tuple(stratum for stratum in ("warm", "cold") if stratum in experiment.strata)


def _row(row: MethodRow, metrics: list[str], strata: tuple[str, ...]) -> Row:
    """Return the row of a method: the paper's figure, ours and the difference, or ours for each of ``strata``."""
    found: list[Cell | str] = [row.method, row.access]
    for metric in metrics:
        if strata:
            found += [_our_cell(row, metric, stratum) for stratum in strata]
            continue
        found.append(_paper_cell(row.paper, metric))
        found.append(Cell(row.absent, sort=float("nan")) if row.absent else _our_cell(row, metric))
        found.append(cells.decimal(row.difference(metric), signed=True))
    return Row(found, series=row.method)


def _our_cell(row: MethodRow, metric: str, stratum: str = "all") -> Cell:
    """Return our figure, marked where it is not that of a release."""
    return replace(cells.measured(row.ours(metric, stratum)), mark=row.refusal(stratum))


def _paper_cell(paper: PaperRow | None, metric: str) -> Cell:
    if paper is None:
        return cells.ABSENT
    broken = [one for one in paper.contradictions if metric in one.metrics]
    first = min(broken, key=lambda one: list(Rule).index(one.rule), default=None)
    return Cell(
        f"{paper.figures[metric]:.4f}",
        mark="" if first is None else MARKS[first.rule],
        hover=[one.words for one in broken],
    )


def _without_data(others: list[Task]) -> Section:
    """Return the paper's tasks that nothing was measured on: their rows are kept."""
    metrics = [metric for metric in NAMES if metric.endswith("@10")]
    rows = [
        Row(
            [task.title, row.method, *(_paper_cell(row.paper, metric) for metric in metrics), Cell(row.absent)],
            series=row.method,
        )
        for task in others
        for row in task.rows
    ]
    columns = [Column("task", numeric=False), Column("method", numeric=False)]
    columns += [*(Column(f"{metric}, paper") for metric in metrics), Column("ours", numeric=False)]
    table = Table("table2-absent", "The paper's figures on tasks without results of ours", columns, rows)
    why = dict.fromkeys(f"{task.title}: {task.absent}." for task in others)
    return Section("Tasks without results", [" ".join(why), Details("Their rows", [table])], id="table2-absent-section")


def _contradictions() -> Table:
    rows = [
        Row([row.task, row.method, one.rule.value, one.words], series=row.method)
        for row in paper_table().values()
        for one in row.contradictions
    ]
    columns = [Column(name, numeric=False) for name in ("task", "method", "what", "in figures")]
    return Table("table2-contradictions", "Contradictions in the paper's Table 2, rounding allowed for", columns, rows)
