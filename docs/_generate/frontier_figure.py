"""The figure of docs/results.md: the first chart of the report as an SVG file of its own."""

from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from pricdr.pages import Figure
from pricdr.pages.palette import INK, PAPER
from pricdr.report.answer import answer
from pricdr.report.folder import ResultsFolder, read_folder
from pricdr.report.sections.lead import frontier_figures

ROOT: Final = Path(__file__).parents[2]
FIGURE: Final = ROOT / "results" / "frontier.svg"
_SVG: Final = "http://www.w3.org/2000/svg"
_HEAD, _GAP = 34.0, 24.0
"""Above the panels, for their titles, and between them, in pixels."""


def figure(folder: ResultsFolder) -> str:
    """Return the panels of all pairs on which plaintext gains something for certain, side by side."""
    panels = [one for columns in frontier_figures(folder, answer(folder)) for one in columns.blocks]
    shown = [panel for panel in panels if isinstance(panel, Figure) and not panel.note]
    root = ElementTree.Element("svg", {"xmlns": _SVG, "role": "img", "font-family": "system-ui, sans-serif"})
    words = " ".join(f"{panel.caption}: {panel.in_words}" for panel in shown)
    ElementTree.SubElement(root, "title").text = f"Share of the plaintext gain that cold users keep. {words}"
    ElementTree.SubElement(root, "rect", {"width": "100%", "height": "100%", "fill": PAPER.light})
    left, bottom = 0.0, 0.0
    for panel in shown:
        drawn = ElementTree.fromstring(panel.svg)
        width, height = (float(drawn.get(name, "0")) for name in ("width", "height"))
        drawn.set("x", f"{left:g}")
        drawn.set("y", f"{_HEAD:g}")
        place = {"x": f"{left + 12:g}", "y": "22", "fill": INK.light, "font-size": "14", "font-weight": "600"}
        ElementTree.SubElement(root, "text", place).text = panel.caption
        root.append(_without_page(drawn, f"panel-{len(root)}"))
        left, bottom = left + width + _GAP, max(bottom, _HEAD + height)
    root.set("viewBox", f"0 0 {max(left - _GAP, 1):g} {max(bottom, 1):g}")
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _without_page(drawing: ElementTree.Element, prefix: str) -> ElementTree.Element:
    """Remove, in place, what only a page has a use for; what marks say to those who point at them stays.

    Ids are numbered again: vega counts them over all charts that a process has drawn.
    """
    ids = [element.get("id", "") for element in drawing.iter() if "id" in element.attrib]
    named = {f"url(#{old})": f"url(#{prefix}-{at})" for at, old in enumerate(ids)}
    for element in drawing.iter():
        for name, value in list(element.attrib.items()):
            if name.startswith(("aria-", "data-")) or name in ("tabindex", "role"):
                del element.attrib[name]
            elif name == "id":
                element.set(name, f"{prefix}-{ids.index(value)}")
            else:
                element.set(name, named.get(value, value))
    return drawing


def write() -> None:
    """Write the figure of the committed results."""
    FIGURE.write_text(figure(read_folder(ROOT / "results")), encoding="utf-8")
