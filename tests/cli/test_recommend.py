"""``recommend``: what is written, to a file or as an export; in parts: killed, out of disk, resumed; and refused."""

import errno
import os
import shutil
import signal
import stat
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

from pricdr import Guarantee, HeteroCDR, Ratings, Release, publish
from pricdr.models import (
    Chosen,
    SourceStageConfig,
    TrainingOptions,
    Trust,
    recommend as recommending,
    recommendation_files,
)
from pricdr.strategies import JLT
from tests.serving.conftest import small_model
from tests.settings import config

ARGUMENTS = ("-k", 5, "--users", "users.txt")

KILLED = """
import os, signal, sys
import pricdr.models.recommend as recommending
from pricdr import cli
recommending.ROWS_IN_A_PART, recommending.SCORES_AT_ONCE, recommending._ITEMS_AT_ONCE = 50, 300, 30
at = int(sys.argv[1])

def hook(event, arguments):
    global at
    if event == "os.link":  # a part, or the file itself, is about to appear
        at -= 1
        if at == 0:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(hook)
sys.exit(cli.run(sys.argv[2:]))
"""


@pytest.fixture
def model(here):
    """A model of 40 users and 60 items, another one, and a list of its users and a stranger."""
    small_model().save(here / "model")
    small_model(seed=1).save(here / "other")
    (here / "users.txt").write_text("\n".join([*small_model().users, "stranger"]) + "\n")
    return here / "model"


@pytest.fixture
def small_parts(monkeypatch):
    """Not by a patch of its own: whichever of two is undone last would stay."""
    for name, size in (("ROWS_IN_A_PART", 50), ("SCORES_AT_ONCE", 300), ("_ITEMS_AT_ONCE", 30)):
        monkeypatch.setattr(recommending, name, size)


def test_a_run_killed_repeatedly_ends_with_the_same_bytes(here, model, pricdr, small_parts):
    assert pricdr("recommend", model, "--out", "whole.parquet", *ARGUMENTS).code == 0
    resume = ["recommend", model, "--out", "r.parquet", *ARGUMENTS, "--resume"]
    for at, kept in ((2, 1), (5, 5)):  # at the second part; at the file itself
        command = [sys.executable, "-c", KILLED, str(at), *map(str, resume)]
        done = subprocess.run(command, cwd=here, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert len(list(here.glob(".r.parquet.recommending/part-*"))) == kept
        assert not (here / "r.parquet").exists()
    assert pricdr(*resume).code == 0
    assert (here / "r.parquet").read_bytes() == (here / "whole.parquet").read_bytes()
    assert not list(here.glob(".*"))


@pytest.mark.slow
def test_a_disk_that_fails_at_any_step_leaves_no_half_output(here, model, pricdr, steps, small_parts, monkeypatch):
    monkeypatch.setattr(recommending, "ROWS_IN_A_PART", 110)  # two parts
    error, folder = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), here / "out"
    folder.mkdir()
    whole, out = folder / "whole.parquet", folder / "r.parquet"
    with steps.watched(folder) as counted:
        assert pricdr("recommend", model, "--out", whole, *ARGUMENTS).code == 0
    assert counted.seen > 20
    refusals = resumed = 0
    for at in range(1, counted.seen + 1):
        with steps.watched(folder, error, at):
            outcome = pricdr("recommend", model, "--out", out, *ARGUMENTS)
        if outcome.code != 0:  # cleaning up may fail: the file is complete anyway
            refusals += 1
            last = outcome.err.splitlines()[-1]
            assert (outcome.code, last[:14], last.endswith(error.strerror)) == (2, "error: cannot ", True)
            resumed += "continue with --resume" in outcome.err
            if not out.exists() and at % 3 == 0:  # it exists if only the final sync failed
                assert pricdr("recommend", model, "--out", out, *ARGUMENTS, "--resume").code == 0
        assert out.read_bytes() == whole.read_bytes() if out.exists() else outcome.code != 0
        out.unlink(missing_ok=True)
        assert [path.name for path in folder.iterdir() if not path.name.startswith(".")] == ["whole.parquet"]
        for hidden in folder.glob(".*"):  # left if the failed step was to remove it
            shutil.rmtree(hidden) if hidden.is_dir() else hidden.unlink()
    assert (refusals > 5, resumed > 2) == (True, True)


def test_it_says_what_it_wrote_and_for_whom_it_knew_nothing(here, model, pricdr, small_parts):
    outcome = pricdr("recommend", model, "--out", "r.csv", *ARGUMENTS, "--resume")
    assert outcome.out == "205 recommendations for 41 users written to r.csv\n"
    assert outcome.err.splitlines() == [
        "warning: there is nothing to resume: recommending starts afresh",
        "warning: 1 of 41 users are unknown to the model: they get popular items",
    ]


