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

import polars as pl
import pytest

from pricdr.extras import SERVE
from pricdr.files import only_run
from tests.serving.conftest import small_model


@pytest.fixture
def model(here):
    small_model().save(here / "m")
    return here / "m"


BEYOND = "{} can be reached from other machines: put a proxy with TLS and limits in front (deploy/nginx.conf), or give "


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--host", "0.0.0.0"], BEYOND.format("error: --host 0.0.0.0") + "--insecure-listen\n"),
        (["--host", "example.org"], BEYOND.format("error: --host example.org") + "--insecure-listen\n"),
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
    assert pricdr("serving-key", "shop", "--keys", "new/keys.json").code == 0
    before = (here / "keys.json").read_bytes()
    with only_run(here / "keys.json", ""):
        busy = pricdr("serving-key", "third", "--keys", "keys.json")
    assert (busy.code, (here / "keys.json").read_bytes()) == (75, before)
    for wrong in (["--days", 0], ["--days", 10**9], ["--remove", "--days", 1]):
        assert pricdr("serving-key", "third", "--keys", "keys.json", *wrong).code == 2


def test_without_the_extra_it_says_what_to_install(model):
    code = "import sys\nsys.modules['uvicorn'] = None\nfrom pricdr import cli\nsys.exit(cli.run(sys.argv[1:]))"
    done = subprocess.run([sys.executable, "-c", code, "serve", str(model)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, f"error: servers need uvicorn: {SERVE.command}\n")


def test_it_serves_what_recommend_writes_without_torch_until_stopped(pricdr, model, here):
    assert pricdr("recommend", model, "--out", "all.parquet", "-k", 5).code == 0
    code = (
        "import sys\nsys.modules['torch'] = None\nfrom pricdr.cli import main\n"
        f"sys.argv = ['pricdr', 'serve', {str(model)!r}, '--port', '0', '--no-log-requests']\nmain()"
    )
    environment, pipe = {**os.environ, "PYTHONUNBUFFERED": "1"}, subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", code], stdout=pipe, stderr=pipe, text=True, env=environment)
    try:
        lines = [process.stdout.readline() for _ in range(2)]
        assert lines[0].endswith("/m: 40 users, 60 items\n")
        address = re.search(r"http://127\.0\.0\.1:\d+", lines[1])[0]
        rows = []
        for user in ("u0", "u10", "u39"):
            with urllib.request.urlopen(f"{address}/users/{user}/recommendations?k=5") as response:
                body = json.load(response)
            rows += [(user, item["item"], item["rank"], body["basis"]) for item in body["items"]]
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()
    written = pl.read_parquet("all.parquet").filter(pl.col("user").is_in({"u0", "u10", "u39"}))
    assert rows == written.select("user", "item", "rank", "basis").rows()
    assert (process.returncode, out) == (0, "stopped\n")
    assert [json.loads(line)["event"] for line in err.splitlines()] == ["serving", "stopped"]
