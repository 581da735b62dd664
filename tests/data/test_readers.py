"""What is accepted, and that it arrives byte for byte."""

import csv
import io
import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricdr.data.ids import read_ids
from pricdr.data.ratings import Ratings
from pricdr.data.reading.read import Columns, read_ratings
from pricdr.data.reading.read import read_ratings_file as read
from pricdr.data.tables import write_ratings

TRIPLES = [("u2", "i1", 3.0), ("u1", "i2", 4.5), ("u1", "i1", 1.0)]
EXPECTED = {("u1", "i1"): 1.0, ("u1", "i2"): 4.5, ("u2", "i1"): 3.0}


def cells(ratings: Ratings) -> dict[tuple[str, str], float]:
    coo = ratings.matrix.tocoo()
    return {(ratings.users[r], ratings.items[c]): float(v) for r, c, v in zip(coo.row, coo.col, coo.data, strict=True)}


def delimited(mark: str, header: str | None = None) -> str:
    lines = [] if header is None else [header]
    return "".join(f"{line}\n" for line in [*lines, *(mark.join(map(str, triple)) for triple in TRIPLES)])


JSON = "".join(json.dumps({"user": u, "item": i, "rating": r}) + "\n" for u, i, r in TRIPLES)
MOVIELENS = "".join(f"{u}::{i}::{r}::978300760\n" for u, i, r in TRIPLES)
FORMATS = {
    "r.csv": delimited(",", "user,item,rating"),
    "r.csv.gz": delimited(",", "user,item,rating"),
    "R.CSV": delimited(",", "user,item,rating"),
    "a.b.csv": delimited(",", "user,item,rating"),
    "r.tsv": delimited("\t", "user\titem\trating"),
    "r.tsv.gz": delimited("\t", "user\titem\trating"),
    "r.inter": delimited("\t", "user_id:token\titem_id:token\trating:float"),
    "r.inter.gz": delimited("\t", "user_id:token\titem_id:token\trating:float"),
    "r.dat": MOVIELENS,
    "r.dat.gz": MOVIELENS,
    "r.jsonl": JSON,
    "r.ndjson": JSON,
    "r.json": JSON,
    "r.jsonl.gz": JSON,
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_ratings(name, write):
    reading = read(write(name, FORMATS[name]))
    assert cells(reading.ratings) == EXPECTED
    assert (reading.ratings.users, reading.ratings.items) == (("u1", "u2"), ("i1", "i2"))
    assert (reading.rows, reading.duplicates, reading.dropped) == (3, 0, ())
    assert (reading.has_values, reading.rating_range) == (True, (1.0, 4.5))
    assert reading.ratings.matrix.data.dtype == np.float64


@pytest.mark.parametrize("name", [name for name in FORMATS if "json" not in name])
@pytest.mark.parametrize("change", ["windows", "no last line end", "blank lines", "bom"])
def test_harmless_differences(name, change, write):
    text = FORMATS[name]
    changed = {
        "windows": text.replace("\n", "\r\n"),
        "no last line end": text.removesuffix("\n"),
        "blank lines": "\n\r\n" + text.replace("\n", "\n\n"),
        "bom": "\ufeff" + text,
    }[change]
    reading = read(write(name, changed))
    assert cells(reading.ratings) == EXPECTED
    blanks = 2 + text.count("\n") if change == "blank lines" else 0
    assert reading.dropped == ((("blank lines", blanks),) if blanks else ())


@pytest.mark.parametrize("name", ["r.csv", "r.tsv", "r.inter", "r.dat", "r.jsonl"])
def test_without_ratings_every_row_counts_as_one(name, write):
    header = {"r.csv": "user,item\n", "r.tsv": "user\titem\n", "r.inter": "user_id:token\titem_id:token\n"}
    mark = {"r.csv": ",", "r.dat": "::"}.get(name, "\t")
    text = header.get(name, "") + f"a{mark}x\nb{mark}x\na{mark}x\n"
    if name == "r.jsonl":
        text = '{"user": "a", "item": "x"}\n\n{"user": "b", "item": "x"}\n{"user": "a", "item": "x"}'
    # Without a header only the caller can say that there are none: no row decides it.
    columns = {"r.dat": "user=1,item=2", "r.jsonl": "user=user,item=item"}.get(name)
    reading = read(write(name, text), columns=columns)
    assert cells(reading.ratings) == {("a", "x"): 1.0, ("b", "x"): 1.0}
    assert (reading.has_values, reading.rating_range, reading.duplicates) == (False, None, 1)
    assert "each row counts as 1" in reading.summary()


def test_a_repeated_pair_keeps_its_largest_value(write):
    reading = read(write("r.csv", "user,item,rating\na,x,2\nb,x,1\na,x,5\na,x,-1\n"))
    assert cells(reading.ratings) == {("a", "x"): 5.0, ("b", "x"): 1.0}
    assert (reading.rows, reading.duplicates) == (4, 2)
    assert "2 rows repeat a (user, item) pair; the largest value counts" in reading.summary()


def test_threshold_comes_after_merging_and_keeps_every_id(write):
    path = write("r.csv", "user,item,rating\na,x,2\na,x,3\nb,x,2.9\nb,y,1\nc,x,-4\n")
    reading = read(path, threshold=3)
    assert cells(reading.ratings) == {("a", "x"): 3.0}
    assert (reading.ratings.users, reading.ratings.items) == (("a", "b", "c"), ("x", "y"))
    assert reading.ratings.threshold == 3
    assert (reading.ratings.rated().users, reading.ratings.rated().items) == (("a",), ("x",))
    assert (reading.rows, reading.duplicates, reading.dropped) == (5, 1, (("rated below 3", 3),))
    assert reading.rating_range == (-4, 3)
    assert "dropped: 3 rated below 3" in reading.summary()
    assert read_ratings(path).users == ("a", "b", "c")


def test_zero_and_negative_ratings_are_ratings(write):
    reading = read(write("r.csv", "user,item,rating\na,x,0\na,y,-1.5e0\n"))
    assert cells(reading.ratings) == {("a", "x"): 0.0, ("a", "y"): -1.5}
    assert len(reading.ratings) == 2


def test_summary_counts(write):
    lines = read(write("r.csv", "user,item,rating\n\na,x,1\nb,x,5\n")).summary().splitlines()
    assert lines[0].endswith("r.csv: 2 rows, 2 users, 1 items, 2 ratings")
    assert [line.strip() for line in lines[1:]] == ["dropped: 1 blank lines", "ratings range from 1 to 5"]


def test_inter_columns_may_be_given_with_their_type(write):
    path = write("r.inter", "buyer:token\titem_id:token\tlabel:float\nu\ti\t1\n")
    for user, rating in (("buyer", "label"), ("buyer:token", "label:float")):
        assert read(path, columns=Columns(user, "item_id", rating)).ratings.users == ("u",)


def test_integers_become_decimal_text(tmp_path, write):
    path = tmp_path / "r.parquet"
    frame = pl.DataFrame({"user": [10, 9], "item": [-1, 2**63 - 1]}).cast({"user": pl.UInt8})
    frame.write_parquet(path)
    assert (read_ratings(path).users, read_ratings(path).items) == (("10", "9"), ("-1", str(2**63 - 1)))
    jsonl = write("r.jsonl", '{"user": 7, "item": "a", "rating": 3}\n{"user": 12345678901234567890123, "item": "7"}')
    assert read_ratings(jsonl, columns=Columns("user", "item")).users == ("12345678901234567890123", "7")


def test_categorical_text_and_whole_number_ratings_in_parquet(tmp_path):
    path = tmp_path / "r[1]*.parquet"
    frame = pl.DataFrame({"^user$": ["x", "y"], "user": ["b", "a"], "item": ["é", "x"], "rating": [3, 4]})
    frame.cast({"user": pl.Categorical, "item": pl.Enum(["x", "é"])}).write_parquet(path)
    reading = read(path)
    assert cells(reading.ratings) == {("b", "é"): 3.0, ("a", "x"): 4.0}
    assert read(path, columns=Columns("^user$", "item")).ratings.users == ("x", "y")


IDS = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=8)
HOSTILE = st.one_of(IDS, st.text(',";:| 0aé☃', min_size=1, max_size=6), st.sampled_from(["007", "NA", "null", '"']))
ROWS = st.lists(st.tuples(HOSTILE, HOSTILE, st.floats(-1e9, 1e9)), min_size=1, max_size=30)


