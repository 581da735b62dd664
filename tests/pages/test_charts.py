"""Charts become plain SVG in a page: marks with words, series that can be hidden, known colours, own ids."""

from xml.etree import ElementTree

import altair as alt
import pytest

from pricdr.errors import ParameterError
from pricdr.markup import shown_text
from pricdr.pages import Palette
from pricdr.pages.charts import chart_figure, described
from pricdr.pages.palette import ALL, DASHES, SERIES, SHAPES
from tests.pages.everything import EPSILONS, EVIL, NAMES, line_chart


@pytest.fixture(scope="module")
def chart():
    return line_chart("alone")


@pytest.fixture(scope="module")
def svg(chart):
    return ElementTree.fromstring(chart.svg)


def test_every_point_has_words_and_belongs_to_its_series(chart, svg):
    marks = [element for element in svg.iter() if element.get("class") == "mark"]
    assert len(marks) == len(NAMES) * len(EPSILONS)
    first = marks[0]
    assert first.get("data-series") == "jlt"
    assert first.get("aria-label") == "jlt. ε = 0.5: 0.0652 ± 0.0100. seed 1: 0.06516"
    assert first.find("title").text == "jlt\nε = 0.5: 0.0652 ± 0.0100\nseed 1: 0.06516"
    assert chart.series == NAMES
    assert [mark.get("data-series") for mark in marks[::5]] == [shown_text(name) for name in NAMES]


def test_lines_error_bars_and_the_legend_hide_with_their_series_and_have_no_tooltip(svg):
    of_jlt = [element for element in svg.iter() if element.get("data-series") == "jlt"]
    marks = [element for element in of_jlt if element.get("class") == "mark"]
    entries = [element for element in of_jlt if "entry" in element.get("class", "")]
    rest = [element for element in of_jlt if element not in marks and element not in entries]
    assert (len(marks), len(entries)) == (5, 1)
    assert sorted(element.tag for element in rest) == ["line"] * 5 + ["path"]
    assert all(element.get("aria-hidden") == "true" for element in rest)


def test_ids_are_the_figure_s_own(svg):
    ids = [element.get("id") for element in svg.iter() if element.get("id")]
    used = [value for element in svg.iter() for value in element.attrib.values() if value.startswith("url(")]
    assert ids
    assert {f"url(#{name})" for name in ids} == set(used)
    assert all(name.startswith("alone-") for name in ids)


def test_only_plain_shapes_and_known_colours_reach_the_page(svg):
    tags = {element.tag for element in svg.iter()}
    assert tags <= {"svg", "g", "path", "line", "rect", "text", "title", "defs", "clipPath"}
    known = {colour.light for colour in ALL} | {"none"}
    painted = {element.get(name) for element in svg.iter() for name in ("fill", "stroke")} - {None}
    assert painted <= known


def test_links_and_pictures_that_a_chart_asks_for_are_left_out():
    rows = [{"x": 1, "to": "https://example.org/", "tip": described("a", "one")}]
    base = alt.Chart(alt.Data(values=rows)).encode(x="x:Q", href="to:N", description="tip:N")
    drawn = chart_figure(
        "c", "c", base.mark_point() + base.mark_image(width=9, height=9).encode(url="to:N"), in_words="w"
    )
    assert "example.org" not in drawn.svg
    assert "<image" not in drawn.svg


def test_a_name_that_is_hostile_in_vega_is_text():
    names = (EVIL, "datum['x']", "a: b", '["x"]', "")
    drawn = line_chart("c", names=names)
    assert set(drawn.series) == set(names)
    assert "<script" not in drawn.svg


def test_no_two_series_look_alike():
    names = [f"method {at}" for at in range(40)]
    palette = Palette(names)
    looks = [
        list(zip(palette.color().to_dict()["scale"]["range"], channel.to_dict()["scale"]["range"], strict=True))
        for channel in (palette.shape(), palette.dash())
    ]
    for pairs in looks:
        assert len({str(pair) for pair in pairs}) == len(names)
    assert len(SERIES) == len(SHAPES) == len(DASHES)
    assert palette.colour("method 1") == SERIES[1].light
    with pytest.raises(ParameterError, match="none of the palette's series"):
        palette.colour("another")


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("shade", ["light", "dark"])
def test_series_stand_out_from_the_paper(shade):
    paper = _luminance(getattr(ALL[0], shade))
    for colour in SERIES:
        own = _luminance(getattr(colour, shade))
        assert (max(own, paper) + 0.05) / (min(own, paper) + 0.05) >= 3
