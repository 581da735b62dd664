"""A page with every component, and names that attack all of them."""

from pricdr.pages import (
    Bullets,
    Cell,
    Column,
    Commands,
    Details,
    Facts,
    Note,
    Page,
    Section,
    SideBySide,
    Table,
)
from pricdr.pages.charts import Dot, dot_plot

EVIL = '</title><script>alert("x")</script>&\'"\x1b[31m\u202e\n{{ 7*7 }} 95 %'
NAMES = ("jlt", "sjlt", "spectral", EVIL)


def figures_table() -> Table:
    columns = [Column("method", numeric=False), Column("private", numeric=False)]
    columns += [Column(f"{name}@10", f"{name} among ten") for name in ("HR", "NDCG", "MRR")]
    columns.append(Column("change"))
    hover = ("exactly 0.123456", "seed 1: 0.12", "seed 2: 0.13")
    impossible = "NDCG@10 cannot be below MRR@10"
    rows = [
        ["jlt", "yes", Cell("0.9", 0.9, "± 0.01", hover), "0.100", "0.5", "+0.1"],
        ["sjlt", "yes", Cell("0.25", 0.25, "± 0.01", hover), Cell("0.030", mark=impossible), "–", "-12"],
        ["spectral", "yes", Cell("1,200", 1200.0, hover=hover), "0.020", "0.7", "+3 [+1, +5]"],
        [EVIL, "no", Cell("10", hover=hover), Cell("9", mark=impossible), "0.6", "=1+1"],
    ]
    return Table("figures-of-all", "All methods | and <b>figures</b>", columns, rows, "A note.", strong="spectral")


def wide_table(columns: int) -> Table:
    """As a table of a paper is: tasks, methods, and three figures for each metric."""
    heads = [Column("task", numeric=False), Column("method", numeric=False)]
    heads += [Column(f"NDCG@10 {at}") for at in range(columns - 2)]
    cells = [Cell(f"0.{at:04d}", detail="± 0.0021") for at in range(columns - 2)]
    rows = [["Douban Book→Music (stand-in)", f"EASE with the source (plaintext) {at}", *cells] for at in range(12)]
    return Table(f"wide-{columns}", "A wide table", heads, rows)


def everything() -> Page:
    dots = [
        Dot(name, group, 0.2 + 0.1 * at, 0.1 + 0.1 * at, 0.35 + 0.1 * at)
        for group in ("warm users", EVIL)
        for at, name in enumerate(NAMES)
    ]
    plot = dot_plot("dots", EVIL, dots, label="NDCG@10", strong="sjlt", note="Bars: 95 % intervals.")
    assert plot
    charts = Section("Charts", [SideBySide([plot, "Beside it."])])
    tables = Section("Tables", [figures_table(), Section("Within", [Bullets(["a", EVIL])])])
    tables = Section(tables.heading, [*tables.blocks, wide_table(15), wide_table(20)])
    words = Section(
        EVIL,
        [
            EVIL,
            Note("NOT PRIVATE: " + EVIL),
            Facts({"commit": EVIL}),
            Commands(["pricdr demo --out demo && " + "x" * 200, EVIL]),
            Details(EVIL, ["folded away", Section("Deep", id="deep")]),
        ],
        id="words",
    )
    lead = ["The answer in one sentence.", EVIL]
    return Page("Everything " + EVIL, [charts, tables, words], lead=lead, footer=["Made by hand.", EVIL])
