"""RQ4 and RQ5 on the page: for every axis what the paper claims, what we measured, and the curves."""

from pricdr.evaluation.verdict import Verdict
from pricdr.pages import Bullets, Cell, Column, Columns, Details, Figure, Note, Palette, Row, Section, Table
from pricdr.report.charts import curve_panel
from pricdr.report.curves import CurvePoint, CurveStudy, Trend, studies
from pricdr.report.folder import STRATA, ResultsFolder
from pricdr.report.sections import cells


def sections(folder: ResultsFolder) -> list[Section]:
    """Return a section for each of the paper's figures that the folder has a spec for."""
    return [_section(study) for study in studies(folder)]


def _section(study: CurveStudy) -> Section:
    question = study.question
    name = question.family.replace("_", "-")
    blocks: list[Bullets | Note | Columns | Table | Details | str] = []
    if study.sentences:
        blocks.append(Bullets(study.sentences))
    blocks += [Note(line) for line in study.absent]
    if question.axis == "epsilon" and study.points:
        blocks.append(
            "The axis is the exact ε: what the noise delivers by exact accounting, δ as in the release. With the "
            "paper's calibration that is another number than the ε it is called by, so every such point has both."
        )
    palette = Palette(
        list(dict.fromkeys([*(p.curve for p in study.points), *(level.name for level in study.levels if level.drawn)]))
    )
    for at, task in enumerate(dict.fromkeys(point.task for point in study.points), 1):
        panels = _panels(study, task, palette, f"{name}-{at}")
        if panels:
            blocks.append(Columns(panels))
    if study.trends:
        blocks.append(_trends(study, name))
        blocks.append(Details("Every point", [_points(study, name)]))
    return Section(question.title, blocks, id=name, hides="curves")


def _panels(study: CurveStudy, task: str, palette: Palette, id: str) -> list[Figure]:
    drawn = []
    for stratum in ("warm", "cold"):
        points = [point for point in study.points if (point.task, point.stratum) == (task, stratum)]
        levels = [level for level in study.levels if (level.task, level.stratum) == (task, stratum)]
        if points:
            drawn.append(curve_panel(study.question, points, levels, palette, id=f"{id}-{stratum}"))
    return [figure for figure in drawn if figure is not None]


def _trends(study: CurveStudy, name: str) -> Table:
    shape = study.question.shape.value
    columns = [
        *(Column("curve", numeric=False), Column("task", numeric=False), Column("users", numeric=False)),
        Column("spread", "The highest mean along the axis minus the lowest."),
        Column("typical error", "The median standard error of the curve's points."),
        Column("effect", f"By how much the curve {shape}, seed by seed; ± one standard error."),
        Column("comes to", "By the 95 % interval of the effect over seeds.", numeric=False),
        Column("refused", "Runs in which the model did not trust the release at all."),
    ]
    rows = [_trend(trend) for trend in study.trends]
    return Table(f"{name}-shapes", f"{study.question.title}: does each curve do what the paper says?", columns, rows)


def _trend(trend: Trend) -> Row:
    words = Cell(
        trend.in_words if trend.contrast.interval is not None else "–",
        hover=[trend.contrast.interval_in_words()],
        strong=trend.verdict is not Verdict.UNCLEAR,
    )
    return Row(
        [
            *(trend.curve, trend.task, STRATA[trend.stratum]),
            cells.decimal(trend.spread),
            cells.decimal(trend.typical_error if trend.typical_error == trend.typical_error else None),
            cells.measured(trend.contrast, signed=True),
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
            [one.name, one.task, STRATA[one.stratum], *nowhere, cells.measured(one.measured), cells.ABSENT],
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
    return [point.curve, point.task, STRATA[point.stratum], *place, cells.measured(point.measured), refused]
