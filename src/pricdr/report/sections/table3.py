"""Table 3 on the page: users, items and ratings of every task, the paper's figures and ours."""

from pricdr.experiments.paper_tasks import Counts
from pricdr.experiments.table3 import Reading, Table3Row, read
from pricdr.pages import Bullets, Cell, Column, Details, Note, Row, Section, Table
from pricdr.report.folder import TABLE3, ResultsFolder


def section(folder: ResultsFolder) -> Section:
    """Return Table 3, or how to make it."""
    path = folder.file(TABLE3)
    if path is None:
        return Section(HEADING, [Note("Not counted yet: pricdr reproduce --table3 does it.")], id="table3")
    table = read(path)
    agreeing = sum(row.agrees is True for row in table.rows)
    differing = sum(row.agrees is False for row in table.rows)
    absent = [row for row in table.rows if row.measured is None]
    blocks: list[str | Table | Details | Bullets] = [
        f"Counted from the raw files on {table.provenance.finished[:10]}. Of the paper's tasks, {agreeing} "
        f"{'agrees' if agreeing == 1 else 'agree'} to the digit, {differing} "
        f"{'differs' if differing == 1 else 'differ'}, and {sum(row.paper is not None for row in absent)} have no "
        "data here.",
        Table(
            "table3-table", "Data after preprocessing", _columns(), [line for row in table.rows for line in _rows(row)]
        ),
    ]
    readings = [line for row in table.rows for line in _readings(row)]
    if readings:
        columns = [Column("task", numeric=False), Column("preprocessing", numeric=False), *_columns()[2:]]
        other = Table("table3-readings", "What other preprocessing would give", columns, readings)
        blocks.append(Details("What other readings of the paper's words give", [other]))
    expected = [f"{row.title}: {' · '.join(row.expected)}" for row in absent if row.expected]
    if expected:
        blocks.append(Details("Files that would do where data is not present", [Bullets(expected)]))
    return Section(HEADING, blocks, id="table3", hides="tasks")


HEADING = "Table 3: the data"


def _columns() -> list[Column]:
    return [
        *(Column("task", numeric=False), Column("whose", numeric=False), Column("users")),
        *(Column("source items"), Column("source ratings"), Column("source density")),
        *(Column("target items"), Column("target ratings"), Column("target density")),
    ]


def _rows(row: Table3Row) -> list[Row]:
    title = row.title if "stand-in" in row.title or not row.stand_in else f"{row.title} (stand-in)"
    found = []
    if row.paper is not None:
        found.append(Row([title, "paper", *_cells(row.paper, None)], series=row.paper_task or title))
    if row.measured is None:
        found.append(Row([title, row.missing or "not counted", *["–"] * 7], series=row.paper_task or title))
    else:
        whose = {True: "ours: the same", False: "ours: differs", None: "ours"}[row.agrees]
        found.append(
            Row(
                [title, Cell(whose, hover=[row.preprocessing]), *_cells(row.measured, row.paper)],
                series=row.paper_task or title,
            )
        )
    return found


def _readings(row: Table3Row) -> list[Row]:
    def line(reading: Reading) -> Row:
        return Row([row.title, reading.words, *_cells(reading.counts, row.paper)], series=row.paper_task or row.title)

    return [line(reading) for reading in row.readings]


def _cells(counts: Counts, paper: Counts | None) -> list[Cell]:
    """Return the figures of a row, those that differ from the paper's pointed out."""

    def whole(name: str) -> Cell:
        value: int = getattr(counts, name)
        expected: int | None = None if paper is None else getattr(paper, name)
        differs = expected is not None and expected != value
        return Cell(f"{value:,}", sort=value, hover=[f"the paper: {expected:,}"] if differs else (), strong=differs)

    def density(value: float) -> Cell:
        return Cell(f"{100 * value:.2f} %", sort=value)

    return [
        *(whole("users"), whole("source_items"), whole("source_ratings"), density(counts.source_density)),
        *(whole("target_items"), whole("target_ratings"), density(counts.target_density)),
    ]
