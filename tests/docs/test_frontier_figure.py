"""The figure of the frontier is that of the committed results, and a file that stands on its own."""

from xml.etree import ElementTree

from docs._generate.frontier_figure import FIGURE, ROOT, figure

from pricdr.report.folder import read_folder
from tests.report import made_up


def test_the_figure_is_that_of_the_results():
    assert FIGURE.read_text(encoding="utf-8") == figure(read_folder(ROOT / "results")), "run `make results`"


def test_it_loads_nothing_and_names_are_text(tmp_path):
    made_up.frontier(tmp_path, {"guided, ε = 4": 0.15, "guided, ε = 8": 0.19}, data={"title": made_up.HOSTILE})
    drawn = figure(read_folder(tmp_path))
    root = ElementTree.fromstring(drawn)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "http" not in drawn.replace("http://www.w3.org/2000/svg", "")
    assert "<script" not in drawn
    assert made_up.HOSTILE in root[0].text
    assert "guided, ε = 4: 50 ± 0 %" in root[0].text


def test_a_pair_on_which_plaintext_gains_nothing_is_faint(tmp_path):
    made_up.frontier(tmp_path, {"guided, ε = 4": 0.15, "guided, ε = 8": 0.19})
    sure = figure(read_folder(tmp_path))
    made_up.frontier(tmp_path, {"guided, ε = 4": 0.11}, noise=0.2, name="frontier_noisy", data={"title": "Noisy A→B"})
    drawn = figure(read_folder(tmp_path))
    assert 'opacity="0.35"' not in sure
    assert 'opacity="0.35"' in drawn
    assert "Noisy A→B" in drawn
