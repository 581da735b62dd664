"""Every file that is refused, and what the one line says: the file, the place, the value, the rule."""

import gzip
import os
import zlib
from datetime import date
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pricdr.data.ids import read_ids
from pricdr.data.reading import text_files
from pricdr.data.reading.read import Columns, read_ratings_file as read
from pricdr.errors import ParameterError

TEXT_CASES = {
    "empty": ("r.csv", "", ["empty"]),
    "only a BOM": ("r.csv", b"\xef\xbb\xbf", ["empty"]),
    "header only": ("r.csv", "user,item,rating\n", ["header and no rows"]),
    "no user column": ("r.csv", "buyer,item,rating\na,b,1\n", ["no user column", "'buyer'", "--columns"]),
    "no item column": ("r.csv", "user,thing,rating\na,b,1\n", ["no item column", "'thing'", "--columns"]),
    "neither": ("r.csv", "buyer,thing\na,b\n", ["no user or item column", "'buyer', 'thing'", "--columns"]),
    "two items": ("r.csv", "user,asin,parent_asin\na,b,c\n", ["'asin' and 'parent_asin'", "item", "--columns"]),
    "two ratings": ("r.csv", "user,item,score,stars\na,b,1,2\n", ["'score' and 'stars'", "rating"]),
    "no header": (
        "r.csv", "A1YJ,B2,5.0,1400000000\n", ["looks like data", "'A1YJ'", "amazon-2014", "user=1,item=2"]
    ),
    "header twice": ("r.csv", "user,item,user\na,b,c\n", ["column more than once: 'user'"]),
    "header with an open quote": ("r.csv", '"user,item\na,b\n', ["line 1 is not valid"]),
    "semicolons": ("r.csv", "user;item;rating\na;b;1\n", ["'user;item;rating'", "delimiter", "semicolons"]),
    "commas in tsv": ("r.tsv", "user,item\na,b\n", ["delimiter", "commas"]),
    "commas in dat": ("r.dat", "1,2,3,4\n", ["delimiter", "commas"]),
    "colons in csv": ("r.csv", "1::2::3::4\n", ["delimiter", "double colons"]),
    "one column": ("r.csv", "user\na\n", ["one column", "'user'"]),
    "too short after blank lines": ("r.csv", "\nuser,item,time\n\na,b,1\n\nc,d\n", ["row 2 (line 6)"]),
    "too short among quotes": ("r.csv", 'user,item,text\na,b,"x""y"\nc,"d"\n', ["row 2 (line 3) is too short"]),
    "blank but for a space": ("r.csv", "user,item\na,b\n \n", ["row 2 (line 3)", "too short"]),
    "quote never closed": ("r.csv", 'user,item\n"a,b\nc,d\n', ["row 1 (line 2)", "does not end on its line"]),
    "bare carriage return": ("r.csv", "user,item\ra,b\rc,d", ["line 1", "carriage return"]),
    "empty item": ("r.csv", "user,item\na,\n", ["row 1 (line 2)", "item id is empty"]),
    "rating nan": ("r.csv", "user,item,rating\na,b,nan\n", ["row 1 (line 2)", "'nan'", "finite number"]),
    "rating long": ("r.csv", f"user,item,rating\na,b,{'x' * 500}\n", ["'xxxxx", "…"]),
    "not UTF-8": ("r.csv", b"user,item\na,b\n\xff\xfe,c\n", ["line 3", "0xff"]),
    "cut inside a character": ("r.csv", b"user,item\na,\xc3", ["line 2", "UTF-8"]),
    "NUL": ("r.csv", b"user,item\na\0,b\n", ["line 2", "NUL"]),
    "UTF-16": ("r.csv", "user,item\na,b\n".encode("utf-16"), ["UTF-16"]),
    "junk": ("r.csv", bytes(range(256)) * 20, ["not text"]),
    "gzip without its name": ("r.csv", gzip.compress(b"user,item\na,b\n"), ["gzip", ".gz"]),
    "dat too short": ("r.dat", "1::2::3::4\n1::2::3\n", ["row 2 (line 2)", "too short", "declared up to 4"]),
    "dat of three fields": ("r.dat", "1::2::3\n", ["line 1 has 3 fields", "column 4 is asked for"]),
    "dat with a control character": ("r.dat", "1::2::3::4\n1\x1f::2::3::4\n", ["line 2", "'1\\x1f'"]),
    "dat rating": ("r.dat", "1::2::x::4\n", ["row 1 (line 1)", "'x'"]),
    "json array": ("r.json", '[{"user": "a", "item": "b"}]\n', ["row 1 (line 1)", "JSON object", "every line"]),
    "json deep": ("r.json", "[" * 100_000, ["row 1", "JSON object"]),
    "json huge number": ("r.json", '{"user": ' + "9" * 5000 + "}", ["row 1", "JSON object"]),
    "json without item": ("r.jsonl", '{"user": "a", "rating": 1}\n', ["row 1 (line 1): no item column", "--columns"]),
    "json without rating": ("r.jsonl", '{"user": "a", "item": 1}\n', ["(line 1): a rating column is", "--columns"]),
    "json two users": ("r.jsonl", '{"user": 1, "uid": 2, "item": 1}\n', ["could be the user column: 'user' and 'uid'"]),
    "json float id": ("r.jsonl", '{"user": 1.0, "item": "b", "rating": 1}\n', ["user id 1.0", "or a whole number"]),
    "json empty id": ("r.jsonl", '{"user": "", "item": "b", "rating": 1}\n', ["row 1 (line 1)", "user id is empty"]),
    "json half a surrogate": ("r.jsonl", '{"user": "\\ud800", "item": "b", "rating": 1}\n', ["row 1", "surrogate"]),
    "json rating text": ("r.jsonl", '{"user": "a", "item": "b", "rating": "5"}\n', ["rating '5'", "finite"]),
    "json rating huge": ("r.jsonl", '{"user": "a", "item": "b", "rating": 1' + "0" * 400 + "}\n", ["finite"]),
    "json, position": ("r.jsonl", '{"user": "a", "item": "b"}\n', ["positions are for"], {"columns": "user=1,item=2"}),
    "dat by name": ("r.dat", "1::2::3\n", ["no header"], {"columns": "user=user,item=item"}),
    "unknown suffix": ("r.xlsx", "user,item\na,b\n", ["unknown kind", ".csv", ".jsonl", ".parquet", ".dat"]),
    "only gz": ("ratings.gz", "user,item\na,b\n", ["unknown kind"]),
    "compressed parquet": ("r.parquet.gz", "PAR1", ["unknown kind"]),
}  # fmt: skip