def largest(rows) -> dict[tuple[str, str], float]:
    best: dict[tuple[str, str], float] = {}
    for user, item, value in rows:
        best[user, item] = max(value, best.get((user, item), -np.inf))
    return best


@given(rows=ROWS, quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]), tabs=st.booleans())
def test_csv_of_hostile_ids_round_trips(tmp_path_factory, rows, quoting, tabs):
    text = io.StringIO()
    writer = csv.writer(text, delimiter="\t" if tabs else ",", quoting=quoting)
    writer.writerows([("user", "item", "rating"), *rows])
    path = tmp_path_factory.mktemp("csv") / f"r.{'tsv' if tabs else 'csv'}"
    path.write_bytes(text.getvalue().encode())
    ratings = read_ratings(path)
    assert cells(ratings) == largest(rows)
    assert list(ratings.users) == sorted({row[0] for row in rows}, key=str.encode)
    assert list(ratings.items) == sorted({row[1] for row in rows}, key=str.encode)


@given(rows=ROWS, escaped=st.booleans())
def test_json_lines_of_hostile_ids_round_trip(tmp_path_factory, rows, escaped):
    path = tmp_path_factory.mktemp("json") / "r.jsonl"
    objects = ({"user": u, "item": i, "rating": r} for u, i, r in rows)
    path.write_bytes("".join(json.dumps(o, ensure_ascii=escaped) + "\n" for o in objects).encode())
    assert cells(read_ratings(path)) == largest(rows)


