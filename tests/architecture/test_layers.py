"""The direction of imports, the public names and the light start are rules, so they are tests."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import pricdr

SRC = Path(pricdr.__file__).parent
BASE = {
    "errors",
    "extensions",
    "extras",
    "randomness",
    "progress",
    "notebook",
    "parallel",
    "files",
    "memory",
    "markup",
    "pages",
    "signing",
    "pricdr",
}
"""Units anyone may import; ``pricdr`` itself is the lazy package (its version)."""
STAGE_ONE = {"data", "privacy", "release", "_publish"}
STAGE_TWO = {"data", "release", "evaluation", "training", "models", "_transfer", "_repeat"}
ALLOWED = {  # one row per unit; a unit without a row fails
    "__init__": STAGE_ONE | STAGE_TWO | {"alignment", "strategies"},
    "__main__": {"cli"},
    "markup": set(),
    "pages": set(),
    "notebook": set(),
    "errors": set(),
    "extensions": set(),
    "extras": set(),
    "randomness": set(),
    "progress": set(),
    "parallel": set(),
    "files": set(),
    "memory": set(),
    "untrusted": set(),
    "signing": {"untrusted"},
    "strategies": {"privacy"},
    "data": {"untrusted"},
    "privacy": {"untrusted", "data"},
    "release": {"untrusted", "data", "privacy"},
    "alignment": {"untrusted", "data"},
    "_publish": {"alignment", "data", "privacy", "release"},
    "engines": {"untrusted", "data", "privacy", "release", "_publish"},
    "evaluation": {"untrusted", "data", "release"},
    "training": {"untrusted", "data", "release", "evaluation"},
    "models": {"untrusted", "data", "release", "evaluation", "training"},
    "_transfer": {"data", "release", "models", "training"},
    "_repeat": {"data", "release", "evaluation", "models", "training", "_transfer"},
    "serving": {"untrusted", "data", "release", "evaluation", "models", "report"},
    "experiments": STAGE_ONE | STAGE_TWO | {"untrusted", "strategies"},
    "demo": STAGE_ONE | STAGE_TWO | {"strategies"},
    "report": STAGE_ONE | {"evaluation", "experiments", "untrusted"},
    "cli": STAGE_ONE | STAGE_TWO | {"alignment", "engines", "experiments", "demo", "report", "serving", "strategies"},
    "testing": STAGE_ONE | {"strategies"} | {"evaluation", "training", "models"},
}
SOURCES = sorted(SRC.rglob("*.py"))


def unit_of(path: Path) -> str:
    return path.relative_to(SRC).parts[0].removesuffix(".py")


def imported_units(source: str, package: tuple[str, ...]) -> set[str]:
    """Units of the package that a module imports: absolutely, relatively, or inside a function."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            prefix = ".".join([*base, *([node.module] if node.module else [])])
            names = [f"{prefix}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "pricdr":
                known = len(parts) > 1 and ((SRC / parts[1]).is_dir() or (SRC / f"{parts[1]}.py").exists())
                found.add(parts[1] if known else "pricdr")
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(SRC)))
def test_imports_stay_inside_the_allowance(path):
    package = ("pricdr", *path.relative_to(SRC).parts[:-1])
    outside = imported_units(path.read_text(), package) - {unit_of(path)} - BASE - ALLOWED[unit_of(path)]
    assert not outside, f"{path.name} may not import {outside}"


@pytest.mark.parametrize(
    "line",
    [
        "import pricdr._publish",
        "from pricdr import _publish",
        "from pricdr._publish import publish",
        "def f():\n    from pricdr._publish import publish",
        "from . import _publish",
        "from ._publish import publish",
        "import pricdr._publish as p",
    ],
)
def test_the_import_finder_sees_every_spelling(line):
    assert "_publish" in imported_units(line, ("pricdr",))


def test_relative_imports_of_a_subpackage_are_resolved():
    assert imported_units("from ..privacy import noise", ("pricdr", "data")) == {"privacy"}
    assert imported_units("import numpy\nfrom scipy import stats", ("pricdr",)) == set()


def test_public_names_are_exactly_the_listed_ones():
    assert sorted(pricdr.__all__) == [
        "Bounds",
        "Comparison",
        "DomainPair",
        "FittedModel",
        "Guarantee",
        "HeteroCDR",
        "Ledger",
        "PriCDRError",
        "Ratings",
        "Release",
        "Split",
        "Unit",
        "evaluate",
        "models",
        "prepare",
        "publish",
        "read_features",
        "read_ids",
        "read_ratings",
        "repeat",
        "split",
        "strategies",
        "synthetic_pair",
        "transfer",
        "verify",
    ]
    for name in pricdr.__all__:
        assert getattr(pricdr, name).__name__ in {name, f"pricdr.{name}"}
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = pricdr.nonsense


