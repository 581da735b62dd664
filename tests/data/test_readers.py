"""What is accepted, and that it arrives byte for byte: formats, columns, delimiters, encodings, and a few bad rows."""

import csv
import io
import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from pricdr.data.ids import read_ids
from pricdr.data.ratings import Ratings, stars_caution
from pricdr.data.reading.read import AMAZON_2014, AMAZON_2018, Columns, read_ratings, read_ratings_file as read
from pricdr.data.tables import write_ratings
from tests.data.conftest import cells

ROWS = [("jörg", "é1", 4.0), ("zoë", "x", 2.0), ("zoë", "é1", 1.5)]
CELLS = {row[:2]: row[2] for row in ROWS}


def text(mark: str, *header: str) -> str:
    return "".join(mark.join(map(str, row)) + "\n" for row in ([header] if header else []) + ROWS)


NAMES = ("user", "item", "rating")
JSON = "".join(json.dumps(dict(zip(NAMES, row, strict=True)), ensure_ascii=False) + "\n" for row in ROWS)
MOVIELENS = text("::").replace("\n", "::978300760\n")
FORMATS = {
    **dict.fromkeys(("r.csv", "r.csv.gz", "R.CSV", "a.b.csv"), text(",", *NAMES)),
    **dict.fromkeys(("r.tsv", "r.tsv.gz"), text("\t", *NAMES)),
    **dict.fromkeys(("r.inter", "r.inter.gz"), text("\t", "user_id:token", "item_id:token", "rating:float")),
    **dict.fromkeys(("r.dat", "r.dat.gz"), MOVIELENS),
    **dict.fromkeys(("r.jsonl", "r.ndjson", "r.json", "r.jsonl.gz"), JSON),
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_ratings_whatever_the_line_ends(name, write):
    given = FORMATS[name]
    for content, blanks in (
        (given, 0),
        (given.replace("\n", "\r\n"), 0),
        (given.removesuffix("\n"), 0),
        ("\ufeff" + given, 0),
        ("\n\r\n" + given.replace("\n", "\n\n"), 2 + given.count("\n")),
    ):
        reading = read(write(name, content))
        assert cells(reading.ratings) == CELLS
        assert (reading.ratings.users, reading.ratings.items) == (("jörg", "zoë"), ("x", "é1"))
        assert (reading.rows, reading.repeats.rows) == (3, 0)
        assert reading.dropped == ({"blank lines": blanks} if blanks else {})
        assert (reading.ratings.has_values, reading.rating_range) == (True, (1.5, 4.0))


MARKS = {";": "r.csv", "|": "ratings", "\t": "u.data", " ": "r.tsv.gz", "::": "r.csv", "||": "r.dat", "¦": "r.inter"}


@pytest.mark.parametrize("mark", MARKS)
def test_any_delimiter_and_then_any_name(write, mark):
    assert cells(read_ratings(write(MARKS[mark], text(mark, *NAMES)), delimiter=mark)) == CELLS


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "UTF-16-LE", "utf-32", "iso8859-15", "utf-8-sig"])
@pytest.mark.parametrize("name", ["r.csv", "r.csv.gz", "r.jsonl"])
def test_another_encoding(write, encoding, name):
    assert cells(read_ratings(write(name, FORMATS[name].encode(encoding)), encoding=encoding)) == CELLS


def test_without_ratings_every_row_counts_as_one(write):
    objects = '{"user": "a", "item": "x"}\n\n{"user": "b", "item": "x"}\n{"user": "a", "item": "x"}'
    for name, content, columns in (
        ("r.csv", "user,item\na,x\nb,x\na,x\n", None),
        ("r.inter", "user_id:token\titem_id:token\na\tx\nb\tx\na\tx\n", None),
        # Without a header only the caller can say that there are none: no row decides it.
        ("r.dat", "a::x\nb::x\na::x\n", "user=1,item=2"),
        ("r.jsonl", objects, "user=user,item=item"),
    ):
        reading = read(write(name, content), columns=columns)
        assert (reading.ratings.users, reading.ratings.matrix.data.tolist()) == (("a", "b"), [1.0, 1.0])
        assert (reading.ratings.has_values, reading.rating_range, reading.repeats.rows) == (False, None, 1)
        assert "each row counts as 1" in reading.summary()


