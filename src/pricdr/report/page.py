"""The report of a results folder on one page: what crosses between two companies, at which ε; then every result."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import isnan
from statistics import median
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pricdr import __version__, pages
from pricdr.evaluation.verdict import Verdict
from pricdr.experiments.arms import Axis
from pricdr.experiments.measured import NOTHING, STRATA, Access, Experiment, MeasuredArm, Measurement, number
from pricdr.experiments.paper import Table3, contradictions, read_table3, table2, table3_text
from pricdr.pages import ABSENT, Block, Bullets, Cell, Column, Content, Details, Figure, SideBySide, Table
from pricdr.pages.charts import WIDTH, chart_figure
from pricdr.privacy.accounting import RECOMMENDED_DELTA, Calibration, TradeOff, mu_of
from pricdr.progress import Progress, silent
from pricdr.release.inspection import Inspection, attack_section
from pricdr.release.readme import best_guess
from pricdr.report.folder import TABLE3, ResultsFolder

if TYPE_CHECKING:
    import altair as alt

FRONTIER: Final = "frontier"
"""The family whose results open the page."""
USUAL_EPSILON: Final = 4.0
"""The ε that sentences speak of, where it was measured."""
_TITLE: Final = "What crosses between two companies' ratings, at which ε"
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
    return pages.render(pages.Page(_TITLE, sections, lead(folder), footer))


def lead(folder: ResultsFolder) -> Content:
    """Return the answer in words, one picture and one table; or what is missing to give one."""
    pairs = sorted(folder.family(FRONTIER), key=lambda pair: not pair.has_ceiling)
    epsilon = usual_epsilon(pairs)
    curve = epsilon and TradeOff(mu_of(epsilon, RECOMMENDED_DELTA), epsilon, RECOMMENDED_DELTA)
    # Whether anything gained that must not, which would cast doubt on the gains of releases.
    gains = [gain for pair in pairs for arm in pair.controls if (gain := pair.gain(arm, "cold"))]
    cold = [(one, arm, one.worst_gain(arm, "cold")[0].verdict) for one in pairs for arm in _best(one, "cold", epsilon)]
    warm = [one.worst_gain(arm, "warm")[0].verdict.name for one in pairs for arm in _best(one, "warm", epsilon)]
    helped = [pair for pair, _, verdict in cold if verdict is Verdict.HELPS and pair.has_ceiling]
    hurt = [pair for pair, _, verdict in cold if verdict is Verdict.HURTS]
    answer, beside, reading = pages.sections_of(
        "frontier.txt.j2",
        {},
        curve=curve,
        kept=[f"{pair.share(arm).percent()} on {pair.title}" for pair, arm, _ in cold if pair in helped],
        hurt=[pair.title for pair in hurt],
        untold=[pair.title for pair, _, _ in cold if pair not in helped + hurt],
        warm=Counter(warm),
        controls=len(gains),
        gained=sum(gain.verdict is Verdict.HELPS for gain in gains),
        most=number(max((gain.value for gain in gains), default=0.0), signed=True),
        guess=best_guess(curve, "rating") if curve else "",
    )
    if epsilon is None:
        return answer.blocks
    picture, full = SideBySide([*share_figures(pairs), *beside.blocks]), _summary(pairs, epsilon, "full", "all items")
    folded = [Details("The same, ranked among all items", [full]), Details(reading.heading, reading.blocks)]
    return [*answer.blocks, picture, _summary(pairs, epsilon, "sampled", "99 items"), *folded]


def _best(pair: Experiment, stratum: str, epsilon: float | None) -> list[MeasuredArm]:
    """Return a pair's best private arm at ε, if it has one."""
    return [arm for arm in pair.private_arms(stratum) if arm.epsilon_on_axis() == epsilon][:1]


