"""The Spark session that computes a release, and its exceptions in one line, without Java stack traces."""

import os
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from pricdr.data.reading.text_files import shorten
from pricdr.errors import EngineError, InputFileError, ParameterError, PriCDRError
from pricdr.extras import SPARK
from pricdr.memory import memory_limit
from pricdr.parallel import cores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER: Final = "spark.master"
BATCH: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
"""The number of rows that a function on an executor gets at a time."""
SHUFFLES: Final = "spark.sql.shuffle.partitions"
CACHED_BATCH: Final = "spark.sql.inMemoryColumnarStorage.batchSize"
"""The number of rows that are persisted in one piece."""
_DEFAULT_MASTER: Final = "local[*]"
_ALWAYS: Final = {
    "spark.app.name": "pricdr publish",
    # What Spark writes to local disks (shuffles, spilled blocks, broadcasts) is as secret as the ratings.
    "spark.io.encryption.enabled": "true",
    "spark.io.encryption.keySizeBits": "256",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.executorEnv.OMP_NUM_THREADS": "1",
    "spark.executorEnv.OPENBLAS_NUM_THREADS": "1",
    "spark.executorEnv.POLARS_MAX_THREADS": "1",
}
_LOCAL: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
}
_CLUSTER: Final = {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}
_SQL: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    # user=007 in the name of a folder is text: ids are kept byte for byte.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    BATCH: str(1 << 16),
}


def require_spark() -> None:
    """Refuse in one line if pyspark or Java is missing; nothing is imported."""
    SPARK.require()  # pyspark's Arrow functions require pandas
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java") is None and not (home and (Path(home) / "bin" / "java").is_file()):
        raise EngineError(
            "--engine spark needs Java 17 or later, and there is none: install it (default-jre-headless on Debian), "
            "or point JAVA_HOME at it"
        )


@contextmanager
def opened_session(settings: Mapping[str, str], given: "SparkSession | None" = None) -> Iterator["SparkSession"]:
    """Yield a session with its own SQL settings; a context that is created here is stopped at the end.

    Args:
        settings: settings of Spark, such as ``spark.master``; they override our defaults.
        given: a session of the caller, whose context is used and left running.
    """
    require_spark()
    with without_warnings():
        import pyspark.sql.functions  # noqa: F401
    if given is None:
        with _created(settings) as created, opened_session({}, created) as own:
            yield own
        return
    if settings:
        raise ParameterError("settings apply to a session that pricdr creates, not to one that is given")
    if not hasattr(given, "_jvm"):
        raise ParameterError("a Spark Connect session cannot run this: give one that has a Spark context")
    _require_private(given)
    own = given.newSession()  # of the same context and catalogue
    for name, value in {**_SQL, SHUFFLES: str(2 * n_cores(own))}.items():
        own.conf.set(name, value)
    yield own


def parse_settings(given: Sequence[str]) -> dict[str, str]:
    """Return the settings that were given as NAME=VALUE.

    >>> parse_settings(["spark.master=local[2]"])
    {'spark.master': 'local[2]'}
    """
    settings: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not re.fullmatch(r"spark\.[A-Za-z0-9_.-]{1,200}", name):
            # The value may be a password: it is never shown.
            raise ParameterError(f"spark-conf must read spark.NAME=VALUE, got the name {shorten(name)}")
        settings[name] = value
    return settings


def is_local(master: str) -> bool:
    """Return whether driver and executors are on this machine.

    >>> is_local("local[2,4]"), is_local("local-cluster[2,1,1024]"), is_local("yarn")
    (True, True, False)
    """
    return re.match(r"local($|\[|-cluster\[)", master) is not None


def master_of(session: "SparkSession") -> str:
    """Return what a session runs on, such as ``local[2]`` or ``yarn``."""
    return session.sparkContext.getConf().get(MASTER, "") or ""


def n_cores(session: "SparkSession") -> int:
    """Return how many tasks run at a time, as far as Spark knows."""
    return max(1, int(session.sparkContext.defaultParallelism))


@contextmanager
def setting(session: "SparkSession", name: str, value: str) -> Iterator[None]:
    """Change one of the session's SQL settings until the block ends."""
    before = session.conf.get(name) or ""
    session.conf.set(name, value)
    try:
        yield
    finally:
        session.conf.set(name, before)


