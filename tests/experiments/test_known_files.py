"""The paper's raw files, from the form they are distributed in to the counts of its Table 3."""

import pytest

from pricdr.data.pairs import prepare
from pricdr.data.reading.read import read_ratings, read_ratings_file
from pricdr.errors import InputError, MissingDataError
from pricdr.experiments.tasks import find_files
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
    pair = prepare(source.ratings, target.ratings)
    sides = (pair.source, pair.target)
    return (len(pair.users), *(figure for side in sides for figure in (len(side.items), len(side))))


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gz"])
@each_form
def test_counts_that_are_known_by_construction(tmp_path, form, packed):
    form = form if not (packed and form.name == "2023") else _packed_names(form)
    form.put(tmp_path, *known_pair(), packed=packed)
    assert counts_in_plain_python(*known_pair(), timed=form.timed) == KNOWN_COUNTS
    assert counted(tmp_path, form) == KNOWN_COUNTS


def _packed_names(form):
    """Return the form for files that a spec names itself: compressed, they have another name."""
    return raw_files.Form(
        form.name, form.folder, tuple(f"{name}.gz" for name in form.domains), form.files, form.write, form.timed
    )


@each_form
def test_counts_agree_with_a_recount_in_plain_python(tmp_path, form, any_seed):
    source, target = random_pair(any_seed)
    form.put(tmp_path, source, target)
    expected = counts_in_plain_python(source, target, timed=form.timed)
    assert 0 < expected[0] < 60
    assert counted(tmp_path, form) == expected


def test_of_a_repeated_pair_the_latest_counts_where_there_are_times(tmp_path):
    rows = [Row(1, 1, 5, 10), Row(1, 1, 2, 20), Row(2, 1, 4, 10)]
    for name, latest in (("2014", 2.0), ("2018", 2.0), ("2014-5", 2.0), ("2018-5", 2.0), ("header", 5.0)):
        form = BY_NAME[name]
        form.put(tmp_path / name, rows, rows)
        source, _ = read_pair(tmp_path / name, form)
        assert (source.rows, source.duplicates) == (3, 1)
        assert source.ratings.matrix.toarray()[0, 0] == latest


@pytest.mark.parametrize(
    ("name", "line", "rule"),
    [
        ("2014", "A0000000000009,B000000009,high,1400000000", "the rating 'high' is not a finite number"),
        ("2018", "B000000009,A0000000000009,4.0", "is too short: 3 fields"),
        ("2018", "B000000009,,4.0,1400000000", "the user id is empty"),
        ("2014-5", '{"reviewerID": "A0000000000009", "asin": "B000000009", "unixReviewTime": 5}', "has no rating"),
        ("2014-5", "{'reviewerID': 'A9', 'asin': 'B9', 'overall': 4.0, 'unixReviewTime': 5}", "is not a JSON object"),
        ("GA-DTCDR", "\n7\t8\t", "the rating is empty"),
        ("header", "7,8,nan", "is not a finite number"),
    ],
)
def test_a_bad_row_is_refused_by_its_place(tmp_path, name, line, rule):
    form = BY_NAME[name]
    form.put(tmp_path, *known_pair())
    path = tmp_path / form.folder / form.files[1]
    rows = len(known_pair()[1])
    path.write_text(path.read_text() + line + "\n")
    message = refusal_of(lambda: read_pair(tmp_path, form))
    assert str(path) in message
    assert f"row {rows + 1} " in message
    assert rule in message


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


def test_books_have_an_isbn_as_their_product_id(tmp_path):
    form = BY_NAME["2014"]
    form.put(tmp_path, *known_pair())
    path = tmp_path / "amazon" / "ratings_Books.csv"
    path.write_text(path.read_text().replace("B00000000", "006195791X"[:9]))
    assert counted(tmp_path, form) == KNOWN_COUNTS


def test_the_header_of_2023_is_no_file_of_2018(tmp_path):
    BY_NAME["2023"].put(tmp_path, *known_pair())
    (tmp_path / "amazon_2023").rename(tmp_path / "amazon")
    message = refusal_of(lambda: counted(tmp_path, BY_NAME["2018"]))
    assert "CDs_and_Vinyl.csv: line 1 looks like a header: ['user_id', 'parent_asin', 'rating', 'timestamp']" in message


def test_data_that_is_not_there_says_where_to_put_it(tmp_path):
    with pytest.raises(MissingDataError) as caught:
        find_files(tmp_path, "amazon", "CDs_and_Vinyl", "Books")
    assert str(caught.value) == "data not present: point PRICDR_DATA at it"
    assert len(caught.value.expected) == 2
    names = ("ratings_Books.csv", "Books.csv", "reviews_Books_5.json", "Books_5.json")
    assert all(f"amazon/{name}" in caught.value.detail for name in names)
    BY_NAME["2018"].put(tmp_path, *known_pair())
    (tmp_path / "amazon" / "Books.csv").unlink()
    with pytest.raises(MissingDataError) as caught:
        find_files(tmp_path, "amazon", "CDs_and_Vinyl", "Books")
    assert "CDs_and_Vinyl" not in caught.value.detail
    with pytest.raises(MissingDataError) as caught:
        find_files(tmp_path, "films", "films.csv")
    assert caught.value.detail == "expected films/films.csv"


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


def test_reviews_of_douban_are_read_by_their_header(tmp_path):
    """The later release with texts: tab-separated, quoted, with dates. It is another data set than the paper's."""
    file = tmp_path / "musicreviews_cleaned.txt"
    head = '"user_id"\t"music_id"\t"rating"\t"labels"\t"comment"\t"useful_num"\t"time"\t"ID"\n'
    file.write_text(head + '"5"\t"17"\t"4"\t"rock|80s"\t"a \ttab, and ""words"""\t"0"\t"2009-03-01"\t"1"\n')
    content = read_ratings_file(file, delimiter="tab")
    assert (content.ratings.users, content.ratings.items, content.rating_range) == (("5",), ("17",), (4.0, 4.0))
    assert content.repeats.by_time


def test_blank_json_lines_are_counted(tmp_path):
    file = tmp_path / "r.jsonl"
    file.write_text('\n{"user": "a", "item": "x", "rating": 1}\n \n{"user": "b", "item": "x", "rating": 1}\n\n')
    assert read_ratings_file(file).dropped == (("blank lines", 3),)
    file.write_text("\n \n")
    assert "the file is empty" in refusal_of(lambda: read_ratings(file))
