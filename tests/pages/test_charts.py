"""Charts become pictures that run and load nothing, one for light pages and one for dark; without altair, words."""

import sys
from xml.etree import ElementTree

import altair as alt
import pytest

from pricdr.errors import printable
from pricdr.extras import REPORT
from pricdr.pages.charts import DARK, INK, MUTED, PAPER, SERIES, SHAPES, Dot, chart_figure, dot_plot
from tests.browser import examples
from tests.pages.everything import EVIL

DOTS = [
    Dot(row, group, mean, mean - 0.02, mean + 0.02)
    for group, means in (("warm", (0.2, 0.31)), ("cold", (0.21, 0.25)))
    for row, mean in zip(("popularity", "with release"), means, strict=True)
]


def texts(svg):
    return [element.text for element in ElementTree.fromstring(svg).iter() if element.tag.endswith("}text")]


def test_a_dot_plot_names_every_row_and_writes_every_value_and_interval_in_words():
    figure = dot_plot("d", "c", DOTS, label="NDCG@10", strong="with release")
    shown = texts(figure.light)
    for words in ("popularity", "with release", "0.200", "0.310", "warm", "cold", "NDCG@10"):
        assert words in shown
    assert figure.in_words.startswith("NDCG@10. warm, popularity: 0.200 [0.180, 0.220]; warm, with release: 0.310 [")


def test_what_is_not_finite_is_left_out_and_nothing_is_no_figure():
    nan, inf = float("nan"), float("inf")
    kept = dot_plot("d", "c", [Dot("a", "g", nan, nan, nan), Dot("b", "g", 1.0, -inf, inf)], label="x")
    assert kept.in_words == "x. g, b: 1.000."
    assert dot_plot("d", "c", [Dot("a", "g", nan, 0, 1)], label="x") is None


def test_the_dark_picture_is_the_light_one_in_other_colours():
    figure = dot_plot("d", "c", DOTS, label="x")
    for light, dark in DARK.items():
        assert dark not in figure.light
        assert light not in figure.dark
    for colour in (PAPER, INK, MUTED, SERIES[0]):
        assert figure.light.count(colour) == figure.dark.count(DARK[colour]) > 0
    assert texts(figure.dark) == texts(figure.light)


def test_a_name_that_is_hostile_in_vega_or_in_xml_is_text():
    names = [EVIL, "datum['x']", "a: b", '["x"]', "a" * 5]
    figure = dot_plot("d", "c", [Dot(name, EVIL, 0.5, 0.4, 0.6) for name in names], label=EVIL)
    for svg in (figure.light, figure.dark):
        assert "<script" not in svg
        # The end of a long name is cut off.
        assert any((text or "").startswith(printable(EVIL)[:12]) for text in texts(svg))


def test_what_a_chart_asks_for_elsewhere_is_not_fetched():
    """It would not be shown either: a browser loads nothing for a picture inside of an image."""
    base = alt.Chart(alt.InlineData(values=[{"x": 1, "to": "https://example.org/picture.png"}])).encode(x="x:Q")
    figure = chart_figure("c", "c", lambda: base.mark_image(width=9, height=9).encode(url="to:N"), in_words="w")
    assert "base64" not in figure.light
    remote = alt.Chart(alt.UrlData(url="https://example.org/data.json")).mark_point().encode(x="x:Q")
    with pytest.raises(ValueError, match="example"):
        chart_figure("c", "c", lambda: remote, in_words="w")


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("shown", [{one: one for one in DARK}, DARK], ids=["light", "dark"])
def test_series_and_words_stand_out_from_the_paper_and_no_two_series_look_alike(shown):
    paper = _luminance(shown[PAPER])
    assert len({shown[one] for one in SERIES}) == len(set(SHAPES)) == len(SERIES)
    for colour, least in [*((one, 3) for one in SERIES), (INK, 7), (MUTED, 4.5)]:
        own = _luminance(shown[colour])
        assert (max(own, paper) + 0.05) / (min(own, paper) + 0.05) >= least


def test_without_altair_the_pages_of_releases_evaluations_and_the_demo_have_words_instead(tmp_path, monkeypatch):
    for name in REPORT.modules:
        monkeypatch.setitem(sys.modules, name, None)
    for at, page in enumerate((examples.demo, examples.evaluation, examples.inspection, examples.whole_report)):
        (tmp_path / str(at)).mkdir()
        text = page(tmp_path / str(at))
        assert "<img" not in text
        assert "charts need altair and vl_convert" in text
