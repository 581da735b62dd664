"""The figure of docs/results.md: the first charts of the report, side by side in an SVG file of their own."""

from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

import altair as alt

from pricdr.errors import printable
from pricdr.pages.charts import chart_figure
from pricdr.report.folder import ResultsFolder, read_folder
from pricdr.report.page import FRONTIER, share_charts

ROOT: Final = Path(__file__).parents[2]
FIGURE: Final = ROOT / "results" / "frontier.svg"
_SVG: Final = "http://www.w3.org/2000/svg"


def figure(folder: ResultsFolder) -> str:
    """Return the charts of all pairs on which plaintext gains something for certain."""
    charts = share_charts([pair for pair in folder.family(FRONTIER) if pair.has_ceiling])
    panels: list[Any] = [draw().properties(title=printable(pair.title)) for pair, draw, _ in charts]
    words = " ".join(f"{pair.title}: {in_words}" for pair, _, in_words in charts)
    drawn = chart_figure("frontier", "", lambda: alt.HConcatChart(hconcat=panels, spacing=24), in_words=words).light
    ElementTree.register_namespace("", _SVG)
    root = ElementTree.fromstring(drawn)
    title = ElementTree.Element(f"{{{_SVG}}}title")
    title.text = f"Share of the plaintext gain that cold users keep. {words}"
    root.insert(0, title)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def write() -> None:
    """Write the figure of the committed results."""
    FIGURE.write_text(figure(read_folder(ROOT / "results")), encoding="utf-8")