@given(rows=ROWS, has_values=st.booleans(), filtered=st.none() | st.text(max_size=20).filter(str.isprintable))
def test_written_ratings_round_trip(tmp_path_factory, rows, has_values, filtered):
    ratings = Ratings.from_triples(*map(list, zip(*rows, strict=True)))
    if filtered is not None:
        ratings = ratings.disclosing(filtered)
    path = tmp_path_factory.mktemp("parquet") / "r.parquet"
    write_ratings(path, ratings if has_values else ratings.positives(), metadata={"note": "kept"})
    again = read(path)
    assert (again.ratings.users, again.ratings.items) == (ratings.users, ratings.items)
    assert again.has_values == has_values
    values = largest(rows) if has_values else dict.fromkeys(largest(rows), 1.0)
    assert cells(again.ratings) == values
    assert again.ratings.filtered_by == filtered
    assert pl.read_parquet_metadata(path)["note"] == "kept"


@given(ids=st.lists(IDS, min_size=1, max_size=20, unique=True), end=st.sampled_from(["\n", "\r\n"]), last=st.booleans())
def test_id_lists_round_trip(tmp_path_factory, ids, end, last):
    if ids[0].startswith("\ufeff"):
        ids[0] = "x" + ids[0]
    path = tmp_path_factory.mktemp("ids") / "users.txt"
    path.write_bytes((end.join(ids) + (end if last else "")).encode())
    assert read_ids(path) == tuple(ids)


def test_id_lists_keep_order_spaces_and_zeros(write):
    assert read_ids(write("users.txt", b"\xef\xbb\xbf007\r\n a \n\xc3\xa9\n")) == ("007", " a ", "é")


@pytest.mark.parametrize(("text", "ids"), [(" ", (" ",)), (" \n", (" ",)), ("  \r\n \r\n\n", ("  ", " "))])
def test_an_id_may_consist_of_blanks(write, text, ids):
    assert read_ids(write("users.txt", text)) == ids
