"""``publish --engine``: the same release from disk, refusals before anything is spent, and what a kill leaves."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from pricdr import Ledger, memory, verify
from pricdr.engines import outofcore
from pricdr.parallel import cores
from pricdr.privacy.plan import Estimate

SEEDED = ("--insecure-seed", 3)


@pytest.fixture
def on_disk(monkeypatch):
    """Let every file count as too large for the memory."""
    return lambda: monkeypatch.setattr(memory, "EXPANSION", 10**9)


@pytest.fixture
def many(here, rng):
    """A file of 3,000 rows with repeats, and a list of users."""
    rows = zip(rng.integers(0, 60, 3000), rng.integers(0, 40, 3000), rng.integers(1, 6, 3000), strict=True)
    text = "".join(f"u{user},i{item},{rating}\n" for user, item, rating in rows)
    (here / "many.csv").write_text("user,item,rating\n" + text)
    (here / "users.txt").write_text("".join(f"u{user}\n" for user in rng.permutation(80)[:50]))
    return here / "many.csv"


def files_of(folder):
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


@pytest.mark.parametrize(
    "options",
    [
        ("--values", "--rating-bound", 5, "--rating-step", 1, "--strategy", "jlt"),
        ("--users", "users.txt"),
    ],
    ids=lambda options: " ".join(map(str, options)),
)
def test_the_release_folder_is_the_same_byte_for_byte_and_the_screen_says_why_it_was_sorted(
    here, many, publish, on_disk, options
):
    """``tests/golden`` has the rows of every strategy, unit and kind of value."""
    memory = publish(many, *SEEDED, *options, out="memory")
    on_disk()
    local = publish(many, *SEEDED, *options, out="local")
    assert (memory.code, local.code) == (0, 0), local.err
    assert files_of(here / "memory") == files_of(here / "local")
    assert sorted(path.name for path in here.iterdir()) == ["local", "many.csv", "memory", "users.txt"]
    for beginning in ("listed users: ", "published Release("):  # what the screen counts is the same too
        found = [[line for line in run.out.splitlines() if line.startswith(beginning)] for run in (memory, local)]
        assert found[0] == found[1]
    assert memory.err == local.err
    assert "out of core" not in memory.out
    for words in ("of files may take", "out of core: needs about", "in plaintext"):
        assert words in local.out


def test_memory_is_stated_and_a_limit_below_it_is_refused_before_anything_is_spent(
    many, publish, ledger, monkeypatch, on_disk
):
    on_disk()
    before = ledger.read_bytes()
    monkeypatch.setenv("PRICDR_MEMORY", "70MB")
    for options in ((), ("--dry-run",)):
        outcome = publish(many, "--ledger", ledger, *options)
        assert outcome.code == 2
        assert "publishing out of core needs about " in outcome.err
        assert "the limit is 70.0 MB" in outcome.err
    assert ledger.read_bytes() == before


def test_the_parts_of_the_stated_memory_add_up(monkeypatch):
    monkeypatch.setattr(outofcore, "sort_memory", lambda: 50 * 10**6)
    monkeypatch.setattr(outofcore, "BLOCK_ENTRIES", 10**7 / cores() / outofcore.BYTES_PER_ENTRY)
    ids = SimpleNamespace(raters=("ü" * 100,) * 3000, items=("i" * 25,) * 1000)
    for rows, learns in ((20 * 10**6, True), (10**12, False)):  # what is not learnt from is kept in a file
        user_rows = rows if learns else outofcore.LARGE
        work = Estimate(1.0, 0, item_rows=30 * 10**6, user_rows=rows, learns=learns)
        need, parts = outofcore.require_room(ids, work)
        assert need == 200 * 10**6 + 4000 * 250 + 650_000 + 40 * 10**6 + user_rows
        assert parts.startswith(f"needs about {need / 1e6:,.1f} MB of memory, however many ratings there are: ")


KILLED = """
import os, runpy, signal, sys
from pricdr import memory
from pricdr.release.folder import Release
memory.EXPANSION = 10**9
def killed(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
Release.write_into = killed
sys.argv = ["pricdr", *sys.argv[1:]]
runpy.run_module("pricdr", run_name="__main__", alter_sys=True)
"""


def test_a_command_killed_after_the_spend_has_spent_and_the_next_one_pays_again(here, many, publish, ledger):
    """Nothing was handed over, and nobody can know what a killed process had drawn: the spend stays."""
    options = ["--ledger", str(ledger), "--epsilon", "1"]
    arguments = ["publish", str(many), "--delta", "1e-6", "--out", "release", *options]
    outcome = subprocess.run([sys.executable, "-c", KILLED, *arguments], cwd=here, capture_output=True, check=False)
    assert outcome.returncode == -9
    assert len(Ledger(ledger).read().spends) == 1
    assert not (here / "release").exists()
    assert len(list(here.glob(".pricdr-sort-*"))) == 1
    assert publish(many, "--dry-run").code == 0
    assert len(list(here.glob(".pricdr-sort-*"))) == 1, "a dry run changes nothing"
    assert publish(many, *options).code == 0
    assert len(Ledger(ledger).read().spends) == 2
    assert verify(here / "release").certificate.ledger.releases == 2
    assert not list(here.glob(".*")), "a run in memory, too, sweeps what the killed process left in plaintext"


def test_a_dry_run_counts_and_does_not_sort(here, many, publish, on_disk):
    on_disk()
    outcome = publish(many, "--dry-run", "--json", "-", out="not/there/yet")
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out)["for_the_source_alone"]["memory_bytes"] > 10**8
    assert "many.csv: 3,000 rows, 60 users, 40 items, repeated pairs not merged yet" in outcome.err
    assert sorted(path.name for path in here.iterdir()) == ["many.csv", "users.txt"]


def test_a_list_of_a_hundred_million_ids_is_refused_by_its_size(here, monkeypatch, publish, ratings):
    monkeypatch.setenv("PRICDR_MEMORY", "8GB")
    with (here / "users.txt").open("wb") as file:
        file.write(b"".join(b"user%08d\n" % at for at in range(10_000)))
        file.truncate(13 * 10**8)  # a hole: it takes no space, and no time to write
    outcome = publish(ratings, "--users", "users.txt")
    assert outcome.code == 2
    assert "users.txt: a list of about 99,99" in outcome.err  # 65,536 bytes do not end where a line does
    assert "of memory, the limit is 8.0 GB" in outcome.err


MEASURED = """
import resource, sys, tempfile
from pathlib import Path
import numpy as np, polars as pl
import pricdr
from pricdr.data.workspace import Workspace
from pricdr.engines.outofcore import read_on_disk

rng = np.random.default_rng(0)
with tempfile.TemporaryDirectory() as folder:
    for part in range(int(sys.argv[1])):
        users, items = (pl.Series(rng.integers(0, most, 500_000)).cast(pl.String) for most in (50_000, 9_000))
        frame = pl.DataFrame({"user": "user" + users, "item": "item" + items, "rating": rng.integers(1, 6, 500_000)})
        frame.with_columns(time=rng.random(500_000)).write_parquet(Path(folder) / f"{part}.parquet")
    del users, items, frame
    with Workspace.opened(Path(folder)) as workspace:
        ratings = read_on_disk(Path(folder), workspace).ratings
        pricdr.publish(ratings, pricdr.Guarantee(epsilon=4, delta=1e-6), strategy=pricdr.strategies.JLT(dim=8))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_ratings():
    """Four times the ratings of the same users and items: peak resident memory, pages of files included."""
    surroundings = {**os.environ, "PRICDR_MEMORY": "400MB"}
    peaks = [
        int(subprocess.check_output([sys.executable, "-c", MEASURED, str(parts)], env=surroundings))
        for parts in (4, 16)
    ]
    rows = 6_000_000 * 24 // 1024  # what the further rows take, in KiB
    assert peaks[1] - peaks[0] < 0.3 * rows, f"{peaks[0] >> 10} MiB, then {peaks[1] >> 10} MiB"
