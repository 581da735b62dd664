"""What the paper reads off Table 2 is counted on ours."""

import pytest

from pricdr.report.claims import claims, rank_correlation
from pricdr.report.folder import read_folder
from pricdr.report.measurements import Measurement
from pricdr.report.table2 import tasks
from tests.report import made_up

DOUBAN = {"paper": "Douban Book→Music", "title": "Douban Book→Music"}


def told(folder, levels, **more):
    arms = [
        made_up.released(name, strategy="jlt") if "PriCDR" in name else made_up.arm(name, "dmf", plaintext="(" in name)
        for name in levels
    ]
    lines = made_up.results("table2_toy", {name: {"warm": level} for name, level in levels.items()})
    for line in lines:
        line.update({key: value(line) for key, value in more.items()})
    made_up.write(folder, made_up.outline("table2_toy", "table2", arms, data=DOUBAN), lines)
    (task,) = (task for task in tasks(read_folder(folder)) if task.title == "Douban Book→Music")
    return task, claims(task)


def test_an_order_as_in_the_paper_is_told_as_such(tmp_path):
    levels = {"BPR": 0.1, "DMF": 0.12, "ETL (plaintext)": 0.2, "PriCDR-J, ε = 8": 0.25, "PriCDR-S, ε = 8": 0.3}
    cross, ours, sparse, order = told(tmp_path, levels)[1]
    assert cross.endswith("Ours, of 2 pairs: ahead in 2, behind in 0, cannot be told in 0.")
    assert ours.endswith("Ours, of 6 pairs: ahead in 6, behind in 0, cannot be told in 0.")
    assert sparse.startswith("The paper: PriCDR-S is ahead of PriCDR-J. Ours, of 1 pair: ahead in 1")
    assert "(+0.0500" in sparse
    assert order == "Of 5 figures, ours is above the paper's in 0; the rank correlation of both orders is +1.00."


def test_an_order_turned_round_is_told_as_such(tmp_path):
    levels = {"BPR": 0.3, "DMF": 0.28, "ETL (plaintext)": 0.2, "PriCDR-J, ε = 8": 0.1, "PriCDR-S, ε = 8": 0.1}
    cross, ours, sparse, order = told(tmp_path, levels)[1]
    assert cross.endswith("ahead in 0, behind in 2, cannot be told in 0.")
    assert ours.endswith("ahead in 0, behind in 6, cannot be told in 0.")
    assert "cannot be told in 1 (" in sparse
    assert "ours is above the paper's in 2; the rank correlation of both orders is −" in order


def test_what_was_not_measured_is_not_spoken_of(tmp_path):
    assert told(tmp_path, {"BPR": 0.3})[1] == ()


@pytest.mark.parametrize(("trust", "words"), [(0.0, "in every run"), (1.0, "")])
def test_a_figure_without_its_release_says_so(tmp_path, trust, words):
    levels = {"BPR": 0.1, "PriCDR-J, ε = 8": 0.25}
    task, claimed = told(
        tmp_path, levels, trust=lambda line: {"warm": trust, "cold": 0.0} if "J" in line["arm"] else None
    )
    rows = {row.method: row for row in task.rows}
    assert rows["BPR"].refusal() == ""
    # Nobody cold was evaluated: that they would have been refused a release is neither here nor there.
    assert words in rows["PriCDR-J"].refusal()
    assert bool(rows["PriCDR-J"].refusal()) == bool(words)
    # A claim that it is ahead must not pass for a sign of what its release is worth.
    assert any(one.startswith("PriCDR-J: the release was refused in every run") for one in claimed) == bool(words)


def test_rank_correlation_counts_ties_as_halves():
    ours = [Measurement({1: value}) for value in (1.0, 1.0, 2.0)]
    assert rank_correlation([1.0, 2.0, 3.0], ours) == pytest.approx(0.866, abs=1e-3)
    assert rank_correlation([1.0, 1.0], ours[:2]) == 0.0
