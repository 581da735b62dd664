"""``pricdr publish --engine spark``: once as its users run it, in its own process, with one release folder."""

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

import pricdr
from pricdr import Guarantee, Ledger, cli
from tests.alignment.records import SESSION, write_list
from tests.settings import config
from tests.spark.conftest import QUICK_JAVA

PROMISE = ("--epsilon", "4", "--delta", "1e-6")
LOCAL = "spark.master=local[2]"
JAVA = f"spark.driver.extraJavaOptions={QUICK_JAVA}"
SPARK = ("--engine", "spark", *config(spark_conf=[LOCAL, JAVA, "spark.default.parallelism=1"]))


@pytest.fixture
def publish(tmp_path, monkeypatch, capfd):
    """Publish in this process, and return the exit code and what was written to standard error."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        code = cli.run(["publish", *map(str, arguments), *PROMISE])
        return code, capfd.readouterr().err

    return run


@pytest.mark.spark
def test_the_folder_is_the_one_that_memory_gives(rows, table, users, tmp_path, publish):
    write_list(tmp_path / "users.txt", users)
    rows.write_parquet(tmp_path / "all.parquet")
    options = ("--users", "users.txt", "--insecure-seed", "3", "--strategy", "jlt", "--dim", "8")
    options += ("--values", "--rating-bound", "4", "--rating-step", "1")
    assert publish("all.parquet", *options, "--out", "memory")[0] == 0
    done = subprocess.run(
        [sys.executable, "-m", "pricdr", "publish", str(table), *options, *PROMISE, "--out", "spark", *SPARK],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(pricdr.__file__).parent.parent)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "3,000 rows" in done.stdout
    assert "lie outside [0, 4]" in done.stderr
    for lines in (done.stdout, done.stderr):
        assert "WARN" not in lines
        assert "Exception" not in lines
    for file in ("release.safetensors", "certificate.json"):
        assert (tmp_path / "spark" / file).read_bytes() == (tmp_path / "memory" / file).read_bytes()
    assert SESSION in (tmp_path / "spark" / "README.md").read_text()  # where the list came from


@pytest.mark.spark
def test_a_path_that_does_not_exist_is_one_line_and_free(tmp_path, publish, spark, monkeypatch):
    """In the session of all tests: another one would take longer than everything else here."""
    from pricdr.engines.spark.session import opened_session

    @contextmanager
    def shared(settings, given):
        with opened_session({}, spark) as session:
            yield session

    monkeypatch.setattr("pricdr.engines.spark.ratings.opened_session", shared)
    ledger = Ledger.create(tmp_path / "ledger", Guarantee(epsilon=20, delta=1e-5))
    done = publish("nowhere", "--out", "r", "--ledger", "ledger", *SPARK)
    assert done == (2, "error: Spark could not read nowhere: the path does not exist\n")
    assert not ledger.read().spends
    assert not (tmp_path / "r").exists()


def test_an_option_of_text_files_is_refused(publish):
    code, lines = publish("r", "--engine", "spark", *config(delimiter=";"), "--out", "release")
    assert (code, lines.count("\n")) == (2, 1)
    assert "delimiter is for files, and --engine spark reads" in lines
