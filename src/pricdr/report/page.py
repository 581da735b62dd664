"""The report of a results folder on one page: what crosses between two companies, at which ε; then every result."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import isnan
from statistics import median
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pricdr import __version__, pages
from pricdr.evaluation.verdict import Verdict
from pricdr.experiments.arms import Axis
from pricdr.experiments.measured import STRATA, Access, Experiment, MeasuredArm, Measurement, number
from pricdr.experiments.paper import Table3, contradictions, read_table3, table2, table3_text
from pricdr.pages import ABSENT, Block, Bullets, Cell, Column, Content, Details, Figure, SideBySide, Table
from pricdr.pages.charts import WIDTH, chart_figure
from pricdr.privacy.accounting import Calibration
from pricdr.progress import Progress, silent
from pricdr.release.inspection import Inspection, attack_section
from pricdr.report.folder import TABLE3, ResultsFolder

if TYPE_CHECKING:
    import altair as alt

FRONTIER: Final = "frontier"
"""The family whose results open the page."""
USUAL_EPSILON: Final = 4.0
"""The ε that sentences speak of, where it was measured."""
_PAPER_METRICS: Final = ("HR@10", "NDCG@10", "MRR@10")


def report(folder: ResultsFolder, *, inspection: Inspection | None = None, progress: Progress = silent) -> str:
    """Return the page as HTML; with ``inspection``, a verified release is drawn too."""
    experiments = []
    for at, experiment in enumerate(folder.experiments, 1):
        progress("drawing", at, len(folder.experiments), experiment.title)
        experiments.append(experiment_details(experiment, at))
    counted = read_table3(folder.path / TABLE3) if (folder.path / TABLE3).is_file() else None
    impossible = {place: contradictions(figures) for place, figures in table2().items()}
    sections = pages.sections_of(
        "report.txt.j2",
        {
            "experiments": experiments,
            "table2": _table2(folder, impossible),
            "table3": [] if counted is None else [_table3(counted)],
            "searches": _searches(folder),
            "provenance": _provenance(folder),
        },
        rows=len(impossible),
        impossible=sum(map(bool, impossible.values())),
        table3=counted,
        runs=sum(len(experiment.runs) for experiment in folder.experiments),
        missing=sum(len(seeds) for experiment in folder.experiments for seeds in experiment.missing.values()),
        stale=sum(experiment.stale for experiment in folder.experiments),
        unclaimed=folder.unclaimed,
    )
    if inspection is not None:
        c = inspection.certificate
        words = f"A verified release: {c.users:,} users x {c.dim:,} numbers by {c.strategy.name}; promise {c.promise}."
        sections.append(attack_section(c, words))
    footer = [f"Made by pricdr {__version__} from a results folder. This page loads nothing."]
    title = "What crosses between two companies' ratings, at which ε"
    return pages.render(pages.Page(title, sections, lead(folder), footer))


def lead(folder: ResultsFolder) -> Content:
    """Return the answer, one table and one picture for each pair; or what is missing to give one."""
    pairs = sorted(folder.family(FRONTIER), key=lambda pair: not pair.has_ceiling)
    epsilon, blocks = usual_epsilon(pairs), dict[str, Content]()
    if epsilon is not None:
        figures = [
            chart_figure(f"shares-{at}", pair.title, draw, in_words=words, note=_ceiling_note(pair))
            for at, (pair, draw, words) in enumerate(share_charts(pairs), 1)
        ]
        full = Details("The same, ranked among all items", [_summary(pairs, epsilon, full=True)])
        blocks = {"summary": [_summary(pairs, epsilon)], "charts": [SideBySide(figures), full]}
    # Whether anything gained that must not, which would cast doubt on the gains of releases.
    gains = [gain for pair in pairs for arm in pair.controls if (gain := pair.gain(arm, "cold"))]
    answer, reading = pages.sections_of(
        "frontier.txt.j2",
        blocks,
        epsilon=epsilon,
        controls=len(gains),
        gained=sum(gain.verdict is Verdict.HELPS for gain in gains),
        most=number(max((gain.value for gain in gains), default=0.0), signed=True),
    )
    return answer.blocks if epsilon is None else [*answer.blocks, Details(reading.heading, reading.blocks)]


def usual_epsilon(pairs: Sequence[Experiment]) -> float | None:
    """Return the ε to speak of: 4 where it was measured, otherwise the middle one; None without private results."""
    found = sorted({arm.epsilon_on_axis() or 0.0 for pair in pairs for arm in pair.private_arms("cold")})
    return USUAL_EPSILON if USUAL_EPSILON in found else found[len(found) // 2] if found else None


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
    if not full:
        help = "Better than the best model without one and than every control?"
        columns += [Column("share kept"), Column("the release", help, numeric=False)]
    rows: list[list[Cell | str]] = []
    for pair, stratum in ((pair, stratum) for stratum in ("cold", "warm") for pair in pairs):
        private = [arm for arm in pair.private_arms(stratum) if arm.epsilon_on_axis() == epsilon]
        base = pair.reference(stratum)
        if base is None or not private or not private[0].measured(stratum, ranking=ranking):
            continue
        arm, shown = private[0], (base, private[0], pair.ceiling)
        cells = [ABSENT if one is None else _figure(one.measured(stratum, ranking=ranking)) for one in shown]
        if not full:
            share = _figure(pair.share(arm), share=True) if stratum == "cold" else ABSENT
            cells += [share, _verdict(pair, arm, stratum)]
        rows.append([pair.title, stratum, *cells])
    note = "Without: popularity for cold users, the best model of the target alone for warm ones."
    caption = f"NDCG@10 among {among}, with the best private release at ε = {epsilon:g}"
    return Table("summary-full" if full else "summary", caption, columns, rows, note)


def _verdict(pair: Experiment, arm: MeasuredArm, stratum: str) -> Cell:
    """Return in a word whether a release helps, and what decided it for those who point there."""
    gain, over = pair.worst_gain(arm, stratum)
    if not gain:
        return ABSENT
    hover = [arm.name, f"{gain.interval_in_words()} against {over}"]
    return Cell(gain.verdict.value, gain.value, hover=hover, strong=gain.verdict is not Verdict.UNCLEAR)


def experiment_details(experiment: Experiment, at: int) -> Details:
    """Return one experiment, folded away: its note, its curves where it has any, and every arm."""
    spec = experiment.spec
    title = spec.title if experiment.title in spec.title else f"{spec.title}: {experiment.title}"
    if not experiment.runs:
        return Details(title, [pages.Note(f"{experiment.outline.missing or 'Not run yet'}.")])
    blocks: list[Block | str] = [" ".join(spec.note.split())] if spec.note.strip() else []
    figures = [] if spec.family == FRONTIER else list(_curve_figures(experiment, f"curves-{at}"))
    return Details(title, [*blocks, *([SideBySide(figures)] if figures else []), every_arm(experiment, f"arms-{at}")])


def every_arm(experiment: Experiment, id: str) -> Table:
    """Return the table of every arm of an experiment that has results."""
    shares = bool(experiment.ceiling) and "cold" in experiment.users
    columns = [Column("arm", numeric=False), Column("private?", numeric=False)]
    for stratum, users in experiment.users.items():
        reference = experiment.reference(stratum)
        help = f"Better than {'nothing' if reference is None else reference.name} and than every control?"
        columns.append(Column(f"NDCG@10, {stratum}", f"{users:,} {STRATA[stratum]}"))
        columns.append(Column(f"the release, {stratum}", help, numeric=False))
    columns += [Column("share kept", f"Of what {experiment.spec.ceiling} gains for cold users.")] if shares else []
    columns += [Column("full ranking", "NDCG@10 of all users among all items"), Column("HR@10", "Of all users")]
    columns.append(Column("seconds", "Median over runs: training, choosing on validation, scoring on test"))
    rows = []
    for arm in (arm for arm in experiment.arms.values() if arm.runs):
        cells: list[Cell | str] = [arm.name, access_in_words(arm)]
        for stratum in experiment.users:
            cells.append(_figure(arm.measured(stratum), _refusal(arm, stratum)))
            cells.append(_verdict(experiment, arm, stratum) if arm.access is Access.PRIVATE else ABSENT)
        cells += [_figure(experiment.share(arm), share=True)] if shares else []
        cells += [_figure(arm.measured("all", ranking="full")), _figure(arm.measured("all", "HR@10")), _cost(arm)]
        rows.append(cells)
    return Table(id, f"{experiment.title}, every arm", columns, rows)


def _figure(measured: Measurement, mark: str = "", *, share: bool = False) -> Cell:
    """Return a mean with its standard error, and every seed for those who point at it; a share in per cent."""
    if not measured:
        return ABSENT
    scale, digits, unit = (100, 0, " %") if share else (1, 4, "")
    seeds = [f"seed {seed}: {number(scale * one, digits + 1)}{unit}" for seed, one in sorted(measured.by_seed.items())]
    error = "" if isnan(measured.error) else f"± {scale * measured.error:.{digits}f}"
    return Cell(f"{number(scale * measured.value, digits)}{unit}", measured.value, error, seeds, mark)


def access_in_words(arm: MeasuredArm) -> str:
    """Return what an arm saw, and at which ε; with the paper's calibration the nominal one and what it delivers."""
    access, release = arm.access, arm.arm.release
    if access is not Access.PRIVATE or release is None:
        return access.value
    if release.calibration is Calibration.EXACT:
        return f"{access.value}, ε = {release.epsilon:g}"
    facts = [run.release for run in arm.runs.values() if run.release is not None]
    exact = max((float(one.epsilon) for one in facts if one.epsilon is not None), default=None)
    known = "" if exact is None else f", exact ε = {exact:.3g}"
    return f"{access.value}, nominal ε = {release.epsilon:g}{known}"