def test_threshold_comes_after_merging_and_keeps_every_id(write):
    path = write("r.csv", "user,item,rating\na,x,2\na,x,3\nb,x,2.9\nb,y,1\n\nc,x,-4\nc,x,-5\n")
    reading = read(path, threshold=3)
    assert cells(reading.ratings) == {("a", "x"): 3.0}
    assert (reading.ratings.users, reading.ratings.items) == (("a", "b", "c"), ("x", "y"))
    assert reading.ratings.threshold == 3
    assert reading.rating_range == (-5, 3)
    assert reading.summary().splitlines() == [
        f"{path}: 6 rows, 3 users, 2 items, 1 ratings",
        "  duplicates: 2 rows repeat a (user, item) pair; the largest value counts (there is no time column)",
        "  dropped: 1 blank lines, 3 rated below 3",
        "  ratings range from -5 to 3",
    ]
    assert cells(read_ratings(path))["c", "x"] == -4.0


def test_columns_that_are_not_read_are_named_and_ts_is_a_time(write):
    reading = read(write("r.csv", "user,item,rating,ts,genre\na,x,4,1,\x1b[1m\na,x,3,2,g\n"), threshold=1)
    assert cells(reading.ratings) == {("a", "x"): 3.0}
    assert "  columns not used: 'genre'" in reading.summary().splitlines()
    many = read(write("m.csv", "user,item," + ",".join(f"c{at}" for at in range(9)) + "\na,x" + ",1" * 9 + "\n"))
    assert "  columns not used: 'c0', 'c1', 'c2', 'c3', 'c4' and 4 more" in many.summary().splitlines()


def test_zero_and_negative_ratings_are_ratings(write):
    ratings = read_ratings(write("r.csv", "user,item,rating\na,x,0\na,y,-1.5e0\n"))
    assert cells(ratings) == {("a", "x"): 0.0, ("a", "y"): -1.5}


# --- columns ------------------------------------------------------------------------------------------------------


def test_known_header_names(write):
    for header in (
        *("user,item,rating", "USER_ID,Item-ID,Score", "userId,movieId,rating", "reviewerID,asin,overall"),
        *("uid,iid,ratings", "user_id,business_id,stars", "user_id,parent_asin,rating", " user , item , rate"),
        *("customer_id,product_id,star_rating", "User-ID,ISBN,Book-Rating"),
    ):
        assert cells(read_ratings(write("r.csv", f"{header}\na,b,4\n"))) == {("a", "b"): 4.0}


INTER = "buyer:token\titem_id:token\tlabel:float\nu\ti\t1\n"


@pytest.mark.parametrize(
    ("name", "content", "columns", "expected"),
    [
        ("r.csv", "time,rating,item,text,user\n1,2,i,hm,u\n", None, ("u", "i", 2.0)),
        ("r.csv", "user,buyer,thing,rating\nx,u,i,terrible\n", Columns("Buyer", "thing"), ("u", "i")),
        ("r.csv", "Buyer,buyer,item\nx,u,i\n", Columns("buyer", "item"), ("u", "i")),
        ("r.csv", "u,i,5.0,1400000000\n", AMAZON_2014, ("u", "i", 5.0)),
        ("r.csv", "i,u,5.0,1400000000\n", AMAZON_2018, ("u", "i", 5.0)),
        ("r.csv", "i,u,5.0,1400000000\n", "Amazon-2018", ("u", "i", 5.0)),
        ("r.csv", "i,u\n", " item = 1 , user = 2 ", ("u", "i")),
        ("r.inter", INTER, "user=buyer,item=item_id,rating=label", ("u", "i", 1.0)),
        ("r.inter", INTER, "user=buyer:token,item=item_id", ("u", "i")),
    ],
)
def test_columns_in_any_order_by_name_or_position(name, content, columns, expected, write):
    assert read_ratings(write(name, content), columns=columns).to_frame().rows() == [expected]


def test_a_threshold_finds_the_rating_column_that_columns_left_out(write):
    path = write("r.csv", "buyer,thing,stars\nu,i,2\nv,i,4\n")
    assert read_ratings(path, columns=Columns("buyer", "thing"), threshold=3).rated().users == ("v",)


def test_a_tab_has_two_names(write):
    path = write("u.data", "1\t2\t3\t4\n")
    for word in ("tab", "\\t"):
        assert cells(read_ratings(path, delimiter=word, columns="user=1,item=2,rating=3")) == {("1", "2"): 3.0}


