"""Folders, patterns, partitions and standard input: which files are read, and what is refused by name."""

import gzip
import io
import os

import polars as pl
import pytest

from pricdr.data.ids import read_ids
from pricdr.data.reading import read as reading_module
from pricdr.data.reading.formats import ReadOptions
from pricdr.data.reading.inputs import find_inputs
from pricdr.data.reading.read import opened_table, read_ratings, read_ratings_file as read
from pricdr.data.workspace import Workspace

FRAME = pl.DataFrame({"user": ["a", "b"], "item": ["x", "y"], "rating": [1.0, 2.0]})


@pytest.fixture
def folder(tmp_path):
    """Three partitions of one Parquet file each, and what Spark leaves beside them."""
    for at, country in enumerate(("de", "fr", "__HIVE_DEFAULT_PARTITION__")):
        place = tmp_path / "ratings" / f"country={country}" / "when=2024-01-0%31"
        place.mkdir(parents=True)
        frame = FRAME.with_columns(pl.col("user") + str(at))
        frame.write_parquet(place / "part-0.snappy.parquet")
        (place / "_SUCCESS").touch()
        (place / ".part-0.parquet.crc").write_bytes(b"crc")
        (place / "_temporary").mkdir()
        (place / "_temporary" / "part-9.parquet").write_bytes(b"half")
    return tmp_path / "ratings"


# --- which files --------------------------------------------------------------------------------------------------


def test_a_folder_stands_for_its_files_in_order(folder):
    inputs = find_inputs(folder)
    names = [str(file.path.relative_to(folder)) for file in inputs.files]
    assert names == sorted(names)
    assert inputs.size == sum(file.path.stat().st_size for file in inputs.files)
    expected = [{"country": country, "when": "2024-01-01"} for country in (None, "de", "fr")]
    assert [dict(file.partition_values) for file in inputs.files] == expected
    for pattern, found in (("*/*/*.parquet", 3), ("country=[df]*", 2), ("**", 3)):
        assert len(find_inputs(folder / pattern).files) == found
    (below,) = find_inputs(folder / "country=de" / "**" / "*").files
    assert dict(below.partition_values) == {"when": "2024-01-01"}


def test_progress_is_that_of_all_files_together(folder, tmp_path):
    """Every name of its own would be another bar: a hundred thousand files would fill any terminal."""
    told = []
    with Workspace.opened(tmp_path) as workspace:
        given, report = find_inputs(folder), lambda *report: told.append(report)
        with opened_table(given, ReadOptions(), workspace, progress=report):
            assert given.size == told[-1][1] == told[-1][2]
    assert {what for what, *_ in told} == {f"reading {folder}"}
    assert [done for _, done, *_ in told] == sorted(done for _, done, *_ in told)


@pytest.mark.parametrize("link", ["r.csv", "country=de/r.csv", "more"])
@pytest.mark.parametrize("pattern", ["", "*", "**/*"], ids=["folder", "names", "tree"])
def test_a_link_inside_a_folder_is_refused_and_one_that_the_user_named_is_not(folder, tmp_path, refused, link, pattern):
    """Whoever can add a link to a folder of ratings could have any file published."""
    FRAME.write_parquet(tmp_path / "elsewhere.parquet")
    (folder / "_old").symlink_to(tmp_path / "nowhere")  # skipped
    (tmp_path / "named").symlink_to(folder)
    assert len(find_inputs(tmp_path / "named" / pattern).files) == 3
    (folder / link).symlink_to(tmp_path if link == "more" else tmp_path / "elsewhere.parquet")
    expected = f"{folder / link}: this is a link, and inside a folder of ratings no link is followed"
    assert refused(lambda: find_inputs(folder / pattern)) == expected


# --- partitions ---------------------------------------------------------------------------------------------------


def test_partitions_are_columns_only_where_they_are_asked_for(folder, refused):
    read_as_one = read(folder)
    assert read_as_one.ratings.items == ("x", "y")
    assert not read_as_one.repeats.by_time
    ratings = read(folder / "country=[df]*", columns="user=user,item=country,time=when").ratings
    assert ratings.items == ("de", "fr")
    assert "the item id is empty" in refused(lambda: read(folder, columns="user=user,item=country"))
    empty = refused(lambda: read(folder, columns="user=user,item=item,rating=country"))
    assert "row 1: the rating is empty" in empty
    text = refused(lambda: read(folder / "country=de", columns="user=user,item=item,rating=when"))
    assert "row 1: the rating '2024-01-01' is not a finite number" in text


