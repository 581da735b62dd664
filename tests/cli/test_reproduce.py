"""``reproduce`` as a researcher uses it: in parts, again, to search, and where something is missing or fails."""

import json
import os
import re
import signal
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest

from pricdr import Ratings
from pricdr.data.tables import write_ratings
from pricdr.experiments.paper import read_table3
from tests.raw_files import FORMS, known_pair

SPEC = """
title = "A family"
seeds = [1, 2]

[[data]]
name = "here"
folder = "toy"
source = "source.parquet"
target = "target.parquet"
core = 1
cold = 0.2

[[data]]
name = "absent"
folder = "nowhere"
source = "source.parquet"
target = "target.parquet"

[[arm]]
name = "popularity"
method = "popularity"

[[arm]]
name = "jlt"
method = "ridge-release"
release = { strategy = "jlt", dim = 4 }
vary = { epsilon = [1, 8] }

[[arm]]
name = "diverges"
method = "dmf"
settings = { hidden = 8, width = 4, epochs = 2, batch = 64, learning_rate = 1e30 }
"""


@pytest.fixture
def family(here):
    folder = here / "data" / "toy"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for name in ("source", "target"):
        pairs = [(u, i) for u in range(80) for i in rng.choice(300, 10, replace=False)]
        ratings = Ratings.from_triples([f"u{u:03d}" for u, _ in pairs], [f"{name}{i:03d}" for _, i in pairs])
        write_ratings(folder / f"{name}.parquet", ratings)
    (here / "specs").mkdir()
    (here / "specs" / "family.toml").write_text(SPEC)
    return here / "specs" / "family.toml"


def rows(here, table="family_here"):
    lines = (here / "results" / f"{table}.jsonl").read_text().splitlines()
    return sorted((row["arm"], row["seed"]) for row in map(json.loads, lines))


def test_parts_of_a_family_are_run_and_a_failure_does_not_stop_the_rest(here, family, pricdr):
    fixed = ("reproduce", family, "--data", here / "data", "--out", "results")
    part = pricdr(*fixed, "--only", "popularity", "--only", "jlt", "--seeds", "2")
    assert part.code == 0, part.err
    assert "2 tables, 3 runs to do" in part.out
    assert rows(here) == [("jlt, ε = 1", 2), ("jlt, ε = 8", 2), ("popularity", 2)]
    assert "data not present: point PRICDR_DATA at it (" in part.out
    assert json.loads((here / "results" / "family_absent.spec.json").read_text())["missing"]
    whole = pricdr(*fixed)
    assert whole.code == 1
    assert "5 runs to do" in whole.out
    assert "failed: family_here, diverges, seed 1: TrainingError" in whole.err
    assert len(rows(here)) == 6
    assert "Not run: diverges." in whole.out
    again = pricdr(*fixed)
    assert "2 runs to do" in again.out  # those that failed


@pytest.mark.parametrize("what", ["family", "family --table3", "family --search --method popularity", "--table3"])
def test_where_nothing_could_run_the_command_fails_and_says_where_data_is_from(here, family, pricdr, what):
    (here / "nothing").mkdir()
    words = [family if word == "family" else word for word in what.split()]
    done = pricdr("reproduce", *words, "--data", here / "nothing", "--out", "results")
    assert done.code == 2
    assert done.err.startswith(f"error: nothing could run: {here / 'nothing'} has none of the data; docs/data.md says")
    assert done.err.count("\n") == 1
    assert "data not present: point PRICDR_DATA at it" in done.out


def test_table_3_is_counted_written_and_shown(pricdr, here):
    FORMS[1].put(here / "data", *known_pair())
    done = pricdr("reproduce", "--table3", "--data", here / "data", "--out", here / "out")
    assert done.code == 0
    assert "Amazon Music→Book | ours: differs (rating ≥ 3, the five steps) | 7 | 7 | 49 | 100.00%" in done.out
    assert done.out.count("data not present: point PRICDR_DATA at it") == 8
    assert read_table3(here / "out" / "table3.json").rows[0].measured.users == 7


REFUSED = (
    (("family.toml", "--only", "nobody"), "no arm or curve of these specs is called 'nobody'"),
    (("family.toml", "--seeds", "one"), "--seeds takes whole numbers"),
    (("family.toml", "--seeds", "-1"), "--seeds takes whole numbers"),
    (("family.toml", "--trials", 3), "--trials: this is for --search"),
    (("family.toml", "other/family.toml"), "2 tables are called family_here"),
    (("--search", "family.toml", "--method", "nobody"), "nobody"),
    (
        ("--search", "family.toml", "--trials", 0, "--method", "ease"),
        "trials must be a whole number from 1 to 1,000",
    ),
    (("--search", "family.toml", "--strategy", "nobody"), "nobody"),
    (("--search", "family.toml", "--strategy", "jlt", "--strategy", "sjlt"), "one --strategy"),
    (("--search", "family.toml", "--only", "jlt"), "--only: --search runs no arms"),
    ((), "nothing to reproduce: name a spec, or say --table3"),
    (("outside.toml",), "outside.toml: name becomes a file name"),
    (("elsewhere.toml", "--prepared", "kept"), "elsewhere.toml: "),
)


