"""Files as they are: another delimiter, another encoding, a few bad rows."""

import json

import polars as pl
import pytest

from pricdr import read_ratings
from pricdr.data.ratings import stars_caution
from pricdr.data.reading.read import read_ratings_file as read
from pricdr.errors import InputError, ParameterError

ROWS = [("jörg", "é1", 4.0), ("zoë", "x", 2.0)]


def text(mark: str, rows=ROWS, header=("user", "item", "rating")) -> str:
    return "".join(mark.join(map(str, row)) + "\n" for row in (header, *rows))


@pytest.mark.parametrize("mark", [";", "|", "\t", " ", "::", "||", "¦"])
@pytest.mark.parametrize("name", ["r.csv", "r.txt", "ratings", "u.data", "r.tsv.gz", "r.dat", "r.inter"])
def test_any_delimiter_and_then_any_name(write, mark, name):
    ratings = read_ratings(write(name, text(mark)), delimiter=mark)
    assert ratings.to_frame().rows() == ROWS


@pytest.mark.parametrize("word", ["tab", "\\t"])
def test_a_tab_has_two_names(write, word):
    assert read_ratings(write("u.data", "1\t2\t3\t4\n"), delimiter=word, columns="user=1,item=2,rating=3").users == (
        "1",
    )


@pytest.mark.parametrize("bad", ["", '"', "\n", "\x1f", "a" * 9])
def test_what_is_no_delimiter_is_refused(write, refused, bad):
    assert "delimiter must be" in refused(
        lambda: read(write("r.csv", "user,item\na,b\n"), delimiter=bad), ParameterError
    )


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "UTF-16-LE", "utf-32", "iso8859-15", "utf-8-sig"])
@pytest.mark.parametrize("name", ["r.csv", "r.csv.gz", "r.jsonl"])
def test_another_encoding(write, encoding, name):
    lines = (
        text(",")
        if "csv" in name
        else "".join(
            json.dumps(dict(zip(("user", "item", "rating"), row, strict=True)), ensure_ascii=False) + "\n"
            for row in ROWS
        )
    )
    assert read_ratings(write(name, lines.encode(encoding)), encoding=encoding).to_frame().rows() == ROWS


@pytest.mark.parametrize("encoding", ["rot13", "zip", "idna", "unicode_escape", "utf-7", "no such", "", "a\0b", "hex"])
def test_codecs_that_are_no_encodings_are_refused(write, refused, encoding):
    path = write("r.csv", "user,item\na,b\n")
    assert "encoding must be one such as" in refused(lambda: read(path, encoding=encoding), ParameterError)


def test_bytes_that_do_not_fit_the_encoding_are_refused_with_their_line(write, refused):
    path = write("r.csv", b"user,item\na,b\nc\x81,d\n")
    assert "line 3 is not text: byte 0x81 is not CP1252" in refused(lambda: read(path, encoding="cp1252"))
    packed = write("p.csv", "user,item\na,b\n".encode("utf-16"))
    assert "looks like UTF-16" in refused(lambda: read(packed, encoding="latin-1"))


@pytest.mark.parametrize("option", [{"delimiter": ";"}, {"encoding": "latin-1"}])
def test_options_of_text_files_are_refused_for_others(write, refused, option, tmp_path):
    pl.DataFrame({"user": ["a"], "item": ["x"]}).write_parquet(tmp_path / "r.parquet")
    refused(lambda: read(tmp_path / "r.parquet", **option), ParameterError)
    if "delimiter" in option:
        refused(lambda: read(write("r.jsonl", '{"user": "a", "item": "x"}\n'), **option), ParameterError)


