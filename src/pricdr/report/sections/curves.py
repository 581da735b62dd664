"""RQ4 and RQ5 on the page: for every axis what the paper claims, what we measured, and the curves."""

from collections.abc import Sequence

from pricdr.evaluation.verdict import Verdict
from pricdr.pages import Bullets, Cell, Column, Columns, Details, Figure, Note, Palette, Row, Section, Table
from pricdr.report.charts import curve_panel
from pricdr.report.curves import CurvePoint, CurveStudy, Shape, Trend, Variant, studies
from pricdr.report.folder import STRATA, ResultsFolder
from pricdr.report.sections import cells
from pricdr.report.sections.gates import GATES
from pricdr.report.shapes import sentences

EFFECTS = {
    Shape.RISING: "What a straight line over the logarithm of the axis rises by from end to end, seed by seed.",
    Shape.BELL: "How far the middle is above the higher of the two ends, seed by seed.",
}


def sections(folder: ResultsFolder) -> list[Section]:
    """Return a section for each of the paper's figures that the folder has a spec for."""
    return [_section(study, first=not at) for at, study in enumerate(studies(folder))]


def _section(study: CurveStudy, *, first: bool) -> Section:
    question = study.question
    name = question.family.replace("_", "-")
    told = sentences(study)
    blocks: list[Bullets | Note | Columns | Section | Table | Details | str] = []
    if told:
        blocks.append(Bullets(told))
    blocks += [Note(line) for line in study.absent]
    if study.points and first:
        blocks.append(GATES)
    if question.axis == "epsilon" and study.points:
        blocks.append(
            "The axis is the exact ε: what the noise delivers by exact accounting. With the paper's calibration that "
            "is another number than the ε it is called by: the figures along the top are the nominal ones."
        )
    blocks += _charts(study, name)
    if study.trends:
        blocks.append(_trends(study, name))
        blocks.append(Details("Every point", [_points(study, name)]))
    return Section(question.title, blocks, id=name, hides="curves")


def _charts(study: CurveStudy, name: str) -> list[Section | Details | str]:
    """Return the charts of each variant; behind the first, those on which every curve is flat are folded away."""
    variants = [one for one in Variant if any(point.variant is one for point in study.points)]
    found: list[Section | Details | str] = []
    for variant in variants:
        rows: list[Columns | str] = []
        for at, task in enumerate(dict.fromkeys(point.task for point in study.points), 1):
            id = f"{name}-{variant.name.lower()}-{at}"
            panels = [_panel(study, task, stratum, variant, f"{id}-{stratum}") for stratum in ("warm", "cold")]
            drawn = [panel for panel in panels if panel is not None]
            if drawn:
                rows.append(Columns(drawn))
            if len(drawn) < len(panels):
                rows.append(_not_drawn(study, task, variant))
        heading = f"{variant.value[0].upper()}{variant.value[1:]}"
        told = any(trend.verdict is not Verdict.UNCLEAR for trend in study.trends if trend.variant is variant)
        if variant is not variants[0] and (variant is Variant.GATED or not told):
            found.append(Details(heading, rows))
        else:
            found.append(Section(heading, rows, id=f"{name}-{variant.name.lower()}"))
    return found


def _panel(study: CurveStudy, task: str, stratum: str, variant: Variant, id: str) -> Figure | None:
    place = (task, stratum)
    points = [p for p in study.points if (p.task, p.stratum) == place and p.variant is variant]
    levels = [
        level
        for level in study.levels
        if (level.task, level.stratum) == place and level.drawn and (level.everywhere or level.variant is variant)
    ]
    # One look for each curve of a variant, whatever the task.
    same = [p.curve for p in study.points if p.variant is variant]
    palette = Palette(list(dict.fromkeys([*same, *(level.name for level in levels)])))
    if not points or _refused_always(points):
        return None
    return curve_panel(study.question, points, levels, palette, id=id)


def _refused_always(points: Sequence[CurvePoint]) -> bool:
    """Return whether no run trusted its release: then every curve is the target-only model's, and says nothing."""
    return all(point.runs and point.refused == point.runs for point in points)


def _not_drawn(study: CurveStudy, task: str, variant: Variant) -> str:
    """Return why a task has no chart for some kind of users."""
    own = [p for p in study.points if p.task == task and p.variant is variant]
    strata = [s for s in ("warm", "cold") if (points := [p for p in own if p.stratum == s]) and _refused_always(points)]
    if not strata:
        return f"{task}: not measured for every kind of users."
    users = " and ".join(STRATA[stratum] for stratum in strata)
    return f"{task}, {users}: no chart, since every run refused its release and is the target-only model."


def _trends(study: CurveStudy, name: str) -> Table:
    columns = [
        *(Column("curve", numeric=False), Column("task", numeric=False), Column("users", numeric=False)),
        Column("spread", "The highest mean along the axis minus the lowest."),
        Column("typical error", "The median standard error of the curve's points."),
        Column("effect", EFFECTS[study.question.shape]),
        Column("comes to", "By the 95 % interval of the effect over seeds.", numeric=False),
        Column("refused", "Runs in which the model did not trust the release at all."),
    ]
    rows = [_trend(trend) for trend in study.trends]
    caption = f"{study.question.title}: does each curve do what the paper says?"
    note = "By the 95 % interval, about one curve in twenty that is flat is called something else by chance."
    return Table(f"{name}-shapes", caption, columns, rows, note=note)


def _trend(trend: Trend) -> Row:
    words = Cell(
        trend.in_words,
        hover=[one.interval_in_words() for one in trend.contrasts],
        strong=trend.verdict is not Verdict.UNCLEAR,
    )
    return Row(
        [
            *(trend.curve, trend.task, trend.stratum),
            cells.decimal(trend.spread),
            cells.decimal(trend.typical_error if trend.typical_error == trend.typical_error else None),
            cells.measured(trend.effect, signed=True),
            words,
            Cell(f"{trend.refused} of {trend.runs}", sort=trend.refused / trend.runs) if trend.runs else cells.ABSENT,
        ],
        series=trend.curve,
    )


def _points(study: CurveStudy, name: str) -> Table:
    question = study.question
    letter = question.label.partition(",")[0]
    exact = question.axis == "epsilon"
    columns = [Column("curve", numeric=False), Column("task", numeric=False), Column("users", numeric=False)]
    columns += [Column(f"{letter}, nominal"), Column(f"{letter}, exact")] if exact else [Column(letter)]
    columns += [Column("NDCG@10"), Column("refused", "Runs in which the model did not trust the release at all.")]
    rows = [Row(_point(point, exact=exact), series=point.curve) for point in study.points]
    nowhere = [cells.ABSENT] * (2 if exact else 1)
    rows += [
        Row(
            [one.name, one.task, one.stratum, *nowhere, cells.measured(one.measured), cells.ABSENT],
            series=one.name,
        )
        for one in study.levels
    ]
    return Table(f"{name}-points", f"{question.title}: every point", columns, rows)


def _point(point: CurvePoint, *, exact: bool) -> list[Cell | str]:
    place: list[Cell | str] = [Cell(f"{point.at:g}", sort=point.at)]
    if exact:
        place.append(cells.ABSENT if point.exact is None else Cell(f"{point.exact:.3g}", sort=point.exact))
    refused = Cell(f"{point.refused} of {point.runs}") if point.runs else cells.ABSENT
    return [point.curve, point.task, point.stratum, *place, cells.measured(point.measured), refused]
