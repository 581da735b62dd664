"""Help, completion, wrong usage in one line, ``--json``; and pipes, terminals and locales that misbehave."""

import ast
import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Annotated

import pytest
import typer
from docs._generate.command_line import commands
from typer.testing import CliRunner

import pricdr.cli
from pricdr import __version__, verify
from pricdr.cli import app, main, run
from pricdr.cli.console import fail, say, warn
from pricdr.cli.options import JsonOption, write_json
from pricdr.errors import POSIX_ONLY

ALL = {name: command for name, command, _ in commands()}
THEIR_OWN = {
    "--out": "each command creates something else",
    "--port": "the demo chooses one where it serves",
    "--keys": "a server may do without keys, whoever makes one may not",
    "--method": "in a spec each arm names its own: reproduce only allows those from outside",
    "--strategy": "the same",
    "--threshold": "prepare follows the paper, which keeps ratings of 3 and more",
    "--epsilon": "audit takes that of a release, and a plan that of a ledger",
    "--delta": "the same",
    "--users": "audit asks how many are listed: it reads no list",
}
"""Options that do not mean the same in every command, and why."""
AUDIT = ("audit", "--strategy", "jlt", "--epsilon", 4, "--delta", 1e-6, "--draws", 2000, "--canaries", 200)


@pytest.mark.parametrize("name", ALL)
def test_every_command_has_help_and_groups_show_it_by_themselves(pricdr, name):
    words = name.split(" ")[1:]
    short, long = pricdr(*words, "-h"), pricdr(*words, "--help")
    assert (short.code, short.err, short.out) == (0, "", long.out)
    assert short.out.startswith(f"Usage: {name}")
    assert re.search(r"^  -h, --help ", short.out, re.MULTILINE)
    inner = getattr(ALL[name], "commands", {})
    shown = re.findall(r"^  (\S+) ", short.out.partition("Commands:\n")[2], re.MULTILINE)
    assert set(inner) <= set(shown)
    assert not inner or pricdr(*words).out == long.out


def test_the_help_of_the_program_says_where_to_start_and_its_version_is_the_packages(pricdr):
    assert "Start with:  pricdr demo" in pricdr("--help").out
    assert pricdr("--version").out == f"pricdr {__version__}\n"


def _default(parameter):
    if parameter.required:
        return "required"
    stated = re.search(r"\[default: ([^\]]*)\]", parameter.help or "")
    return stated[1] if stated else str(getattr(parameter.default, "value", parameter.default))