def _refusal(arm: MeasuredArm, stratum: str) -> str:
    """Return what to know of a figure whose release was refused; nothing where it was used, or nothing tells."""
    refused, runs = arm.refused(stratum)
    if not refused:
        return ""
    often = "every run" if refused == runs else f"{refused} of {runs} runs"
    return f"The release was refused in {often} (trust 0): what is left is the model without a release."


def _cost(arm: MeasuredArm) -> Cell:
    runs = list(arm.runs.values())
    seconds = median(float(run.seconds) for run in runs)
    memory = max((float(run.memory) for run in runs if run.memory is not None), default=None)
    hover = [f"on {', '.join(sorted({run.device for run in runs}))}", f"{median(run.epochs for run in runs):g} epochs"]
    hover += [] if memory is None else [f"{memory / 2**30:.2f} GiB at the peak"]
    return Cell(f"{seconds:.1f}", seconds, hover=hover)


_CONTROL_CURVE: Final = "controls"
_SHOWN: Final = ("guided", "spectral", "guide in the clear", "jlt", _CONTROL_CURVE)
"""The strategies of the first chart, in the order of its legend; tables have all of them."""
_ROOM: Final = 1.1
"""What a logarithmic axis goes beyond its ends by, so that no point is cut in half."""
_AXES: Final = {
    Axis.EPSILON: ("ε (with the paper's noise: nominal)", True),
    Axis.DIM: ("n, numbers per user", False),
    Axis.DENSITY: ("sp, density of the projection", False),
    Axis.SOURCE_SHARE: ("sd, share of the source's ratings", True),
}
"""What an axis is called, and whether it is logarithmic."""
Point: TypeAlias = dict[str, Any]
"""What vega draws: one curve at one place, with a standard error to either side where there is one; and its words."""


