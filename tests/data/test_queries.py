"""Ratings from databases: the rows of a file give the same, nothing is written or created, no password is shown."""

import logging
import sqlite3
import traceback
from contextlib import closing

import polars as pl
import pytest

from pricdr import cli
from pricdr.data.reading.inputs import Query
from pricdr.data.reading.read import read_ratings_file as read
from pricdr.errors import InputError, MissingExtraError, ParameterError
from pricdr.extras import SQL
from tests.data import postgres
from tests.settings import config

SELECT = 'SELECT "user", item, rating, rated_at AS time FROM ratings'
ROWS = [
    ("a", 7, 4.5, "2024-01-01 10:00:00+00"),
    ("a", 7, 2.0, "2024-01-02 10:00:00+00"),
    ("ü", 8, 3.0, None),
    ("007", 9, 1.0, "2024-01-01 00:00:00+00"),
]
MANY = {
    "sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 70000) "
    "SELECT 'u' || i AS user, i % 10 AS item FROM n",
    "postgresql": "SELECT 'u' || g AS user, 'i' || g % 10 AS item FROM generate_series(1, 700000) g -- as they come",
}


@pytest.fixture(scope="module")
def postgresql(tmp_path_factory):
    """The address of a server with one table."""
    reason = postgres.missing()
    if reason is not None:
        pytest.skip(reason)
    from adbc_driver_postgresql import dbapi

    columns = '"user" text, item int, rating numeric(3, 1), rated_at timestamptz, id uuid DEFAULT gen_random_uuid()'
    with postgres.running(tmp_path_factory.mktemp("postgres") / "server") as address:
        with closing(dbapi.connect(address)) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE TABLE ratings ({columns})")
            for user, item, rating, moment in ROWS:
                moment = "NULL" if moment is None else f"'{moment}'"
                cursor.execute(f"INSERT INTO ratings VALUES ('{user}', {item}, {rating}, {moment})")
            connection.commit()
        yield address


@pytest.fixture
def sqlite(tmp_path, monkeypatch):
    """The address of a file with one table, relative to the working folder; characters of its name have a meaning."""
    monkeypatch.chdir(tmp_path)
    create("a shop?#%41.db", '"user" TEXT, item INTEGER, rating REAL, rated_at TEXT', ROWS)
    return "sqlite:///a shop?#%41.db"


def create(path, columns, rows):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"CREATE TABLE ratings ({columns})")
        connection.executemany("INSERT INTO ratings VALUES (?, ?, ?, ?)", rows)
        connection.commit()


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request):
    return request.param, request.getfixturevalue(request.param)


def test_a_query_gives_what_a_file_of_its_rows_gives(database, tmp_path):
    kind, address = database
    pl.DataFrame(ROWS, schema=["user", "item", "rating", "time"], orient="row").write_csv(tmp_path / "r.csv")
    end = ";\n-- all of them" if kind == "sqlite" else " ; \n"
    content, expected = read(Query.of(address, SELECT + end)), read(tmp_path / "r.csv")
    assert content.ratings.fingerprint() == expected.ratings.fingerprint()
    assert (content.rows, content.repeats, content.rating_range) == (4, expected.repeats, (1.0, 4.5))
    assert content.summary().startswith(f"the {kind} query: 4 rows, 3 users, 3 items, 3 ratings")
    many = read(Query.of(address, MANY[kind]))  # they come in batches
    assert many.rows == len(many.ratings.users) >= 70_000


def test_columns_thresholds_and_bad_rows_hold_for_queries_too(database, refused):
    kind, address = database
    named = Query.of(address, 'SELECT rating AS weight, item AS thing, "user" AS who FROM ratings')
    assert "no user or item column in the header ['weight', 'thing', 'who']" in refused(lambda: read(named))
    ratings = read(named, columns="user=who,item=thing,rating=weight", threshold=3).ratings
    assert (len(ratings), ratings.users) == (2, ("007", "a", "ü"))
    missing = "CASE WHEN item = 8 THEN NULL ELSE item END AS item"
    nulls = Query.of(address, f'SELECT {missing}, "user" FROM ratings ORDER BY rating = 3.0, rating')
    assert refused(lambda: read(nulls)) == f"the {kind} query: row 4: the item id is empty (null)"
    assert read(nulls, skip_bad_rows=True, most_bad_rows=0.25).bad == 1
    assert "1 of 4 rows is bad" in refused(lambda: read(nulls, skip_bad_rows=True))
    typed = {
        "SELECT id AS user, item FROM ratings": "holds BLOB; ids must be text or whole numbers (cast",
        'SELECT "user", item, rated_at AS rating FROM ratings': "ratings must be numbers",
    }
    for sql, fault in {
        'SELECT "user", item FROM ratings WHERE 1 = 0': "it returns no rows",
        'SELECT "user" FROM ratings': "it selects 1 column; a user and an item column are needed",
        **(typed if kind == "postgresql" else {}),
    }.items():
        assert fault in refused(lambda sql=sql: read(Query.of(address, sql)))
    assert "delimiter is for files" in refused(lambda: read(named, delimiter=";"), ParameterError)


WRITING = (
    'DELETE FROM ratings RETURNING "user", item',
    'WITH gone AS (DELETE FROM ratings RETURNING "user", item) SELECT * FROM gone',
    'SELECT "user", item FROM ratings; DELETE FROM ratings',
    "SELECT 1) TO STDOUT; DELETE FROM ratings; COPY (SELECT 1",
    "PRAGMA query_only = OFF; DELETE FROM ratings",
    "DROP TABLE ratings",
)


def test_nothing_is_written(database, tmp_path):
    kind, address = database
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for sql in WRITING:
        with pytest.raises(InputError, match=f"the {kind} query: "):
            read(Query.of(address, sql))
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
        assert read(Query.of(address, SELECT)).rows == len(ROWS)


