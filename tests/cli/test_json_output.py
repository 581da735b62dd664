"""``--json``: a new file, or standard output with nothing else on it, for every command that has the option."""

import json
from typing import Annotated

import pytest
import typer
from typer.main import get_command

from pricdr import cli
from pricdr.cli.console import say, warn
from pricdr.cli.options import JsonOption, write_json

AUDIT = ("audit", "--strategy", "jlt", "--epsilon", 4, "--delta", 1e-6, "--draws", 2000, "--canaries", 200)


def _commands(command=None, path=()):
    command = get_command(cli.app) if command is None else command
    for name, inner in getattr(command, "commands", {}).items():
        yield from _commands(inner, (*path, name))
    if path and not getattr(command, "commands", {}):
        yield " ".join(path), command


def test_every_json_option_of_every_command_is_the_shared_one():
    options = {name: option for name, command in _commands() for option in command.params if "--json" in option.opts}
    assert {"audit", "evaluate"} <= set(options)
    assert {option.metavar for option in options.values()} == {"FILE|-"}


def test_a_dash_leaves_nothing_but_json_on_standard_output(pricdr, here):
    outcome = pricdr(*AUDIT, "--json", "-")
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out)["claimed_epsilon"] == pytest.approx(4)
    assert "likelihood ratio" in outcome.err
    assert not list(here.iterdir())
    # The next command speaks to standard output again.
    assert "pricdr" in pricdr("--version").out


def test_a_file_holds_the_json_and_people_read_standard_output(pricdr, here):
    outcome = pricdr(*AUDIT, "--json", "new folder/found.json")
    assert outcome.code == 0
    assert "likelihood ratio" in outcome.out
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