def _point(curve: str, at: float, measured: Measurement, words: str) -> Point:
    error = 0.0 if isnan(measured.error) else measured.error
    low, high = measured.value - error, measured.value + error
    return {"series": curve, "x": float(at), "y": measured.value, "low": low, "high": high, "words": words}


def _in_words(points: Sequence[Point]) -> str:
    return "; ".join(point["words"] for point in points) + "."


def share_charts(pairs: Sequence[Experiment]) -> list[tuple[Experiment, "Callable[[], alt.TopLevelMixin]", str]]:
    """Return what draws a chart, for each pair that has points, and its figures in words; all on one scale."""
    points = {pair.spec.name: list(_share_points(pair)) for pair in pairs}
    every = list(dict.fromkeys(point["series"] for found in points.values() for point in found))
    curves = [curve for curve in _SHOWN if curve in every] if set(every) & {*_SHOWN[:-1]} else every[: len(_SHOWN)]
    points = {name: [point for point in found if point["series"] in curves] for name, found in points.items()}
    # A pair on which plaintext gains nothing has shares of next to nothing: they must not squeeze the others.
    scaled = [point for pair in pairs if pair.has_ceiling for point in points[pair.spec.name]]
    low, high = min((point["low"] for point in scaled), default=0), max((point["high"] for point in scaled), default=1)
    scale = (max(min(low, 0) - 0.05, -0.5), min(max(high, 1) + 0.05, 1.5))
    title = "share of the plaintext gain kept"
    draw = partial(_curves, curves=curves, x_title="ε", y_title=title, log=True, shares=scale)
    drawn = [(pair, points[pair.spec.name]) for pair in pairs if points[pair.spec.name]]
    return [(pair, partial(draw, found), _in_words(found)) for pair, found in drawn]


