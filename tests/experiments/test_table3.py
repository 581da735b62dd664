"""Table 3, from raw files of the paper's forms and from the real ones."""

import csv
import json
import os
from dataclasses import astuple, replace
from pathlib import Path

import pytest

from pricdr.errors import InputError
from pricdr.experiments.paper import (
    Counts,
    Table3,
    measure_table3,
    paper_tasks,
    read_table3,
    table3_markdown,
    write_table3,
)
from tests.raw_files import FORMS, KNOWN_COUNTS, counts_in_plain_python, known_pair, random_pair

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("PRICDR_DATA", ROOT / "../shared/data"))
PAPER = DATA.parent / "paper"


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    return measure_table3(tmp_path_factory.mktemp("nothing"))


def test_without_data_every_task_keeps_its_row_and_is_written_and_read_again(tmp_path, empty):
    assert [row.title for row in empty.rows] == [task.data.title for task in paper_tasks()]
    assert {row.measured for row in empty.rows} == {row.agrees for row in empty.rows} == {None}
    assert [row.paper for row in empty.rows] == [task.counts for task in paper_tasks()]
    assert ["ratings_CDs_and_Vinyl.csv" in found for found in empty.rows[0].expected] == [True, False]
    assert table3_markdown(empty).count("data not present: point PRICDR_DATA at it") == len(empty.rows)
    write_table3(tmp_path / "new" / "table3.json", empty)
    assert read_table3(tmp_path / "new" / "table3.json") == empty


@pytest.mark.parametrize("form", [form for form in FORMS if form.folder == "amazon"], ids=lambda form: form.name)
def test_a_task_is_counted_as_soon_as_its_files_are_there(tmp_path, form):
    form.put(tmp_path, *known_pair(), packed=True)
    rows = {row.title: row for row in measure_table3(tmp_path).rows}
    found = rows.pop("Amazon Music→Book")
    assert all(row.expected for row in rows.values())
    assert (astuple(found.measured), found.agrees) == (KNOWN_COUNTS, False)
    assert found.measured.cells.count("100.00%") == 2


def test_other_readings_of_the_papers_words_give_other_counts(tmp_path):
    douban = next(form for form in FORMS if form.name == "GA-DTCDR")
    source, target = random_pair(3)
    douban.put(tmp_path, source, target)
    row = next(row for row in measure_table3(tmp_path).rows if row.title == "Douban Movie→Book")
    assert astuple(row.measured) == counts_in_plain_python(source, target, timed=False)
    one_pass, five_core, six_core = (reading.counts for reading in row.readings)
    assert row.measured.users <= one_pass.users
    assert six_core.users <= five_core.users <= one_pass.users
    assert len({row.measured, one_pass, six_core}) == 3


def test_counts_that_are_the_papers_agree(empty):
    row = empty.rows[3]
    assert replace(row, measured=row.paper).agrees is True
    assert replace(row, measured=replace(row.paper, users=923)).agrees is False
    same = table3_markdown(Table3((replace(row, measured=row.paper),), empty.provenance))
    assert "| Douban Book→Music | ours: the same (rating ≥ 3, the five steps) | 924 | 3,916 | 50,429 | 1.39% |" in same


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda rows: rows[0].update(users=5), "unknown key 'users' in rows #1"),
        (lambda rows: rows[0].update(title="a\x1b[31m"), "rows #1.title must be one line"),
        (lambda rows: rows[3]["paper"].update(users="924"), "rows #4.paper.users must be a whole number, got '924'"),
        (lambda rows: rows[3]["paper"].update(users=-1), "paper.users must be greater than or equal to 0, got -1"),
        (lambda rows: rows[0].pop("preprocessing"), "rows #1 needs 'preprocessing'"),
    ],
)
def test_whatever_else_is_in_the_file_is_refused_in_one_line(tmp_path, empty, change, rule):
    path = tmp_path / "table3.json"
    write_table3(path, empty)
    content = json.loads(path.read_text())
    change(content["rows"])
    path.write_text(json.dumps(content))
    with pytest.raises(InputError) as caught:
        read_table3(path)
    assert str(path) in str(caught.value)
    assert rule in str(caught.value)
    path.write_bytes(b"\xff{}")
    with pytest.raises(InputError, match="not a Table 3"):
        read_table3(path)


@pytest.mark.realdata
@pytest.mark.skipif(not PAPER.is_dir(), reason="no table3.csv of the paper")
def test_the_papers_figures_are_those_of_its_table():
    with (PAPER / "table3.csv").open(encoding="utf-8") as file:
        listed = [
            (f"{row.pop('dataset')} {row.pop('source')}→{row.pop('target')}", row) for row in csv.DictReader(file)
        ]
    found = [(name, Counts(**{key: int(value) for key, value in row.items()})) for name, row in listed]
    assert found == [(task.data.title, task.counts) for task in paper_tasks() if task.counts]


@pytest.mark.realdata
@pytest.mark.skipif(not DATA.is_dir(), reason="no data under PRICDR_DATA")
def test_the_committed_table_is_that_of_the_raw_files():
    measured = measure_table3(DATA)
    douban = measured.rows[3]
    assert douban.agrees is True
    assert [astuple(reading.counts) for reading in douban.readings] == [
        (991, 5_026, 57_400, 5_019, 54_884),
        (979, 5_020, 57_318, 5_001, 54_521),
        (876, 3_780, 48_463, 4_043, 47_742),
    ]
    stand_in = next(row for row in measured.rows if "stand-in" in row.title)
    assert (stand_in.title, astuple(stand_in.measured)[0]) == ("Amazon Movie→Music (stand-in)", 2_042)
    assert read_table3(ROOT / "results" / "table3.json").rows == measured.rows