def test_types_of_parquet_and_json(tmp_path, write):
    path = tmp_path / "r[1]*.parquet"
    frame = pl.DataFrame({"user": [10, 9], "item": [-1, 2**63 - 1]}).cast({"user": pl.UInt8})
    frame.write_parquet(path)
    assert (read_ratings(path).users, read_ratings(path).items) == (("10", "9"), ("-1", str(2**63 - 1)))
    frame = pl.DataFrame({"^user$": ["x", "y"], "user": ["b", "a"], "item": ["é", "x"], "rating": [3, 4]})
    frame.cast({"user": pl.Categorical, "item": pl.Enum(["x", "é"])}).write_parquet(path)
    assert cells(read_ratings(path)) == {("b", "é"): 3.0, ("a", "x"): 4.0}
    assert read_ratings(path, columns=Columns("^user$", "item")).users == ("x", "y")


# --- bad rows -----------------------------------------------------------------------------------------------------

BAD = {
    b"a,b": "too short: 2 fields, the header has 3",
    b"a,b,1,2": "too long: 4 fields, the header has 3",
    b",b,1": "the user id is empty",
    b"a\x1b[31m,b,1": "the user id 'a\\x1b[31m' holds a line break or another control character",
    b"a,b,good": "the rating 'good' is not a finite number",
    b"a,b,": "the rating is empty",
    b"a,b,inf": "the rating 'inf' is not a finite number",
    b"a\xff,b,1": "the user id 'a\\x1a' holds",
    b"a,b\0,1": "the item id 'b\\x1a' holds",
    b'"a"x,b,1': "is not valid: text follows a closing quote",
    b'"a,b,1': "is not valid: ",
    b'a,"b,1': "is not valid: ",
}


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("at", [0, 3, 199])
def test_a_bad_row_is_refused_or_skipped_counted_and_shown(write, refused, bad, at):
    good = [f"u{n},i{n % 7},{n % 5}".encode() for n in range(199)]
    path = write("r.csv", b"user,item,rating\n" + b"\n".join([*good[:at], bad, *good[at:]]) + b"\n")
    fault = f"line {at + 2} is not text" if b"\xff" in bad or b"\0" in bad else BAD[bad]
    assert fault in refused(lambda: read(path))
    reading = read(path, skip_bad_rows=True)
    assert (reading.rows, len(reading.ratings), reading.bad) == (200, 199, 1)
    assert reading.ratings.users == tuple(sorted(f"u{n}" for n in range(199)))
    shown = reading.summary().splitlines()
    assert shown[1] == "  skipped: 1 bad rows; the first:"
    assert shown[2].startswith(f"    row {at + 1} (line {at + 2})")
    assert BAD[bad] in shown[2]
    assert shown[2].isprintable()


def test_too_many_bad_rows_are_refused_and_the_limit_can_be_set(write, refused):
    path = write("r.csv", "user,item,rating\n" + "a,b,1\n" * 97 + ",b,1\n" + "a,b\n" + "a,b,x\n")
    fault = "3 of 100 rows are bad, more than 1% (most-bad-rows); the first: row 98 (line 99): the user id is empty"
    assert fault in refused(lambda: read(path, skip_bad_rows=True))
    reading = read(path, skip_bad_rows=True, most_bad_rows=0.03)
    places = ["row 98 (line 99)", "row 99 (line 100) is too short", "row 100 (line 101)"]
    assert [fault.split(":")[0] for fault in reading.first_bad] == places
    nothing = write("n.csv", "user,item\n,x\n,y\n")
    assert "no row of it can be used" in refused(lambda: read(nothing, skip_bad_rows=True, most_bad_rows=1))


def test_bad_rows_of_json_lines_and_parquet(write, tmp_path):
    good = [json.dumps({"user": n, "item": f"i{n}", "rating": 1}) for n in range(10)]
    bad = ["{", "[1]", '{"user": 1}', '{"user": 1.5, "item": "i", "rating": 1}']
    bad += ['{"user": 5, "item": null, "rating": 1}', '{"user": 5, "item": "\\ud800", "rating": 1}']
    bad += ['{"user": 5, "item": "i", "rating": true}', '{"user": 5, "item": "", "rating": NaN}']
    bad += ['{"user": 5, "item": "i", "rating": 1' + "0" * 400 + "}"]
    path = write("r.jsonl", "\n".join([*bad[:2], *good[:5], "", *bad[2:], *good[5:]]))
    reading = read(path, skip_bad_rows=True, most_bad_rows=0.5)
    assert (reading.rows, reading.bad, len(reading.ratings)) == (19, 9, 10)
    assert reading.first_bad[0].startswith("row 1 (line 1) is not a JSON object")
    assert reading.first_bad[2].startswith("row 8 (line 9): no item column in the object ['user']")
    assert reading.dropped == {"blank lines": 1}
    frame = pl.DataFrame({"user": [*"abcdef", None], "item": [*"uvwxyz", ""], "rating": [1.0] * 5 + [None, 1.0]})
    frame.write_parquet(tmp_path / "r.parquet")
    parquet = read(tmp_path / "r.parquet", skip_bad_rows=True, most_bad_rows=0.5)
    assert parquet.ratings.users == tuple("abcde")
    assert parquet.first_bad == ("row 6: the rating is empty", "row 7: the user id is empty (null)")


