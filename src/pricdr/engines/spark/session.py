"""The Spark session that computes a release, and its exceptions in one line, without Java stack traces."""

import logging
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, cast

from pricdr.data.reading.text_files import shorten
from pricdr.errors import EngineError, InputFileError, ParameterError
from pricdr.extras import SPARK
from pricdr.memory import memory_limit
from pricdr.parallel import cores

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MASTER: Final = "spark.master"
_ALWAYS: Final = {
    "spark.app.name": "pricdr publish",
    # What Spark writes to local disks (shuffles, spilled blocks, broadcasts) is as secret as the ratings.
    "spark.io.encryption.enabled": "true",
    "spark.io.encryption.keySizeBits": "256",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
}
_LOCAL: Final = {
    **dict.fromkeys(("spark.driver.host", "spark.driver.bindAddress"), "127.0.0.1"),
    "spark.ui.enabled": "false",
}
_CLUSTER: Final = {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}
_SQL: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    # Lists of up to a million ids go to every executor, so that rows need not be shuffled for the joins.
    "spark.sql.autoBroadcastJoinThreshold": "32m",
    # user=007 in the name of a folder is text: ids are kept byte for byte.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
}

_PY4J_LOGGERS: Final = ("py4j.clientserver", "py4j.java_gateway")
"""At DEBUG they write everything that goes to Java, whole functions included, which hold keys."""
_QUERY_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""They write exceptions of queries to standard error, and these may quote a value."""


@contextmanager
def opened_session(settings: Mapping[str, str], given: "SparkSession | None" = None) -> Iterator["SparkSession"]:
    """Yield a session with its own SQL settings, without Python's logs of it; one that is ``given`` is left running."""
    SPARK.require()  # pyspark's Arrow functions require pandas
    with ExitStack() as lifetime:
        if given is None:
            given = lifetime.enter_context(_created(settings))
        elif settings:
            raise ParameterError("settings apply to a session that pricdr creates, not to one that is given")
        elif not hasattr(given, "_jvm"):
            raise ParameterError("a Spark Connect session cannot run this: give one that has a Spark context")
        from pyspark.logger import PySparkLogger

        for logger in (*map(logging.getLogger, _PY4J_LOGGERS), *map(PySparkLogger.getLogger, _QUERY_LOGGERS)):
            if not logger.disabled:
                logger.disabled = True
                lifetime.callback(setattr, logger, "disabled", False)
        _require_private(given)
        own = given.newSession()  # of the same context and catalogue
        for name, value in _SQL.items():
            own.conf.set(name, value)
        yield own


@contextmanager
def persisted(frame: "DataFrame", level: str) -> Iterator["DataFrame"]:
    """Keep a frame on executors, in the place that Spark calls ``level``, while the block runs."""
    from pyspark import StorageLevel

    kept = frame.persist(getattr(StorageLevel, level))
    try:
        yield kept
    finally:
        with suppress(Exception):  # Java may be gone, and the exception that says why is already being raised
            kept.unpersist()


def parse_settings(given: Sequence[str]) -> dict[str, str]:
    """Return the settings that were given as NAME=VALUE."""
    settings: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not re.fullmatch(r"spark\.[A-Za-z0-9_.-]{1,200}", name):
            # The value may be a password: it is never shown.
            raise ParameterError(f"spark-conf must read spark.NAME=VALUE, got the name {shorten(name)}")
        settings[name] = value
    return settings


def is_local(master: str) -> bool:
    """Return whether driver and executors are on this machine: ``local[2,4]``, or ``local-cluster[2,1,1024]``."""
    return re.match(r"local($|\[|-cluster\[)", master) is not None