def test_a_column_that_the_file_and_its_folders_name_is_refused(tmp_path, refused):
    (tmp_path / "user=u").mkdir()
    FRAME.write_parquet(tmp_path / "user=u" / "r.parquet")
    assert read(tmp_path).ratings.users == ("a", "b")  # not asked for, and so ignored
    assert "more than once" in refused(lambda: read(tmp_path, columns="user=user,item=item"))


WRITERS = {"csv": pl.DataFrame.write_csv, "jsonl": pl.DataFrame.write_ndjson, "parquet": pl.DataFrame.write_parquet}


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_partitions_of_text_files(tmp_path, kind):
    for country in ("de", "fr"):
        (tmp_path / f"country={country}").mkdir()
        WRITERS[kind](FRAME, tmp_path / f"country={country}" / f"r.{kind}")
    ratings = read(tmp_path, columns="user=user,item=country,rating=rating").ratings
    assert (ratings.users, ratings.items, len(ratings)) == (("a", "b"), ("de", "fr"), 4)


# --- one schema ---------------------------------------------------------------------------------------------------


def test_another_schema_names_both_files_and_the_column(tmp_path, refused):
    first, second = tmp_path / "1.parquet", tmp_path / "2.parquet"
    FRAME.write_parquet(first)
    for frame, fault in (
        (FRAME.drop("rating"), f"it has no column 'rating', and {first} has one"),
        (FRAME.with_columns(note=pl.lit("")), f"it has a column 'note', and {first} has none"),
        (FRAME.cast({"rating": pl.Int64}), f"column 'rating' holds BIGINT, in {first} DOUBLE"),
    ):
        frame.write_parquet(second)
        message = refused(lambda: read(tmp_path))
        assert message.startswith(f"{second}: {fault}; files that are read together need one schema")


def test_text_files_with_other_headers_and_files_of_other_kinds(tmp_path, refused):
    (tmp_path / "1.csv").write_text("user,item\na,x\n")
    (tmp_path / "2.csv").write_text("user,movieId\na,x\n")
    assert f"{tmp_path / '2.csv'}: it has no column 'item', and {tmp_path / '1.csv'}" in refused(lambda: read(tmp_path))
    FRAME.write_parquet((tmp_path / "2.csv").rename(tmp_path / "2.parquet"))
    expected = f"{tmp_path / '2.parquet'}: it is parquet, and {tmp_path / '1.csv'} is csv"
    assert refused(lambda: read(tmp_path)).startswith(expected)


def test_what_files_disclose_about_filters(tmp_path, refused):
    FRAME.write_parquet(tmp_path / "1.parquet")
    FRAME.write_parquet(tmp_path / "2.parquet", metadata={"pricdr.filtered": "five steps"})
    assert read(tmp_path).ratings.filtered_by == "five steps"
    FRAME.write_parquet(tmp_path / "3.parquet", metadata={"pricdr.filtered": "six steps"})
    message = refused(lambda: read(tmp_path))
    assert message.startswith(f"{tmp_path / '3.parquet'}: it says that it was filtered by 'six steps', ")
    assert str(tmp_path / "2.parquet") in message


# --- files that cannot be used ------------------------------------------------------------------------------------


def test_a_parquet_file_without_rows_is_skipped_and_counted(tmp_path, refused):
    FRAME.clear().write_parquet(tmp_path / "0.parquet")
    assert "the files have columns and no rows" in refused(lambda: read(tmp_path))
    assert "the file has columns and no rows" in refused(lambda: read(tmp_path / "0.parquet"))
    FRAME.write_parquet(tmp_path / "1.parquet")
    assert read(tmp_path)
    assert read(tmp_path).empty_files == 1
    assert "files without rows: 1" in read(tmp_path).summary()


