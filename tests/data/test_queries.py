"""Ratings from a real PostgreSQL: the rows of a file give the same, nothing is written, and no password is shown."""

import logging
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


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """The address of a server with one table."""
    reason = postgres.missing()
    if reason is not None:
        pytest.skip(reason)
    from adbc_driver_postgresql import dbapi

    with postgres.running(tmp_path_factory.mktemp("postgres") / "server") as address:
        with closing(dbapi.connect(address)) as connection, connection.cursor() as cursor:
            cursor.execute(
                'CREATE TABLE ratings ("user" text, item int, rating numeric(3, 1), rated_at timestamptz, id uuid)'
            )
            for user, item, rating, moment in ROWS:
                moment = "NULL" if moment is None else f"'{moment}'"
                cursor.execute(f"INSERT INTO ratings VALUES ('{user}', {item}, {rating}, {moment}, gen_random_uuid())")
            connection.commit()
        yield address


@pytest.fixture
def expected(tmp_path):
    """The same rows in a file."""
    frame = pl.DataFrame(ROWS, schema=["user", "item", "rating", "time"], orient="row")
    frame.write_csv(tmp_path / "r.csv")
    return read(tmp_path / "r.csv")


def test_a_query_gives_what_a_file_of_its_rows_gives(address, expected):
    content = read(Query.of(address, SELECT))
    assert content.ratings.fingerprint() == expected.ratings.fingerprint()
    assert (content.rows, content.repeats, content.rating_range) == (4, expected.repeats, (1.0, 4.5))
    assert content.summary().startswith("the postgresql query: 4 rows, 3 users, 3 items, 3 ratings")


def test_many_rows_come_in_batches(address):
    sql = "SELECT 'u' || g AS user, 'i' || g % 10 AS item FROM generate_series(1, 1500000) g -- as they come"
    content = read(Query.of(address, sql))
    assert (content.rows, len(content.ratings.users)) == (1_500_000, 1_500_000)


def test_columns_thresholds_and_bad_rows_hold_for_queries_too(address, refused):
    named = Query.of(address, 'SELECT rating AS weight, item AS thing, "user" AS who FROM ratings')
    assert "no user or item column in the header ['weight', 'thing', 'who']" in refused(lambda: read(named))
    ratings = read(named, columns="user=who,item=thing,rating=weight", threshold=3).ratings
    assert (len(ratings), ratings.users) == (2, ("007", "a", "ü"))
    missing = "CASE WHEN item = 8 THEN NULL ELSE item END AS item"
    nulls = Query.of(address, f'SELECT {missing}, "user" FROM ratings ORDER BY 1')
    assert refused(lambda: read(nulls)) == "the postgresql query: row 4: the item id is empty (null)"
    assert read(nulls, skip_bad_rows=True, most_bad_rows=0.25).bad_rows.count == 1
    assert "1 of 4 rows is bad" in refused(lambda: read(nulls, skip_bad_rows=True))
    for sql, fault in {
        "SELECT id AS user, item FROM ratings": "holds BLOB; ids must be text or whole numbers (cast",
        'SELECT "user", item, rated_at AS rating FROM ratings': "ratings must be numbers",
        'SELECT "user", item FROM ratings WHERE false': "it returns no rows",
        'SELECT "user" FROM ratings': "it selects 1 column; a user and an item column are needed",
    }.items():
        assert fault in refused(lambda sql=sql: read(Query.of(address, sql)))
    assert "--delimiter is for files" in refused(lambda: read(named, delimiter=";"), ParameterError)


@pytest.mark.parametrize(
    "sql",
    [
        'DELETE FROM ratings RETURNING "user", item',
        'WITH gone AS (DELETE FROM ratings RETURNING "user", item) SELECT * FROM gone',
        'SELECT "user", item FROM ratings; DELETE FROM ratings',
        "SELECT 1) TO STDOUT; DELETE FROM ratings; COPY (SELECT 1",
        "DROP TABLE ratings",
    ],
)
def test_nothing_is_written(address, sql):
    with pytest.raises(InputError, match="the postgresql query: "):
        read(Query.of(address, sql))
    assert read(Query.of(address, SELECT)).rows == len(ROWS)


# --- no password anywhere -----------------------------------------------------------------------------------------


def secret_free(*texts):
    for text in texts:
        for secret in (postgres.PASSWORD, postgres.ADDRESS_PASSWORD, "wrong%20word", "wrong word", "s3cr"):
            assert secret not in text


def test_what_a_driver_says_is_shown_without_the_password(address, refused, caplog):
    caplog.set_level(logging.DEBUG)
    wrong = address.replace(postgres.ADDRESS_PASSWORD, "wrong%20word")
    elsewhere = address.replace("/postgres?", "/nowhere?")
    option = address.replace(f":{postgres.ADDRESS_PASSWORD}@", "@") + "&password=wrong%20word"
    for bad, fault in {wrong: "authentication failed", elsewhere: "does not exist", option: "authentication"}.items():
        query = Query.of(bad, SELECT)
        with pytest.raises(InputError, match=fault) as caught:
            read(query)
        secret_free(str(caught.value), repr(query), str(query), *traceback.format_exception(caught.value))
    quoting = Query.of(address, f"SELECT '{postgres.PASSWORD}'::int, nope")
    secret_free(refused(lambda: read(quoting)), caplog.text)


def test_an_address_that_cannot_be_read_is_not_shown(refused):
    for address in ("postgresql://bob:s3cr/t@host/db", "mysql://bob:s3cr@host/db", "s3cr", "postgresql://a@b@s3cr/d"):
        message = refused(lambda address=address: Query.of(address, SELECT), ParameterError)
        assert "must read postgresql://" in message
        secret_free(message)
    assert "--query is empty" in refused(lambda: Query.of("postgresql://h/d", " ; "), ParameterError)


def test_half_of_a_long_password_is_not_shown_either():
    query = Query.of(f"postgresql://bob:{'s3cr' * 100}@host/db", SELECT)
    secret_free(query.cleaned("x" * 290 + "s3cr" * 100), query.cleaned(f"IO: cannot reach {query.address}\n"))
    assert query.cleaned("IO: [libpq] no\n  such host") == "[libpq] no such host"


def test_the_command_line_keeps_the_address_to_itself(address, tmp_path, monkeypatch, capfd):
    """Neither the screen, nor the log of the run, nor the release holds it."""
    monkeypatch.setenv("PRICDR_SOURCE", address)
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


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("r.csv", *config(from_="env:NOWHERE", query="x")), "give RATINGS or --from, not both"),
        (config(from_="postgresql://h/d"), "--from and --query go together"),
        (config(query="SELECT"), "--from and --query go together"),
        (config(from_="env:NOWHERE", query="SELECT"), "the environment variable 'NOWHERE' is not set"),
        ((), "Missing argument 'RATINGS'"),
    ],
)
def test_what_does_not_go_together_on_the_command_line(arguments, says, capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.run(["publish", *arguments, "--epsilon", "1", "--delta", "1e-6", "--out", "release"]) == 2
    assert says in capfd.readouterr().err


def test_a_machine_without_the_driver_is_told_what_to_install(refused, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "adbc_driver_postgresql", None)
    message = refused(lambda: read(Query.of("postgresql://h/d", SELECT)), MissingExtraError)
    assert SQL.command in message
