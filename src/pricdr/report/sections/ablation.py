"""RQ3 on the page."""

from pricdr.evaluation.verdict import Verdict
from pricdr.pages import Bullets, Column, Columns, Note, Row, Section, Table
from pricdr.report.ablation import Ablation, AblationRow, ablation
from pricdr.report.charts import dot_panel
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
    panels = [
        dot_panel(
            {row.arm: row.measured for row in rows if row.stratum == stratum},
            id=f"rq3-{at}-{stratum}",
            caption=f"{STRATA[stratum].capitalize()}, ± one standard error",
        )
        for stratum in dict.fromkeys(row.stratum for row in rows)
    ]
    compared = next((row.compared_with for row in rows if row.compared_with), "")
    columns = [
        *(Column("arm", numeric=False), Column("users", numeric=False), Column("private?", numeric=False)),
        *(Column("NDCG@10"), Column(f"− {compared}" if compared else "difference"), Column("comes to", numeric=False)),
    ]
    table = Table(f"rq3-{at}", f"{task}, ablation", columns, [_row(row) for row in rows])
    return Section(task, [Columns(panels), table], id=f"rq3-{at}-section")


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
