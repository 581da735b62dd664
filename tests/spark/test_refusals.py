"""Rows and tables that cannot be used, and machines without Spark: one line each, before anything is spent."""

import os
import re
import subprocess
import sys

import polars as pl
import pytest

from pricdr.engines.spark import open_ratings
from pricdr.engines.spark.session import parse_settings
from pricdr.errors import EngineError, InputError, MissingExtraError, ParameterError, PriCDRError
from pricdr.extras import SPARK

GOOD = {"user": ["a", "b"], "item": ["x", "y"], "rating": [1.0, 2.0]}
BAD = {
    "an empty id": ({"user": ["a", ""]}, "a row: the user id is empty"),
    "no id": ({"item": ["x", None]}, r"a row: the item id is empty \(null\)"),
    "an escape": ({"user": ["a", "b\x1b[2J"]}, r"the user id 'b\\x1b\[2J' holds a line break or another control"),
    "a long id": ({"item": ["x", "y" * 1001]}, "has more than 1,000 characters"),
    "no rating": ({"rating": [1.0, None]}, "a row: the rating is empty"),
    "nan": ({"rating": [1.0, float("nan")]}, "the rating nan is not a finite number"),
    "infinity": ({"rating": [float("-inf"), 1.0]}, "the rating -inf is not a finite number"),
    "ids that are fractions": ({"user": [1.0, 2.0]}, "the user column 'user' holds double; ids must be text or whole"),
    "ratings that are text": ({"rating": ["1", "2"]}, "the rating column 'rating' holds string; ratings must be numb"),
    "a time that was asked for": ({"when": ["2024-05-31", "soon"]}, "the time 'soon' is not a time"),
    "no such path": ("nowhere/ratings", "nowhere/ratings: the path does not exist"),
    "no such table": ("table:no_such_table", "table:no_such_table: there is no such table"),
    "a text file": ("ratings.csv", "reads Parquet or a table"),
    "an empty folder": (".", "there is no Parquet file in it"),
}


@pytest.mark.spark
@pytest.mark.parametrize(("given", "says"), BAD.values(), ids=BAD)
def test_what_cannot_be_published_is_one_line(spark, tmp_path, monkeypatch, given, says):
    monkeypatch.chdir(tmp_path)
    location = given if isinstance(given, str) else str(tmp_path / "r.parquet")
    if not isinstance(given, str):
        pl.DataFrame({**GOOD, **given}).write_parquet(location)
    columns = "user=user,item=item,rating=rating,time=when" if "when" in given else None
    with pytest.raises(InputError, match=says) as refused, open_ratings(location, session=spark, columns=columns):
        pass
    assert location in str(refused.value)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 300 + len(location)


@pytest.mark.spark
def test_what_spark_says_of_a_query_is_not_on_the_screen(spark, capfd):
    """It may quote a value, which logs must not show."""
    values = "select 'a' user, 'x' item, int(text) rating from values ('secret'), ('2') as t(text)"
    spark.sql(f"create or replace global temp view spoilt as {values}")
    with (
        pytest.raises(EngineError, match="CAST_INVALID_INPUT"),
        open_ratings("table:global_temp.spoilt", session=spark),
    ):
        pass
    assert "secret" not in capfd.readouterr().err


@pytest.mark.spark
def test_a_damaged_file_is_one_line(spark, tmp_path):
    pl.DataFrame(GOOD).write_parquet(tmp_path / "a.parquet")
    content = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "b.parquet").write_bytes(content[: len(content) // 2])
    with (
        pytest.raises(PriCDRError, match="Spark could not read") as refused,
        open_ratings(str(tmp_path), session=spark),
    ):
        pass
    assert "\n" not in str(refused.value)
    assert "at org.apache" not in str(refused.value)


@pytest.mark.spark
def test_a_filter_that_files_disclose_is_disclosed(spark, tmp_path):
    from pricdr import Ratings
    from pricdr.data.tables import write_ratings

    filtered = Ratings.of(pl.DataFrame(GOOD)).disclosing("at least 5 ratings per user")
    write_ratings(tmp_path / "a.parquet", filtered)
    with open_ratings(str(tmp_path), session=spark) as reading:
        assert reading.ratings.filtered_by == "at least 5 ratings per user"
    write_ratings(tmp_path / "b.parquet", Ratings.of(pl.DataFrame(GOOD)))
    with pytest.raises(InputError, match="different filters"), open_ratings(str(tmp_path), session=spark):
        pass


@pytest.mark.spark
def test_a_session_that_would_show_ratings_is_refused(spark, monkeypatch):
    honest = type(spark.sparkContext).getConf
    for name, value, says in (
        ("spark.io.encryption.enabled", "false", "local disks unencrypted"),
        ("spark.master", "spark://somewhere:7077", "over the network unencrypted"),
    ):
        changed = honest(spark.sparkContext).set(name, value)
        monkeypatch.setattr(type(spark.sparkContext), "getConf", lambda _, changed=changed: changed)
        with pytest.raises(ParameterError, match=says), open_ratings("r", session=spark):
            pass


@pytest.mark.parametrize("missing", ["pyspark", "pyarrow", "pandas"])
def test_without_a_package_the_extra_is_named(monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(MissingExtraError, match=rf"--engine spark needs .*\b{missing}\b.*: {re.escape(SPARK.command)}"):
        SPARK.require()


@pytest.mark.spark
def test_without_java_it_is_named(tmp_path, table):
    """In a process of its own: another test's Java would be used here."""
    code = f"from pricdr.engines.spark import open_ratings\nwith open_ratings({str(table)!r}): pass"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "JAVA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "EngineError: Spark could not start: Java 17 or later is needed" in done.stderr


def test_a_setting_that_is_none_is_refused_and_its_value_which_may_be_a_password_not_shown():
    for text in ("spark.master", "master=local", "spark.=x", "spark.a b=c", "=x", "spark.\x1b=1"):
        with pytest.raises(ParameterError, match=r"spark-conf must read spark\.NAME=VALUE"):
            parse_settings([text])
    with pytest.raises(ParameterError, match=r"got the name 'fs\.s3a\.secret\.key'") as refused:
        parse_settings(["fs.s3a.secret.key=hunter2"])
    assert "hunter2" not in str(refused.value)
