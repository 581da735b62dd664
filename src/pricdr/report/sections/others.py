"""Searches, costs, provenance, and experiments that belong to no other section."""

from pricdr.evaluation.metrics import NAMES
from pricdr.experiments.tables import DECISIVE
from pricdr.pages import Bullets, Cell, Column, Details, Note, Row, Section, Table
from pricdr.report.cost import CostRow, costs
from pricdr.report.folder import STRATA, Access, Experiment, ResultsFolder
from pricdr.report.provenance import RunRow, environments, provenance
from pricdr.report.searches import SearchRow, searches
from pricdr.report.sections import cells


def search_section(folder: ResultsFolder) -> Section | None:
    """Return what searches tried and chose."""
    rows = searches(folder)
    if not rows:
        return None
    columns = [
        *(Column("search", numeric=False), Column("method", numeric=False)),
        Column("trials"),
        Column("failed", "Trials whose training went wrong; they count as tried."),
        Column("defaults", "NDCG@10 on validation with the method's defaults."),
        Column("best", "The best NDCG@10 on validation."),
        Column("test", "NDCG@10 of all users on test, of an arm with these very settings: mean over its seeds."),
        *(Column("tested as", numeric=False), Column("hours")),
    ]
    table = Table("searches-table", "Searches, by data and method", columns, [_search(row) for row in rows])
    heads = [Column(name, numeric=False) for name in ("search", "method", "best settings")]
    chosen = [Row([row.search, row.method, row.settings], series=row.method) for row in rows]
    total = sum(row.trials for row in rows)
    return Section(
        "Searches",
        [
            f"{total:,} trials. Every method is searched alike, its defaults first, and judged on validation items "
            "with a seed of its own; no trial is ever scored on test. A best of many is a little lucky: test is what "
            "counts.",
            table,
            Details(
                "What was chosen", [Table("searches-settings", "The best settings of every search", heads, chosen)]
            ),
        ],
        id="searches",
    )


def _search(row: SearchRow) -> Row:
    return Row(
        [
            *(row.search, row.method, f"{row.trials}", f"{row.failed}"),
            *(cells.decimal(row.default), cells.decimal(row.best), cells.measured(row.test)),
            *(
                Cell(row.tested_as or "–", hover=[row.tested_in] if row.tested_in else ()),
                cells.decimal(row.seconds / 3600, 1),
            ),
        ],
        series=row.method,
    )


def cost_section(folder: ResultsFolder) -> Section | None:
    """Return what methods cost."""
    rows = costs(folder)
    if not rows:
        return None
    columns = [
        *(Column("task", numeric=False), Column("arm", numeric=False), Column("device", numeric=False), Column("runs")),
        Column("seconds", "Median over runs."),
        Column("times DMF", "Seconds divided by those of DMF on the same task and device."),
        Column("epochs", "Median over runs."),
        Column("memory, GiB", "The largest peak of a run: of the GPU, or of the whole process."),
    ]
    return Section(
        "Cost",
        [
            "Time of one run: training, choosing on validation, and scoring on test. A network that another arm had "
            "trained already counts for nothing, so arms that share a target network look cheaper than they are "
            "alone.",
            Table("cost-table", "Time and memory by task and method", columns, [_cost(row) for row in rows]),
        ],
        id="cost",
    )


def _cost(row: CostRow) -> Row:
    return Row(
        [
            *(row.task, row.arm, row.device, f"{row.runs}"),
            *(cells.decimal(row.seconds, 1), cells.decimal(row.ratio, 2), cells.decimal(row.epochs, 0)),
            cells.decimal(None if row.memory is None else row.memory / 2**30, 2),
        ],
        series=row.arm,
    )


def provenance_section(folder: ResultsFolder) -> Section:
    """Return what was run, when, on what and from which commit, and what is missing."""
    rows = provenance(folder)
    columns = [
        *(Column("results", numeric=False), Column("data", numeric=False)),
        *(Column("arms"), Column("seeds"), Column("runs")),
        Column("missing", "Runs that were asked for and have no result."),
        Column("stale", "Results with other settings than the spec has now: left out of this page."),
        *(Column(name, numeric=False) for name in ("first run", "last run")),
    ]
    runs, missing, stale = (sum(getattr(row, name) for row in rows) for name in ("runs", "missing", "stale"))
    blocks: list[str | Table | Bullets | Details] = [
        f"{runs:,} runs are shown; {missing:,} that specs ask for are missing; {stale:,} were measured with other "
        "settings than their spec has now, and are left out.",
        _environments(folder),
        Table("provenance-table", "What was run", columns, [_run(row) for row in rows]),
    ]
    lacking = [f"{row.name}: {row.missing_in_words}" for row in rows if row.missing_in_words]
    if lacking:
        blocks.append(Details("Every missing run", [Bullets(lacking)]))
    if folder.unclaimed:
        blocks.append(f"Files of results without a spec beside them, not shown: {', '.join(folder.unclaimed)}.")
    return Section("What was run", blocks, id="provenance", hides="specs")


def _environments(folder: ResultsFolder) -> Table:
    names = ("machine", "commit", "pricdr", "Python", "torch", "numpy", "scipy")
    columns = [*(Column(name, numeric=False) for name in names), Column("runs")]
    columns += [Column("from", numeric=False), Column("to", numeric=False)]
    rows = [
        Row([*one.words, f"{one.runs:,}", one.first.replace("T", " "), one.last.replace("T", " ")])
        for one in environments(folder)
    ]
    return Table("environments", "On what, from which commit, with which versions", columns, rows)


def _run(row: RunRow) -> Row:
    return Row(
        [
            *(row.name, row.title, f"{row.arms}", f"{row.seeds}", f"{row.runs}"),
            *(Cell(f"{row.missing}", hover=[row.missing_in_words] if row.missing_in_words else ()), f"{row.stale}"),
            *(row.first or "–", row.last or "–"),
        ],
        series=row.family,
    )


def other_section(folder: ResultsFolder, shown: set[str]) -> Section | None:
    """Return the experiments of families that no other section shows."""
    others = [one for one in folder.experiments if one.outline.family not in shown]
    if not others:
        return None
    return Section(
        "Other experiments", [_experiment(one, at) for at, one in enumerate(others, 1)], id="others", hides="arms"
    )


def _experiment(experiment: Experiment, at: int) -> Section:
    outline = experiment.outline
    heading = f"{outline.title}: {experiment.title}" if experiment.title not in outline.title else outline.title
    if not experiment.runs:
        blocks: list[Note | str | Table] = [Note(f"{outline.missing or 'Not run yet'}.")]
    else:
        blocks = [*(line for line in [" ".join(outline.note.split())] if line), _table(experiment, at)]
    return Section(heading, blocks, id=f"other-{at}-section")


def _table(experiment: Experiment, at: int) -> Table:
    strata = experiment.strata
    others = [metric for metric in NAMES if metric in ("HR@10", "MRR@10")]
    columns = [Column("arm", numeric=False), Column("private?", numeric=False)]
    columns += [
        Column(f"{DECISIVE}, {stratum}", f"{experiment.users(stratum):,} {STRATA[stratum]}") for stratum in strata
    ]
    columns += [Column(f"{metric}, all") for metric in others]
    rows = [
        Row(
            [
                *(arm.name, Access.of(arm).value),
                *(cells.measured(experiment.measured(arm, stratum)) for stratum in strata),
                *(cells.measured(experiment.measured(arm, "all", metric)) for metric in others),
            ],
            series=arm.name,
        )
        for arm in experiment.outline.arms
    ]
    return Table(f"other-{at}", f"{experiment.title}, every arm", columns, rows)