def _share_points(pair: Experiment) -> Iterator[Point]:
    """Yield what cold users keep of the plaintext gain at every ε; a control is under one name for all of them."""
    for arm in pair.arms.values():
        share, control = pair.share(arm), arm.access is Access.CONTROL
        at = arm.arm.release.epsilon if control and arm.arm.release else arm.epsilon_on_axis()
        if share and arm.arm.release and at:
            curve = _CONTROL_CURVE if control or arm.arm.point is None else arm.arm.point.curve
            yield _point(curve, at, share, f"{curve}, ε = {at:g}: {share.percent()}")


def _curve_figures(experiment: Experiment, id: str) -> Iterator[Figure]:
    on_curves = [(arm, arm.arm.point) for arm in experiment.arms.values() if arm.arm.point and arm.arm.point.at > 0]
    for stratum in ("cold", "warm"):
        points = [
            _point(point.curve, point.at, measured, f"{point.curve} at {point.at:g}: {measured.value:.4f}")
            for arm, point in on_curves
            if (measured := arm.measured(stratum))
        ]
        if points:
            title, log = _AXES[on_curves[0][1].axis]
            curves = list(dict.fromkeys(point["series"] for point in points))
            draw = partial(_curves, points, curves, title, "NDCG@10", log=log)
            yield chart_figure(f"{id}-{stratum}", STRATA[stratum].capitalize(), draw, in_words=_in_words(points))


def _curves(
    points: Sequence[Point],
    curves: Sequence[str],
    x_title: str,
    y_title: str,
    *,
    log: bool,
    shares: tuple[float, float] | None = None,
) -> "alt.TopLevelMixin":
    """Return points on lines with error bars, one line and look for each curve; ``shares``: the ends of their axis."""
    import altair as alt

    places = sorted({point["x"] for point in points})
    ends = [places[0] / _ROOM, places[-1] * _ROOM]
    scale = alt.Scale(type="log", base=2, domain=ends, nice=False) if log else alt.Scale(zero=False, padding=12)
    ticks = places if len(places) <= 8 else alt.Undefined
    x = alt.X("x:Q", title=x_title, scale=scale, axis=alt.Axis(values=ticks, grid=False, format=".2~g"))
    y_scale = alt.Scale(zero=False) if shares is None else alt.Scale(domain=shares, nice=False)
    y: dict[str, Any] = {"title": y_title, "scale": y_scale, "axis": alt.Axis(format=".3f" if shares is None else "%")}
    legend = alt.Legend(title=None, columns=2 if all(len(name) <= 18 for name in curves) else 1)
    look: dict[str, Any] = {"scale": alt.Scale(domain=list(curves)), "legend": legend}
    base = alt.Chart(alt.InlineData(values=list(points))).encode(x=x, color=alt.Color("series:N", **look))
    layers = [
        base.mark_rule(clip=True).encode(y=alt.Y("low:Q", **y), y2="high:Q"),
        base.mark_line(clip=True).encode(y=alt.Y("y:Q", **y), strokeDash=alt.StrokeDash("series:N", **look)),
        base.mark_point(clip=True).encode(y=alt.Y("y:Q", **y), shape=alt.Shape("series:N", **look)),
    ]
    if shares is not None:
        zero = alt.Chart(alt.InlineData(values=[{}])).mark_rule(strokeDash=[3, 3], opacity=0.5)
        layers.insert(0, zero.encode(y=alt.datum(0)))
    return alt.layer(*layers).properties(width=WIDTH, height=230)


