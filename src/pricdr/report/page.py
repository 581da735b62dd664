"""The report of a results folder on one page: what crosses between two companies, at which ε; then every result.

Sentences are written by hand; what figures say, tables say, and whether a release helps is a word in them.
"""

from collections import Counter
from collections.abc import Sequence
from math import isnan
from statistics import median
from typing import Final

from pricdr import __version__
from pricdr.evaluation.verdict import Verdict
from pricdr.experiments import table3
from pricdr.experiments.measured import STRATA, Access, Experiment, Measurement, number
from pricdr.experiments.results import CONTROLS, ArmOutline, read_synthetic, share
from pricdr.pages import (
    Block,
    Bullets,
    Cell,
    Column,
    Content,
    Details,
    Note,
    Page,
    Row,
    Section,
    SideBySide,
    Table,
    render,
    table,
)
from pricdr.pages.charts import chart_figure
from pricdr.privacy.accounting import Calibration
from pricdr.progress import Progress, silent
from pricdr.release.inspection import Inspection, attack_section
from pricdr.report.charts import curve_figures, share_charts
from pricdr.report.folder import SYNTHETIC, TABLE3, ResultsFolder
from pricdr.report.paper import METHODS, TASKS, paper_table

FRONTIER: Final = "frontier"
"""The family whose results open the page."""
USUAL_EPSILON: Final = 4.0
"""The ε that sentences speak of, where it was measured."""
METRIC: Final = "NDCG@10 among 99 sampled items"
_ANSWER: Final = (
    "What a private release is worth to users of another company, in {metric}: with ε = {epsilon:g}, and beside it all "
    "there is to gain, with the source's ratings in plaintext."
)
_CONTROLS: Final = (
    "{gained} of {of} controls, releases of shuffled ratings or of noise alone, gained for certain; the most that one "
    "gained is {most}: do not trust gains of that size."
)
ABSENT: Final = Cell("–")
_PAPER_METRICS: Final = ("HR@10", "NDCG@10", "MRR@10")


def report(folder: ResultsFolder, *, inspection: Inspection | None = None, progress: Progress = silent) -> str:
    """Return the page as HTML.

    Args:
        folder: what to show.
        inspection: a verified release to draw.
        progress: is told how many experiments are done.
    """
    experiments = []
    for at, experiment in enumerate(folder.experiments, 1):
        progress("drawing", at, len(folder.experiments), experiment.title)
        experiments.append(experiment_details(experiment, at))
    sections = [
        Section("Every result", [_HOW_TO_READ_TABLES, *experiments, *_synthetic(folder)], id="results"),
        Section("The paper beside ours", [*_table2(folder), *_table3(folder)], id="paper"),
        Section("How it was measured", [*_searches(folder), *_provenance(folder)], id="provenance"),
    ]
    if inspection is not None:
        c = inspection.certificate
        words = f"A verified release: {c.users:,} users x {c.dim:,} numbers by {c.strategy.name}; promise {c.promise}."
        sections.append(attack_section(c, words))
    footer = [f"Made by pricdr {__version__} from a results folder. This page loads nothing."]
    return render(Page("What crosses between two companies' ratings, at which ε", sections, lead(folder), footer))


def lead(folder: ResultsFolder) -> Content:
    """Return the answer, one table and one picture for each pair; or what is missing to give one."""
    pairs = sorted(folder.family(FRONTIER), key=lambda pair: not pair.has_ceiling)
    epsilon = usual_epsilon(pairs)
    if epsilon is None:
        return [Note("There are no results of the frontier (specs/frontier.toml) yet, so what crosses cannot be told.")]
    figures = [
        chart_figure(f"shares-{at}", pair.title, chart, in_words=words, note=_ceiling_note(pair))
        for at, (pair, chart, words) in enumerate(share_charts(pairs), 1)
    ]
    return [
        _ANSWER.format(metric=METRIC, epsilon=epsilon),
        _summary(pairs, epsilon),
        _controls(pairs),
        SideBySide(figures),
        Details("The same, ranked among all items", [_summary(pairs, epsilon, full=True)]),
        Details("How to read it", [Bullets(_HOW_TO_READ)]),
    ]