@pytest.mark.parametrize(
    "odd", [("c", 1, 1.0, "2024-01-01"), ("c", 1, 1.0, "soon"), (7, "z", 1, None), (b"c", 1, 1, 1)]
)
def test_the_values_of_one_row_in_sqlite_do_not_decide_how_others_are_read(tmp_path, odd):
    """The times are equal to seven digits: read as text by a driver that guesses one type, they would tie."""
    rows = [("a", 1, 0.1 + 0.2, 1400000000.25), ("a", 1, 5.0, 1400000000.125), ("b", "1", 2, 1400000000)]
    read_as = []
    for number, kept in enumerate((rows, [odd, *rows])):
        create(tmp_path / f"{number}.db", "user, item, rating, rated_at", kept)
        query = Query.of(f"sqlite:///{tmp_path / f'{number}.db'}", SELECT)
        reading = read(query, skip_bad_rows=True, most_bad_rows=0.5)
        assert reading.rows == len(kept)
        read_as.append({row for row in reading.ratings.to_frame().rows() if row[0] in "ab"})
    assert read_as[0] == read_as[1] == {("a", "1", 0.1 + 0.2), ("b", "1", 2.0)}


def test_a_file_that_is_missing_or_none_is_refused(tmp_path, refused):
    (tmp_path / "text.db").write_text("no database\n" * 100)
    faults = {"nowhere.db": "nowhere.db: no such file", "text.db": "file is not a database", ".": "this is a folder"}
    for name, fault in faults.items():
        assert fault in refused(lambda name=name: read(Query.of(f"sqlite:///{tmp_path / name}", SELECT)))
    assert not (tmp_path / "nowhere.db").exists()
    for address in ("sqlite:///", "sqlite://shop.db", "sqlite:shop.db"):
        message = refused(lambda address=address: Query.of(address, SELECT), ParameterError)
        assert "or sqlite:///file" in message


# --- no password anywhere -----------------------------------------------------------------------------------------


def secret_free(*texts):
    for text in texts:
        for secret in (postgres.PASSWORD, postgres.ADDRESS_PASSWORD, "wrong%20word", "wrong word", "s3cr"):
            assert secret not in text


def test_what_a_driver_says_is_shown_without_the_password(postgresql, refused, caplog):
    caplog.set_level(logging.DEBUG)
    wrong = postgresql.replace(postgres.ADDRESS_PASSWORD, "wrong%20word")
    elsewhere = postgresql.replace("/postgres?", "/nowhere?")
    option = postgresql.replace(f":{postgres.ADDRESS_PASSWORD}@", "@") + "&password=wrong%20word"
    for bad, fault in {wrong: "authentication failed", elsewhere: "does not exist", option: "authentication"}.items():
        query = Query.of(bad, SELECT)
        with pytest.raises(InputError, match=fault) as caught:
            read(query)
        secret_free(str(caught.value), repr(query), str(query), *traceback.format_exception(caught.value))
    quoting = Query.of(postgresql, f"SELECT '{postgres.PASSWORD}'::int, nope")
    secret_free(refused(lambda: read(quoting)), caplog.text)


def test_an_address_that_cannot_be_read_is_not_shown(refused):
    for address in ("postgresql://bob:s3cr/t@host/db", "mysql://bob:s3cr@host/db", "s3cr", "postgresql://a@b@s3cr/d"):
        message = refused(lambda address=address: Query.of(address, SELECT), ParameterError)
        assert "must read postgresql://" in message
        secret_free(message)
    assert "query is empty" in refused(lambda: Query.of("postgresql://h/d", " ; "), ParameterError)


def test_half_of_a_long_password_is_not_shown_either():
    query = Query.of(f"postgresql://bob:{'s3cr' * 100}@host/db", SELECT)
    secret_free(query.cleaned("x" * 290 + "s3cr" * 100), query.cleaned(f"IO: cannot reach {query.address}\n"))
    assert query.cleaned("IO: [libpq] no\n  such host") == "[libpq] no such host"


def test_the_command_line_keeps_the_address_to_itself(postgresql, tmp_path, monkeypatch, capfd):
    """Neither the screen, nor the log of the run, nor the release holds it."""
    monkeypatch.setenv("PRICDR_SOURCE", postgresql)
    monkeypatch.chdir(tmp_path)
    source = config(from_="env:PRICDR_SOURCE", query=SELECT, epsilon=1, delta=1e-6, log="log.jsonl")
    code = cli.run(["publish", *source, "--out", "release"])
    assert code == 0
    code = cli.run(["publish", *source, "--out", "again", "--json", "-", "--values"])
    assert code == 2  # a bound is missing
    written = [path.read_bytes().decode("utf-8", "replace") for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) > 2
    assert any("the postgresql query" in text for text in written)
    secret_free(*capfd.readouterr(), *written)


def test_what_does_not_go_together_on_the_command_line(capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for arguments, says in (
        (("r.csv", *config(from_="env:NOWHERE", query="x")), "give RATINGS or from in --config, not both"),
        (config(from_="postgresql://h/d"), "from and query go together"),
        (config(query="SELECT"), "from and query go together"),
        (config(from_="env:NOWHERE", query="SELECT"), "the environment variable 'NOWHERE' is not set"),
        ((), "Missing argument 'RATINGS'"),
    ):
        assert cli.run(["publish", *arguments, "--epsilon", "1", "--delta", "1e-6", "--out", "release"]) == 2
        assert says in capfd.readouterr().err


def test_a_machine_without_the_driver_is_told_what_to_install(refused, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "adbc_driver_postgresql", None)
    message = refused(lambda: read(Query.of("postgresql://h/d", SELECT)), MissingExtraError)
    assert SQL.command in message
