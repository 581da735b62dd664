"""The paper's raw files, from the form they are distributed in to the counts of its Table 3."""

from dataclasses import astuple, replace
from pathlib import Path

import pytest

from pricdr.data.pairs import prepare
from pricdr.data.reading.read import read_ratings
from pricdr.errors import InputError, MissingDataError
from pricdr.experiments.arms import DataSpec
from pricdr.experiments.paper import Counts, paper_tasks
from pricdr.experiments.spec import read_specs
from pricdr.experiments.tasks import find_files, load_task, missing_files
from tests import raw_files
from tests.raw_files import FORMS, KNOWN_COUNTS, Row, counts_in_plain_python, known_pair, random_pair

each_form = pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
BY_NAME = {form.name: form for form in FORMS}


def refusal_of(call):
    """Call something that must be refused, and return its one line."""
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value).isprintable()
    return str(caught.value)


def read_pair(root, form):
    return [file.read() for file in find_files(root, form.folder, *form.domains)]


def counted(root, form) -> tuple[int, ...]:
    source, target = read_pair(root, form)
    return astuple(Counts.of(prepare(source.ratings, target.ratings)))


def data_of(form) -> DataSpec:
    return DataSpec(folder=form.folder, source=form.domains[0], target=form.domains[1], threshold=3.0)


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gz"])
@each_form
def test_counts_that_are_known_by_construction(tmp_path, form, packed):
    if packed and form.name == "2023":  # files that a spec names itself: compressed, they have another name
        form = replace(form, domains=tuple(f"{name}.gz" for name in form.domains))
    form.put(tmp_path, *known_pair(), packed=packed)
    assert counts_in_plain_python(*known_pair(), timed=form.timed) == KNOWN_COUNTS
    assert counted(tmp_path, form) == KNOWN_COUNTS


@each_form
def test_a_task_is_loaded_from_the_raw_files_with_the_counts_of_plain_python(tmp_path, form, any_seed):
    source, target = random_pair(any_seed)
    form.put(tmp_path, source, target)
    data = data_of(form)
    assert not missing_files(data, tmp_path)
    pair = load_task(data, tmp_path).pair
    expected = counts_in_plain_python(source, target, timed=form.timed)
    assert 0 < expected[0] < 60
    assert astuple(Counts.of(pair)) == expected
    assert set(pair.source.matrix.data) == {1.0}


def test_of_a_repeated_pair_the_latest_counts_where_there_are_times(tmp_path):
    rows = [Row(1, 1, 5, 10), Row(1, 1, 2, 20), Row(2, 1, 4, 10)]
    for name, latest in (("2014", 2.0), ("2018", 2.0), ("2014-5", 2.0), ("2018-5", 2.0), ("header", 5.0)):
        form = BY_NAME[name]
        form.put(tmp_path / name, rows, rows)
        source, _ = read_pair(tmp_path / name, form)
        assert (source.rows, source.repeats.rows) == (3, 1)
        assert source.ratings.matrix.toarray()[0, 0] == latest


def test_the_order_of_columns_is_never_guessed(tmp_path):
    """A file in the other order than its name declares is refused, and so is one whose name declares none."""
    for name, other in (("2014", "2018"), ("2018", "2014")):
        swapped = raw_files.Form(name, "amazon", raw_files.AMAZON, BY_NAME[name].files, BY_NAME[other].write)
        swapped.put(tmp_path / name, *known_pair())
        message = refusal_of(lambda swapped=swapped, name=name: counted(tmp_path / name, swapped))
        assert "10 of 10 item ids are not Amazon's" in message
        assert f"by its name it is Amazon {name}, ratings only, with the item in column" in message
    file = tmp_path / "music.csv"
    file.write_text(raw_files.ratings_2014(known_pair()[0]))
    message = refusal_of(lambda: read_ratings(file))
    assert "amazon-2014 (user, item, rating, time) or amazon-2018 (item, user, rating, time)" in message


def test_the_header_of_2023_is_no_file_of_2018(tmp_path):
    BY_NAME["2023"].put(tmp_path, *known_pair())
    (tmp_path / "amazon_2023").rename(tmp_path / "amazon")
    message = refusal_of(lambda: counted(tmp_path, BY_NAME["2018"]))
    assert "CDs_and_Vinyl.csv: line 1 looks like a header: ['user_id', 'parent_asin', 'rating', 'timestamp']" in message


def test_data_that_is_not_there_says_which_files_would_do(tmp_path):
    data = data_of(BY_NAME["2014"])
    with pytest.raises(MissingDataError, match=r"^data not present: point PRICDR_DATA at it$") as caught:
        load_task(data, tmp_path)
    assert caught.value.expected == missing_files(data, tmp_path)
    for found, domain in zip(caught.value.expected, ("CDs_and_Vinyl", "Books"), strict=True):
        names = (f"ratings_{domain}.csv", f"{domain}.csv", f"reviews_{domain}_5.json", f"{domain}_5.json")
        assert found == f"one of {', '.join(f'amazon/{name}' for name in names)} (each also .gz)"
    BY_NAME["2018"].put(tmp_path, *known_pair())
    (tmp_path / "amazon" / "Books.csv").unlink()
    assert [found[:24] for found in missing_files(data, tmp_path)] == ["one of amazon/ratings_Bo"]
    with pytest.raises(MissingDataError) as caught:
        find_files(tmp_path, "films", "films.csv")
    assert caught.value.expected == ("films/films.csv",)


def test_one_file_of_a_domain_and_one_release_of_a_pair(tmp_path):
    BY_NAME["2014"].put(tmp_path, *known_pair())
    BY_NAME["2018"].put(tmp_path, *known_pair())
    message = refusal_of(lambda: counted(tmp_path, BY_NAME["2014"]))
    assert "ratings_CDs_and_Vinyl.csv and CDs_and_Vinyl.csv are all files of CDs_and_Vinyl; keep the one" in message
    (tmp_path / "amazon" / "ratings_CDs_and_Vinyl.csv").unlink()
    (tmp_path / "amazon" / "Books.csv").unlink()
    message = refusal_of(lambda: counted(tmp_path, BY_NAME["2014"]))
    assert "CDs_and_Vinyl.csv (Amazon 2018, ratings only) and ratings_Books.csv (Amazon 2014, ratings only)" in message
    # Two forms of one release have the same ids.
    BY_NAME["header"].put(tmp_path, *known_pair())
    BY_NAME["GA-DTCDR"].put(tmp_path, *known_pair())
    (tmp_path / "douban_raw" / "book.csv").unlink()
    (tmp_path / "douban_raw" / "douban_movie" / "ratings.dat").unlink()
    assert counted(tmp_path, BY_NAME["header"]) == KNOWN_COUNTS


SPECS = Path(__file__).parents[2] / "specs"


def test_table_2_and_table_3_name_the_same_data():
    """But for Douban Book→Music: Table 2 takes the authors' filtered files, Table 3 counts from the raw ones."""
    specs = {spec.data.title: spec.data for spec in read_specs(SPECS / "table2.toml", SPECS / "tuned")}
    for task in paper_tasks():
        if task.data.title not in specs:
            assert task.data.filtered, f"{task.data.title} is counted and not run"
            continue
        data = specs.pop(task.data.title)
        named = [(one.paper, one.stand_in) for one in (data, task.data)]
        assert named[0] == named[1]
        if data.official is None:
            assert {**data.content(), "cold": 0.0, "distinct": False} == task.data.content()
    assert not specs
