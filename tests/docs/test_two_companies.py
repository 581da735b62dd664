"""The walk through both companies' sides, from align to serve: every block of docs/two-companies.md is run."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys

import pytest
from docs._generate.results import ROOT

from pricdr import demo as story
from pricdr.data.synthetic import SyntheticConfig, synthetic_pair

PAGE = ROOT / "docs" / "two-companies.md"
SMALL = SyntheticConfig(
    users=240, source_items=60, target_items=320, tastes=4, source_ratings_per_user=12, activity_spread=0.5
)
APART = 20
"""Customers whom only one of the companies has, on either side."""


def as_script(text: str, port: int) -> str:
    """The page's blocks as one script, Python and shell, on a port that is free, with less padding."""
    blocks = re.findall(r"```python\n(.*?)```|((?:^ {4}[^\n]*\n)+)", text, re.MULTILINE | re.DOTALL)
    parts = [f"python - <<'END'\n{python}END\n" if python else shell for python, shell in blocks]
    return "set -euo pipefail\n" + "".join(parts).replace("8000", str(port)).replace("6000", "300")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl, as readers of the page do")
def test_every_command_of_the_walk_runs_and_the_server_answers(tmp_path):
    demo = tmp_path / "demo"
    demo.mkdir()
    story.set_up(demo, synthetic_pair(SMALL))
    (demo / "target" / "settings.toml").write_text("hidden = 16\nwidth = 8\nepochs = 2\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    for name, words in (("python", ""), ("pricdr", "-m pricdr")):
        (bin_folder / name).write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
        (bin_folder / name).chmod(0o755)
    done = subprocess.run(
        ["bash", "-c", as_script(PAGE.read_text(encoding="utf-8"), port)],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found, _ = json.JSONDecoder().raw_decode(done.stdout, done.stdout.index('{"user"'))
    assert len(found["items"]) == 5
    assert found["basis"] in {"history", "release", "both"}
    common = (tmp_path / "target" / "users.txt").read_text().splitlines()
    own = [(tmp_path / company / "ids.txt").read_text().splitlines() for company in ("source", "target")]
    assert common == sorted(set(own[0]) & set(own[1]))
    assert [len(set(ids) - set(common)) for ids in own] == [APART, APART]
    assert "align" in done.stdout.partition("user list")[2]
    assert "with" in (tmp_path / "target" / "card.md").read_text()
