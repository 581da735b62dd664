"""Processes that die in the middle: the same bytes after a retry, one line and an honest ledger without one."""

import hashlib
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest

import pricdr
import pricdr.engines.spark.blocks as spark_blocks
from pricdr import Guarantee, Ledger, Ratings, publish
from pricdr.engines.spark import open_ratings
from pricdr.errors import EngineError
from pricdr.strategies import JLT, Spectral

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs /proc, to find the process to end"),
]
PROMISE = Guarantee(epsilon=6, delta=1e-6)
MORTAL = Path(__file__).parent / "mortal_works.py"


@pytest.fixture
def dying(spark, monkeypatch):
    """Let the works of one job die; jobs are counted from 0."""
    spark.sparkContext.addPyFile(str(MORTAL))
    from mortal_works import Mortal

    honest = spark_blocks.dispatched

    def let(job, marker, how):
        jobs = iter(range(1000))

        @contextmanager
        def dispatched(context, parts):
            work, *others = parts
            work = Mortal(work, marker, how) if next(jobs) == job else work
            with honest(context, (work, *others)) as message:
                yield message

        monkeypatch.setattr(spark_blocks, "dispatched", dispatched)

    return let


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "ledger", Guarantee(epsilon=20, delta=1e-5))


SUM, ROWS = (Spectral(dim=1), 1, "exit"), (JLT(dim=4), 0, "killed")


@pytest.mark.parametrize(("strategy", "job", "how"), [SUM, ROWS], ids=["in a sum", "in rows"])
def test_a_worker_that_dies_once_changes_no_bit(rows, table, spark, dying, tmp_path, strategy, job, how):
    expected = publish(Ratings.of(rows), PROMISE, strategy=strategy, insecure_seed=5)
    dying(job, str(tmp_path / "died"), how)
    with open_ratings(str(table), session=spark) as reading:
        release = publish(reading.ratings, PROMISE, strategy=strategy, insecure_seed=5)
    assert (tmp_path / "died").exists()
    assert release.matrix.tobytes() == expected.matrix.tobytes()


def test_after_the_spend_a_failure_says_that_it_is_spent(table, spark, dying, ledger):
    dying(0, None, "exit")
    with (
        open_ratings(str(table), session=spark) as reading,
        pytest.raises(EngineError, match=r"a task failed 2 times.*stays spent in the ledger") as refused,
    ):
        publish(reading.ratings, PROMISE, strategy="jlt", ledger=ledger)
    assert "\n" not in str(refused.value)
    assert "at org.apache" not in str(refused.value)
    assert len(ledger.read().spends) == 1


def test_before_the_spend_a_failure_leaves_the_ledger_as_it_was(table, spark, ledger, users, monkeypatch):
    with open_ratings(str(table), session=spark) as reading:

        def doomed(*_, **__):
            def pack(batches):
                os._exit(1)

            return pack

        monkeypatch.setattr("pricdr.engines.spark.ratings._pack_task", doomed)
        with pytest.raises(
            EngineError, match=r"could not sort the ratings into blocks of users: a task failed 2 times"
        ):
            publish(reading.ratings, PROMISE, users=users, ledger=ledger)
    assert not ledger.read().spends


@pytest.mark.parametrize("changed", [False, True], ids=["the same rows", "other rows"])
def test_blocks_that_are_lost_after_the_spend_are_computed_from_the_same_rows_or_refused(
    rows, spark, ledger, tmp_path, monkeypatch, changed
):
    """Two results of different ratings under the same noise would differ by the ratings themselves."""
    rows.write_parquet(tmp_path / "r.parquet")
    with open_ratings(str(tmp_path / "r.parquet"), session=spark) as reading:
        given, honest = reading.ratings, spark_blocks.SparkMatrix.rows

        def lose_all(self, *arguments, **options):
            if changed:
                least = rows.group_by("user", "item").len().sort("len", "user", "item").row(0)
                fewer = rows.filter((pl.col("user") != least[0]) | (pl.col("item") != least[1]))
                fewer.write_parquet(tmp_path / "r.parquet")  # one entry less
                spark.catalog.refreshByPath(str(tmp_path / "r.parquet"))
            given.source.lifetime.close()
            return honest(self, *arguments, **options)

        monkeypatch.setattr(spark_blocks.SparkMatrix, "rows", lose_all)
        if not changed:
            expected = publish(Ratings.of(rows), PROMISE, strategy="jlt", insecure_seed=5)
            release = publish(given, PROMISE, strategy="jlt", insecure_seed=5)
            assert release.matrix.tobytes() == expected.matrix.tobytes()
            return
        with pytest.raises(EngineError, match=r"recomputed from different rows.*stays spent"):
            publish(given, PROMISE, strategy="jlt", ledger=ledger)


CLUSTER = """
import hashlib, sys
import pricdr.engines.spark.blocks as matrix
from contextlib import contextmanager
from pricdr import Guarantee, publish
from pricdr.engines.spark import open_ratings
from pricdr.engines.spark.session import opened_session
table, marker, mortal, java = sys.argv[1:]
settings = {"spark.master": "local-cluster[2,1,1024]", "spark.executor.extraJavaOptions": java,
            "spark.driver.extraJavaOptions": java, "spark.default.parallelism": "2", "spark.speculation": "true",
            "spark.executor.memory": "1024m"}
with opened_session(settings) as session:
    session.sparkContext.addPyFile(mortal)
    from mortal_works import Mortal
    honest, jobs = matrix.dispatched, iter(range(1000))
    @contextmanager
    def dispatched(context, parts):
        work, *others = parts
        with honest(context, (Mortal(work, marker, "executor") if next(jobs) == 0 else work, *others)) as message:
            yield message
    matrix.dispatched = dispatched
    with open_ratings(table, session=session) as reading:
        release = publish(reading.ratings, Guarantee(epsilon=6, delta=1e-6), strategy="jlt", insecure_seed=5)
sys.stdout.write(hashlib.sha256(release.matrix.tobytes()).hexdigest())
"""


def test_an_executor_killed_in_the_middle_changes_no_bit(rows, table, tmp_path):
    """Two executors in Java processes of their own; one of them ends, with the blocks that it kept."""
    from tests.spark.conftest import QUICK_JAVA

    marker = tmp_path / "died"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CLUSTER, str(table), str(marker), str(MORTAL), QUICK_JAVA],
        env={**os.environ, "PYTHONPATH": str(Path(pricdr.__file__).parent.parent)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert marker.exists()
    expected = publish(Ratings.of(rows), PROMISE, strategy="jlt", insecure_seed=5)
    assert done.stdout == hashlib.sha256(expected.matrix.tobytes()).hexdigest()
