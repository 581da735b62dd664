"""A results folder may come from anywhere: it is refused in one line, or it makes a page; never anything else."""

import copy
import json

import pytest

from pricdr.errors import PriCDRError
from pricdr.report.folder import read_folder
from pricdr.report.page import report
from tests.report import made_up

BAD = [None, 1e300, "\x1b[31m" * 60, []]
"""What a key may hold instead of what it should."""


def keys(value, path=()):
    """Every way to a value inside of JSON, of lists the first entry alone."""
    yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for name, inner in inside:
        yield from keys(inner, (*path, name))


def changed(value, path, new):
    result = place = copy.deepcopy(value)
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = new
    return result


def read_or_refuse(folder):
    """Read a folder and return whether it was taken; a refusal is one printable line."""
    try:
        read_folder(folder)
    except PriCDRError as refused:
        assert str(refused).isprintable()
        assert len(str(refused)) < 2_000
        return False
    return True


@pytest.mark.parametrize("name", ["frontier_toy.spec.json", "frontier_toy.jsonl"])
def test_whatever_a_key_holds_is_checked(tmp_path, name):
    made_up.frontier(tmp_path, {"guided, ε = 4": 0.15})
    path = tmp_path / name
    honest = json.loads(path.read_text().splitlines()[0])
    refused = 0
    for place in [place for place in keys(honest) if 1 <= len(place) <= 3]:
        for new in BAD:
            path.write_text(json.dumps(changed(honest, place, new)) + "\n")
            refused += not read_or_refuse(tmp_path)
    assert refused > 50


def each_arm(spec, **change):
    return {**spec, "arm": [{**arm, **change} for arm in spec["arm"]]}


def point(axis, at):
    return {"curve": "c", "axis": axis, "at": at}


STRANGE = {
    "a hostile title": lambda spec: {**spec, "data": {**spec["data"], "title": made_up.HOSTILE}},
    "no baseline": lambda spec: {**spec, "baseline": None},
    "a baseline that is no arm": lambda spec: {**spec, "baseline": "nobody", "ceiling": "nobody"},
    "no arms": lambda spec: {**spec, "arm": []},
    "no seeds": lambda spec: {**spec, "seeds": []},
    "one name for all": lambda spec: each_arm(spec, name="same"),
    "an axis at nothing": lambda spec: each_arm(spec, point=point("epsilon", 0.0)),
    "an axis far out": lambda spec: each_arm(spec, point=point("epsilon", 1e18)),
    "an axis of nothing": lambda spec: each_arm(spec, point=point("", 1.0)),
    "arms that stand for many": lambda spec: each_arm(spec, vary={"epsilon": [1, 2]}),
    "a method that is not installed": lambda spec: each_arm(spec, method="nobody's"),
    "the paper's task": lambda spec: {**spec, "name": "table2_toy", "data": {**spec["data"], "paper": "Douban"}},
}


@pytest.mark.parametrize("what", STRANGE)
def test_strange_outlines_make_a_page_or_a_refusal(tmp_path, what):
    made_up.frontier(tmp_path, {"guided, ε = 4": 0.15, "guided, ε = 8": 0.19})
    made_up.frontier(tmp_path, {"guided, ε = 4": 0.15}, name="frontier_other")
    for path in tmp_path.glob("*.spec.json"):
        content = json.loads(path.read_text())
        path.write_text(json.dumps({**content, "spec": STRANGE[what](content["spec"])}))
    if read_or_refuse(tmp_path):
        html = report(read_folder(tmp_path))
        assert "<script>alert" not in html
        assert html.count("<script") == 1


def test_figures_that_no_metric_can_have_make_a_page(tmp_path):
    made_up.frontier(tmp_path, {"guided, ε = 4": 0.15, "guided, ε = 8": 0.19})
    path = tmp_path / "frontier_toy.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for at, line in enumerate(lines):
        for stratum in line["figures"]["sampled"].values():
            stratum["NDCG@10"] = [-1e18, 1e18, 0.0, 1e-18][at % 4]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert "What was run" in report(read_folder(tmp_path))


def test_a_folder_full_of_files_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("pricdr.report.folder.MAX_ENTRIES", 5)
    for at in range(6):
        (tmp_path / f"{at}.txt").write_text("")
    assert not read_or_refuse(tmp_path)