def _loaded_by(statement: str, blocked: tuple[str, ...] = ()) -> set[str]:
    """Top-level modules that a fresh interpreter has loaded after ``statement``."""
    code = f"import sys\nfor name in {blocked!r}: sys.modules[name] = None\n{statement}\n" + (
        "sys.stderr.write(' '.join(sorted({n.split('.')[0] for n, m in sys.modules.items() if m})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


HEAVY = {"duckdb", "polars", "scipy", "numpy", "torch", "cryptography"}


def test_help_answers_without_heavy_imports():
    for command in ("--help", "publish --help", "--version"):
        loaded = _loaded_by(f"from pricdr.cli import run; assert run({command.split()!r}) == 0")
        assert not loaded & HEAVY, command
        assert "typer" in loaded


def test_importing_the_package_imports_nothing_heavy():
    assert not _loaded_by("import pricdr") & (HEAVY | {"typer"})


def test_stage_one_runs_without_torch():
    loaded = _loaded_by(
        "import pricdr; r = pricdr.Ratings.from_triples(['a'], ['x']);"
        "pricdr.publish(r, pricdr.Guarantee(epsilon=1, delta=1e-6))",
        blocked=("torch",),
    )
    assert "torch" not in loaded


@pytest.mark.parametrize(
    "path",
    [path for path in SOURCES if unit_of(path) in STAGE_ONE | {"engines", "untrusted", "strategies", *BASE}],
    ids=lambda p: str(p.relative_to(SRC)),
)
def test_stage_one_imports_no_torch(path):
    """Where torch is installed too: results must not depend on whether it is."""
    if path == SRC / "__init__.py":
        return
    imported = set()
    for node in ast.walk(_without_type_checking(ast.parse(path.read_text()))):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            imported.add(node.module or "")
    assert not {name for name in imported if name.split(".")[0] == "torch"}


def _without_type_checking(tree: ast.Module) -> ast.Module:
    """Leave out what is imported for type checkers alone."""
    tree.body = [
        node for node in tree.body if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    ]
    return tree


def test_experiments_publish_and_fit_on_a_machine_without_duckdb_and_the_command_line():
    """A bare GPU machine: numpy, scipy and torch, and what can be copied there, pydantic and cryptography."""
    loaded = _loaded_by(
        "import pricdr.experiments.__main__, pricdr.experiments.tables, numpy as np\n"
        "from pricdr import DomainPair, Ratings\n"
        "from pricdr.data.splits import hold_out\n"
        "from pricdr.experiments.runner import fit\n"
        "from pricdr.experiments.arms import Arm, ReleaseSpec\n"
        "from pricdr.experiments.tasks import Task\n"
        "rows, columns = np.nonzero(np.random.default_rng(0).random((60, 300)) < 0.05)\n"
        "ratings = Ratings.from_triples([f'u{r:02d}' for r in rows], [f'i{c:03d}' for c in columns])\n"
        "task = Task(DomainPair(ratings, ratings), None, 0.2)\n"
        "arm = Arm(name='a', method='hetero', release=ReleaseSpec(strategy='guided'), settings={'epochs': 1})\n"
        "fit(task, task.split(1), arm, 1, 'cpu')",
        blocked=("duckdb", "polars", "typer", "rich", "altair", "optuna", "pandas"),
    )
    assert {"torch", "pydantic"} <= loaded


def test_ratings_releases_and_ranking_in_memory_need_numpy_and_scipy_only():
    blocked = ("duckdb", "polars", "pydantic", "cryptography", "typer", "rich", "torch")
    modules = "pricdr.data.ratings, pricdr.data.splits, pricdr.release, pricdr.evaluation.ranking"
    draw = "pricdr.randomness.Simulation(1).generator('x').random()"
    assert {"numpy", "scipy"} <= _loaded_by(f"import {modules}; {draw}", blocked=blocked)


def test_stage_two_imports_no_table_engine():
    """Not by itself, nor through others: whoever writes a table imports one when it does."""
    stage_two = [path for path in SOURCES if unit_of(path) in {"models", "training", "evaluation"}]
    modules = [".".join(("pricdr", *path.relative_to(SRC).with_suffix("").parts)) for path in stage_two]
    found = _loaded_by("import " + ", ".join(name for name in modules if not name.endswith("__main__")))
    assert "torch" in found
    assert not found & {"duckdb", "polars", "pandas", "pyarrow"}


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(SRC)))
def test_the_library_never_prints_seeds_or_pickles(path):
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id != "print", f"print at line {node.lineno}"
        if isinstance(node, ast.Attribute):
            text = ast.unparse(node)
            assert text not in {"np.random.seed", "random.seed", "np.random.rand", "np.random.randn"}, text
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = {alias.name for alias in node.names} | {getattr(node, "module", None)}
            assert not names & {"pickle", "random", "shelve", "joblib"}, names


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(SRC)))
def test_functions_stay_small(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            docstring = len((ast.get_docstring(node) or "").splitlines())
            assert length - docstring <= 80, f"{node.name}: {length} lines"


@pytest.mark.parametrize(
    "path",
    [path for path in SOURCES if unit_of(path) not in {"data", "testing", "randomness"}],
    ids=lambda p: str(p.relative_to(SRC)),
)
def test_noise_never_comes_from_a_statistical_generator(path):
    """Only randomness.py (its Simulation) and the data and testing packages may touch numpy's generators."""
    assert "np.random" not in path.read_text()
    assert "numpy.random" not in path.read_text()


MODEL_FILES = {"folder.py", "fitted.py", "recommend.py", "recommendation_files.py", "card.py"}
"""``folder`` reads and writes model folders, and ``FittedModel.save`` and ``load`` call it; recommendations become data
frames and files, and a card is made of a folder. No method does any of that."""


@pytest.mark.parametrize(
    "path",
    [path for path in sorted((SRC / "models").rglob("*.py")) if path.name not in MODEL_FILES],
    ids=lambda p: p.stem,
)
def test_a_method_reads_no_files_parses_no_arguments_and_owns_no_epoch_loop(path):
    """Settings come from the caller, and ``training.loop`` alone steps an optimizer."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    outside = {"argparse", "typer", "tomllib", "json", "os", "pathlib", "io", "torch.optim", "polars", "pricdr.files"}
    assert not imported & outside
    assert not [name for name in imported if name.startswith(("safetensors", "pricdr.untrusted"))]
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    used = names | {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    assert not used & {"open", "optim", "backward", "zero_grad"}