def usual_epsilon(pairs: Sequence[Experiment]) -> float | None:
    """Return the ε to speak of: 4 where it was measured, otherwise the middle one; None without private results."""
    found = sorted({arm.epsilon_on_axis() or 0.0 for pair in pairs for arm in pair.private_arms("cold")})
    return USUAL_EPSILON if USUAL_EPSILON in found else found[len(found) // 2] if found else None


def _summary(pairs: Sequence[Experiment], epsilon: float, ranking: str, among: str) -> Table:
    """Return what cold users get without a release, with the best private one and in plaintext; and verdicts."""
    help = "Among 99 items: better than the best model without one and than every control?"
    columns = [Column("data", numeric=False), Column("without", "Popularity"), Column(f"ε = {epsilon:g}")]
    columns += [Column("plaintext", "NOT PRIVATE"), Column("share kept", "Of the gain over popularity, among 99 items")]
    columns += [Column(f"the release, {stratum}", help, numeric=False) for stratum in ("cold", "warm")]
    rows: list[list[Cell | str]] = []
    for pair in pairs:
        new, known = _best(pair, "cold", epsilon), _best(pair, "warm", epsilon)
        arms = [pair.reference("cold"), *new, pair.ceiling] if new else [None] * 3
        cells = [_figure(NOTHING if arm is None else arm.measured("cold", ranking=ranking)) for arm in arms]
        cells.append(_figure(pair.share(new[0]) if new else NOTHING, share=True))
        cells += [_verdict(pair, arms[0], of) if arms else ABSENT for of, arms in (("cold", new), ("warm", known))]
        rows += [[pair.title, *cells]] if new or known else []
    caption = f"NDCG@10 of cold users among {among}, with the best private release at ε = {epsilon:g}"
    return Table(f"summary-{ranking}", caption, columns, rows)


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
    if figures := list(_curve_figures(experiment, f"curves-{at}")):
        blocks.append(SideBySide(figures))
    return Details(title, [*blocks, every_arm(experiment, f"arms-{at}")])


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


_CONTROLS: Final = "controls"
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
"""What vega draws: one curve at one place, with a standard error to either side; its words; whether it is on a line."""


def _point(curve: str, at: float, measured: Measurement, words: str) -> Point:
    error = 0.0 if isnan(measured.error) else measured.error
    low, high = measured.value - error, measured.value + error
    place = {"curve": curve, "x": float(at), "y": measured.value, "low": low, "high": high}
    return {**place, "words": words, "sure": True}


def share_figures(pairs: Sequence[Experiment]) -> list[Figure]:
    """Return the picture of the share that each pair keeps at every ε; none where there is nothing to draw."""
    points = [point for pair in pairs for point in _share_points(pair)]
    if not points:
        return []
    curves = sorted(dict.fromkeys(point["curve"] for point in points), key=lambda curve: curve == _CONTROLS)
    # A pair on which plaintext gains nothing has shares of next to nothing: they must not squeeze the others.
    scaled = [point for point in points if point["sure"]]
    low, high = min((point["low"] for point in scaled), default=0), max((point["high"] for point in scaled), default=1)
    scale = (max(min(low, 0) - 0.05, -0.5), min(max(high, 1) + 0.05, 1.5))
    draw = partial(_curves, points, curves, "ε", "share of the plaintext gain kept", log=True, shares=scale)
    unsure = "; ".join(pair.title for pair in pairs if not pair.has_ceiling)
    note = f"Faint: {unsure}, where even plaintext gains nothing for certain, so that a share of it means little."
    caption, words = "Share of the plaintext gain that cold users keep", "; ".join(point["words"] for point in points)
    return [chart_figure("shares", caption, draw, in_words=f"{words}.", note=note if unsure else "")]


def _share_points(pair: Experiment) -> Iterator[Point]:
    """Yield what cold users keep of the plaintext gain with the best private release at every ε, and with controls."""
    best = {arm.epsilon_on_axis(): arm for arm in reversed(pair.private_arms("cold"))}
    shown = [(pair.title, at, best[at]) for at in sorted(filter(None, best))]
    shown += [(_CONTROLS, arm.arm.release.epsilon, arm) for arm in pair.controls if arm.arm.release]
    for curve, at, arm in shown:
        if share := pair.share(arm):
            yield _point(curve, at, share, f"{pair.title}, {arm.name}: {share.percent()}") | {"sure": pair.has_ceiling}


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
            curves = list(dict.fromkeys(point["curve"] for point in points))
            draw = partial(_curves, points, curves, title, "NDCG@10", log=log)
            words = "; ".join(point["words"] for point in points)
            yield chart_figure(f"{id}-{stratum}", STRATA[stratum].capitalize(), draw, in_words=f"{words}.")


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
    shade = alt.condition(alt.datum.sure, alt.value(1), alt.value(0.35))
    base = alt.Chart(alt.InlineData(values=list(points)))
    base = base.encode(x=x, color=alt.Color("curve:N", **look), opacity=shade)
    lines = base.transform_filter(alt.datum.sure & (alt.datum.curve != _CONTROLS))
    layers = [
        base.mark_rule(clip=True).encode(y=alt.Y("low:Q", **y), y2="high:Q"),
        lines.mark_line(clip=True).encode(y=alt.Y("y:Q", **y), strokeDash=alt.StrokeDash("curve:N", **look)),
        base.mark_point(clip=True).encode(y=alt.Y("y:Q", **y), shape=alt.Shape("curve:N", **look)),
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
