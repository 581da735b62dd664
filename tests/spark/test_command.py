"""``pricdr publish --engine spark`` as its users run it: in its own process, with one release folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import pricdr
from pricdr import Guarantee, Ledger
from tests.alignment.records import SESSION, write_list
from tests.settings import config
from tests.spark.conftest import QUICK_JAVA

PROMISE = ("--epsilon", "4", "--delta", "1e-6")
LOCAL = "spark.master=local[2]"
JAVA = f"spark.driver.extraJavaOptions={QUICK_JAVA}"
SPARK = ("--engine", "spark", *config(spark_conf=[LOCAL, JAVA, "spark.default.parallelism=1"]))


def run(folder, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "pricdr", "publish", *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(pricdr.__file__).parent.parent)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.spark
def test_the_folder_is_the_one_that_memory_gives(rows, table, users, tmp_path):
    write_list(tmp_path / "users.txt", users)
    rows.write_parquet(tmp_path / "all.parquet")
    options = (*PROMISE, "--users", "users.txt", "--insecure-seed", "3", "--strategy", "jlt", "--dim", "8")
    options += ("--values", "--rating-bound", "4", "--rating-step", "1")
    memory = run(tmp_path, "all.parquet", *options, "--out", "memory")
    assert memory.returncode == 0, memory.stderr
    done = run(tmp_path, table, *options, "--out", "spark", *SPARK)
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
def test_a_path_that_does_not_exist_is_one_line_and_free(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger", Guarantee(epsilon=20, delta=1e-5))
    done = run(tmp_path, "nowhere", *PROMISE, "--out", "r", "--ledger", "ledger", *SPARK)
    assert done.returncode == 2
    assert done.stderr == "error: Spark could not read nowhere: the path does not exist\n"
    assert not ledger.read().spends
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("r.csv", *config(spark_conf=[LOCAL])), "spark-conf is for --engine spark"),
        (("s3://bucket/r.parquet",), "s3:// is not supported"),
        (
            ("r", "--engine", "spark", *config(delimiter=";")),
            "delimiter is for files, and --engine spark reads",
        ),
    ],
    ids=["settings of another engine", "an address for another engine", "an option of text files"],
)
def test_options_that_do_not_fit_are_refused(tmp_path, arguments, says):
    done = run(tmp_path, *arguments, *PROMISE, "--out", "release")
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