PARQUET_CASES = {
    "float ids": ({"user": [1.0], "item": ["a"]}, ["user column 'user'", "DOUBLE", "whole numbers"]),
    "bool ids": ({"user": ["a"], "item": [True]}, ["item column 'item'", "BOOLEAN"]),
    "nested ids": ({"user": [["a"]], "item": ["b"]}, ["user column", "VARCHAR[]"]),
    "binary ids": ({"user": [b"a"], "item": ["b"]}, ["user column", "BLOB"]),
    "null column": ({"user": [None], "item": ["b"]}, ["user column", "NULL"]),
    "null id": ({"user": ["a", None], "item": ["b", "c"]}, ["row 2", "user id is empty"]),
    "null number": ({"user": ["a", "b"], "item": [1, None]}, ["row 2", "item id is empty"]),
    "empty id": ({"user": ["a", ""], "item": ["b", "c"]}, ["row 2", "user id is empty"]),
    "NUL in id": ({"user": ["a\0"], "item": ["b"]}, ["row 1", "'a\\x00'", "NUL"]),
    "text ratings": ({"user": ["a"], "item": ["b"], "rating": ["5"]}, ["'rating'", "VARCHAR", "numbers"]),
    "bool ratings": ({"user": ["a"], "item": ["b"], "rating": [True]}, ["BOOLEAN", "numbers"]),
    "null rating": ({"user": ["a"] * 2, "item": ["b", "c"], "rating": [1.0, None]}, ["row 2", "rating is empty"]),
    "nan rating": ({"user": ["a"], "item": ["b"], "rating": [float("nan")]}, ["row 1", "nan", "finite"]),
    "date ratings": ({"user": ["a"], "item": ["b"], "rating": [date(2024, 1, 1)]}, ["'rating'", "DATE", "numbers"]),
    "no item": ({"user": ["a"], "rating": [1.0]}, ["no item column"]),
}  # fmt: skip