BAD = {
    "too short": ("a,b", "too short: 2 fields, the header has 3"),
    "too long": ("a,b,1,2", "too long: 4 fields, the header has 3"),
    "empty user": (",b,1", "the user id is empty"),
    "control character": ("a\x1b[31m,b,1", "the user id 'a\\x1b[31m' holds a line break or another control character"),
    "no number": ("a,b,good", "the rating 'good' is not a finite number"),
    "no rating": ("a,b,", "the rating is empty"),
    "not a finite number": ("a,b,inf", "the rating 'inf' is not a finite number"),
    "not UTF-8": (b"a\xff,b,1", "the user id 'a\\x1a' holds"),
    "NUL": (b"a,b\0,1", "the item id 'b\\x1a' holds"),
    "text after a quote": ('"a"x,b,1', "is not valid: text follows a closing quote"),
    "quote never closed": ('"a,b,1', "is not valid: "),
    "quote that runs into a field": ('a,"b,1', "is not valid: "),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("at", [0, 3, 199])
def test_a_bad_row_is_skipped_counted_and_shown(write, case, at):
    bad, says = BAD[case]
    good = [f"u{n},i{n % 7},{n % 5}".encode() for n in range(199)]
    lines = [*good[:at], bad if isinstance(bad, bytes) else bad.encode(), *good[at:]]
    path = write("r.csv", b"user,item,rating\n" + b"\n".join(lines) + b"\n")
    with pytest.raises(InputError):
        read(path)
    reading = read(path, skip_bad_rows=True)
    assert (reading.rows, len(reading.ratings)) == (200, 199)
    assert reading.ratings.users == tuple(sorted(f"u{n}" for n in range(199)))
    assert reading.bad_rows.count == 1
    shown = reading.summary().splitlines()
    assert shown[1] == "  skipped: 1 bad rows; the first:"
    assert shown[2].startswith(f"    row {at + 1} (line {at + 2})")
    assert says in shown[2]
    assert shown[2].isprintable()


def test_too_many_bad_rows_are_refused_and_the_limit_can_be_set(write, refused):
    path = write("r.csv", "user,item,rating\n" + "a,b,1\n" * 97 + ",b,1\n" + "a,b\n" + "a,b,x\n")
    message = refused(lambda: read(path, skip_bad_rows=True))
    assert (
        "3 of 100 rows are bad, more than 1% (--most-bad-rows); the first: row 98 (line 99): the user id is empty"
        in message
    )
    reading = read(path, skip_bad_rows=True, most_bad_rows=0.03)
    assert [fault.split(":")[0] for fault in reading.bad_rows.first] == [
        *("row 98 (line 99)", "row 99 (line 100) is too short", "row 100 (line 101)")
    ]
    for most in (0, -1, 1.5, float("nan")):
        refused(lambda most=most: read(path, skip_bad_rows=True, most_bad_rows=most), ParameterError)
    nothing = write("n.csv", "user,item\n,x\n,y\n")
    assert "no row of it can be used" in refused(lambda: read(nothing, skip_bad_rows=True, most_bad_rows=1))


def test_bad_rows_of_json_lines_and_parquet(write, tmp_path):
    good = [{"user": n, "item": f"i{n}", "rating": 1} for n in range(10)]
    bad = [
        "{",
        "[1]",
        '{"user": 1}',
        '{"user": 1.5, "item": "i", "rating": 1}',
        '{"user": 5, "item": null, "rating": 1}',
    ]
    bad += ['{"user": 5, "item": "\\ud800", "rating": 1}', '{"user": 5, "item": "i", "rating": true}']
    bad += ['{"user": 5, "item": "i", "rating": 1' + "0" * 400 + "}", '{"user": 5, "item": "", "rating": NaN}']
    lines = [json.dumps(one) for one in good]
    reading = read(
        write("r.jsonl", "\n".join([*bad[:2], *lines[:5], "", *bad[2:], *lines[5:]])),
        skip_bad_rows=True,
        most_bad_rows=0.5,
    )
    assert (reading.rows, reading.bad_rows.count, len(reading.ratings)) == (19, 9, 10)
    assert reading.bad_rows.first[0].startswith("row 1 (line 1) is not a JSON object")
    assert reading.bad_rows.first[2].startswith("row 8 (line 9) has no item")
    assert reading.dropped == (("blank lines", 1),)
    frame = pl.DataFrame({"user": [*"abcdef", None], "item": [*"uvwxyz", ""], "rating": [1.0] * 5 + [None, 1.0]})
    frame.write_parquet(tmp_path / "r.parquet")
    parquet = read(tmp_path / "r.parquet", skip_bad_rows=True, most_bad_rows=0.5)
    assert parquet.ratings.users == tuple("abcde")
    assert parquet.bad_rows.first == ("row 6: the rating is empty", "row 7: the user id is empty (null)")


def test_stars_are_recognised(write):
    def stars(*values, header="user,item,rating"):
        reading = read(write("r.csv", header + "\n" + "".join(f"a,i{n},{v}\n" for n, v in enumerate(values))))
        return stars_caution(reading.ratings, reading.rating_range, half_steps=reading.half_steps)

    assert "ratings from 1 to 5 look like stars" in stars(1, 3.5, 5)
    assert "ratings from 0 to 1" in stars(0, 1)
    for values in ((5, 5), (0, 0), (4, 5), (1, 250), (0.123, 4), (-1, 1)):
        assert stars(*values) is None
    assert stars(1, 2, header="user,item,plays") is None
