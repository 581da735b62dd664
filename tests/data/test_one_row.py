"""One row decides about its own pair alone, in every format: mathematics.md, section 7.

Files are random, with repeated pairs, missing fields, several names for one field, numbers for text, odd quotes and
rows that are no rows. One row is inserted, removed or edited, at the start, at the end or anywhere; then only entries
of its own pairs may change. Only public functions are used, so that the test holds for any reader; that engines keep
the same ratings is for ``tests/engines`` and ``tests/spark``.
"""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from pricdr import Ratings, read_ratings
from pricdr.data.reading.inputs import Query
from pricdr.errors import InputError
from tests.data.conftest import cells

Pair = tuple[str, str]


class Row(NamedTuple):
    """One row as it is written, and the pair it may speak for; None where it is no valid row whatever is around it."""

    written: Any
    pair: Pair | None


USERS, ITEMS = st.sampled_from(["a", "b", "1"]), st.sampled_from(["x", "2"])
PLAIN_PAIRS = st.tuples(st.sampled_from(["a", "b"]), st.just("x"))
VALUES = st.integers(1, 5)
READABLE = ["5", "7.25", "1400000000.5", "1400000000.25", "2020-01-01"]


# --- how rows are written -----------------------------------------------------------------------------------------


def _quoted(text: str, quote: bool) -> str:
    return '"' + text.replace('"', '""') + '"' if quote else text


@st.composite
def good_line(draw: st.DrawFn, mark: str, quoting: bool, plain: bool) -> Row:
    user, item = draw(PLAIN_PAIRS if plain else st.tuples(USERS, ITEMS))
    times = READABLE if plain else [*READABLE, "soon", "", "", ""]
    fields = [user, item, str(draw(VALUES)), draw(st.sampled_from(times))]
    if mark != "::":
        notes = ["", "note", 'say "hi"', 'LP 12"', f"a{mark}b"] if quoting and not plain else ["n"]
        fields.append(draw(st.sampled_from(notes)))
    # A field with a mark or a quote in it may be quoted or not: unquoted, it may shift the fields of this row alone.
    line = mark.join(_quoted(field, quoting and draw(st.booleans())) for field in fields)
    return Row(line, (user, item))


def bad_lines(mark: str, quoting: bool) -> st.SearchStrategy[Row]:
    cells = [["a", "x"], ["a", "x", "5"], ["a", "x", "5", "7"], ["a", "x", "five", "7", "n"], ["", "x", "5", "7", "n"]]
    cells += [["a", "x", "5", "7", "n", "more"], ["a"], [" "]]
    if quoting:
        cells += [["a", "x", "5", "7", '"Weird Al'], ['"a', "x", "5", "7", "n"], ["a", "x", "5", "7", '"b"c']]
        cells += [['"b', "x", "5", "7", '"n'], ["a", "x", "5", "7", '"']]
    # Whether such a row counts is up to the format, but its pair can only be this one.
    return st.sampled_from([Row(mark.join(fields), ("a", "x")) for fields in cells])


def lines(mark: str, *, quoting: bool) -> Callable[[bool], st.SearchStrategy[Row]]:
    good, bad = good_line(mark, quoting, False), [bad_lines(mark, quoting), st.just(Row("", None))]
    return lambda plain: good_line(mark, quoting, True) if plain else st.one_of(good, good, *bad)


@st.composite
def good_objects(draw: st.DrawFn, plain: bool) -> Row:
    user, item = draw(PLAIN_PAIRS if plain else st.tuples(USERS, ITEMS))
    number = draw(st.booleans())
    fields: dict[str, Any] = {
        draw(st.sampled_from(["user", "userId", "reviewerID"])): int(user) if number and user == "1" else user,
        draw(st.sampled_from(["item", "asin"])): int(item) if number and item == "2" else item,
    }
    if plain or draw(st.integers(0, 9)):
        fields[draw(st.sampled_from(["rating", "stars"]))] = draw(VALUES)
    time = draw(st.sampled_from([5, 7.25, "2020-01-01"] if plain else [5, 7.25, "2020-01-01", "soon", None, ..., ...]))
    if time is not ...:
        fields[draw(st.sampled_from(["timestamp", "date"]))] = time
    if draw(st.booleans()):
        fields["note"] = draw(st.sampled_from(["n", 1, None, [1], "\ud800", 'a "quote']))
    names = draw(st.permutations(list(fields)))
    return Row(json.dumps({name: fields[name] for name in names}), (user, item))


BAD_OBJECTS = [
    *(Row(text, None) for text in ("{", "[1]", "", '{"user": "a"}', '{"user": "a", "item": 1.5, "rating": 5}')),
    Row('{"user": "\\ud800", "item": "x", "rating": 5}', None),
    Row('{"user": "a", "uid": "b", "item": "x", "rating": 5}', ("a", "x")),
    Row('{"user": "a", "item": "x", "rating": "five"}', ("a", "x")),  # valid where ratings are not read
]


def objects_of(plain: bool) -> st.SearchStrategy[Row]:
    good = good_objects(plain)
    return good if plain else st.one_of(good, good, st.sampled_from(BAD_OBJECTS))


@st.composite
def tuples(draw: st.DrawFn, plain: bool, *, typed: bool) -> Row:
    """Values of one row of a table; where its columns have no types, a value may have any."""
    user, item = draw(PLAIN_PAIRS if plain else st.tuples(USERS, ITEMS))
    numbers, times = VALUES.map(float), st.sampled_from([5.0, 7.25, 1400000000.5])
    if plain:
        return Row((user, item, draw(numbers), draw(times)), (user, item))
    rating, time = draw(st.none() | numbers), draw(st.none() | times)
    if typed:
        return Row((user, item, rating, time), (user, item))
    written = [draw(st.sampled_from([name, int(name)])) if name.isdigit() else name for name in (user, item)]
    rating = draw(st.sampled_from([rating, None if rating is None else int(rating), rating]))
    return Row((*written, rating, draw(st.sampled_from([time, 5, "2020-01-01", "soon"]))), (user, item))


