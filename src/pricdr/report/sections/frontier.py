"""The frontier on the page: a table for every pair, and the synthetic pairs."""

from pricdr.evaluation.verdict import Verdict
from pricdr.pages import Cell, Column, Columns, Details, Note, Palette, Row, Section, Table
from pricdr.report.answer import pairs_in_order
from pricdr.report.charts import synthetic_panels
from pricdr.report.folder import STRATA, SYNTHETIC, Experiment, ResultsFolder
from pricdr.report.frontier import FrontierRow, SyntheticPoint, frontier_rows, synthetic_points
from pricdr.report.sections import cells

WORDS = {Verdict.HELPS: "yes", Verdict.HURTS: "it hurts", Verdict.UNCLEAR: "cannot be told"}


def section(folder: ResultsFolder) -> Section | None:
    """Return the frontier in full, or None where there is nothing of it."""
    blocks = pair_sections(folder)
    path = folder.file(SYNTHETIC)
    points = () if path is None else synthetic_points(path)
    if points:
        blocks.append(_synthetic(points))
    if not blocks:
        return None
    return Section("The frontier in full", blocks, id="frontier", hides="arms")


def pair_sections(folder: ResultsFolder) -> list[Section]:
    """Return a table of every arm for each pair."""
    return [_pair(pair, at) for at, pair in enumerate(pairs_in_order(folder), 1)]


def _pair(pair: Experiment, at: int) -> Section:
    title = pair.title
    if not pair.runs:
        return Section(title, [Note(f"{title}: {pair.outline.missing or 'not run yet'}.")], id=f"frontier-{at}-section")
    strata = pair.strata
    columns = [Column("arm", numeric=False), Column("private?", numeric=False), Column("ε")]
    columns += [Column(f"NDCG@10, {stratum}", f"{pair.users(stratum):,} {STRATA[stratum]}") for stratum in strata]
    if "cold" in strata:
        columns.append(Column("share kept", f"Of what {pair.outline.ceiling} gains for cold users."))
    columns += [Column(f"crosses, {stratum}", _crossing(pair, stratum), numeric=False) for stratum in strata]
    rows = [_row(row, strata) for row in frontier_rows(pair)]
    note = "Crosses: the 95 % interval over seeds lies above the reference and above every control."
    return Section(
        title,
        [Table(f"frontier-{at}", f"{title}, the frontier", columns, rows, note=note)],
        id=f"frontier-{at}-section",
    )


def _crossing(pair: Experiment, stratum: str) -> str:
    reference = pair.reference(stratum)
    return f"Better than {'nothing' if reference is None else reference.name} and than every control?"


def _row(row: FrontierRow, strata: tuple[str, ...]) -> Row:
    found: list[Cell | str] = [row.arm, row.access.value, cells.ABSENT if row.epsilon is None else f"{row.epsilon:g}"]
    found += [cells.measured(row.by_stratum[stratum]) for stratum in strata]
    if "cold" in strata:
        found.append(cells.share(row.share))
    found += [cells.judged(row.crosses[one][1], WORDS) if one in row.crosses else cells.ABSENT for one in strata]
    return Row(found, series=row.arm)


def _synthetic(points: tuple[SyntheticPoint, ...]) -> Section:
    arms = list(dict.fromkeys(point.arm for point in points))
    sizes = sorted({point.users for point in points})
    by_place = {(point.arm, point.epsilon, point.users): point for point in points}
    places = sorted({(arms.index(point.arm), point.epsilon) for point in points})
    rows = [
        Row(
            [arms[at], f"{epsilon:g}", *(_share(by_place.get((arms[at], epsilon, users))) for users in sizes)],
            series=arms[at],
        )
        for at, epsilon in places
    ]
    columns = [Column("strategy", numeric=False), Column("ε"), *(Column(f"{users:,} users") for users in sizes)]
    costs = [_cost_row(arm, [point for point in points if point.arm == arm], sizes) for arm in arms]
    head = [Column("strategy", numeric=False), *(Column(f"{users:,} users") for users in sizes)]
    return Section(
        "Synthetic pairs, by number of users",
        [
            "Made-up pairs in which the truth is known (benchmarks/frontier_synthetic.py): the share of the "
            "plaintext gain that cold users keep. Levels are this generator's; differences between strategies and "
            "sizes say something.",
            Columns(synthetic_panels(points, Palette(arms), id="synthetic")),
            Table("synthetic", "Share of the plaintext gain kept on synthetic pairs", columns, rows),
            Details(
                "Time and memory of the publish step",
                [Table("synthetic-cost", "Mean seconds and largest memory of one publish step", head, costs)],
            ),
        ],
        id="synthetic-section",
    )


def _share(point: SyntheticPoint | None) -> Cell:
    if point is None:
        return cells.ABSENT
    return Cell(
        f"{100 * point.share.value:.0f} %",
        sort=point.share.value,
        detail=f"± {100 * point.error:.1f}",
        hover=[f"seed {seed}: {100 * value:.1f} %" for seed, value in sorted(point.share.by_seed.items())],
    )


def _cost_row(arm: str, points: list[SyntheticPoint], sizes: list[int]) -> Row:
    found: list[Cell | str] = [arm]
    for users in sizes:
        own = [point for point in points if point.users == users]
        seconds = sum(point.seconds for point in own) / len(own) if own else 0.0
        memory = max((point.memory for point in own if point.memory is not None), default=None)
        text = f"{seconds:.2f} s" + ("" if memory is None else f", {memory / 2**30:.2f} GiB")
        found.append(Cell(text, sort=seconds) if own else cells.ABSENT)
    return Row(found, series=arm)
