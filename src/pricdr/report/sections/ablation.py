"""RQ3 on the page."""

import math

from pricdr.evaluation.verdict import Verdict
from pricdr.pages import Bullets, Column, Dot, Figure, Note, Row, Section, Table, dot_plot
from pricdr.report.ablation import Ablation, AblationRow, ablation
from pricdr.report.folder import STRATA, ResultsFolder
from pricdr.report.sections import cells

WORDS = {Verdict.HELPS: "better", Verdict.HURTS: "worse", Verdict.UNCLEAR: "cannot be told"}


def section(folder: ResultsFolder) -> Section | None:
    """Return RQ3, or None where the folder has no spec of it."""
    found = ablation(folder)
    if found is None:
        return None
    blocks: list[Bullets | Note | Section] = []
    if found.sentences:
        blocks.append(Bullets(found.sentences))
    blocks += [Note(line) for line in found.absent]
    blocks += [_task(found, task, at) for at, task in enumerate(dict.fromkeys(row.task for row in found.rows), 1)]
    return Section("RQ3: what each part is worth", blocks, id="rq3")


def _task(found: Ablation, task: str, at: int) -> Section:
    rows = [row for row in found.rows if row.task == task]
    figure = dot_plot(
        f"rq3-{at}-chart",
        f"{task}: NDCG@10 ± one standard error over seeds",
        [_dot(row) for row in rows],
        label="NDCG@10",
    )
    compared = next((row.compared_with for row in rows if row.compared_with), "")
    columns = [
        *(Column("arm", numeric=False), Column("users", numeric=False), Column("sees", numeric=False)),
        *(Column("NDCG@10"), Column(f"− {compared}" if compared else "difference"), Column("comes to", numeric=False)),
    ]
    table = Table(f"rq3-{at}", f"{task}, ablation", columns, [_row(row) for row in rows])
    blocks: list[Figure | Table] = [*([] if figure is None else [figure]), table]
    return Section(task, blocks, id=f"rq3-{at}-section")


def _dot(row: AblationRow) -> Dot:
    value, error = row.measured.value, row.measured.error
    low, high = (value, value) if math.isnan(error) else (value - error, value + error)
    return Dot(row.arm, STRATA[row.stratum], value, low, high, hover=[row.measured.seeds_in_words()])


def _row(row: AblationRow) -> Row:
    return Row(
        [
            row.arm,
            STRATA[row.stratum],
            row.access.value,
            cells.measured(row.measured),
            cells.measured(row.difference, signed=True),
            cells.judged(row.difference, WORDS),
        ],
        series=row.arm,
    )