@contextmanager
def _created(settings: Mapping[str, str]) -> Iterator["SparkSession"]:
    """Start Spark in a Java process of its own, which ends with the block."""
    with explained("start"):
        from pyspark import SparkConf, SparkContext
        from pyspark.java_gateway import launch_gateway
        from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is not None:
        raise ParameterError("a Spark context is already running in this process: pass its session")
    # Executors on this machine must use the Python that runs here.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # A task whose worker process dies is retried, as on a cluster.
    master = settings.get(MASTER) or f"local[{cores()},4]"
    # Blocks and shuffles of a local master are in this Java process; Python workers need memory besides.
    memory = {"spark.driver.memory": f"{max(1024, memory_limit() // 2 >> 20)}m"}
    own = {**_ALWAYS, **({**_LOCAL, **memory} if is_local(master) else _CLUSTER), **settings, MASTER: master}
    conf = SparkConf().setAll([*own.items()])
    # Java's output would fill the screen; what matters of it comes back as an exception.
    quiet = subprocess.DEVNULL if own["spark.log.level"] == "OFF" else None
    with explained("start"):
        gateway = cast(Any, launch_gateway)(conf=conf, popen_kwargs={"stdout": quiet, "stderr": quiet})
    session = None
    try:
        with explained("start"):
            session = SparkSession(SparkContext(conf=conf, gateway=gateway))
        yield session
    finally:  # pyspark itself would keep the Java process until the program ends
        with suppress(Exception):  # Java may be gone, and the exception that says why is already being raised
            if session is not None:
                session.stop()
        gateway.shutdown()
        if process := getattr(gateway, "proc", None):
            process.stdin.close()
            process.wait()
        SparkContext._gateway = SparkContext._jvm = None


def _require_private(session: "SparkSession") -> None:
    """Refuse a session that would write or send ratings and keys unencrypted."""
    conf = session.sparkContext.getConf()
    on = {name for name, value in conf.getAll() if value.lower() == "true"}
    master, crypto = conf.get(MASTER) or "", {"spark.network.crypto.enabled", "spark.ssl.rpc.enabled"}
    would = f"Spark at {shorten(master)} would"
    if "spark.io.encryption.enabled" not in on:
        rule = "set spark.io.encryption.enabled to true"
        raise ParameterError(f"{would} write ratings to local disks unencrypted: {rule}")
    if not is_local(master) and not ("spark.authenticate" in on and on & crypto):
        rule = "set spark.authenticate and spark.network.crypto.enabled to true"
        raise ParameterError(f"{would} send ratings and keys over the network unencrypted: {rule}")


_CONDITIONS: Final = {
    "PATH_NOT_FOUND": "the path does not exist",
    "TABLE_OR_VIEW_NOT_FOUND": "there is no such table",
    "UNABLE_TO_INFER_SCHEMA": "there is no Parquet file in it",
}
"""Spark's names of error conditions, and our words for them. They quote nothing, so logs may show them."""
_CAUSES: Final = {
    "JAVA_GATEWAY_EXITED": (
        "Java 17 or later is needed, and it is missing or ended at once: install it (default-jre-headless on "
        "Debian), or point JAVA_HOME at it"
    ),
    r"ExecutorLostFailure \(executor (\S+)[^)]*\)(?: Reason: ([^\n]{0,200}))?": r"executor \1 was lost: \2",
    r"crashed|EOFException": "a Python process on an executor died silently (does it have enough memory?)",
    r"No module named '([\w.]+)'": r"\1 is not installed on the executors",
}


@contextmanager
def explained(doing: str) -> Iterator[None]:
    """Turn exceptions of Spark into one :class:`EngineError`; ``doing`` follows "Spark could not" in its message."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        with warnings.catch_warnings():
            # Of versions of pandas, which is not used here, and of its own open sockets.
            warnings.filterwarnings("ignore", category=FutureWarning, message="PySpark does not yet fully support")
            warnings.filterwarnings("ignore", category=ResourceWarning)
            yield
    except (Py4JError, PySparkException, ConnectionError) as error:
        if known := next((words for name, words in _CONDITIONS.items() if f"[{name}" in str(error)), None):
            raise InputFileError(f"Spark could not {doing}", known) from error
        raise EngineError(f"Spark could not {doing}", _cause(str(error) or type(error).__name__)) from error


def _cause(text: str) -> str:
    tries = re.search(r"failed (\d+) times?, most recent failure: ", text)
    found = (known.expand(words) for pattern, words in _CAUSES.items() if (known := re.search(pattern, text)))
    if not (reason := next(found, None)):
        # The first exception is the outermost; of a task's, the last is what its own code raised.
        inside = re.findall(r"^(?:[\w.]+\.)?(\w+(?:Error|Exception|Tag)\b[^\n]{0,300})", text, re.MULTILINE)
        reason = inside[-1 if tries else 0] if inside else text.split("\n", 1)[0]
    reason = shorten(reason, 300).strip("'\": ")
    return f"a task failed {tries[1]} times, the last time because {reason}" if tries else reason
