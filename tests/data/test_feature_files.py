"""Item features from files: what is read, and what is refused in one line that names the file."""

import numpy as np
import polars as pl
import pytest

from pricdr.data.features import read_features
from pricdr.errors import InputError

NUMBERS = "item,year,length\n007,1999,1.5\nb,2001,-2\n"
TAGS = "item,tags\na,war|love\nb,\nc,war| love |war\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("items.csv", NUMBERS),
        ("items.CSV", NUMBERS),
        ("items.csv.gz", NUMBERS),
        ("items.tsv", NUMBERS.replace(",", "\t")),
        ("items.csv", NUMBERS.replace("\n", "\r\n")),
        ("items.csv", b"\xef\xbb\xbf" + NUMBERS.encode()),
        ("items.parquet", pl.DataFrame({"item": ["007", "b"], "year": [1999, 2001], "length": [1.5, -2.0]})),
    ],
    ids=["csv", "upper case", "gz", "tsv", "crlf", "bom", "parquet"],
)
def test_numeric_columns(write, name, content):
    found = read_features(write(name, content))
    assert found.items == ("007", "b")  # ids are text: leading zeros stay
    assert found.rows.tolist() == [[1999.0, 1.5], [2001.0, -2.0]]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("items.csv", TAGS),
        ("items.parquet", pl.DataFrame({"item": ["a", "b", "c"], "tags": ["war|love", None, "love|war"]})),
    ],
)
def test_tags(write, name, content):
    found = read_features(write(name, content))
    assert found.items == ("a", "b", "c")
    weight = 1 + np.log(3 / 2)
    np.testing.assert_allclose(found.rows, [[weight, weight], [0, 0], [weight, weight]])


def test_whole_numbers_first_and_item_numbers_that_are_text(write):
    lines = [f"i{at},1\n" for at in range(500)] + ["last,0.25\n"]
    assert read_features(write("items.csv", "item,x\n" + "".join(lines))).rows[-1, 0] == 0.25
    frame = pl.DataFrame({"item": [7, 8], "x": [1, 2]})
    assert read_features(write("items.parquet", frame)).items == ("7", "8")


MANY = ",".join(f"f{at}" for at in range(4097))
REFUSED = {
    "no item column": ("i.csv", "id,x\na,1\n", ["a column called item", "id, x"]),
    "only items": ("i.csv", "item\na\n", ["numeric columns beside item", "tags"]),
    "text": ("i.csv", "item,x,genre\na,1,war\n", ["'genre'", "number is needed in every row"]),
    "text in one row": ("i.csv", "item,x\na,1\nb,many\n", ["'x'", "number is needed in every"]),
    "tags and numbers": ("i.csv", "item,tags,x\na,war,1\n", ["'tags'", "be the only column"]),
    "null number": ("i.csv", "item,x\na,1\nb,\n", ["row 2", "'x' is empty"]),
    "null item": ("i.csv", "item,x\na,1\n,2\n", ["row 2", "names its item"]),
    "quoted empty item": ("i.csv", 'item,x\na,1\n"",2\n', ["row 2", "names its item"]),
    "nan": ("i.csv", "item,x\na,NaN\n", ["row 1", "'x' holds 'NaN'", "finite"]),
    "inf": ("i.csv", "item,x\na,1\nb,inf\n", ["row 2", "'x' holds 'inf'", "finite"]),
    "huge": ("i.csv", "item,x\na,1e200\n", ["below 1e100"]),
    "duplicate items": ("i.csv", "item,x\na,1\nb,2\na,3\n", ["row 3", "'a' has a row already"]),
    "duplicate columns": ("i.csv", "item,x,x\na,1,2\n", ["'x' more than once"]),
    "too many columns": ("i.csv", f"item,{MANY}\na{',1' * 4097}\n", ["at most 4,096 columns, got 4,097"]),
    "empty": ("i.csv", "", ["the file is empty"]),
    "empty gz": ("i.csv.gz", "", ["the file is empty"]),
    "empty parquet": ("i.parquet", b"", ["cannot be read as Parquet"]),
    "header only": ("i.csv", "item,x\n", ["only a header"]),
    "no tag anywhere": ("i.csv", "item,tags\na,\nb,|\n", ["no tag"]),
    "ragged": ("i.csv", "item,x\na,1,2\n", ["cannot be read"]),
    "not gzip": ("i.csv.gz", None, ["gzip"]),
    "missing": ("none.csv", None, ["no such file"]),
    "a folder": ("folder.csv", None, ["this is a folder"]),
    "not utf-8": ("i.csv", b"item,x\n\xff,1\n", ["not UTF-8"]),
    "unknown kind": ("i.txt", NUMBERS, [".csv, .tsv (also .gz) or .parquet"]),
    "parquet nan": ("i.parquet", pl.DataFrame({"item": ["a"], "x": [float("nan")]}), ["row 1", "finite"]),
    "parquet null": ("i.parquet", pl.DataFrame({"item": ["a", "b"], "x": [1, None]}), ["row 2", "is empty"]),
    "parquet lists": ("i.parquet", pl.DataFrame({"item": ["a"], "tags": [["war"]]}), ["by bars", "VARCHAR[]"]),
    "parquet bytes": ("i.parquet", pl.DataFrame({"item": [b"a"], "x": [1]}), ["column 'item'", "BLOB"]),
    "parquet fractions": ("i.parquet", pl.DataFrame({"item": [1.5], "x": [1]}), ["column 'item'", "DOUBLE"]),
    "parquet flags": ("i.parquet", pl.DataFrame({"item": ["a"], "x": [True]}), ["'x'", "number is needed in every"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_are_one_line_and_name_the_file(tmp_path, write, case):
    name, content, parts = REFUSED[case]
    path = tmp_path / name
    if content is not None:
        write(name, content)
    elif name == "folder.csv":
        path.mkdir()
    elif "none" not in name:
        path.write_bytes(NUMBERS.encode())
    with pytest.raises(InputError) as refusal:
        read_features(path)
    message = str(refusal.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    assert len(message) < len(str(path)) + 200
    for part in parts:
        assert part in message
