"""``-h`` everywhere, shell completion, and one default for an option wherever it appears."""

import os
import re
import subprocess
import sys
from collections import defaultdict

import pytest
from docs._generate.command_line import commands

ALL = {name: command for name, command, _ in commands()}
THEIR_OWN = {
    "--out": "each command creates something else",
    "--rate": "a key may have one of its own; without it the server's holds",
    "--days": "a certificate has to end, a key that can be removed need not",
    "--port": "a server of recommendations and an exchange of ids listen side by side",
    "--keys": "a server may do without keys, whoever makes one may not",
    "--method": "in a spec each arm names its own: reproduce only allows those from outside",
    "--strategy": "the same",
    "--threshold": "prepare follows the paper, which keeps ratings of 3 and more",
    "--epsilon": "audit takes that of a release, and a plan that of a ledger",
    "--delta": "the same",
    "--users": "audit asks how many are listed: it reads no list",
}
"""Options that do not mean the same in every command, and why."""


@pytest.mark.parametrize("name", ALL)
def test_h_is_help(pricdr, name):
    words = name.split(" ")[1:]
    short, long = pricdr(*words, "-h"), pricdr(*words, "--help")
    assert (short.code, short.err) == (0, "")
    assert short.out == long.out
    assert short.out.startswith(f"Usage: {name}")
    assert re.search(r"^  -h, --help ", short.out, re.MULTILINE)


def _default(parameter):
    if parameter.required:
        return "required"
    stated = re.search(r"\[default: ([^\]]*)\]", parameter.help or "")
    value = stated[1] if stated else getattr(parameter.default, "value", parameter.default)
    # What belongs to a folder or a ledger comes first there, and the default of everybody follows it.
    return re.sub(r"^the ledger's; without one ", "", str(value))


def test_an_option_has_the_same_default_in_every_command():
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


def _completed(words, cursor, **environment):
    """What a shell is told when somebody presses the tab key after ``words``."""
    asked = {"_PRICDR_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(cursor), **environment}
    done = subprocess.run(
        [sys.executable, "-m", "pricdr"], capture_output=True, text=True, check=True, env={**os.environ, **asked}
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "cursor", "offered"),
    [
        ("pricdr led", 1, ["ledger"]),
        ("pricdr ledger pl", 2, ["plan"]),
        ("pricdr publish --dry", 2, ["--dry-run"]),
        ("pricdr publish --unit ", 3, ["rating", "user"]),
    ],
)
def test_a_shell_completes_commands_options_and_values(words, cursor, offered):
    assert _completed(words, cursor) == offered


def test_completion_can_be_installed(tmp_path):
    environment = {**os.environ, "HOME": str(tmp_path), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    command = [sys.executable, "-m", "pricdr", "--install-completion", "bash"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert "bash completion installed" in done.stdout
    assert "_PRICDR_COMPLETE=complete_bash" in (tmp_path / ".bash_completions" / "pricdr.sh").read_text()
