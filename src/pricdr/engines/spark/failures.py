"""Turn exceptions of Spark into one line, without Java stack traces."""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from pricdr.data.reading.text_files import shorten
from pricdr.errors import EngineError, InputFileError, PriCDRError

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
        condition = _condition(error)
        if condition is not None:
            raise InputFileError(f"Spark could not {doing}", condition) from error
        raise EngineError(f"Spark could not {doing}", _cause(error)) from error


def _condition(error: Exception) -> str | None:
    text = str(error)
    return next((words for name, words in _CONDITIONS.items() if f"[{name}" in text), None)


def _cause(error: Exception) -> str:
    text = str(error)
    tries = re.search(r"failed (\d+) times?, most recent failure: ", text)
    lost = re.search(r"ExecutorLostFailure \(executor (\S+)[^)]*\)(?: Reason: ([^\n]{0,200}))?", text)
    inside = re.findall(r"^(?:[\w.]+\.)?(\w+(?:Error|Exception|Tag)\b[^\n]{0,300})", text, re.MULTILINE)
    if lost is not None:
        reason = f"executor {lost[1]} was lost" + (f" ({lost[2].strip()})" if lost[2] else "")
    elif "crashed" in text or "EOFException" in text:
        reason = "a Python process on an executor died silently (does it have enough memory?)"
    elif "No module named" in text:
        missing = re.search(r"No module named '([\w.]+)'", text)
        reason = f"{missing[1] if missing else 'a module'} is not installed on the executors"
    elif inside:
        reason = inside[-1] if tries else inside[0]
    else:
        reason = text.split("\n", 1)[0] or type(error).__name__
    reason = shorten(reason, 300).strip("'\"")
    return f"a task failed {tries[1]} times, the last time because {reason}" if tries else reason
