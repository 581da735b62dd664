"""The systemd units: accepted, shut in, what they start works; and the metric of a budget in docs/operations.md."""

import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from pricdr import Guarantee, Ledger, Ratings, cli, publish
from pricdr.errors import BusyError
from pricdr.strategies import JLT

DEPLOY = Path(__file__).parents[2] / "deploy"
SERVICE, TIMER = DEPLOY / "pricdr-publish.service", DEPLOY / "pricdr-publish.timer"
SERVE = DEPLOY / "pricdr-serve.service"
PAGE = DEPLOY.parent / "docs" / "operations.md"
PROGRAM = "/opt/pricdr/bin/pricdr"

needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")


def settings(unit: Path) -> configparser.ConfigParser:
    parsed = configparser.ConfigParser(interpolation=None, strict=False, comment_prefixes=("#",))
    parsed.optionxform = str
    parsed.read_string(unit.read_text().replace("\\\n", " "))
    return parsed


EXAMPLE = DEPLOY / "publish.toml"


def command(**environment: str) -> list[str]:
    """Return the words that systemd starts, variables filled in; there is no shell to do it."""
    words = shlex.split(settings(SERVICE)["Service"]["ExecStart"])
    return [re.sub(r"\$\{(\w+)\}", lambda name: environment[name[1]], word) for word in words]


@pytest.fixture
def units(tmp_path):
    """The units, with a program that exists instead of the one that is installed later."""
    for unit in (SERVICE, TIMER, SERVE):
        (tmp_path / unit.name).write_text(unit.read_text().replace(PROGRAM, sys.executable))
    return [tmp_path / SERVICE.name, tmp_path / TIMER.name, tmp_path / SERVE.name]


def analyze(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", "--no-pager", *map(str, arguments)], capture_output=True, text=True, check=False
    )


@needs_systemd
def test_systemd_accepts_the_units(units):
    done = analyze("verify", *units)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@needs_systemd
def test_systemd_would_say_so_if_one_were_wrong(units):
    units[0].write_text(units[0].read_text().replace("Type=exec", "Type=oneshot"))
    assert analyze("verify", *units).returncode != 0


@needs_systemd
def test_the_service_is_shut_in(units):
    """systemd's own measure of exposure, from 0 to 100; 96 for a service without any of these settings."""
    assert analyze("security", "--offline=true", "--threshold=10", units[0]).returncode == 0
    assert analyze("security", "--offline=true", "--threshold=20", units[2]).returncode == 0  # it has a network
    assert analyze("security", "--offline=true", "--threshold=1", units[0]).returncode != 0


def test_the_command_of_the_server_is_one(tmp_path, capsys):
    words = shlex.split(settings(SERVE)["Service"]["ExecStart"])
    assert words[0] == PROGRAM
    assert cli.run([*words[1:], "--port", "0"]) == 2  # all options are known, the file of keys is not there
    assert "/etc/pricdr/keys.json cannot be read" in capsys.readouterr().err


def test_the_command_of_the_service_publishes(tmp_path, capsys):
    state, ratings = tmp_path / "state", tmp_path / "ratings.csv"
    state.mkdir()
    ratings.write_text("user,item\nalice,dune\nbob,emma\n")
    (tmp_path / "users.txt").write_text("alice\nbob\n")
    assert cli.run(["keygen", "--out", str(tmp_path / "signing.key")]) == 0
    assert cli.run(["ledger", "init", str(state / "budget.jsonl"), "--epsilon", "8", "--delta", "1e-6"]) == 0
    capsys.readouterr()
    config = tmp_path / "publish.toml"
    config.write_text(
        EXAMPLE.read_text().replace("/srv/ratings/ratings.parquet", str(ratings)).replace("/srv/ratings", str(tmp_path))
    )
    program, *words = command(STATE_DIRECTORY=str(state), CREDENTIALS_DIRECTORY=str(tmp_path), INVOCATION_ID="0123abcd")
    assert program == PROGRAM
    words[words.index("/etc/pricdr/publish.toml")] = str(config)
    assert cli.run(words) == 0
    lines = capsys.readouterr()
    assert [json.loads(line)["event"] for line in lines.err.splitlines()][-1] == "finished"
    assert lines.out == ""
    assert cli.run(["verify", str(state / "releases" / "0123abcd")]) == 0


def test_only_a_run_that_spent_nothing_is_repeated():
    service = settings(SERVICE)["Service"]
    assert (service["Restart"], int(service["RestartForceExitStatus"])) == ("no", BusyError.exit_code)


def test_the_example_prices_a_year_of_weeks(capsys):
    example = tomllib.loads(EXAMPLE.read_text())
    assert cli.run(["ledger", "plan", "--epsilon", "8", "--releases", "52", "--json", "-"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert 0.97 * plan["each"]["epsilon"] < example["epsilon"] <= plan["each"]["epsilon"]
    assert example["delta"] == plan["each"]["delta"]


def test_the_timer_starts_the_service_once_a_week():
    timer = settings(TIMER)["Timer"]
    assert timer["OnCalendar"].startswith("Mon ")
    assert TIMER.stem == SERVICE.stem


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
@pytest.mark.parametrize(("releases", "left"), [(0, "NaN"), (1, "40")])
def test_what_is_left_of_a_budget_is_a_metric(tmp_path, monkeypatch, capsys, releases, left):
    monkeypatch.chdir(tmp_path)
    ledger = Ledger.create(Path("budget.jsonl"), Guarantee(epsilon=8, delta=1e-6))
    for _ in range(releases):
        promise = Guarantee(epsilon=1, delta=1e-6)
        publish(Ratings.from_triples(["a"], ["x"]), promise, strategy=JLT(dim=2), users=["a"], ledger=ledger)
    pattern = r"pricdr (ledger show budget.jsonl --json -) \|\s+jq -r '(.*?)'"
    shows, script = re.search(pattern, PAGE.read_text(), re.DOTALL).groups()
    assert cli.run(shows.split()) == 0
    shown = capsys.readouterr().out
    done = subprocess.run(["jq", "-r", script], input=shown, capture_output=True, text=True, check=True)
    assert done.stdout == f"pricdr_ledger_releases_left {left}\n"
    assert {"epsilon"} <= json.loads(shown)["room"].keys() & json.loads(shown)["spent"].keys()
