"""``pricdr serve`` and ``pricdr serving-key`` on the command line."""

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import urllib.request
from contextlib import nullcontext

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp

from pricdr.extras import SERVE
from pricdr.models.fitted import FittedModel, Origin


@pytest.fixture
def model(here):
    rng = np.random.default_rng(1)
    vectors = rng.integers(-3, 4, (50, 4)).astype(np.float32)
    users, items = tuple(f"u{at}" for at in range(20)), tuple(f"i{at}" for at in range(30))
    seen = sp.csr_array((rng.random((20, 30)) < 0.2).astype(np.float64))
    bias, covered = np.zeros(30, dtype=np.float32), np.arange(20) % 2 == 0
    FittedModel("bpr", users, items, vectors[:20], vectors[20:], bias, seen, covered, origin=Origin({}, None)).save("m")
    return here / "m"


@pytest.mark.parametrize("host", ["0.0.0.0", "example.org"])
def test_it_does_not_listen_beyond_this_machine_unless_told_so(pricdr, model, host):
    outcome = pricdr("serve", model, "--host", host)
    assert outcome.code == 2
    assert outcome.err == (
        f"error: --host {host} can be reached from other machines: put a proxy with TLS and limits in front "
        "(deploy/nginx.conf), or give --insecure-listen\n"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--keys", "nowhere.json"], "nowhere.json cannot be read: No such file"),
        (["--compare", "nowhere", "--port", "0"], "nowhere is not a model: no such folder"),
    ],
)
def test_it_does_not_start_with_what_cannot_be_used(refused, model, options, message):
    refused("serve", model, *options, says=message)


def test_no_progress_line_is_among_the_lines_of_json(pricdr, model, monkeypatch):
    """Each timer fires once, at once: a command that has one would write its line here."""
    monkeypatch.setattr("pricdr.progress.ticking", lambda tick, seconds: nullcontext(tick()))
    monkeypatch.setattr("pricdr.serving.server.serve", lambda *_, **__: None)
    outcome = pricdr("serve", model)
    assert (outcome.code, outcome.err) == (0, "")


def test_a_port_in_use_is_refused(refused, model):
    with socket.create_server(("127.0.0.1", 0)) as occupied:
        port = occupied.getsockname()[1]
        refused("serve", model, "--port", port, says=f"cannot listen on 127.0.0.1 port {port}: Address already in use")


def test_keys_are_created_shown_once_and_removed(pricdr, here):
    created = pricdr(
        "serving-key", "shop", "--keys", "keys.json", "--scope", "recommend", "--scope", "page", "--days", 30
    )
    assert created.code == 0
    assert re.fullmatch(r"shop\.[A-Za-z0-9_-]{43}\n", created.out)
    record = json.loads((here / "keys.json").read_text())["shop"]
    assert record["scopes"] == ["page", "recommend"]
    assert stat.S_IMODE((here / "keys.json").stat().st_mode) == 0o600
    assert "already" in pricdr("serving-key", "shop", "--keys", "keys.json").err
    assert pricdr("serving-key", "other", "--keys", "keys.json").code == 0
    assert pricdr("serving-key", "shop", "--keys", "keys.json", "--remove").code == 0
    assert list(json.loads((here / "keys.json").read_text())) == ["other"]
    assert "no key named 'shop'" in pricdr("serving-key", "shop", "--keys", "keys.json", "--remove").err
    for wrong in (["--days", 0], ["--days", 10**9], ["--remove", "--days", 1]):
        assert pricdr("serving-key", "third", "--keys", "keys.json", *wrong).code == 2


def test_without_the_extra_it_says_what_to_install(model):
    code = (
        "import sys\nsys.modules['uvicorn'] = None\nfrom pricdr import cli\n"
        f"sys.exit(cli.run(['serve', {str(model)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == f"error: servers need uvicorn: {SERVE.command}\n"


def test_it_serves_what_recommend_writes_without_torch_until_stopped(pricdr, model, here):
    assert pricdr("recommend", model, "--out", "all.parquet", "-k", 5).code == 0
    code = (
        "import sys\nsys.modules['torch'] = None\nfrom pricdr.cli import main\n"
        f"sys.argv = ['pricdr', 'serve', {str(model)!r}, '--port', '0', '--no-log-requests']\nmain()"
    )
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    try:
        lines = [process.stdout.readline() for _ in range(2)]
        assert lines[0].endswith("/m: 20 users, 30 items\n")
        address = re.search(r"http://127\.0\.0\.1:\d+", lines[1])[0]
        rows = []
        for user in (f"u{at}" for at in range(20)):
            with urllib.request.urlopen(f"{address}/users/{user}/recommendations?k=5") as response:
                body = json.load(response)
            rows += [(user, item["item"], item["score"], item["rank"], body["basis"]) for item in body["items"]]
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()
    assert rows == pl.read_parquet("all.parquet").rows()
    assert (process.returncode, out) == (0, "stopped\n")
    assert [json.loads(line)["event"] for line in err.splitlines()] == ["serving", "stopped"]