UNUSABLE = (
    *(("csv", content, "the file is empty") for content in (b"", b" \n\n")),
    ("csv", b"user,item,rating\n", "the file has a header and no rows"),
    ("csv", b"user,item,rating\na,\xff,1\n", "line 2 is not text"),
    *((kind, b"", "the file is empty") for kind in ("jsonl", "parquet")),
    ("parquet", b"PAR1 and then nothing", "cannot be read as Parquet"),
    ("md", b"hello", "unknown kind of file"),
)


@pytest.mark.parametrize(("kind", "content", "fault"), UNUSABLE)
def test_one_file_of_many_that_cannot_be_used_is_named(tmp_path, refused, kind, content, fault):
    good = "csv" if kind == "md" else kind
    WRITERS[good](FRAME, tmp_path / f"1.{good}")
    (tmp_path / f"2.{kind}").write_bytes(content)
    assert refused(lambda: read(tmp_path)).startswith(f"{tmp_path / f'2.{kind}'}: {fault}")


def test_an_unreadable_folder_names_itself(tmp_path, refused, monkeypatch):
    FRAME.write_csv(tmp_path / "1.csv")

    def denied(*args):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", denied)
    assert refused(lambda: read(tmp_path)) == f"{tmp_path}: the folder cannot be read: Permission denied"


def test_folders_without_ratings_and_tables_that_only_their_log_understands(folder, tmp_path, refused):
    (folder / "_delta_log").mkdir()
    assert f"{folder}: this is a Delta table" in refused(lambda: read(folder))
    (tmp_path / "empty").mkdir()
    assert refused(lambda: read(tmp_path / "empty")) == f"{tmp_path}/empty: the folder holds no file of ratings"
    nothing = f"{tmp_path}/*.csv: no such file, and as a pattern it matches none"
    assert refused(lambda: read(tmp_path / "*.csv")) == nothing


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_file_that_changes_while_it_is_read_is_named(tmp_path, refused, monkeypatch, kind):
    for number in (1, 2):
        WRITERS[kind](FRAME, tmp_path / f"{number}.{kind}")
    changing = tmp_path / f"2.{kind}"
    honest = reading_module.RatingsTable.add

    def slow(table, source, **options):
        rows = honest(table, source, **options)
        if source.name == changing:
            WRITERS[kind](FRAME, tmp_path / "other")
            (tmp_path / "other").replace(changing)
        return rows

    monkeypatch.setattr(reading_module.RatingsTable, "add", slow)
    assert refused(lambda: read(tmp_path)).startswith(f"{changing}: the file changed while it was read")


def test_more_files_than_are_read_together(tmp_path, refused, monkeypatch):
    monkeypatch.setattr("pricdr.data.reading.inputs._MAX_FILES", 1)
    for number in (1, 2):
        FRAME.write_csv(tmp_path / f"{number}.csv")
    assert "it names more than 1 files" in refused(lambda: read(tmp_path))
    assert "it names more than 1 files" in refused(lambda: read(tmp_path / "*.csv"))


# --- standard input -----------------------------------------------------------------------------------------------


def piped(content, action):
    """Call something while standard input is a pipe with this content."""
    reading, writing = os.pipe()
    before = os.dup(0)
    os.dup2(reading, 0)
    try:
        os.write(writing, content)
        os.close(writing)
        return action()
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(reading)


def test_standard_input_is_csv_or_what_the_caller_says(refused):
    parquet = io.BytesIO()
    FRAME.write_parquet(parquet)
    for content, options, users in (
        (b"user,item\na,x\nb,y\n", {}, ("a", "b")),
        (gzip.compress(b"user\titem\na\tx\n"), {"format": "tsv"}, ("a",)),
        (b'{"user": 1, "item": 2, "rating": 3}\n', {"format": "jsonl"}, ("1",)),
        (parquet.getvalue(), {"format": "parquet"}, ("a", "b")),
    ):
        assert piped(content, lambda options=options: read_ratings("-", **options)).users == users
    for content, fault in ((b"", "the file is empty"), (parquet.getvalue(), "line 1 is not text: it is Parquet")):
        assert piped(content, lambda: refused(lambda: read("-"))).startswith(f"standard input: {fault}")
    assert refused(lambda: read_ids("-")).startswith("standard input: a list of ids must be a file")


def test_a_format_makes_up_for_a_name(tmp_path):
    (tmp_path / "part-00000").write_text("user,item\na,x\n")
    assert read(tmp_path, format="csv").ratings.users == ("a",)
