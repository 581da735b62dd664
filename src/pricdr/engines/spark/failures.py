"""What Spark throws, in one line: no Java on the screen."""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from pricdr.data.reading.text_files import shorten
from pricdr.errors import EngineError, InputError, PriCDRError

_CONDITIONS = {
    "PATH_NOT_FOUND": "the path does not exist",
    "TABLE_OR_VIEW_NOT_FOUND": "there is no such table",
    "UNABLE_TO_INFER_SCHEMA": "there is no Parquet file in it",
    "JAVA_GATEWAY_EXITED": "Java ended at once; Spark needs Java 17 or later",
}
"""Spark's own names of what went wrong, in our words."""


@contextmanager
def without_warnings() -> Iterator[None]:
    """Silence what pyspark says of versions of pandas, which is not used here, and of sockets that it leaves open."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=FutureWarning, message="PySpark does not yet fully support pandas")
        warnings.filterwarnings("ignore", category=ResourceWarning)
        yield


@contextmanager
def explained(doing: str) -> Iterator[None]:
    """Turn what Spark throws into one :class:`EngineError`; what it could not do follows "Spark could not"."""
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
            raise InputError(f"Spark could not {doing}: {condition}") from error
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
        why = f"executor {lost[1]} was lost" + (f" ({lost[2].strip()})" if lost[2] else "")
    elif "crashed" in text or "EOFException" in text:
        why = "a Python process on an executor ended without a word (is its memory enough?)"
    elif "No module named" in text:
        missing = re.search(r"No module named '([\w.]+)'", text)
        why = f"{missing[1] if missing else 'a module'} is not installed on the executors"
    elif inside:
        why = inside[-1] if tries else inside[0]
    else:
        why = text.split("\n", 1)[0] or type(error).__name__
    why = shorten(why, 300).strip("'\"")
    return f"a task failed {tries[1]} times, the last time because {why}" if tries else why
