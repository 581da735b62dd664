"""The figure of the frontier is that of the committed results."""

from pathlib import Path
from xml.etree import ElementTree

from pricdr.experiments.frontier import figure, shares
from pricdr.experiments.results import Mean, read
from pricdr.experiments.spec import read_spec

ROOT = Path(__file__).parents[2]
PAIRS = ("movie_music", "electronics_cell")


def panel(data):
    spec = read_spec(ROOT / "specs" / f"frontier_{data}.toml", ROOT / "specs" / "tuned")
    return spec.title.partition(": ")[2], shares(spec, read(ROOT / "results" / f"frontier_{data}.jsonl"))


def test_the_figure_is_that_of_the_results():
    drawn = (ROOT / "results" / "frontier.svg").read_text(encoding="utf-8")
    assert drawn == figure([panel(data) for data in PAIRS])
    assert "http" not in drawn.replace("http://www.w3.org/2000/svg", "")


def test_a_title_is_escaped_and_an_empty_panel_is_drawn():
    drawn = figure([("A < B\x1b[31m\0\u202e", {"guided": {4.0: Mean(0.5, 0.1, 5)}}), ("nothing", {})])
    assert r"A &lt; B\u001b[31m\u0000\u202e</text>" in drawn
    ElementTree.fromstring(drawn)
    assert drawn.count("<circle") == 1
