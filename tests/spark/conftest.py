"""One Spark session per process: everything it writes (logs, events, web pages, local files) is in one folder."""

import shutil
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import polars as pl
import pytest

_NEEDED = {"pyspark": find_spec("pyspark"), "pandas": find_spec("pandas"), "Java": shutil.which("java")}
MISSING = next((f"{what} is missing (make system brings it)" for what, found in _NEEDED.items() if not found), None)
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
LOGGING = """
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %p %c: %m%n%ex
"""


def pytest_collection_modifyitems(items):
    """Mark tests that need Spark as slow, and skip them, with a reason, where Spark cannot run."""
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.slow)
            if MISSING is not None:
                item.add_marker(pytest.mark.skip(reason=MISSING))


@pytest.fixture(scope="session")
def traces(tmp_path_factory):
    """The folder with everything that Spark writes: its log, its events, its local files."""
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="session")
def settings(traces):
    """Settings for a session that keeps its traces, as a cluster may do."""
    for name in ("events", "local"):
        (traces / name).mkdir()
    (traces / "log4j2.properties").write_text(LOGGING.format(file=traces / "spark.log"))
    log4j = f"-Dlog4j2.configurationFile={(traces / 'log4j2.properties').as_uri()}"
    return {
        "spark.master": "local[2,2]",  # a task may fail once
        "spark.default.parallelism": "1",  # as few tasks as there can be: each costs more than what it computes here
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (traces / "events").as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.logBlockUpdates.enabled": "true",
        "spark.local.dir": str(traces / "local"),
        "spark.sql.warehouse.dir": (traces / "warehouse").as_uri(),
        "spark.log.level": "INFO",
        "spark.driver.extraJavaOptions": f"{QUICK_JAVA} {log4j}",
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.speculation": "true",
        "spark.sql.ui.explainMode": "extended",
    }


@pytest.fixture(scope="session")
def spark(settings):
    from pricdr.engines.spark.session import opened_session

    with opened_session(settings) as session:
        yield session


@pytest.fixture(scope="session")
def rows():
    """Ratings with repeated pairs, times, and ids whose order by bytes is not the obvious one."""
    rng = np.random.default_rng(16)
    n = 3000
    names = [f"{'uÜ𝒰'[k % 3]}{k}" for k in range(140)]
    return pl.DataFrame(
        {
            "user": [names[k] for k in rng.zipf(1.4, n) % len(names)],
            "item": [f"i{k}" for k in rng.zipf(1.3, n) % 50],
            "rating": rng.integers(1, 11, n) / 2,
            "timestamp": [None if k == 0 else k for k in rng.integers(0, 40, n).tolist()],
        }
    )


@pytest.fixture(scope="session")
def table(rows, tmp_path_factory):
    """The same ratings as a folder of Parquet files."""
    folder = tmp_path_factory.mktemp("ratings")
    for number, part in enumerate(rows.iter_slices(1100)):
        part.write_parquet(folder / f"part-{number}.parquet")
    return folder


@pytest.fixture(scope="session")
def users(rows):
    """A user list in its own order; some of its users have no ratings, and some users are not listed."""
    present = sorted(set(rows["user"].to_list()))[10:90]
    absent = [f"new {k}" for k in range(len(present))]
    return tuple(name for pair in zip(present[::-1], absent, strict=True) for name in pair)


@pytest.fixture(scope="session")
def items(rows):
    return (*(f"i{k}" for k in range(30, 0, -1)), "not rated by anybody")