def test_stars_are_recognised(write):
    def stars(*values, header="user,item,rating"):
        reading = read(write("r.csv", header + "\n" + "".join(f"a,i{n},{v}\n" for n, v in enumerate(values))))
        return stars_caution(reading.ratings, reading.rating_range, half_steps=reading.half_steps)

    assert "ratings from 1 to 5 look like stars" in stars(1, 3.5, 5)
    assert "ratings from 0 to 1" in stars(0, 1)
    for values in ((5, 5), (0, 0), (4, 5), (1, 250), (0.123, 4), (-1, 1)):
        assert stars(*values) is None
    assert stars(1, 2, header="user,item,plays") is None


# --- round trips --------------------------------------------------------------------------------------------------

IDS = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=8)
HOSTILE = st.one_of(IDS, st.text(',";:| 0aé☃', min_size=1, max_size=6), st.sampled_from(["007", "NA", "null", '"']))
TRIPLES = st.lists(st.tuples(HOSTILE, HOSTILE, st.floats(-1e9, 1e9)), min_size=1, max_size=30)


@settings(max_examples=30)
@given(rows=TRIPLES, kind=st.sampled_from(["csv", "quoted csv", "tsv", "jsonl", "escaped jsonl"]))
def test_hostile_ids_round_trip_and_the_largest_of_repeated_values_counts(tmp_path_factory, rows, kind):
    path = tmp_path_factory.mktemp("rows") / f"r.{kind.split()[-1]}"
    written = io.StringIO()
    if "jsonl" in kind:
        for row in rows:
            written.write(json.dumps(dict(zip(NAMES, row, strict=True)), ensure_ascii="escaped" in kind) + "\n")
    else:
        quoting = csv.QUOTE_ALL if "quoted" in kind else csv.QUOTE_MINIMAL
        csv.writer(written, delimiter="\t" if kind == "tsv" else ",", quoting=quoting).writerows([NAMES, *rows])
    path.write_bytes(written.getvalue().encode())
    ratings, largest = read_ratings(path), {}
    for user, item, value in rows:
        largest[user, item] = max(value, largest.get((user, item), -np.inf))
    assert cells(ratings) == largest
    assert list(ratings.users) == sorted({row[0] for row in rows}, key=str.encode)
    assert list(ratings.items) == sorted({row[1] for row in rows}, key=str.encode)


@settings(max_examples=20)
@given(rows=TRIPLES, has_values=st.booleans(), filtered=st.none() | st.text(max_size=20).filter(str.isprintable))
def test_written_ratings_round_trip(tmp_path_factory, rows, has_values, filtered):
    ratings = Ratings.from_triples(*map(list, zip(*rows, strict=True)))
    ratings = ratings if has_values else ratings.positives()
    ratings = ratings if filtered is None else ratings.disclosing(filtered)
    path = tmp_path_factory.mktemp("parquet") / "r.parquet"
    write_ratings(path, ratings, metadata={"note": "kept"})
    again = read_ratings(path)
    assert again.fingerprint() == ratings.fingerprint()
    assert (again.matrix.data.tolist(), again.has_values) == (ratings.matrix.data.tolist(), has_values)
    assert again.filtered_by == filtered
    assert pl.read_parquet_metadata(path)["note"] == "kept"


@given(ids=st.lists(IDS, min_size=1, max_size=20, unique=True), end=st.sampled_from(["\n", "\r\n"]), last=st.booleans())
def test_id_lists_round_trip(tmp_path_factory, ids, end, last):
    if ids[0].startswith("\ufeff"):
        ids[0] = "x" + ids[0]
    path = tmp_path_factory.mktemp("ids") / "users.txt"
    path.write_bytes((end.join(ids) + (end if last else "")).encode())
    assert read_ids(path) == tuple(ids)


def test_id_lists_keep_order_blanks_and_zeros(write):
    assert read_ids(write("users.txt", b"\xef\xbb\xbf007\r\n a \n\xc3\xa9\n")) == ("007", " a ", "é")
    for listed, ids in ((" ", (" ",)), (" \n", (" ",)), ("  \r\n \r\n\n", ("  ", " "))):
        assert read_ids(write("users.txt", listed)) == ids
