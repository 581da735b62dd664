"""Text from outside is shown, never obeyed: no colours, no cursor, no lines of its own, no turned writing."""

import ast
from pathlib import Path

import pytest

import pricdr.cli
from pricdr.cli.console import fail, say, warn

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


@pytest.mark.parametrize("command", ["publish", "split", "prepare", "train", "verify", "keygen", "ledger"])
def test_names_of_files_are_escaped_by_every_command(here, ratings, release, pricdr, publish, command):
    file = here / "r\x1b[31m\nok: forged.csv"
    file.write_bytes(ratings.read_bytes())
    out = "out\x1b[31m\nok: forged"
    promise = ("--epsilon", 4, "--delta", 1e-6)
    outcome = {
        "publish": lambda: publish(file, out=out),
        "split": lambda: pricdr("split", file, "--out", out),
        "prepare": lambda: pricdr("prepare", file, file, "--out", out, "--threshold", "none", "--core", 1),
        "train": lambda: pricdr("train", file, "--out", out, "--method", "popularity"),
        "verify": lambda: pricdr("verify", out),
        "keygen": lambda: pricdr("keygen", "--out", out),
        "ledger": lambda: pricdr("ledger", "init", out, *promise, "--unit", "rating"),
    }[command]()
    shown = outcome.out + outcome.err
    assert "u001b[31m" in shown
    for line in shown.split("\n"):
        assert line.isprintable()
        assert not line.startswith("ok: forged")
