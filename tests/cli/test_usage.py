"""Wrong usage in one line, help that shows the defaults, and pipes, terminals and locales that misbehave."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pricdr import __version__, verify
from pricdr.errors import POSIX_ONLY


@pytest.mark.parametrize(
    ("command", "defaults"),
    [
        ("publish", {"--strategy": "spectral", "--dim": "8, or 4 below epsilon 4; jlt, sjlt: 200"}),
        ("publish", {"--unit": "rating", "--engine": "duckdb"}),
        ("audit", {"--density": "0.5"}),
        ("prepare", {"--threshold": "3"}),
        ("demo", {"--out": "pricdr-demo"}),
    ],
)
def test_help_shows_the_defaults(pricdr, command, defaults):
    options = re.split(r"\n  (?=--)", pricdr(command, "--help").out)
    for option, default in defaults.items():
        (described,) = [text for text in options if text.startswith(f"{option} ")]
        assert f"[default: {default}]" in " ".join(described.split())


@pytest.mark.parametrize("arguments", [(), ("ledger",)], ids=["pricdr", "pricdr ledger"])
def test_no_command_shows_the_help(pricdr, arguments):
    outcome = pricdr(*arguments)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out == pricdr(*arguments, "--help").out


def test_the_help_of_the_program_names_every_command_and_where_to_start(pricdr):
    text = pricdr("--help").out
    for command in ("demo", "prepare", "publish", "ledger", "verify", "train", "evaluate", "list"):
        assert re.search(rf"^  {command} ", text, re.MULTILINE)
    assert "pricdr demo" in text


def test_the_version_is_the_packages(pricdr):
    assert pricdr("--version").out == f"pricdr {__version__}\n"


def test_anything_unforeseen_is_one_line_and_can_be_traced(refused, pricdr, release, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("wires\ncrossed")

    monkeypatch.setattr("pricdr.release.verify", broken)
    outcome = pricdr("verify", release)
    assert outcome.code == 2
    assert re.fullmatch(r"error: .*RuntimeError: wires crossed.*PRICDR_TRACEBACK=1.*\n", outcome.err)
    monkeypatch.setenv("PRICDR_TRACEBACK", "1")
    with pytest.raises(RuntimeError, match="wires"):
        pricdr("verify", release)


def test_running_out_of_memory_is_one_line(ratings, refused_publish, ledger, monkeypatch, publish, here):
    def exhausted(*_, **__):
        raise MemoryError

    monkeypatch.setattr("pricdr.data.reading.read.read_ratings_file", exhausted)
    refused_publish(ratings, says="out of memory")


def shell(here, script, **environment):
    """Run a shell script in which pricdr is this interpreter's."""
    function = f'pricdr() {{ "{sys.executable}" -m pricdr "$@"; }}\n'
    return subprocess.run(
        ["bash", "-c", function + script],
        cwd=here,
        capture_output=True,
        timeout=120,
        check=False,
        env={**os.environ, **environment},
    )


def test_a_reader_that_leaves_early_is_no_error(here, release):
    done = shell(here, 'pricdr inspect release | head -1; echo "${PIPESTATUS[0]}"')
    assert done.stdout == b"What this is\n0\n"
    assert done.stderr == b""


def test_a_reader_that_leaves_early_does_not_stop_a_publish(here, ratings):
    done = shell(
        here, 'pricdr publish ratings.csv --epsilon 4 --delta 1e-6 --out out 2>&1 | true; echo "${PIPESTATUS[0]}"'
    )
    assert done.stdout == b"0\n"
    assert verify(here / "out").users == ("alice", "bob", "carol")


def test_closed_outputs_are_no_error(here, release):
    assert shell(here, "pricdr inspect release >&- 2>&-").returncode == 0
    assert shell(here, "pricdr verify nowhere >&- 2>&-").returncode == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_behind_the_output_is_one_line(here, release):
    done = shell(here, "pricdr inspect release > /dev/full")
    assert (done.returncode, done.stderr) == (2, b"error: No space left on device\n")


def test_a_terminal_that_knows_ascii_only_is_no_error(here):
    (here / "rätings.csv").write_text("user,item\nbjörk,x\n")
    done = shell(
        here,
        "pricdr publish rätings.csv --epsilon 4 --delta 1e-6 --out löst && pricdr verify nö",
        PYTHONIOENCODING="ascii",
    )
    assert done.returncode == 2
    assert b"r\\xe4tings.csv: 1 rows" in done.stdout
    assert b"Traceback" not in done.stderr
    assert verify(here / "löst").users == ("björk",)


def test_the_command_to_check_a_release_can_be_pasted(here, ratings, publish):
    outcome = publish(ratings, out="it's here & now")
    pasted = outcome.out.splitlines()[-1].partition("check it with: ")[2]
    assert shell(here, pasted).stdout.startswith(b"ok: Release(3 users")


def test_elsewhere_than_on_posix_systems_the_command_is_one_sentence(here):
    code = "import os, pricdr.cli, sys; os.name = 'nt'; sys.argv = ['pricdr', 'methods']; pricdr.cli.main()"
    done = subprocess.run([sys.executable, "-c", code], cwd=here, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: {POSIX_ONLY}\n"
