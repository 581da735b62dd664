"""What the house promises to stay: small, light to start, shallow. Its layers are contracts in ``pyproject.toml``."""

import subprocess
import sys
from pathlib import Path

import pytest

import pricdr

SRC = Path(pricdr.__file__).parent
PUBLIC_NAMES = """
    Bounds Comparison DomainPair FittedModel Guarantee HeteroCDR Ledger PriCDRError Ratings Release Split Unit evaluate
    models prepare publish read_features read_ids read_ratings repeat split strategies synthetic_pair transfer verify
"""
TABLE_ENGINES = {"duckdb", "pandas", "polars", "pyarrow"}
HEAVY = TABLE_ENGINES | {"cryptography", "numpy", "scipy", "torch"}
TRACE = """
import sys, threading, torch
from pricdr.cli import run
deepest, modules, known = 0, set(), {}
def ours(code):
    if code not in known:
        known[code] = "/pricdr/" in code.co_filename and code.co_name != "<module>"
    return known[code]
def trace(frame, event, _):
    global deepest
    if event == "call" and ours(frame.f_code):
        modules.add(frame.f_code.co_filename)
        depth = 0
        while frame is not None:
            depth += ours(frame.f_code)
            frame = frame.f_back
        deepest = max(deepest, depth)
sys.setprofile(trace)
threading.setprofile(trace)
status = run(sys.argv[1:])
sys.setprofile(None)
print(status, len(modules), deepest)
"""


def python(code: str, *arguments: str) -> str:
    """Return what code prints in an interpreter of its own."""
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def loaded_by(statement: str, blocked: set[str] = frozenset()) -> set[str]:
    """Return the top-level modules that a fresh interpreter has loaded after a statement, without the blocked ones."""
    code = f"import sys\nsys.modules.update(dict.fromkeys({sorted(blocked)!r}))\n{statement}\n"
    printed = python(code + "print('\\n' + ' '.join({name.split('.')[0] for name, m in sys.modules.items() if m}))")
    return set(printed.splitlines()[-1].split())


def test_the_library_stays_small():
    """Lower these when you can; a reason to raise one belongs into the commit that does."""
    modules = [path.read_text().count("\n") for path in SRC.rglob("*.py")]
    assert sum(modules) <= 28_950
    assert len(modules) <= 160


@pytest.mark.parametrize(("command", "modules", "depth"), [("publish", 45, 16), ("train", 45, 16)])
@pytest.mark.slow
def test_a_command_passes_few_modules_and_few_calls(tmp_path, command, modules, depth):
    """Those of ours in which a function runs, command line included."""
    ratings = tmp_path / "ratings.csv"
    ratings.write_text("user,item\n" + "".join(f"u{u},i{(7 * u + 3 * i) % 30}\n" for u in range(40) for i in range(5)))
    options = {
        "publish": ["--epsilon", "4", "--delta", "1e-6", "--out", str(tmp_path / "release")],
        "train": ["--epochs", "2", "--out", str(tmp_path / "model")],
    }
    status, passed, deepest = map(int, python(TRACE, command, str(ratings), *options[command]).split()[-3:])
    assert (status, passed <= modules, deepest <= depth) == (0, True, True), (passed, deepest)


def test_public_names_are_exactly_the_listed_ones():
    assert sorted(pricdr.__all__) == PUBLIC_NAMES.split()
    for name in pricdr.__all__:
        assert getattr(pricdr, name).__name__ in {name, f"pricdr.{name}"}
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = pricdr.nonsense


def test_the_package_and_its_help_start_light():
    assert not loaded_by("import pricdr") & (HEAVY | {"typer"})
    commands = "['--help'], ['publish', '--help'], ['--version']"
    assert not loaded_by(f"from pricdr.cli import run\nfor words in {commands}: assert run(words) == 0") & HEAVY


def test_publishing_in_memory_needs_no_torch():
    statement = """
import pricdr
ratings = pricdr.Ratings.from_triples(["a"], ["x"])
pricdr.publish(ratings, pricdr.Guarantee(epsilon=1, delta=1e-6))
"""
    loaded_by(statement, blocked={"torch"})


def test_ratings_releases_and_ranking_in_memory_need_numpy_and_scipy_only():
    modules = "pricdr.data.ratings, pricdr.data.splits, pricdr.release, pricdr.evaluation.ranking"
    statement = f"import {modules}; pricdr.randomness.Simulation(1).generator('x').random()"
    loaded_by(statement, blocked={"duckdb", "polars", "pydantic", "cryptography", "typer", "rich", "torch"})


def test_stage_two_imports_no_table_engine():
    """Not by itself, nor through others: whoever writes a table imports one when it does."""
    paths = [path for name in ("models", "training", "evaluation") for path in (SRC / name).rglob("*.py")]
    names = [".".join(("pricdr", *path.relative_to(SRC).with_suffix("").parts)) for path in paths]
    loaded = loaded_by("import " + ", ".join(name for name in names if not name.endswith("__main__")))
    assert "torch" in loaded
    assert not loaded & TABLE_ENGINES


@pytest.mark.slow
def test_experiments_run_on_a_machine_without_duckdb_and_the_command_line():
    """A bare GPU machine: numpy, scipy and torch, and what can be copied there, pydantic and cryptography."""
    statement = """
import pricdr.experiments.__main__, pricdr.experiments.measured, numpy as np
from pricdr import DomainPair, Ratings
from pricdr.experiments.arms import Arm, ReleaseSpec
from pricdr.experiments.runner import fit
from pricdr.experiments.tasks import Task
rows, columns = np.nonzero(np.random.default_rng(0).random((60, 300)) < 0.05)
ratings = Ratings.from_triples([f"u{r:02d}" for r in rows], [f"i{c:03d}" for c in columns])
task = Task(DomainPair(ratings, ratings), None, 0.2)
arm = Arm(name="a", method="hetero", release=ReleaseSpec(strategy="guided"), settings={"epochs": 1})
fit(task, task.split(1), arm, 1, "cpu")
"""
    loaded_by(statement, blocked={"duckdb", "polars", "typer", "rich", "altair", "optuna", "pandas"})
