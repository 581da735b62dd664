"""What Spark writes and shows while a release is made: neither its keys nor a wrapping key, anywhere."""

import io
import json
import logging
import re
import threading
import urllib.request
from contextlib import suppress

import pytest

import pricdr.engines.spark.blocks as spark_blocks
from pricdr import Guarantee, publish, randomness
from pricdr.engines.spark import open_ratings
from pricdr.strategies import Spectral
from tests.spark.key_search import KeySearch

pytestmark = pytest.mark.spark
PAGES = ("jobs/", "stages/", "storage/", "environment/", "executors/", "SQL/")
REST = ("jobs", "executors", "environment", "storage/rdd")


@pytest.fixture(scope="module")
def release(spark, table, traces, users):
    """Make a private release with every log on, and look at Spark's local files while it is made."""
    search, plans, files = KeySearch(), [], {}
    before = {file: file.stat().st_size for file in _written(traces)}
    patch = pytest.MonkeyPatch()
    make_key, collect = randomness._Key.__init__, spark_blocks._collected

    def remember_key(self, content):
        search.add(content)
        make_key(self, content)

    def record_plan(frame, size):
        plans.append(frame._jdf.queryExecution().toString())
        return collect(frame, size)

    patch.setattr(randomness._Key, "__init__", remember_key)
    patch.setattr(spark_blocks, "_collected", record_plan)
    over = threading.Event()

    def watch():
        while not over.wait(0.1):
            for file in (traces / "local").rglob("*"):
                with suppress(OSError):  # files may disappear
                    if file.is_file():
                        files[file.name] = file.read_bytes()

    log = io.StringIO()
    handler, gateway = logging.StreamHandler(log), logging.getLogger("py4j")
    gateway.addHandler(handler)
    patch.setattr(gateway, "level", logging.DEBUG)
    for name in ("clientserver", "java_gateway"):  # as in a session of the caller
        patch.setattr(gateway.getChild(name), "disabled", False)
    gateway.manager._clear_cache()
    spark.range(1).count()
    assert "Command to send" in log.getvalue()
    watcher = threading.Thread(target=watch)
    watcher.start()
    spark.sparkContext.setLogLevel("DEBUG")
    try:
        with open_ratings(str(table), session=spark, users=users) as reading:
            publish(reading.ratings, Guarantee(epsilon=4, delta=1e-6), users=users, strategy=Spectral(dim=2))
    finally:
        spark.sparkContext.setLogLevel("INFO")
        over.set()
        watcher.join()
        gateway.removeHandler(handler)
        patch.undo()
        gateway.manager._clear_cache()
    files["Python's log of py4j"] = log.getvalue().encode()
    assert len(search.keys) > 20, "the release key, those of its streams, one for every job"
    new = {file: file.read_bytes()[before.get(file, 0) :] for file in _written(traces)}
    return search, plans, files, new


def _written(traces):
    return [traces / "spark.log", *(file for file in (traces / "events").rglob("*") if file.is_file())]


def test_plans_logs_events_and_local_files(release):
    search, plans, files, new = release
    assert any("MapInArrow rows" in plan for plan in plans)
    assert any(name.startswith(("broadcast", "shuffle", "rdd", "temp", "tmp")) for name in files), sorted(files)[:20]
    assert any(b" DEBUG " in content for content in new.values())
    assert any(b"SparkListenerJobStart" in content for content in new.values())
    plan = {"plans": "\n".join(plans).encode()}
    assert not [name for name, content in {**plan, **files, **new}.items() if search.found_in(content)]
    assert not [name for name, content in {**plan, **new}.items() if "𝒰".encode() in content], "an id"


def test_web_pages_and_what_programs_may_ask(release, spark):
    search, *_ = release
    address, application = spark.sparkContext.uiWebUrl, spark.sparkContext.applicationId
    assert address.startswith("http://127.0.0.1:")

    def fetched(path):
        with urllib.request.urlopen(f"{address}/{path}", timeout=60) as answer:
            return answer.read()

    pages = {path: fetched(path) for path in PAGES}
    rest = f"api/v1/applications/{application}"
    queries = json.loads(fetched(f"{rest}/sql?details=false&length=100000"))
    paths = (*REST, f"sql?details=true&offset={max(0, len(queries) - 30)}&length=30")
    answers = {path: fetched(f"{rest}/{path}") for path in paths}
    last, stage = queries[-1]["id"], json.loads(fetched(f"{rest}/stages"))[0]["stageId"]
    answers["stage"] = fetched(f"{rest}/stages/{stage}?details=true")
    pages |= {
        path: fetched(path) for path in (f"SQL/execution/?id={last}", "jobs/job/?id=1", "stages/stage/?id=1&attempt=0")
    }
    assert re.search(rb"MapInArrow", pages[f"SQL/execution/?id={last}"])
    for path, content in {**pages, **answers}.items():
        assert not search.found_in(content), path
