"""The paper's tasks as an experiment loads them: from raw files under any of their names, or not at all."""

from pathlib import Path

import pytest

from pricdr.errors import MissingDataError
from pricdr.experiments.arms import DataSpec
from pricdr.experiments.paper import OTHER_DATA, PAPER_TASKS, Counts
from pricdr.experiments.spec import read_specs
from pricdr.experiments.tasks import load_task, missing_files
from tests.raw_files import FORMS, counts_in_plain_python, random_pair

SPECS = Path(__file__).parents[2] / "specs"


def data_of(form) -> DataSpec:
    return DataSpec(folder=form.folder, source=form.domains[0], target=form.domains[1], threshold=3.0)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_a_task_is_loaded_from_the_raw_files(tmp_path, form):
    source, target = random_pair(7)
    form.put(tmp_path, source, target)
    assert not missing_files(data_of(form), tmp_path)
    pair = load_task(data_of(form), tmp_path).pair
    counts = Counts.of(pair)
    expected = counts_in_plain_python(source, target, timed=form.timed)
    assert (counts.users, counts.source_items, counts.source_ratings) == expected[:3]
    assert (counts.target_items, counts.target_ratings) == expected[3:]
    assert set(pair.source.matrix.data) == {1.0}


def test_a_task_that_is_not_there_says_which_files_would_do(tmp_path):
    data = data_of(FORMS[0])
    assert [text.split(",")[0] for text in missing_files(data, tmp_path)] == [
        "one of amazon/ratings_CDs_and_Vinyl.csv",
        "one of amazon/ratings_Books.csv",
    ]
    with pytest.raises(MissingDataError, match=r"^data not present: point PRICDR_DATA at it$"):
        load_task(data, tmp_path)


def test_prepared_arrays_stand_for_the_raw_files(tmp_path):
    FORMS[0].put(tmp_path / "raw", *random_pair(7))
    load_task(data_of(FORMS[0]), tmp_path / "raw", tmp_path / "prepared")
    assert missing_files(data_of(FORMS[0]), tmp_path / "elsewhere", tmp_path / "prepared") == ()


def test_table_2_and_table_3_name_the_same_data():
    """But for Douban Book→Music: Table 2 takes the authors' filtered files, Table 3 counts from the raw ones."""
    specs = {spec.data.title: spec.data for spec in read_specs(SPECS / "table2.toml", SPECS / "tuned")}
    for task in (*PAPER_TASKS, *OTHER_DATA):
        if task.data.title not in specs:
            assert task.data.filtered, f"{task.data.title} is counted and not run"
            continue
        data = specs.pop(task.data.title)
        named = [(one.paper, one.stand_in) for one in (data, task.data)]
        assert named[0] == named[1]
        if data.official is None:
            assert {**data.content(), "cold": 0.0, "distinct": False} == task.data.content()
    assert not specs
