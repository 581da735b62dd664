"""The command in this process (fast) and in one of its own, and what every refusal must look like."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from pricdr import Guarantee, cli, publish as lib_publish, synthetic_pair
from pricdr.data.synthetic import SyntheticConfig
from pricdr.data.tables import write_ratings
from pricdr.signing import create_keys
from pricdr.strategies import JLT

RATINGS = "user,item,rating\nalice,dune,5\nalice,emma,3\nbob,dune,1\nbob,it,4\ncarol,emma,2\n"


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """An empty folder to work in."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def ratings(here) -> Path:
    file = here / "ratings.csv"
    file.write_text(RATINGS)
    return file


@pytest.fixture
def pricdr(here, capsys) -> Callable[..., Outcome]:
    """Run a command in this process."""

    def run(*arguments: object) -> Outcome:
        capsys.readouterr()
        code = cli.run([str(argument) for argument in arguments])
        return Outcome(code, *capsys.readouterr())

    return run


@pytest.fixture
def publish(pricdr) -> Callable[..., Outcome]:
    """Run ``publish`` with ordinary values; options given here come last, so they win."""

    def run(file: object, *options: object, out: object = "release") -> Outcome:
        return pricdr("publish", file, "--epsilon", 4, "--delta", 1e-6, "--dim", 8, "--out", out, *options)

    return run


@pytest.fixture
def release(here, ratings, publish) -> Path:
    """A published release folder."""
    outcome = publish(ratings)
    assert outcome.code == 0, outcome.err
    return here / "release"


@pytest.fixture
def nothing_drawn() -> Callable[[], AbstractContextManager[None]]:
    """Within it, whatever asks for random bits fails."""

    @contextmanager
    def watched() -> Iterator[None]:
        def drawn(*_, **__):
            raise AssertionError("something was drawn")

        with pytest.MonkeyPatch.context() as patch:
            for name in ("Secret", "Simulation", "Run"):
                patch.setattr(sys.modules["pricdr._publish"], name, drawn)
            for name in ("secrets.token_bytes", "secrets.token_hex", "os.urandom"):
                patch.setattr(name, drawn)
            yield

    return watched


@pytest.fixture
def ledger(here, pricdr) -> Path:
    """A fresh ledger, ε = 8 at δ = 1e-6 per rating."""
    file = here / "budget.jsonl"
    assert pricdr("ledger", "init", file, "--epsilon", 8, "--delta", 1e-6, "--unit", "rating").code == 0
    return file


@pytest.fixture
def tree(here) -> Callable[[], dict[str, object]]:
    """Everything in the folder, hidden or not: what it holds and when and how it was last written."""

    def look() -> dict[str, object]:
        found: dict[str, object] = {}
        for path in sorted(here.rglob("*")):
            status = path.lstat()
            content = path.read_bytes() if path.is_file() else None
            found[os.fsdecode(path.relative_to(here))] = (status.st_mode, status.st_mtime_ns, content)
        return found

    return look


@pytest.fixture
def refused(pricdr, tree) -> Callable[..., str]:
    """Run a command that must be refused: its code, one line, no traceback, and nothing changed on disk.

    What the ratings look like may be warned of before that.
    """

    def run(*arguments: object, says: tuple[str, ...] | str = (), code: int = 2) -> str:
        before = tree()
        outcome = pricdr(*arguments)
        assert outcome.code == code, outcome
        lines = [line for line in outcome.err.split("\n") if not line.startswith("warning: ratings from")]
        assert (len(lines), lines[-1]) == (2, ""), outcome.err
        assert lines[0].startswith("error: ")
        assert "Traceback" not in outcome.out + outcome.err
        assert "should not happen" not in outcome.err
        for words in (says,) if isinstance(says, str) else says:
            assert words in outcome.err
        assert tree() == before
        return f"{lines[0]}\n"

    return run


@pytest.fixture
def refused_publish(here, ledger, refused) -> Callable[..., str]:
    """Run ``publish`` against a ledger and a user list, refused as :func:`refused` says."""
    users = here / "users.txt"
    users.write_text("alice\nbob\ndave\n")

    def run(file: object, *options: object, says: tuple[str, ...] | str = (), code: int = 2) -> str:
        fixed = ("--epsilon", 4, "--delta", 1e-6, "--dim", 8, "--out", "release", "--users", users, "--ledger", ledger)
        return refused("publish", file, *fixed, *options, says=says, code=code)

    return run


