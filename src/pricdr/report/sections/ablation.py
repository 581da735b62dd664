"""RQ3 on the page."""

from pricdr.evaluation.verdict import Verdict
from pricdr.pages import Bullets, Column, Columns, Details, Note, Row, Section, Table
from pricdr.report.ablation import Ablation, AblationRow, ablation
from pricdr.report.charts import dot_panel
from pricdr.report.folder import STRATA, ResultsFolder
from pricdr.report.sections import cells
from pricdr.report.sections.gates import GATES

WORDS = {Verdict.HELPS: "better", Verdict.HURTS: "worse", Verdict.UNCLEAR: "cannot be told"}


def section(folder: ResultsFolder) -> Section | None:
    """Return RQ3, or None where the folder has no spec of it."""
    found = ablation(folder)
    if found is None:
        return None
    blocks: list[Bullets | Note | Section | Table | str] = []
    if found.sentences:
        blocks.append(Bullets(found.sentences))
    if found.rows:
        blocks.append(GATES)
    blocks += [Note(line) for line in found.absent]
    if found.duels:
        blocks.append(_duels(found))
    blocks += [_task(found, task, at) for at, task in enumerate(dict.fromkeys(row.task for row in found.rows), 1)]
    return Section("RQ3: what each part is worth", blocks, id="rq3", hides="arms")


def _task(found: Ablation, task: str, at: int) -> Section:
    rows = [row for row in found.rows if row.task == task]
    panels = [
        dot_panel(
            {row.arm: row.measured for row in rows if row.stratum == stratum and row.drawn},
            id=f"rq3-{at}-{stratum}",
            caption=f"{STRATA[stratum].capitalize()}, ± one standard error",
        )
        for stratum in dict.fromkeys(row.stratum for row in rows)
    ]
    columns = [
        *(Column("arm", numeric=False), Column("users", numeric=False), Column("private?", numeric=False)),
        *(Column("NDCG@10"), Column(f"− {found.baseline}" if found.baseline else "gain")),
        Column("change", "What tells the arm from the one whose name it goes on from.", numeric=False),
        *(Column("difference", "To that arm, seed by seed."), Column("comes to", numeric=False)),
    ]
    table = Table(f"rq3-{at}", f"{task}, every arm", columns, [_row(row) for row in rows])
    return Section(task, [Columns(panels), Details("Every arm", [table])], id=f"rq3-{at}-section")


def _duels(found: Ablation) -> Table:
    columns = [
        *(Column("method", numeric=False), Column("setting", numeric=False), Column("private?", numeric=False)),
        *(Column("task", numeric=False), Column("users", numeric=False)),
        *(Column("NDCG@10 − PriCDR-SYM"), Column("comes to", numeric=False)),
    ]
    rows = [
        Row(
            [
                *(duel.method, duel.setting, duel.access.value, duel.task, duel.stratum),
                *(cells.measured(duel.difference, signed=True), cells.judged(duel.difference, WORDS)),
            ],
            series=duel.method,
        )
        for duel in found.duels
    ]
    return Table("rq3-symmetric", "PriCDR-J and PriCDR-S against PriCDR-SYM, all else alike", columns, rows)


def _row(row: AblationRow) -> Row:
    return Row(
        [
            *(row.arm, row.stratum, row.access.value),
            *(cells.measured(row.measured), cells.measured(row.gain, signed=True), row.change or "–"),
            *(cells.measured(row.difference, signed=True), cells.judged(row.difference, WORDS)),
        ],
        series=row.arm,
    )
