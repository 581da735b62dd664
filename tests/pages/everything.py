"""A page with every component, and names that attack all of them."""

from pricdr.pages import (
    Bullets,
    Cell,
    Column,
    Columns,
    Commands,
    Details,
    Dot,
    Facts,
    Figure,
    Link,
    Note,
    Page,
    Palette,
    Paragraph,
    Row,
    Section,
    Strong,
    Table,
    dot_plot,
)
from pricdr.pages.bars import Bar, bar_chart
from pricdr.pages.charts import chart_figure, described

EVIL = '</title><script>alert("x")</script>&\'"\x1b[31m\u202e\n{{ 7*7 }} 95 %'
NAMES = ("jlt", "sjlt", "spectral", EVIL)
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)


def value(series: int, epsilon: float) -> float:
    return 0.05 + 0.02 * (series + 1) * epsilon**0.4


def line_chart(id: str, width: int = 420, names: tuple[str, ...] = NAMES) -> Figure:
    import altair as alt

    rows = [
        {
            **{"series": name, "epsilon": epsilon, "value": mean, "low": mean - 0.01, "high": mean + 0.01},
            "tip": described(name, f"ε = {epsilon:g}: {mean:.4f} ± 0.0100", f"seed 1: {mean:.5f}"),
            "part": described(name),
        }
        for at, name in enumerate(names)
        for epsilon in EPSILONS
        for mean in [value(at, epsilon)]
    ]
    palette = Palette(names)
    scale, axis = alt.Scale(type="log", base=2), alt.Axis(values=list(EPSILONS), grid=False)
    base = alt.Chart(alt.NamedData("points")).encode(
        x=alt.X("epsilon:Q", title="ε of one rating", scale=scale, axis=axis), color=palette.color()
    )
    chart = (
        base.mark_rule().encode(y=alt.Y("low:Q", title="NDCG@10"), y2="high:Q", description="part:N")
        + base.mark_line(clip=True).encode(y="value:Q", strokeDash=palette.dash(), description="part:N")
        + base.mark_point().encode(y="value:Q", shape=palette.shape(), description="tip:N")
    ).properties(width=width, height=220)
    words = "; ".join(f"{name} at ε = {row}: {value(at, row):.4f}" for at, name in enumerate(names) for row in EPSILONS)
    columns = [Column("strategy", numeric=False), Column("ε"), Column("NDCG@10")]
    cells = [
        Row([row["series"], f"{row['epsilon']:g}", Cell(f"{row['value']:.4f}", row["value"])], row["series"])
        for row in rows
    ]
    points = Table(f"{id}-points", "Every point", columns, cells)
    note = "Bars: one standard error."
    caption = f"What crosses at which ε, {id}"
    return chart_figure(id, caption, chart, in_words=words, data={"points": rows}, table=points, note=note)


def figures_table() -> Table:
    columns = [Column("method", numeric=False), Column("private", numeric=False)]
    columns += [Column(f"{name}@10", f"{name} among ten") for name in ("HR", "NDCG", "MRR")]
    columns.append(Column("change"))
    hover = ("exactly 0.123456", "seed 1: 0.12", "seed 2: 0.13")
    impossible = "NDCG@10 cannot be below MRR@10"
    rows = [
        Row(["jlt", "yes", Cell("0.9", 0.9, "± 0.01", hover), "0.100", "0.5", "+0.1"], "jlt"),
        Row(["sjlt", "yes", Cell("0.25", 0.25, "± 0.01", hover), Cell("0.030", mark=impossible), "–", "-12"], "sjlt"),
        Row(["spectral", "yes", Cell("1,200", 1200.0, hover=hover), "0.020", "0.7", "+3 [+1, +5]"], "spectral", True),
        Row([EVIL, "no", Cell("10", hover=hover), Cell("9", mark=impossible), "0.6", "=1+1"], EVIL),
    ]
    spans = [("", 2), ("sampled", 2), ("full", 2)]
    return Table("figures-of-all", "All methods | and <b>figures</b>", columns, rows, spans, "A note.")


def wide_table(columns: int) -> Table:
    """As a table of a paper is: tasks, methods, and three figures for each metric."""
    heads = [Column("task", numeric=False), Column("method", numeric=False)]
    heads += [Column(f"NDCG@10 {at}") for at in range(columns - 2)]
    cells = [Cell(f"0.{at:04d}", detail="± 0.0021") for at in range(columns - 2)]
    rows = [Row(["Douban Book→Music (stand-in)", f"EASE with the source (plaintext) {at}", *cells]) for at in range(3)]
    return Table(f"wide-{columns}", "A wide table", heads, rows)


def everything() -> Page:
    dots = [
        Dot(name, group, 0.2 + 0.1 * at, 0.1 + 0.1 * at, 0.35 + 0.1 * at)
        for group in ("warm users", "cold users")
        for at, name in enumerate(NAMES)
    ]
    plot = dot_plot("dots", "A dot plot", dots, label="NDCG@10", strong="sjlt")
    bars = bar_chart("bars", "Bars", [Bar("spent", 4.0, "ε = 4 of 8", 8.0, strong=True), Bar(EVIL, 1.0, EVIL)])
    assert plot
    assert bars
    charts = Section("Charts", [line_chart("alone"), Columns([line_chart("left", 300), line_chart("right", 300)])])
    tables = Section(
        "Tables", [figures_table(), Section("Within", [plot, Bullets(["a", Paragraph(["b", Strong(EVIL)])])])]
    )
    tables = Section(tables.heading, [*tables.blocks, wide_table(15), wide_table(20)])
    words = Section(
        EVIL,
        [
            EVIL,
            Paragraph(["See ", Link("the chart", "alone"), " and ", Strong("mind it"), "."]),
            Note("NOT PRIVATE: " + EVIL),
            Facts({"commit": EVIL}),
            Commands(["pricdr demo --out demo && " + "x" * 200, EVIL]),
            Details(EVIL, ["folded away"]),
            bars,
        ],
        id="words",
    )
    lead = ["The answer in one sentence.", EVIL]
    return Page("Everything " + EVIL, [charts, tables, words], lead=lead, contents=True, footer=["Made by hand.", EVIL])