def test_a_run_with_a_changed_model_is_not_resumed(here, model, pricdr, small_parts, monkeypatch):
    def interrupted(path, given, **options):
        if isinstance(given, list):  # the names of all parts: they are there
            raise KeyboardInterrupt
        return write_table(path, given, **options)

    write_table = recommendation_files.write_table
    with monkeypatch.context() as context:
        context.setattr(recommendation_files, "write_table", interrupted)
        assert pricdr("recommend", model, "--out", "r.parquet", *ARGUMENTS).code == 130
    assert len(list(here.glob(".r.parquet.recommending/part-*"))) == 5
    outcome = pricdr("recommend", "other", "--out", "r.parquet", *ARGUMENTS, "--resume")
    assert outcome.code == 2
    assert "was left by a run with another model" in outcome.err
    assert "continue with --resume" not in outcome.err
    assert not (here / "r.parquet").exists()
    assert pricdr("recommend", model, "--out", "r.parquet", *ARGUMENTS, "--resume").code == 0


def test_an_export_recommends_as_the_model_where_histories_are_handed_in_and_warns_where_not(target, pricdr, here):
    assert "without its training ratings" in pricdr("recommend", target / "ridge", "--export", "export").out
    assert pricdr("recommend", target / "ridge", "--out", "full.parquet").code == 0
    histories = target / "split" / "train.parquet"
    served = pricdr("recommend", "export", "--out", "served.parquet", "--seen", histories)
    assert (served.code, served.err) == (0, "")
    assert pl.read_parquet(here / "served.parquet").equals(pl.read_parquet(here / "full.parquet"))
    alone = pricdr("recommend", "export", "--out", "r.csv")
    assert "it may recommend items that users have rated (give --seen)" in alone.err
    (here / "strangers.csv").write_text("user,item\nx,y\n")
    assert "no item was left out" in pricdr("recommend", "export", "--out", "s.csv", "--seen", "strangers.csv").err


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("ease", ("--export", "new"), "ease scores by the ratings themselves"),
        ("popularity", (), "either --out or --export"),
        ("popularity", ("--export", "new", "--out", "new.csv"), "either --out or --export"),
        ("popularity", ("--export", "new", "--seen", "users.txt"), "--seen: an export covers every user"),
        ("popularity", ("--export", "new", "--resume"), "--resume: an export covers every user"),
        ("popularity", ("--export", "model"), "exists already"),
        ("popularity", ("--out", "new.csv", "--threshold", 3), "--threshold: this is about --seen"),
        ("popularity", ("--out", "new.csv", *config(encoding="latin-1")), "encoding: this is about --seen"),
        ("popularity", ("--out", "new.csv", "--seen", "nowhere.csv"), "nowhere.csv"),
        ("popularity", ("--out", "new.csv", "--public-key", "nowhere"), "cannot read key"),
    ],
)
def test_what_cannot_be_recommended_ends_in_one_line(target, model, refused, name, options, says):
    refused("recommend", target / name, *options, says=says)


@pytest.mark.parametrize("rows_in_a_part", [150, 1000], ids=["in parts", "at once"])
def test_what_names_users_and_their_tastes_is_for_its_owner_alone(here, model, pricdr, monkeypatch, rows_in_a_part):
    """``tests/test_files.py`` looks at models and exports."""
    monkeypatch.setattr(recommending, "ROWS_IN_A_PART", rows_in_a_part)
    for name in ("r.parquet", "r.csv"):
        assert pricdr("recommend", model, "--out", name).code == 0
        assert stat.S_IMODE((here / name).stat().st_mode) == 0o600


def test_a_newer_release_is_folded_in_and_its_new_users_are_counted_and_served(here, pricdr):
    """Of so few items that any projection holds them all: two releases are related for certain."""
    rng = np.random.default_rng(0)
    users = [f"u{n:03d}" for n in range(130)]
    source = Ratings.from_triples(*zip(*((u, f"s{i}") for u in users for i in rng.permutation(6)[:3]), strict=True))
    target = Ratings.from_triples(
        *zip(*((u, f"t{i}") for u in users[:80] for i in rng.permutation(30)[:4]), strict=True)
    )
    for name, listed in (("old", users[:120]), ("newer", users)):
        publish(source, Guarantee(epsilon=16, delta=1e-6), strategy=JLT(dim=16), users=listed).save(here / name)
    method = HeteroCDR(
        config=SourceStageConfig(hidden=8, width=4, base="dmf"), options=TrainingOptions(epochs=2, device="cpu")
    )
    chosen = Chosen(epochs={"target": 2, "source": 2}, trust=Trust(0.0, 1.0))
    method.fit(target, Release.load(here / "old"), chosen=chosen).save(here / "model")
    (here / "users.txt").write_text("u001\nu125\n")
    told = pricdr("recommend", "model", "--release", "newer", "--users", "users.txt", "-k", 3, "--out", "r.csv")
    assert (told.code, "folded in newer: 10 users are new to the model" in told.out) == (0, True), told
    rows = pl.read_csv(here / "r.csv")
    assert rows.filter(pl.col("user") == "u125")["basis"].to_list() == ["release"] * 3
    strangers = publish(source, Guarantee(epsilon=16, delta=1e-6), strategy=JLT(dim=16), users=users[:30])
    strangers.save(here / "few")
    refused = pricdr("recommend", "model", "--release", "few", "--out", "s.csv")
    assert (refused.code, "lists 30 users whom the model has a row of" in refused.err) == (2, True)
    export = pricdr("recommend", "model", "--release", "newer", "--export", "e")
    assert (export.code, "--release: an export covers every user" in export.err) == (2, True)