def _table2(folder: ResultsFolder, impossible: Mapping[tuple[str, str], Mapping[str, str]]) -> list[Details]:
    own = {one.spec.data.paper: one for one in folder.family("table2") if not one.spec.data.stand_in}
    tables = []
    columns = [Column("method", numeric=False)]
    columns += [Column(f"{metric}, {whose}") for metric in _PAPER_METRICS for whose in ("paper", "ours")]
    for at, task in enumerate(dict.fromkeys(task for task, _ in table2()), 1):
        experiment = own.get(task)
        # Ours is the first arm that is named like the paper's method.
        named = [] if experiment is None else [*experiment.arms.items()]
        arms = {re.split(r" \(|,", name)[0]: arm for name, arm in reversed(named)}
        rows = []
        for place, figures in table2().items():
            if place[0] == task:
                arm, cells = arms.get(place[1]), [Cell(place[1])]
                for metric in _PAPER_METRICS:
                    ours = ABSENT if arm is None else _figure(arm.measured("all", metric), _refusal(arm, "all"))
                    cells += [Cell(f"{figures[metric]:.4f}", mark=impossible[place].get(metric, "")), ours]
                rows.append(cells)
        absent = "" if experiment is not None and experiment.runs else ": no results of ours"
        tables.append(Details(f"Table 2, {task}{absent}", [Table(f"table2-{at}", task, columns, rows)]))
    return tables


def _table3(counted: Table3) -> Details:
    header, rows = table3_text(counted)
    words = f"Counted from the raw files on {counted.provenance.finished[:10]}."
    blocks: list[Block | str] = [words, pages.table("table3", "Data after preprocessing", header, rows, names=2)]
    if absent := [f"{row.title}: {' · '.join(row.expected)}" for row in counted.rows if row.expected]:
        blocks += ["Files that would do where data is not present:", Bullets(absent)]
    return Details("Table 3: users, items and ratings", blocks)


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
    header = ["search", "chosen", "trials", "failed", "defaults", "best"]
    words = (
        "NDCG@10 on validation items. Every method is searched alike, its defaults first, with a seed of its own; no "
        "trial is ever scored on test. A best of many is a little lucky: test is what counts."
    )
    found = pages.table("searches", "Searches, by data and method", header, rows, names=2)
    return [Details("Searches", [words, found])] if rows else []


def _provenance(folder: ResultsFolder) -> list[Details]:
    """Return what was run, when, on what and from which commit, and what is missing or out of date."""
    rows, machines, lacking = [], Counter[str](), []
    for experiment in folder.experiments:
        known, missing = [run.provenance for run in experiment.runs], experiment.missing
        machines.update(
            f"{one.machine}: commit {one.commit}, pricdr {one.version}, Python {one.python}, torch {one.torch}, numpy "
            f"{one.numpy}, scipy {one.scipy}"
            for one in known
        )
        days = sorted({one.finished[:10] for one in known}) or ["–"]
        counts = (len(known), sum(map(len, missing.values())), experiment.stale)
        rows.append([experiment.spec.name, " to ".join(dict.fromkeys([days[0], days[-1]])), *map(str, counts)])
        if experiment.outline.missing or missing:
            arms = [f"{arm}: seed {', '.join(map(str, seeds))}" for arm, seeds in missing.items()]
            why = experiment.outline.missing or ("; ".join(arms) if known else "every run")
            lacking.append(f"{experiment.spec.name}: {why}")
    header = ["results", "finished", "runs", "missing", "stale"]
    return [
        Details("What was run", [pages.table("provenance-table", "What was run", header, rows, names=2)]),
        Details("On what", [Bullets([f"{count:,} runs on {machine}" for machine, count in machines.most_common()])]),
        *([Details("What is missing", [Bullets(lacking)])] if lacking else []),
    ]