def test_what_cannot_be_reproduced_is_refused_before_anything_runs_and_nothing_is_written(here, family, refused):
    (here / "other").mkdir()
    for name in ("family.toml", "other/family.toml"):
        (here / name).write_text(SPEC)
    (here / "outside.toml").write_text(f'name = "../outside"\n{SPEC}')
    (here / "elsewhere.toml").write_text(SPEC.replace('folder = "toy"', 'folder = "../toy"'))
    for arguments, says in REFUSED:
        refused("reproduce", *arguments, "--data", here / "data", "--out", "results", says=says)


def test_a_search_keeps_every_trial_and_writes_what_it_chose(here, family, pricdr):
    fixed = ("reproduce", "--search", family, "--data", here / "data", "--out", "results", "--trials", "2")
    first = pricdr(*fixed, "--method", "itemknn")
    assert first.code == 0, first.err
    assert "absent: data not present" in first.out
    log = here / "results" / "search" / "toy.jsonl"
    trials = [json.loads(line) for line in log.read_text().splitlines()]
    assert [trial["method"] for trial in trials] == ["itemknn"] * 2
    best = max(trials, key=lambda trial: trial["validation"])
    tuned = here / "specs" / "tuned" / "toy.toml"
    assert tomllib.loads(tuned.read_text()) == {"itemknn": best["settings"]}
    before = log.read_text()
    assert pricdr(*fixed, "--method", "itemknn").code == 0
    assert log.read_text() == before  # none is made twice
    assert pricdr(*fixed, "--method", "popularity").code == 0
    assert tomllib.loads(tuned.read_text()) == {"itemknn": best["settings"], "popularity": {}}


def test_a_search_on_other_data_of_the_same_folder_is_refused(here, family, pricdr):
    """Both would be filed under the folder's name, and the settings of the second would replace those of the first."""
    family.write_text(SPEC.replace('name = "absent"\nfolder = "nowhere"', 'name = "denser"\ncore = 2\nfolder = "toy"'))
    fixed = ("reproduce", "--search", family, "--data", here / "data", "--trials", "1", "--method", "popularity")
    wrong = pricdr(*fixed)
    assert (wrong.code, "denser and here are different data in one folder, toy" in wrong.err) == (2, True)
    family.write_text(family.read_text().replace("core = 2", 'core = 2\ntuned = "toy"'))
    borrowing = pricdr(*fixed)
    assert borrowing.code == 0, borrowing.err
    assert "denser: not searched, since it uses the settings chosen for toy" in borrowing.out


def test_nothing_is_chosen_where_every_trial_failed(here, family, pricdr):
    always = "[data.search]\ndmf = { hidden = 8, width = 4, epochs = 2, learning_rate = 1e30 }\n\n[[data]]\n"
    family.write_text(SPEC.replace('[[data]]\nname = "absent"', f'{always}name = "absent"'))
    fixed = ("reproduce", "--search", family, "--data", here / "data", "--out", "results", "--trials", "1")
    done = pricdr(*fixed, "--method", "dmf", "--method", "popularity")
    assert done.code == 0, done.err
    assert "every trial of dmf failed, so nothing was chosen for it" in done.err
    assert tomllib.loads((here / "specs" / "tuned" / "toy.toml").read_text()) == {"popularity": {}}


def _workers(parent: int) -> list[Path]:
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [Path("/proc", child) for child in children if b"spawn_main" in Path("/proc", child, "cmdline").read_bytes()]


def _is_running(process: Path) -> bool:
    try:
        return process.joinpath("stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children are looked up in /proc")
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_ended_command_leaves_no_process_and_goes_on_later(here, family, start, until, pricdr, sent):
    """A parent that is killed closes no pool, and polars has blocked waits resumed: workers would run on for ever."""
    long = "settings = { hidden = 8, width = 4, epochs = 100000, patience = 100000 }"
    family.write_text(re.sub(r"settings = .*", long, SPEC))
    fixed = ("reproduce", family, "--data", here / "data", "--out", "results")
    command = start(*fixed, "--jobs", 2)
    log = here / "results" / "family_here.jsonl"
    until(lambda: log.exists() and log.read_text().count("\n") == 6, command)
    workers = _workers(command.pid)
    assert len(workers) == 2
    try:
        command.send_signal(sent)
        assert command.wait(timeout=10) != 0
        deadline = time.monotonic() + 10
        while any(map(_is_running, workers)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not any(map(_is_running, workers))
    finally:  # they hold the pipes of the command, which the fixture reads to the end
        for worker in filter(_is_running, workers):
            os.kill(int(worker.name), signal.SIGKILL)
    again = pricdr(*fixed, "--only", "popularity", "--only", "jlt")
    assert "0 runs to do" in again.out