CALLS = {
    "threshold without ratings": ("user,item\na,b\n", ["rating column is asked for", "'item'"], {"threshold": 3}),
    "rating name missing": ("user,item\na,b\n", ["no column 'stars'"], {"columns": "user=user,item=item,rating=stars"}),
    "user name missing": ("user,item\na,b\n", ["no column 'buyer'"], {"columns": "user=buyer,item=item"}),
    "two spellings": ("Buyer,buyer,item\nx,y,i\n", ["than one column 'BUYER'"], {"columns": "user=BUYER,item=item"}),
    "position beyond": ("a,b\nc,d\n", ["2 fields", "column 3", "'a', 'b'"], {"columns": "user=1,item=3"}),
    "position of nothing": ("ab\ncd\n", ["one column"], {"columns": "user=1,item=2"}),
    "position with a header": ("item,user,rating,ts\na,b,1,2\n", ["looks like a header"], {"columns": "amazon-2018"}),
    "no position of ratings": ("a,b,3\n", ["rating column is asked for"], {"columns": "user=1,item=2", "threshold": 1}),
    "wrong delimiter and positions": ("a;b;3\n", ["delimiter", "semicolons"], {"columns": "user=1,item=2"}),
    "cp1252": (b"user,item\na,b\nc\x81,d\n", ["line 3 is not text", "0x81 is not CP1252"], {"encoding": "cp1252"}),
    "UTF-16 as another": ("user,item\na,b\n".encode("utf-16"), ["looks like UTF-16"], {"encoding": "latin-1"}),
}  # fmt: skip
IDS = {
    "empty": (b"", ["empty"]),
    "blank": (b"\n\n", ["empty"]),
    "blank line": (b"a\n\nb\n", ["line 2 is blank"]),
    "blank line, windows": (b"a\r\n\r\nb\r\n", ["line 2 is blank"]),
    "blank first": (b"\na\n", ["line 1 is blank"]),
    "twice": (b"a\nb\na\n", ["line 3", "'a'", "line 1"]),
    "junk": (b"a\n\xff\n", ["line 2", "0xff"]),
    "NUL": (b"a\nb\0\n", ["line 2", "NUL"]),
    "return inside": (b"a\rb\n", ["line 1", "'a\\rb'", "control character"]),
}
CASES = {
    **TEXT_CASES,
    **{f"parquet: {case}": ("r.parquet", *rest) for case, rest in PARQUET_CASES.items()},
    **{f"call: {case}": ("r.csv", *rest) for case, rest in CALLS.items()},
    **{f"ids: {case}": ("users.txt", *rest) for case, rest in IDS.items()},
}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_refused(case, write, refused):
    name, content, words, *options = CASES[case]
    path = write(name, pl.DataFrame(content) if isinstance(content, dict) else content)
    message = refused(lambda: read_ids(path) if name == "users.txt" else read(path, **dict(*options)))
    assert message.startswith(f"{path}: ")
    for word in words:
        assert word in message, message
    assert len(message) < len(str(path)) + 400


@pytest.mark.parametrize(
    ("options", "says"),
    [
        *(({"threshold": number}, repr(number)) for number in (float("nan"), float("inf"))),
        *(({"delimiter": mark}, "delimiter must be") for mark in ("", '"', "\n", "\x1f", "a" * 9)),
        *(({"encoding": codec}, "encoding must be one such as") for codec in ("rot13", "utf-7", "no such", "", "a\0b")),
        *(({"skip_bad_rows": True, "most_bad_rows": most}, "most_bad_rows") for most in (0, -1, 1.5, float("nan"))),
        ({"format": "xml"}, "format must be one of csv, tsv"),
        ({"format": "jsonl", "delimiter": ";"}, "delimiter is for delimited text"),
        *(({"format": "parquet", **one}, "are Parquet") for one in ({"delimiter": ";"}, {"encoding": "latin-1"})),
    ],
    ids=str,
)
def test_options_outside_their_rule(options, says, write, refused):
    assert says in refused(lambda: read(write("r.csv", "user,item,rating\na,b,1\n"), **options), ParameterError)


def test_columns_refuse_what_is_no_column(refused):
    for bad in (
        *("", "user", "user=a", "item=b", "user=a,item=a", "user=1,item=b", "user=0,item=1", "user=a,item="),
        *("user=a,item=b,stars=c", "user=a,user=b,item=c", "user=a;item=b", "amazon-2015", "user=a,item=b,"),
    ):
        refused(lambda bad=bad: Columns.parse(bad), ParameterError)
    for bad in ((True, 2), (1.0, 2), ("", "b"), (-1, 2), ("a", 2)):
        refused(lambda bad=bad: Columns(*bad), ParameterError)