# --- how files are read -------------------------------------------------------------------------------------------


class Format(NamedTuple):
    rows: Callable[[bool], st.SearchStrategy[Row]]
    """Rows of any kind, or plain ones alone."""
    write: Callable[[Path, list[Row]], Any]
    """Writes rows, and returns what is to be read."""
    columns: str | None = None
    read: Callable[..., Ratings] = read_ratings


def text(name: str, header: str = "") -> Callable[[Path, list[Row]], Path]:
    def write(folder: Path, rows: list[Row]) -> Path:
        (folder / name).write_text(header + "".join(f"{row.written}\n" for row in rows))
        return folder / name

    return write


def parquet(folder: Path, rows: list[Row]) -> Path:
    schema = {"user": pl.String, "item": pl.String, "rating": pl.Float64, "timestamp": pl.Float64}
    pl.DataFrame([row.written for row in rows], schema=schema, orient="row").write_parquet(folder / "r.parquet")
    return folder / "r.parquet"


def sqlite(folder: Path, rows: list[Row]) -> Query:
    file = folder / "r.db"
    with closing(sqlite3.connect(file)) as database:
        database.execute("DROP TABLE IF EXISTS r")
        database.execute("CREATE TABLE r (user, item, rating, time)")
        database.executemany("INSERT INTO r VALUES (?, ?, ?, ?)", [row.written for row in rows])
        database.commit()
    return Query.of(f"sqlite:///{file}", "SELECT * FROM r ORDER BY rowid")


def frame(_: Path, rows: list[Row]) -> pd.DataFrame:
    times = [pd.Timestamp(row.written[3], unit="s") if row.written[3] == 5.0 else row.written[3] for row in rows]
    frame = pd.DataFrame([row.written for row in rows], columns=["user", "item", "rating", "time"])
    return frame.assign(time=pd.Series(times, dtype=object))


def of_frame(given: pd.DataFrame, *, threshold: float | None = None, **_: Any) -> Ratings:
    ratings = Ratings.of(given)
    return ratings if threshold is None else ratings.at_least(threshold)


NAMES = ["user", "item", "rating", "timestamp", "note"]
INTER = "user_id:token\titem_id:token\trating:float\ttimestamp:float\tnote:token\n"
FORMATS = {
    "csv": Format(lines(",", quoting=True), text("r.csv", ",".join(NAMES) + "\n")),
    "tsv": Format(lines("\t", quoting=True), text("r.tsv", "\t".join(NAMES) + "\n")),
    "inter": Format(lines("\t", quoting=False), text("r.inter", INTER)),
    "dat": Format(lines("::", quoting=False), text("r.dat")),
    "headerless": Format(lines(",", quoting=True), text("h.csv"), "user=1,item=2,rating=3,time=4"),
    "headerless untimed": Format(lines(",", quoting=True), text("u.csv"), "user=1,item=2,rating=3"),
    "json": Format(objects_of, text("r.jsonl")),
    "json declared": Format(objects_of, text("d.jsonl"), "user=user,item=item,rating=rating"),
    "json untyped likes": Format(objects_of, text("l.jsonl"), "user=user,item=item"),
    "parquet": Format(partial(tuples, typed=True), parquet),
    "sqlite": Format(partial(tuples, typed=False), sqlite),
    "pandas": Format(partial(tuples, typed=True), frame, read=of_frame),
}


# --- the property -------------------------------------------------------------------------------------------------


@st.composite
def neighbours(draw: st.DrawFn, rows: Callable[[bool], st.SearchStrategy[Row]]) -> tuple[list[Row], ...]:
    """Return rows, the same with one inserted, removed or edited, and the rows that differ.

    Half of the time all others are plain: what one odd row decides for them then shows.
    """
    plain = draw(st.booleans())
    before = draw(st.lists(rows(plain), min_size=4 if plain else 1, max_size=10))
    at = draw(st.sampled_from([0, 0, len(before) - 1]) | st.integers(0, len(before) - 1))
    change = draw(st.sampled_from(["insert", "remove", "edit"]))
    differing = [] if change == "insert" else [before[at]]
    added = [] if change == "remove" else [draw(rows(False))]
    after = before[:at] + added + before[at + len(differing) :]
    if change == "insert" and draw(st.booleans()):
        after = [*before, *added]
    return before, after, differing + added


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.slow
def test_one_row_changes_entries_of_its_own_pairs_alone(tmp_path_factory, kind):
    folder, form = tmp_path_factory.mktemp("rows"), FORMATS[kind]

    @settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
    @given(case=neighbours(form.rows), skip=st.sampled_from([True, True, False]), threshold=st.none() | st.just(3.0))
    def check(case, skip, threshold):
        options = {"skip_bad_rows": True, "most_bad_rows": 1.0} if skip else {}
        options |= {"columns": form.columns, "threshold": threshold}
        before, after, differing = case
        try:
            old, new = (cells(form.read(form.write(folder, rows), **options)) for rows in (before, after))
        except InputError:
            return  # a file that is refused is not published
        changed = {pair for pair in old.keys() | new.keys() if old.get(pair) != new.get(pair)}
        assert changed <= {row.pair for row in differing}, (changed, differing)

    check()