def usual_epsilon(pairs: Sequence[Experiment]) -> float | None:
    """Return the ε to speak of: 4 where it was measured, otherwise the middle one; None without private results."""
    found = sorted({float(arm.at or 0.0) for pair in pairs for arm in pair.private_arms("cold")})
    return USUAL_EPSILON if USUAL_EPSILON in found else found[len(found) // 2] if found else None


_HOW_TO_READ: Final = (
    f"All figures are {METRIC}: one hidden item of a user among 99 that the user has not rated.",
    "Cold users have no history at the target, warm users have one. A share is of what the source's ratings in "
    "plaintext gain for cold users over popularity.",
    "± is one standard error over seeds, [ , ] a 95 % interval over seeds. A seed has a split, a release and a network "
    "of its own, but all draw on the same users and ratings.",
    "A release helps if the 95 % interval of the difference, seed by seed, lies above the best model without a "
    "release and above every control: releases of shuffled ratings, and of noise alone.",
    "The best release is the best on test of those tried, so it is a little lucky; the error of a share leaves out "
    "that of the plaintext gain it is a share of.",
)
_HOW_TO_READ_TABLES: Final = (
    "A row is one arm, a figure its mean over seeds ± one standard error; point at a figure, or move there with the "
    "keyboard, for its seeds. Our model tests on its own training and validation data whether a release is worth "
    "anything, and refuses one that is not; with gates off it is used whatever it is worth."
)


def _controls(pairs: Sequence[Experiment]) -> str:
    """Return whether anything gained that must not, which would cast doubt on the gains of releases."""
    gains = [gain for pair in pairs for arm in pair.controls if (gain := pair.gain(arm, "cold"))]
    if not gains:
        return "No control was run, so a gain need not be a transfer."
    return _CONTROLS.format(
        of=len(gains),
        gained=sum(gain.verdict is Verdict.HELPS for gain in gains),
        most=number(max(gain.value for gain in gains), signed=True),
    )


def _ceiling_note(pair: Experiment) -> str:
    """Return what to say of a pair on which plaintext gains nothing for certain."""
    if pair.ceiling is None or pair.has_ceiling:
        return ""
    gain = pair.gain(pair.ceiling, "cold").interval_in_words()
    return f"Even {pair.ceiling.name} gains nothing for certain here ({gain}), so shares of that gain mean little."


def _summary(pairs: Sequence[Experiment], epsilon: float, *, full: bool = False) -> Table:
    """Return the answer: what users get without a release, with the best private one and in plaintext; and verdicts."""
    ranking, among = ("full", "all items") if full else ("sampled", "99 items")
    columns = [Column(name, numeric=False) for name in ("data", "users")]
    columns += [Column("without"), Column(f"ε = {epsilon:g}"), Column("plaintext", "NOT PRIVATE, for comparison")]
    columns += [] if full else [Column("share kept"), Column("the release", _HOW_TO_READ[3], numeric=False)]
    rows = []
    for pair, stratum in ((pair, stratum) for stratum in ("cold", "warm") for pair in pairs):
        arm, base = pair.best(stratum, epsilon), pair.reference(stratum)
        if arm is None or base is None:
            continue
        shown = (base, arm, pair.ceiling)
        cells = [ABSENT if one is None else _figure(pair.measured(one, stratum, ranking=ranking)) for one in shown]
        if not full:
            cells += [_share(pair.share(arm)) if stratum == "cold" else ABSENT, _verdict(pair, arm, stratum)]
        if cells[1] is not ABSENT:
            rows.append(Row([pair.title, stratum, *cells]))
    note = "Without: popularity for cold users, the best model of the target alone for warm ones."
    caption = f"NDCG@10 among {among}, with the best private release at ε = {epsilon:g}"
    return Table("summary-full" if full else "summary", caption, columns, rows, note)


def _verdict(pair: Experiment, arm: ArmOutline, stratum: str) -> Cell:
    """Return in a word whether a release helps, and what decided it for those who point there."""
    verdict, difference, against = pair.beats_controls(arm, stratum)
    if not difference:
        return ABSENT
    hover = [arm.name, f"{difference.interval_in_words()} against {against}"]
    return Cell(verdict.value, difference.value, hover=hover, strong=verdict is not Verdict.UNCLEAR)


def experiment_details(experiment: Experiment, at: int) -> Details:
    """Return one experiment, folded away: its note, its curves where it has any, and every arm."""
    outline = experiment.outline
    title = outline.title if experiment.title in outline.title else f"{outline.title}: {experiment.title}"
    if not experiment.runs:
        return Details(title, [Note(f"{outline.missing or 'Not run yet'}.")])
    blocks: list[Block | str] = [" ".join(outline.note.split())] if outline.note.strip() else []
    if outline.family != FRONTIER and (figures := curve_figures(experiment, f"curves-{at}")):
        blocks.append(SideBySide(figures))
    return Details(title, [*blocks, every_arm(experiment, f"arms-{at}")])


def every_arm(experiment: Experiment, id: str) -> Table:
    """Return the table of every arm of an experiment that has results."""
    strata, shares = experiment.strata, bool(experiment.ceiling) and "cold" in experiment.strata
    columns = [Column("arm", numeric=False), Column("private?", numeric=False)]
    for stratum in strata:
        columns.append(Column(f"NDCG@10, {stratum}", f"{experiment.users(stratum):,} {STRATA[stratum]}"))
        reference = experiment.reference(stratum)
        against = "nothing" if reference is None else reference.name
        columns.append(
            Column(f"the release, {stratum}", f"Better than {against} and than every control?", numeric=False)
        )
    if shares:
        columns.append(Column("share kept", f"Of what {experiment.outline.ceiling} gains for cold users."))
    columns += [Column("full ranking", "NDCG@10 of all users among all items"), Column("HR@10", "Of all users")]
    columns.append(Column("seconds", "Median over runs: training, choosing on validation, scoring on test"))
    rows = []
    for arm in experiment.outline.arms:
        if not experiment.results_of(arm):
            continue
        private = Access.of(arm) is Access.PRIVATE
        cells: list[Cell | str] = [arm.name, access_in_words(experiment, arm)]
        for stratum in strata:
            measured = experiment.measured(arm, stratum)
            cells += [
                _figure(measured, _refusal(experiment, arm, stratum)),
                _verdict(experiment, arm, stratum) if private else ABSENT,
            ]
        if shares:
            cells.append(_share(experiment.share(arm)))
        cells.append(_figure(experiment.measured(arm, "all", ranking="full")))
        cells += [_figure(experiment.measured(arm, "all", "HR@10")), _cost(experiment, arm)]
        rows.append(Row(cells))
    return Table(id, f"{experiment.title}, every arm", columns, rows)


def _figure(measured: Measurement, mark: str = "") -> Cell:
    """Return a mean with its standard error, and every seed for those who point at it."""
    if not measured:
        return ABSENT
    error = measured.mean.error
    seeds = [f"seed {seed}: {number(one, 5)}" for seed, one in sorted(measured.by_seed.items())]
    return Cell(number(measured.value), measured.value, "" if isnan(error) else f"± {error:.4f}", seeds, mark)


def _share(measured: Measurement) -> Cell:
    """Return the same of a share, in per cent."""
    if not measured:
        return ABSENT
    shown, _, error = measured.percent().removesuffix(" %").partition(" ± ")
    seeds = [f"seed {seed}: {number(100 * one, 1)} %" for seed, one in sorted(measured.by_seed.items())]
    return Cell(f"{shown} %", measured.value, f"± {error}" if error else "", seeds)


def access_in_words(experiment: Experiment, arm: ArmOutline) -> str:
    """Return what an arm saw, and at which ε; with the paper's calibration the nominal one and what it delivers."""
    access = Access.of(arm)
    if access is not Access.PRIVATE or arm.release is None:
        return access.value
    if arm.release.calibration is Calibration.EXACT:
        return f"{access.value}, ε = {arm.release.epsilon:g}"
    facts = [result.release for result in experiment.results_of(arm).values() if result.release is not None]
    exact = max((float(one.epsilon) for one in facts if one.epsilon is not None), default=None)
    known = "" if exact is None else f", exact ε = {exact:.3g}"
    return f"{access.value}, nominal ε = {arm.release.epsilon:g}{known}"


def _refusal(experiment: Experiment, arm: ArmOutline, stratum: str) -> str:
    """Return what to know of a figure whose release was refused; nothing where it was used, or nothing tells."""
    refused, runs = experiment.refused(arm, stratum)
    if not refused:
        return ""
    often = "every run" if refused == runs else f"{refused} of {runs} runs"
    return f"The release was refused in {often} (trust 0): what is left is the model without a release."


def _cost(experiment: Experiment, arm: ArmOutline) -> Cell:
    runs = list(experiment.results_of(arm).values())
    seconds = median(float(run.seconds) for run in runs)
    memory = max((float(run.memory) for run in runs if run.memory is not None), default=None)
    hover = [f"on {', '.join(sorted({run.device for run in runs}))}", f"{median(run.epochs for run in runs):g} epochs"]
    hover += [] if memory is None else [f"{memory / 2**30:.2f} GiB at the peak"]
    return Cell(f"{seconds:.1f}", seconds, hover=hover)


def _synthetic(folder: ResultsFolder) -> list[Details]:
    results = read_synthetic(folder.path / SYNTHETIC)
    arms = list(dict.fromkeys(one.arm for one in results if one.epsilon is not None and one.arm not in CONTROLS))
    sizes = sorted({one.users for one in results})
    rows = []
    for arm, epsilon in dict.fromkeys((one.arm, one.epsilon) for one in results if one.arm in arms):
        found = [share(results, arm, epsilon, users) for users in sizes]
        cells = ["–" if one is None else f"{100 * one.value:.0f} % ± {100 * one.error:.1f}" for one in found]
        rows.append([arm, f"{epsilon:g}", *cells])
    if not rows:
        return []
    rows.sort(key=lambda row: (arms.index(row[0]), float(row[1])))
    header = ["strategy", "ε", *(f"{users:,} users" for users in sizes)]
    words = (
        "Made-up pairs in which the truth is known (benchmarks/frontier_synthetic.py): the share of the plaintext gain "
        "that cold users keep. Levels are this generator's; differences between strategies and sizes say something."
    )
    shown = table("synthetic", "Share of the plaintext gain kept on synthetic pairs", header, rows)
    return [Details("Synthetic pairs, by number of users", [words, shown])]


def _table2(folder: ResultsFolder) -> list[Block | str]:
    """Return the paper's Table 2 with ours beside it, for each task."""
    own = {one.outline.data.paper: one for one in folder.family("table2") if not one.outline.data.stand_in}
    broken = sum(bool(row.contradictions) for row in paper_table().values())
    blocks: list[Block | str] = [
        f"Of the {len(paper_table())} rows of the paper's Table 2, {broken} contradict themselves: no rankings of one "
        "held-out item per user give these figures together. Such cells are marked with a letter. Data that only "
        "stands in for the paper's is above, without the paper's figures."
    ]
    columns = [Column("method", numeric=False)]
    columns += [Column(f"{metric}, {whose}") for metric in _PAPER_METRICS for whose in ("paper", "ours")]
    for at, task in enumerate(TASKS, 1):
        experiment = own.get(task)
        rows = [Row([method, *_compared(task, method, experiment)]) for method in METHODS]
        absent = "" if experiment is not None and experiment.runs else ": no results of ours"
        blocks.append(Details(f"Table 2, {task}{absent}", [Table(f"table2-{at}", task, columns, rows)]))
    return blocks


def _compared(task: str, method: str, experiment: Experiment | None) -> list[Cell]:
    """Return the paper's figure and ours for every metric; ours is the arm that is named like the paper's method."""
    paper = paper_table()[task, method]
    arms = () if experiment is None else experiment.outline.arms
    arm = next((arm for arm in arms if arm.name.partition(" (")[0].partition(",")[0] == method), None)
    cells = []
    for metric in _PAPER_METRICS:
        cells.append(Cell(f"{paper.figures[metric]:.4f}", mark=paper.contradictions.get(metric, "")))
        measured = None if experiment is None or arm is None else experiment.measured(arm, "all", metric)
        mark = "" if experiment is None or arm is None else _refusal(experiment, arm, "all")
        cells.append(ABSENT if measured is None else _figure(measured, mark))
    return cells


def _table3(folder: ResultsFolder) -> list[Block | str]:
    path = folder.path / TABLE3
    if not path.is_file():
        return [Note("Table 3, the sizes of the data, is not counted yet: pricdr reproduce --table3 does it.")]
    counted = table3.read(path)
    header, rows = table3.as_text(counted)
    shown = table("table3", "Data after preprocessing", header, rows, names=2)
    words = f"Counted from the raw files on {counted.provenance.finished[:10]}."
    absent = [f"{row.title}: {' · '.join(row.expected)}" for row in counted.rows if row.expected]
    files: list[Block | str] = ["Files that would do where data is not present:", Bullets(absent)] if absent else []
    return [Details("Table 3: users, items and ratings", [words, shown, *files])]


def _searches(folder: ResultsFolder) -> list[Details]:
    rows = []
    for name, trials in folder.trials.items():
        for method in dict.fromkeys(trial.method for trial in trials):
            tried = [trial for trial in trials if trial.method == method]
            finished = [trial for trial in tried if not trial.failure]
            best = max(finished, key=lambda trial: trial.validation, default=None)
            default = next((trial for trial in finished if trial.number == 0), None)
            chosen = "" if best is None else ", ".join(f"{key} = {value}" for key, value in best.settings.items())
            figures = ["–" if one is None else f"{one.validation:.4f}" for one in (default, best)]
            counts = [f"{len(tried)}", f"{len(tried) - len(finished)}"]
            rows.append([f"{name}: {method}", chosen or "defaults", *counts, *figures])
    if not rows:
        return []
    header = ["search", "chosen", "trials", "failed", "defaults", "best"]
    words = (
        "NDCG@10 on validation items. Every method is searched alike, its defaults first, with a seed of its own; no "
        "trial is ever scored on test. A best of many is a little lucky: test is what counts."
    )
    return [Details("Searches", [words, table("searches", "Searches, by data and method", header, rows, names=2)])]


def _provenance(folder: ResultsFolder) -> list[Block | str]:
    """Return what was run, when, on what and from which commit, and what is missing or out of date."""
    rows, machines, lacking = [], Counter[str](), []
    for experiment in folder.experiments:
        outline, missing = experiment.outline, len(experiment.missing)
        known = [run.provenance for arm in outline.arms for run in experiment.results_of(arm).values()]
        machines.update(
            f"{one.machine}: commit {one.commit}, pricdr {one.version}, Python {one.python}, torch {one.torch}, numpy "
            f"{one.numpy}, scipy {one.scipy}"
            for one in known
        )
        finished = sorted(one.finished[:10] for one in known)
        days = " to ".join(dict.fromkeys([finished[0], finished[-1]])) if finished else "–"
        rows.append([outline.name, days, f"{experiment.runs}", f"{missing}", f"{experiment.stale}"])
        if outline.missing or missing:
            why = outline.missing or ("every run" if not experiment.runs else _missing_in_words(experiment))
            lacking.append(f"{outline.name}: {why}")
    runs, missing, stale = (sum(int(row[at]) for row in rows) for at in (2, 3, 4))
    header = ["results", "finished", "runs", "missing", "stale"]
    blocks: list[Block | str] = [
        f"{runs:,} runs are shown; {missing:,} that specs ask for are missing; {stale:,} were measured with other "
        "settings than their spec has now, and are left out.",
        Details("What was run", [table("provenance-table", "What was run", header, rows, names=2)]),
        Details("On what", [Bullets([f"{count:,} runs on {machine}" for machine, count in machines.most_common()])]),
    ]
    if lacking:
        blocks.append(Details("What is missing", [Bullets(lacking)]))
    if folder.unclaimed:
        blocks.append(f"Files of results without a spec beside them, not shown: {', '.join(folder.unclaimed)}.")
    return blocks


def _missing_in_words(experiment: Experiment) -> str:
    by_arm: dict[str, list[str]] = {}
    for arm, seed in experiment.missing:
        by_arm.setdefault(arm, []).append(str(seed))
    return "; ".join(f"{arm}: seed {', '.join(seeds)}" for arm, seeds in by_arm.items())