@pytest.mark.parametrize("spoil", ["empty", "cut", "junk", "tail", "footer"])
def test_corrupt_parquet(spoil, tmp_path, refused):
    path = tmp_path / "r.parquet"
    pl.DataFrame({"user": ["a", "b"] * 50, "item": ["x", "y"] * 50}).write_parquet(path)
    raw = path.read_bytes()
    spoilt = {
        "empty": b"",
        "cut": raw[: len(raw) // 2],
        "junk": bytes(range(256)),
        "tail": raw + b"x",
        "footer": raw[:-60] + b"\xff" * 52 + raw[-8:],
    }[spoil]
    path.write_bytes(spoilt)
    expected = "the file is empty" if spoil == "empty" else "cannot be read as Parquet"
    assert f"{path}: {expected}" in refused(lambda: read(path))


@pytest.mark.parametrize("name", ["r.csv", "r.csv.gz", "r.parquet", "users.txt"])
def test_missing_folder_and_unreadable(name, tmp_path, refused, monkeypatch):
    def call(path):
        return read_ids(path) if name == "users.txt" else read(path)

    path = tmp_path / name
    assert refused(lambda: call(path)) == f"{path}: no such file"
    assert "no such file" in refused(lambda: call(tmp_path / "absent" / name))
    path.mkdir()
    empty = "this is a folder, a file is needed" if name == "users.txt" else "the folder holds no file of ratings"
    assert refused(lambda: call(path)) == f"{path}: {empty}"
    path.rmdir()
    path.touch()

    def denied(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    # Tests may run as root, whom no mode keeps out.
    monkeypatch.setattr(Path, "open", denied)
    monkeypatch.setattr(os, "open", denied)
    assert refused(lambda: call(path)) == f"{path}: cannot be read: Permission denied"


def test_names_that_the_system_does_not_accept(write, refused):
    path = write("r.csv", "user,item\na,b\n")
    assert refused(lambda: read("a" * 300 + ".csv")).endswith(".csv: cannot be read: File name too long")
    assert "cannot be read" in refused(lambda: read(path / "r.csv"))
    assert "cannot be read" in refused(lambda: read("a\0b.csv"))
    assert refused(lambda: read("a\nb.csv")) == "a\\u000ab.csv: no such file"


@pytest.mark.parametrize("spoil", ["cut", "checksum", "flipped", "not gzip", "trailing"])
def test_corrupt_gzip(spoil, tmp_path, refused):
    raw = gzip.compress(b"user,item\n" + b"".join(b"%d,%d\n" % (n, n) for n in range(5000)))
    middle = len(raw) // 2
    spoilt = {
        "cut": raw[:middle],
        "checksum": raw[:-8] + bytes(8),
        "flipped": raw[:middle] + bytes([raw[middle] ^ 0xFF]) * 40 + raw[middle + 40 :],
        "not gzip": b"user,item\na,b\n",
        "trailing": raw + b"junk",
    }[spoil]
    path = tmp_path / "r.csv.gz"
    path.write_bytes(spoilt)
    message = refused(lambda: read(path))
    assert message.startswith(f"{path}: ")
    # A flipped byte may unpack to junk before the checksum is reached.
    assert "gzip" in message or spoil == "flipped"


def test_a_compression_bomb_ends_early(tmp_path, refused, monkeypatch):
    monkeypatch.setattr(text_files, "EXPANSION_FROM", 4 << 20)
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    # What follows must not make the bomb look harmless, so the tail does not compress.
    tail = "".join(f"{n},{n}\n" for n in np.random.default_rng(0).integers(0, 2**62, 50_000)).encode()
    parts = [b"user,item\n", *[b"1,1\n" * (1 << 18)] * 64, tail]
    packed = b"".join([*map(packer.compress, parts), packer.flush()])
    assert 500 * len(packed) > 64 << 20
    path = tmp_path / "r.csv.gz"
    path.write_bytes(packed)
    monkeypatch.setattr(text_files, "MAX_EXPANSION", 500)
    assert "more than 500 times its size" in refused(lambda: read(path))
    monkeypatch.setattr(text_files, "MAX_EXPANSION", 10_000)
    monkeypatch.setattr(text_files, "LARGEST", 1 << 20)
    assert "more than 1,048,576 bytes" in refused(lambda: read(path))


def test_bounds_are_the_declared_ones():
    assert (text_files.LARGEST, text_files.MAX_EXPANSION, text_files.EXPANSION_FROM) == (16 << 30, 200, 64 << 20)