@contextmanager
def _created(settings: Mapping[str, str]) -> Iterator["SparkSession"]:
    """Start Spark in a Java process of its own, which ends with the block."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is not None:
        raise ParameterError("a Spark context is already running in this process: pass its session")
    # Executors on this machine must use the Python that runs here.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf()
    master = settings.get(MASTER) or conf.get(MASTER, _DEFAULT_MASTER) or _DEFAULT_MASTER
    own = {**_ALWAYS, **(_LOCAL if is_local(master) else _CLUSTER)}
    if is_local(master):  # blocks and shuffles are in this Java process; Python workers need memory besides
        own["spark.driver.memory"] = f"{max(1024, memory_limit() // 2 >> 20)}m"
    # Settings in spark-defaults.conf take precedence over ours; less privacy than ours is refused later.
    for name, value in {**{name: value for name, value in own.items() if not conf.contains(name)}, **settings}.items():
        conf.set(name, value)
    # A task whose worker process dies is retried, as on a cluster.
    conf.set(MASTER, f"local[{cores()},4]" if master == _DEFAULT_MASTER else master)
    # Java's output would fill the screen; what matters of it comes back as an exception.
    quiet = subprocess.DEVNULL if conf.get("spark.log.level") == "OFF" else None
    with explained("start"):
        gateway = cast(Any, launch_gateway)(conf=conf, popen_kwargs={"stdout": quiet, "stderr": quiet})
    try:
        with explained("start"):
            session = SparkSession(SparkContext(conf=conf, gateway=gateway))
        try:
            yield session
        finally:
            with suppress(Exception):  # Java may be gone, and the exception that says why is already being raised
                session.stop()
    finally:  # pyspark itself would keep the Java process until the program ends
        gateway.shutdown()
        if process := getattr(gateway, "proc", None):
            process.stdin.close()
            process.wait()
        SparkContext._gateway = SparkContext._jvm = None


def _require_private(session: "SparkSession") -> None:
    """Refuse a session that would write or send ratings and keys unencrypted."""
    conf = session.sparkContext.getConf()

    def on(name: str) -> bool:
        return (conf.get(name, "false") or "").lower() == "true"

    if not on("spark.io.encryption.enabled"):
        raise ParameterError(
            "Spark would write ratings to local disks unencrypted: set spark.io.encryption.enabled to true"
        )
    master = master_of(session)
    if is_local(master):
        return
    if not (on("spark.authenticate") and (on("spark.network.crypto.enabled") or on("spark.ssl.rpc.enabled"))):
        raise ParameterError(
            f"Spark at {shorten(master)} would send ratings and keys over the network unencrypted: set "
            "spark.authenticate and spark.network.crypto.enabled to true"
        )


_CONDITIONS = {
    "PATH_NOT_FOUND": "the path does not exist",
    "TABLE_OR_VIEW_NOT_FOUND": "there is no such table",
    "UNABLE_TO_INFER_SCHEMA": "there is no Parquet file in it",
    "JAVA_GATEWAY_EXITED": "Java ended at once; Spark needs Java 17 or later",
}
"""Spark's names of error conditions, and our words for them. They quote nothing, so logs may show them."""


@contextmanager
def without_warnings() -> Iterator[None]:
    """Silence pyspark's warnings about versions of pandas, which is not used here, and about its open sockets."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=FutureWarning, message="PySpark does not yet fully support pandas")
        warnings.filterwarnings("ignore", category=ResourceWarning)
        yield


@contextmanager
def explained(doing: str) -> Iterator[None]:
    """Turn exceptions of Spark into one :class:`EngineError`; ``doing`` follows "Spark could not" in its message."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        with without_warnings():
            yield
    except PriCDRError:
        raise
    except (Py4JError, PySparkException, ConnectionError) as error:
        if known := next((words for name, words in _CONDITIONS.items() if f"[{name}" in str(error)), None):
            raise InputFileError(f"Spark could not {doing}", known) from error
        raise EngineError(f"Spark could not {doing}", _cause(error)) from error


def _cause(error: Exception) -> str:
    text = str(error)
    tries = re.search(r"failed (\d+) times?, most recent failure: ", text)
    lost = re.search(r"ExecutorLostFailure \(executor (\S+)[^)]*\)(?: Reason: ([^\n]{0,200}))?", text)
    inside = re.findall(r"^(?:[\w.]+\.)?(\w+(?:Error|Exception|Tag)\b[^\n]{0,300})", text, re.MULTILINE)
    if lost is not None:
        reason = f"executor {lost[1]} was lost" + (f" ({lost[2].strip()})" if lost[2] else "")
    elif "crashed" in text or "EOFException" in text:
        reason = "a Python process on an executor died silently (does it have enough memory?)"
    elif missing := re.search(r"No module named '([\w.]+)'", text):
        reason = f"{missing[1]} is not installed on the executors"
    elif inside:
        reason = inside[-1] if tries else inside[0]
    else:
        reason = text.split("\n", 1)[0] or type(error).__name__
    reason = shorten(reason, 300).strip("'\"")
    return f"a task failed {tries[1]} times, the last time because {reason}" if tries else reason