def test_an_option_has_the_same_default_in_every_command_and_help_shows_it():
    found = defaultdict(lambda: defaultdict(set))
    for name, command in ALL.items():
        for parameter in command.params:
            for option in parameter.opts:
                if option.startswith("--") and not getattr(parameter, "hidden", False):
                    found[option][_default(parameter)].add(name)
    shared = {option: dict(defaults) for option, defaults in found.items() if sum(map(len, defaults.values())) > 1}
    assert {"--unit", "--strategy", "--dim", "--seed", "--json", "--public-key", "--device"} <= set(shared)
    for option, defaults in shared.items():
        assert option in THEIR_OWN or len(defaults) == 1, f"{option}: {defaults}"
    assert found["--dim"].keys() == {"8, or 4 below epsilon 4; jlt, sjlt: 200"}
    options = [option for command in ALL.values() for option in command.params if "--json" in option.opts]
    assert {option.metavar for option in options} == {"FILE|-"}


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("pricdr led", "ledger"),
        ("pricdr ledger pl", "plan"),
        ("pricdr publish --dry", "--dry-run"),
        ("pricdr publish --unit ", "rating\nuser\nuser-period"),
    ],
)
def test_a_shell_completes_commands_options_and_values(words, offered):
    asked = {"_PRICDR_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    assert CliRunner().invoke(app, [], env=asked, prog_name="pricdr").output.rstrip() == offered


def test_completion_can_be_installed(tmp_path):
    environment = {**os.environ, "HOME": str(tmp_path), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    command = [sys.executable, "-m", "pricdr", "--install-completion", "bash"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert "bash completion installed" in done.stdout
    assert "_PRICDR_COMPLETE=complete_bash" in (tmp_path / ".bash_completions" / "pricdr.sh").read_text()


# JSON


def test_a_dash_leaves_nothing_but_json_on_standard_output_and_a_file_leaves_it_to_people(pricdr, here):
    outcome = pricdr(*AUDIT, "--json", "-")
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out)["claimed_epsilon"] == pytest.approx(4)
    assert "likelihood ratio" in outcome.err
    assert not list(here.iterdir())
    assert "likelihood ratio" in pricdr(*AUDIT, "--json", "new folder/found.json").out
    assert json.loads((here / "new folder" / "found.json").read_text())["draws"] == 2000


def test_hostile_text_stays_ascii_and_numbers_that_are_not_finite_become_null(capsys):
    app = typer.Typer()

    @app.command()
    def show(name: Annotated[str, typer.Argument()], json_output: JsonOption = None) -> None:
        say("for people")
        warn("beware")
        write_json(json_output, {"name": name, "values": [1.5, float("nan"), {"inner": (float("inf"), None, True, 3)}]})

    app(["\x1b[31m\u202e\n", "--json", "-"], standalone_mode=False)
    out, err = capsys.readouterr()
    assert out.isascii()
    assert "\x1b" not in out
    assert json.loads(out) == {"name": "\x1b[31m\u202e\n", "values": [1.5, None, {"inner": [None, None, True, 3]}]}
    assert err == "for people\nwarning: beware\n"


# what nobody foresaw, and surroundings that misbehave


def test_anything_unforeseen_is_one_line_and_can_be_traced(pricdr, release, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("wires\ncrossed")

    monkeypatch.setattr("pricdr.verify", broken)
    outcome = pricdr("verify", release)
    assert outcome.code == 2
    assert re.fullmatch(r"error: .*RuntimeError: wires crossed.*PRICDR_TRACEBACK=1.*\n", outcome.err)
    monkeypatch.setenv("PRICDR_TRACEBACK", "1")
    with pytest.raises(RuntimeError, match="wires"):
        pricdr("verify", release)


def test_running_out_of_memory_is_one_line(ratings, refused_publish, monkeypatch):
    def exhausted(*_, **__):
        raise MemoryError

    monkeypatch.setattr("pricdr.data.reading.read.read_ratings_file", exhausted)
    refused_publish(ratings, says="out of memory")


PUBLISH = "pricdr publish ratings.csv --epsilon 4 --delta 1e-6 --out out"


@pytest.mark.slow
def test_readers_that_leave_closed_outputs_and_full_disks_are_no_traceback(here, release):
    full = (b"", b"error: No space left on device\n") if Path("/dev/full").exists() else (b"", b"")
    for script, code, shown in (
        ('pricdr inspect release | head -1; echo "${PIPESTATUS[0]}"', 0, (b"What this is\n0\n", b"")),
        (f'{PUBLISH} 2>&1 | true; echo "${{PIPESTATUS[0]}}"', 0, (b"0\n", b"")),
        ("pricdr inspect release >&- 2>&-", 0, (b"", b"")),
        ("pricdr verify nowhere >&- 2>&-", 2, (b"", b"")),
        ("test ! -e /dev/full || pricdr inspect release > /dev/full", 2 if full[1] else 0, full),
    ):
        ours = f'pricdr() {{ "{sys.executable}" -m pricdr "$@"; }}\n{script}'
        done = subprocess.run(["bash", "-c", ours], cwd=here, capture_output=True, timeout=120, check=False)
        assert (done.returncode, (done.stdout, done.stderr)) == (code, shown), script
    assert verify(here / "out").users


def test_a_terminal_that_knows_ascii_only_is_no_error(here, monkeypatch):
    (here / "rätings.csv").write_text("user,item\nbjörk,x\n")
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert run(PUBLISH.replace("ratings", "rätings").split()[1:]) == 0
    sys.stdout.flush()
    assert b"r\\xe4tings.csv: 1 rows" in sys.stdout.buffer.getvalue()
    assert verify(here / "out").users == ("björk",)


def test_the_command_to_check_a_release_can_be_pasted(here, ratings, publish, pricdr):
    pasted = publish(ratings, out="it's here & now").out.splitlines()[-1].partition("check it with: ")[2]
    assert pricdr(*shlex.split(pasted)[1:]).out.startswith("ok: Release(3 users")


def test_elsewhere_than_on_posix_systems_the_command_is_one_sentence(monkeypatch, capsys):
    with monkeypatch.context() as patch:
        patch.setattr(os, "name", "nt")
        with pytest.raises(SystemExit, match="2"):
            main()
    assert capsys.readouterr() == ("", f"error: {POSIX_ONLY}\n")


# text from outside is shown, never obeyed: no colours, no cursor, no lines of its own, no turned writing

EVIL = "\x1b[31mred\x07 \u202eturned\u2028 [/bold] [red]\x9b1m"
SHOWN = r"\u001b[31mred\u0007 \u202eturned\u2028 [/bold] [red]\u009b1m"


def test_every_way_to_the_screen_escapes_what_it_is_given(capsys):
    say(f"file {EVIL}", "second", "")
    say("name\nverified: all is well")
    warn(EVIL)
    warn("name\r\nok: trust me")
    assert fail(EVIL, 2) == 2
    out, err = capsys.readouterr()
    assert out == f"file {SHOWN}\nsecond\n\nname\\u000averified: all is well\n"
    assert err == f"warning: {SHOWN}\nwarning: name\\u000d\\u000aok: trust me\nerror: {SHOWN}\n"


@pytest.mark.parametrize("path", sorted(Path(pricdr.cli.__file__).parent.glob("*.py")), ids=lambda path: path.stem)
def test_lines_of_our_own_are_given_one_by_one(path):
    """A line break inside an argument would be shown as code writes it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"say", "warn"}:
            given = [argument.value if isinstance(argument, ast.Starred) else argument for argument in node.args]
            literal = [part for argument in given if not isinstance(argument, ast.Call) for part in ast.walk(argument)]
            texts = [part.value for part in literal if isinstance(part, ast.Constant) and isinstance(part.value, str)]
            assert not any("\n" in text for text in texts), f"line {node.lineno}"


def test_names_of_files_are_escaped_by_every_command(here, ratings, pricdr):
    file = here / "r\x1b[31m\nok: forged.csv"
    file.write_bytes(ratings.read_bytes())
    out = "out\x1b[31m\nok: forged"
    promise = ("--epsilon", 4, "--delta", 1e-6)
    for command in (
        ("publish", file, *promise, "--out", f"{out} 1"),
        ("split", file, "--out", f"{out} 2"),
        ("prepare", file, file, "--out", f"{out} 3", "--threshold", "none", "--core", 1),
        ("train", file, "--out", f"{out} 4", "--method", "popularity"),
        ("verify", f"{out} 5"),
        ("keygen", "--out", f"{out} 6"),
        ("ledger", "init", f"{out} 7", *promise, "--unit", "rating"),
    ):
        outcome = pricdr(*command)
        shown = outcome.out + outcome.err
        assert "u001b[31m" in shown, command
        for line in shown.split("\n"):
            assert line.isprintable()
            assert not line.startswith("ok: forged")
