"""Ratings from a SQLite file: the rows of a CSV file give the same, and the database is never changed or created."""

import sqlite3
from contextlib import closing

import polars as pl
import pytest

from pricdr.data.reading.inputs import Query
from pricdr.data.reading.read import read_ratings_file as read
from pricdr.errors import InputError, ParameterError

SELECT = "SELECT user, item, rating, time FROM ratings"
ROWS = [("a", 7, 4.5, 10), ("a", 7, 2.0, 20), ("ü", 8, 3.0, 30), ("007", 9, 1.0, 10)]


@pytest.fixture
def database(tmp_path):
    """The path of a database with one table; the name has characters that addresses give a meaning."""
    path = tmp_path / "a shop?#%41.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE ratings (user TEXT, item INTEGER, rating REAL, time INTEGER)")
        connection.executemany("INSERT INTO ratings VALUES (?, ?, ?, ?)", ROWS)
        connection.commit()
    return path


def test_a_query_gives_what_a_file_of_its_rows_gives(database, tmp_path):
    pl.DataFrame(ROWS, schema=["user", "item", "rating", "time"], orient="row").write_csv(tmp_path / "r.csv")
    content, expected = read(Query.of(f"sqlite:///{database}", SELECT)), read(tmp_path / "r.csv")
    assert content.ratings.fingerprint() == expected.ratings.fingerprint()
    assert content.summary().startswith("the sqlite query: 4 rows, 3 users, 3 items, 3 ratings")


def test_many_rows_come_in_batches_and_a_relative_path_is_below_the_working_folder(database, monkeypatch):
    monkeypatch.chdir(database.parent)
    count = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 70000) SELECT"
    query = Query.of(f"sqlite:///{database.name}", f"{count} 'u' || i AS user, i % 10 AS item FROM n")
    assert read(query).rows == 70_000


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM ratings RETURNING user, item",
        "PRAGMA query_only = OFF; DELETE FROM ratings",
        "DROP TABLE ratings",
    ],
)
def test_nothing_is_written(database, sql, monkeypatch):
    monkeypatch.chdir(database.parent)
    before = database.read_bytes()
    with pytest.raises(InputError, match="the sqlite query: "):
        read(Query.of(f"sqlite:///{database}", sql))
    assert database.read_bytes() == before
    assert list(database.parent.iterdir()) == [database]


def test_only_one_statement_is_run(database, refused):
    query = Query.of(f"sqlite:///{database}", f"{SELECT}; DELETE FROM ratings")
    assert "one statement" in refused(lambda: read(query))
    assert read(Query.of(f"sqlite:///{database}", f"{SELECT};\n-- all of them")).rows == len(ROWS)


@pytest.mark.parametrize(
    "odd", [("c", 1, 1.0, "2024-01-01"), ("c", 1, 1.0, "soon"), (7, "z", 1, None), (b"c", 1, 1, 1)]
)
def test_the_values_of_one_row_do_not_decide_how_others_are_read(tmp_path, odd):
    """The times are equal to seven digits: read as text by a driver that guesses one type, they would tie."""
    rows = [("a", 1, 0.1 + 0.2, 1400000000.25), ("a", 1, 5.0, 1400000000.125), ("b", "1", 2, 1400000000)]
    read_as = []
    for number, kept in enumerate((rows, [odd, *rows])):
        with closing(sqlite3.connect(tmp_path / f"{number}.db")) as connection:
            connection.execute("CREATE TABLE ratings (user, item, rating, time)")
            connection.executemany("INSERT INTO ratings VALUES (?, ?, ?, ?)", kept)
            connection.commit()
        query = Query.of(f"sqlite:///{tmp_path / f'{number}.db'}", SELECT)
        reading = read(query, skip_bad_rows=True, most_bad_rows=0.5)
        assert reading.rows == len(kept)
        read_as.append({row for row in reading.ratings.to_frame().rows() if row[0] in "ab"})
    assert read_as[0] == read_as[1] == {("a", "1", 0.1 + 0.2), ("b", "1", 2.0)}


def test_a_database_that_is_missing_or_none_is_refused(tmp_path, refused):
    (tmp_path / "text.db").write_text("no database\n" * 100)
    faults = {"nowhere.db": "nowhere.db: no such file", "text.db": "file is not a database", ".": "this is a folder"}
    for name, fault in faults.items():
        assert fault in refused(lambda name=name: read(Query.of(f"sqlite:///{tmp_path / name}", SELECT)))
    assert not (tmp_path / "nowhere.db").exists()
    for address in ("sqlite:///", "sqlite://shop.db", "sqlite:shop.db"):
        message = refused(lambda address=address: Query.of(address, SELECT), ParameterError)
        assert "or sqlite:///file" in message
