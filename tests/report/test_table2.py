"""Table 2: the paper's figure, ours and the difference; no data, no figures; stand-ins apart."""

import pytest

from pricdr.experiments.outline import NOT_PRESENT as ABSENT
from pricdr.report.folder import read_folder
from pricdr.report.paper import METHODS, TASKS
from pricdr.report.table2 import tasks
from tests.report import made_up

DOUBAN = {"paper": "Douban Book→Music", "title": "Douban Book→Music"}
STAND_IN = {"paper": "Amazon Movie→Music", "title": "Amazon Movie→Music", "stand_in": True}


@pytest.fixture
def folder(tmp_path):
    arms = [
        made_up.arm("popularity", "popularity"),
        made_up.arm("BPR", "bpr"),
        made_up.arm("ETL (plaintext)", "etl", plaintext=True),
        made_up.released("PriCDR-J, ε = 8", strategy="jlt"),
        made_up.released("PriCDR-S, ε = 8", strategy="sjlt", release={"calibration": "paper"}),
    ]
    levels = {one["name"]: {"warm": 0.1 * at} for at, one in enumerate(arms, 1)}
    facts = {"dim": 200, "sigma": 9.0, "epsilon": 0.25, "delta": 1e-6}
    for name, data in (("table2_douban", DOUBAN), ("table2_movie", STAND_IN)):
        lines = made_up.results(name, levels, noise=0.0)
        for line in lines:
            line["release"] = facts if "PriCDR" in line["arm"] else None
        made_up.write(tmp_path, made_up.outline(name, "table2", arms, data=data), lines)
    missing = made_up.outline(
        "table2_book", "table2", arms, data={"paper": "Amazon Music→Book", "title": "Amazon Music→Book"}, missing=ABSENT
    )
    return read_folder(made_up.write(tmp_path, missing))


def by_title(folder):
    return {task.title: task for task in tasks(folder)}


def test_ours_stands_beside_the_papers_with_the_difference(folder):
    rows = {row.method: row for row in by_title(folder)["Douban Book→Music"].rows}
    assert list(rows) == list(METHODS)
    assert rows["BPR"].ours("HR@10").value == pytest.approx(0.2)
    assert rows["BPR"].difference("HR@10") == pytest.approx(0.2 - 0.2889)
    assert rows["DMF"].difference("HR@10") is None
    assert rows["DMF"].absent == "not an arm of the spec"


def test_who_saw_what_is_told_with_both_epsilons(folder):
    rows = {row.method: row for row in by_title(folder)["Douban Book→Music"].rows}
    assert rows["BPR"].access == "target alone"
    assert rows["ETL"].access == "NOT PRIVATE: plaintext"
    assert rows["PriCDR-J"].access == "private, ε = 8"
    assert rows["PriCDR-S"].access == "private, nominal ε = 8, exact ε = 0.25"


def test_a_stand_in_has_rows_of_its_own_and_none_of_the_papers_figures(folder):
    found = by_title(folder)
    stand_in = found["Amazon Movie→Music (stand-in)"]
    assert stand_in.stands_for == "Amazon Movie→Music"
    assert {row.paper for row in stand_in.rows} == {None}
    assert {row.difference("HR@10") for row in stand_in.rows} == {None}
    papers_own = found["Amazon Movie→Music"]
    assert not any(row.ours("HR@10") for row in papers_own.rows)
    assert {row.absent for row in papers_own.rows} == {ABSENT}


def test_tasks_without_data_keep_their_rows(folder):
    found = by_title(folder)
    assert set(TASKS) < set(found)
    for title in ("Amazon Music→Book", "Douban Movie→Book"):
        assert {row.absent for row in found[title].rows} == {ABSENT}
        assert all(row.paper is not None for row in found[title].rows)


def test_methods_beyond_the_paper_stand_below(folder):
    assert [row.method for row in by_title(folder)["Douban Book→Music"].further] == ["popularity"]


def test_an_empty_family_still_has_the_papers_tasks(tmp_path):
    made_up.write(tmp_path, made_up.outline("other", "other", [made_up.arm("popularity", "popularity")]))
    assert [task.title for task in tasks(read_folder(tmp_path))] == list(TASKS)