def default_signals() -> None:
    """What nohup, or a shell that runs the tests in the background, has ignored is heeded again."""
    for sent in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(sent, signal.SIG_DFL)


@pytest.fixture
def start(here) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a command in a process of its own; whatever still runs in the end is killed."""
    running: list[subprocess.Popen[str]] = []

    def begin(*arguments: object, program: tuple[str, ...] = ("-m", "pricdr")) -> subprocess.Popen[str]:
        command, pipe = [sys.executable, *program, *map(str, arguments)], subprocess.PIPE
        running.append(
            subprocess.Popen(command, cwd=here, stdout=pipe, stderr=pipe, text=True, preexec_fn=default_signals)
        )
        return running[-1]

    yield begin
    for child in running:
        child.kill()
        child.communicate()


@pytest.fixture
def until() -> Callable[[Callable[[], bool], subprocess.Popen[str]], None]:
    """Wait until something holds, while a process runs."""

    def wait(holds: Callable[[], bool], child: subprocess.Popen[str]) -> None:
        deadline = time.monotonic() + 60
        while not holds():
            assert child.poll() is None, child.communicate()
            assert time.monotonic() < deadline, "waited too long"
            time.sleep(0.001)

    return wait


class Steps:
    """The file system steps Python takes under one folder, and an error to raise at one of them."""

    EVENTS = frozenset({"open", "os.mkdir", "os.rename", "os.link", "os.listdir", "os.scandir", "os.remove"})

    def __init__(self) -> None:
        self.folder, self.error, self.at, self.seen = "", None, 0, 0
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[object, ...]) -> None:
        if not self.folder or event not in self.EVENTS or not isinstance(arguments[0], str | os.PathLike):
            return
        if os.fspath(arguments[0]).startswith(self.folder):
            self.seen += 1
            if self.seen == self.at and self.error is not None:
                raise self.error

    @contextmanager
    def watched(self, folder: Path, error: BaseException | None = None, at: int = 0) -> Iterator["Steps"]:
        self.folder, self.error, self.at, self.seen = str(folder), error, at, 0
        try:
            yield self
        finally:
            self.folder = ""


_STEPS = Steps()  # an audit hook cannot be removed, so there is one for all tests


@pytest.fixture
def steps() -> Steps:
    return _STEPS


@pytest.fixture(scope="session")
def target(tmp_path_factory) -> Path:
    """A target's folder: its ratings, two splits, releases that it received, and models of the first split."""
    folder = tmp_path_factory.mktemp("target")
    pair = synthetic_pair(SyntheticConfig(users=120, source_items=250, target_items=300))
    write_ratings(folder / "ratings.parquet", pair.target)
    write_ratings(folder / "source.parquet", pair.source)
    promise, jlt = Guarantee(epsilon=8, delta=1e-6), JLT(dim=16)
    create_keys(folder / "source.key")
    release = lib_publish(pair.source, promise, strategy=jlt, users=pair.users)
    release.save(folder / "release", signing_key=folder / "source.key")
    lib_publish(pair.source, promise, strategy=jlt, users=pair.users).save(folder / "unsigned")
    noiseless = lib_publish(pair.source, promise, strategy=jlt, users=pair.users, insecure_no_noise=True)
    noiseless.save(folder / "noiseless")
    (folder / "small.toml").write_text("hidden = 16\nwidth = 8\nbatch = 64\nseed = 3\ndevice = 'cpu'\nepochs = 3\n")
    for name, cold in (("split", 0.2), ("warm", 0)):
        assert cli.run(["split", f"{folder}/ratings.parquet", "--cold", str(cold), "--out", f"{folder}/{name}"]) == 0
    for name, options in {
        "popularity": "--method popularity",
        "ease": "--method ease",
        "plaintext": f"--method ease-source --source {folder}/source.parquet",
        "ridge": f"--method ridge-release --release {folder}/release",
        "linear": f"--method ease-release --release {folder}/unsigned",
        "unverified": f"--method ridge-release --release {folder}/release --allow-unverified",
        "dmf": f"--method dmf --config {folder}/small.toml",
        "hetero": f"--config {folder}/small.toml --release {folder}/release",
    }.items():
        assert cli.run(["train", f"{folder}/split", "--out", f"{folder}/{name}", *options.split()]) == 0
    return folder
