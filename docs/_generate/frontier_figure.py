"""The figure of docs/results.md: the picture that the report opens with, in an SVG file of its own."""

from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from pricdr.report.folder import ResultsFolder, read_folder
from pricdr.report.page import FRONTIER, share_figures

ROOT: Final = Path(__file__).parents[2]
FIGURE: Final = ROOT / "results" / "frontier.svg"
_SVG: Final = "http://www.w3.org/2000/svg"


def figure(folder: ResultsFolder) -> str:
    """Return the chart of all pairs, the faint ones on which plaintext gains nothing for certain last."""
    (drawn,) = share_figures(sorted(folder.family(FRONTIER), key=lambda pair: not pair.has_ceiling))
    ElementTree.register_namespace("", _SVG)
    root = ElementTree.fromstring(drawn.light)
    title = ElementTree.Element(f"{{{_SVG}}}title")
    title.text = f"Share of the plaintext gain that cold users keep. {drawn.in_words}"
    root.insert(0, title)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def write() -> None:
    """Write the figure of the committed results."""
    FIGURE.write_text(figure(read_folder(ROOT / "results")), encoding="utf-8")
