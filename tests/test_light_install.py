"""``pip install .`` alone publishes, verifies, inspects and audits: without torch and its weight."""

import json
import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from pricdr.errors import MissingExtraError, PriCDRError
from pricdr.extras import REPORT, TRAIN, Extra

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
INSTALL = TRAIN.command
HIDDEN = """
import json, sys
HIDDEN = {"torch", "polars", "pandas", "pyarrow"}
class Without:  # as if it were not installed: a name in sys.modules would confuse libraries that look there
    def __init__(self, finder): self.finder = finder
    def __getattr__(self, name): return getattr(self.finder, name)
    def find_spec(self, name, *more):
        return None if name.split(".")[0] in HIDDEN else self.finder.find_spec(name, *more)
sys.meta_path[:] = map(Without, sys.meta_path)
from pricdr import cli
codes = [cli.run(command) for command in json.loads(sys.argv[1])]
assert not HIDDEN & set(sys.modules)
print(json.dumps(codes))
"""


def run_without_extras(folder: Path, *commands: str) -> tuple[list[int], list[str]]:
    """Return the exit codes of commands on a machine without torch and data frames, and the lines on standard error."""
    words = [command.split() for command in commands]
    done = subprocess.run(
        [sys.executable, "-c", HIDDEN, json.dumps(words)], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stderr.splitlines()


@pytest.fixture
def ratings(tmp_path):
    lines = [f"u{user},i{(user * 7 + step * 3) % 11}" for user in range(12) for step in range(5)]
    (tmp_path / "ratings.csv").write_text("user,item\n" + "\n".join(lines) + "\n")
    many = [f"u{user},i{(user * 7 + step * 31) % 290}" for user in range(90) for step in range(5)]
    (tmp_path / "many.csv").write_text("user,item\n" + "\n".join(many) + "\n")
    return tmp_path


@pytest.mark.slow
def test_an_issuer_and_an_auditor_need_no_torch_and_other_commands_say_in_one_line_what_to_install(ratings):
    promise = "--epsilon 1 --delta 1e-6"
    commands = {
        "demo --out demo": 2,
        "train ratings.csv --out model": 2,
        "keygen --out key": 0,
        "ledger init budget.jsonl --epsilon 4 --delta 1e-6 --sign key": 0,
        f"publish ratings.csv {promise} --out first --ledger budget.jsonl --sign key": 0,
        f"publish ratings.csv {promise} --out second --ledger budget.jsonl --sign key --strategy jlt --dim 4": 0,
        "verify first --public-key key.pub": 0,
        "inspect first": 0,
        "ledger show budget.jsonl": 0,
        "ledger verify budget.jsonl first second": 0,
        "ledger plan --releases 3 budget.jsonl": 0,
        "audit first --draws 200 --canaries 200": 0,
        "revoke first --key key --reason mistake --out notices": 0,
        "list": 0,
        "split many.csv --out parts": 0,
        "inspect first second": 1,  # they differ
    }
    codes, errors = run_without_extras(ratings, *commands)
    assert codes == [*commands.values()], errors
    assert errors[:2] == [f"error: methods and networks need torch: {INSTALL}"] * 2
    assert not {"demo", "model"} & {path.name for path in ratings.iterdir()}


def test_python_raises_the_same_message_as_an_import_error(ratings):
    code = HIDDEN.partition("from pricdr import cli")[0] + (
        "import pricdr\n"
        "pricdr.split, pricdr.publish, pricdr.Ratings, pricdr.prepare, pricdr.verify\n"  # these do not need it
        "names = ['HeteroCDR', 'transfer', 'repeat', *pricdr.models.__all__]\n"
        "refused = []\n"
        "for name in names:\n"
        "    try: getattr(pricdr if name in pricdr.__all__ else pricdr.models, name)\n"
        "    except ImportError as error: refused.append((name, error.name, str(error)))\n"
        "print(json.dumps(refused))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    refused = json.loads(done.stdout)
    assert {"HeteroCDR", "EASE", "RidgeRelease", "BPR", "CoNet"} <= {row[0] for row in refused}
    assert {tuple(row[1:]) for row in refused} == {("torch", f"methods and networks need torch: {INSTALL}")}


@pytest.mark.parametrize("extra", [TRAIN, REPORT], ids=lambda extra: extra.name)
def test_the_extras_in_messages_install_what_is_missing(extra):
    packages = {Requirement(line).name.replace("-python", "").replace("-", "_") for line in brought_by(extra.name)}
    assert set(extra.modules) == packages
    assert f"pricdr[{extra.name}]" in brought_by("dev")
    extra.require()
    with pytest.raises(MissingExtraError) as caught:
        Extra("spare", ("no_such_module", "json"), "examples need").require()
    assert isinstance(caught.value, PriCDRError) and isinstance(caught.value, ImportError)  # noqa: PT018
    assert (caught.value.name, caught.value.exit_code) == ("no_such_module", 2)


def brought_by(extra: str) -> list[str]:
    return PROJECT["optional-dependencies"][extra]


def closure(requirements: list[str]) -> set[str]:
    """Return the names of everything that pip installs for these requirements."""
    names: set[str] = set()
    waiting = [(requirement, "") for requirement in requirements]
    while waiting:
        line, extra = waiting.pop()
        needed = Requirement(line)
        if needed.marker is not None and not needed.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(needed.name)
        if name not in names:
            names.add(name)
            inner = distribution(name).requires or []
            waiting += [(requirement, chosen) for requirement in inner for chosen in (*needed.extras, "")]
    return names


def test_what_pip_installs_without_extras_has_no_torch():
    plain = closure(PROJECT["dependencies"])
    assert {"numpy", "scipy", "cffi"} <= plain
    assert not plain & {"torch", "polars", "pandas", "pyarrow", "pyspark", "altair", "sympy", "networkx"}
    assert "torch" in closure([*PROJECT["dependencies"], *brought_by("train")])


MAX_BYTES = 345_000_000
"""Of the packages that ``pip install .`` brings, on Linux, with compiled bytecode: ``du -sb`` without pip."""


def size(names: set[str]) -> tuple[int, int]:
    """Return the bytes of the files that wheels of these packages hold, and an upper estimate with their bytecode."""
    files = [file for name in names for file in distribution(name).files or [] if file.suffix != ".pyc"]
    unpacked = sum(file.size or 0 for file in files)
    # Bytecode takes at most a third more than its source.
    return unpacked, unpacked + sum(file.size or 0 for file in files if file.suffix == ".py") * 4 // 3


@pytest.mark.skipif(sys.platform != "linux", reason="wheels of other systems have other sizes")
def test_what_pip_installs_without_extras_is_small():
    own = sum(file.stat().st_size for file in (ROOT / "src").rglob("*") if file.suffix not in {"", ".pyc"})
    assert 200_000_000 < 2 * own + size(closure(PROJECT["dependencies"]))[1] < MAX_BYTES
    assert size(closure([*PROJECT["dependencies"], *brought_by("train")]))[0] > 2 * MAX_BYTES
