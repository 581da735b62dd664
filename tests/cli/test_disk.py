"""A read-only, full or failing disk: one line, exit code 2, nothing left."""

import errno
import os
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from pricdr import Ledger, verify

ARGUMENTS = ("--epsilon", "4", "--delta", "1e-6")


@pytest.fixture
def in_namespace(here):
    """Run a shell script that may mount things, where the system lets us; the mounts vanish with it."""
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "-rm", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this system lets no test mount a file system")
    (here / "mount").mkdir()

    def run(script, *arguments):
        command = [unshare, "-rm", "sh", "-c", script, "sh", sys.executable, *map(str, arguments)]
        return subprocess.run(command, cwd=here, capture_output=True, text=True, timeout=120, check=False)

    return run


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs /proc, where nobody can write")
def test_an_output_where_nobody_can_write_is_refused(ratings, refused_publish, refused):
    refused_publish(ratings, "--out", "/proc/release", says="cannot write /proc/release: ")
    for command in ("demo --out", "keygen --out", "ledger init --epsilon 1 --delta 1e-6"):
        refused(*command.split(), "/proc/output", says="cannot write /proc/output: ")


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ("ro", "cannot write mount/sub/release: Read-only file system"),
        ("size=256k", r"the release needs 3\d\d\.\d kB, 2\d\d\.\d kB are free on mount/sub"),
    ],
)
def test_a_read_only_or_full_file_system_is_refused(here, in_namespace, options, fault):
    pl.DataFrame({"user": range(300), "item": range(300)}).write_csv(here / "r.csv")
    done = in_namespace(
        f'mount -t tmpfs -o {options} tmpfs mount && "$@"; code=$?; ls -A mount >&2; exit $code',
        *("-m", "pricdr", "publish", "r.csv", *ARGUMENTS, "--out", "mount/sub/release", "--dim", 212),
    )
    assert done.returncode == 2
    assert re.fullmatch(f"error: {fault}\n", done.stderr)


def test_the_room_of_a_release_is_taken_before_the_spend(ratings, ledger, publish, monkeypatch):
    """Whatever fills the disk while the release is computed: there is as much room as its files need."""
    taken, spend = [], Ledger.spend

    def looking(self, **cost):
        (staging,) = ratings.parent.glob(".release.partial-*")
        taken.append(sum(path.stat().st_blocks * 512 for path in staging.iterdir()))
        return spend(self, **cost)

    monkeypatch.setattr(Ledger, "spend", looking)
    assert publish(ratings, "--ledger", ledger, "--strategy", "jlt", "--dim", 5000).code == 0
    files = sorted(ratings.with_name("release").iterdir())
    size = sum(path.stat().st_size for path in files)
    assert 3 * 5000 * 4 < size <= taken[0] < size + 100_000
    verify(ratings.with_name("release"))


def test_a_release_that_may_not_grow_to_its_size_is_refused_before_the_spend(here, ratings, ledger, publish):
    (here / "users.txt").write_text("alice\nbob\n")
    before, unlimited = ledger.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    options = ("--strategy", "jlt", "--dim", "5000", "--threshold", "1", "--users", "users.txt", "--ledger", ledger)
    for limit in (2000, 70_000, 200_000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, unlimited[1]))
        try:
            outcome = publish(ratings, *options)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
        if limit < 200_000:
            assert (outcome.code, outcome.err) == (2, "error: cannot write release: File too large\n")
            assert ledger.read_bytes() == before
            assert sorted(path.name for path in here.iterdir()) == ["budget.jsonl", "ratings.csv", "users.txt"]
    assert (outcome.code, outcome.err) == (0, "")
    assert len(verify(here / "release").users) == 2


FAILING = pytest.mark.parametrize(
    "error", [OSError(code, os.strerror(code)) for code in (errno.ENOSPC, errno.EIO)], ids=str
)


@FAILING
@pytest.mark.slow
def test_a_disk_that_fails_at_any_step_leaves_nothing_behind(here, ratings, ledger, publish, steps, error):
    folder = here / "out"
    folder.mkdir()
    options = ("--ledger", ledger, "--epsilon", 0.1, "--threshold", 1, "--users", here / "users.txt")
    (here / "users.txt").write_text("alice\n")
    with steps.watched(folder) as whole:
        assert publish(ratings, *options, out=folder / "counted").code == 0
    assert whole.seen > 8
    refusals = 0
    for at in range(1, whole.seen + 1):
        with steps.watched(folder, error, at):
            outcome = publish(ratings, *options, out=folder / "release")
        if outcome.code == 0:  # sweeping and tidying may fail: the release is whole all the same
            assert verify(folder / "release").users == ("alice",)
            shutil.rmtree(folder / "release")
        else:
            refusals += 1
            assert (outcome.code, outcome.err) == (2, f"error: cannot write {folder}/release: {error.strerror}\n")
        assert [path.name for path in folder.iterdir()] == ["counted"]
    assert refusals > whole.seen // 2


@FAILING
def test_a_disk_that_fails_under_the_ledger_never_loses_a_line(here, ratings, pricdr, publish, steps, error):
    folder = here / "books"
    folder.mkdir()
    ledger = folder / "budget.jsonl"
    pricdr("ledger", "init", ledger, "--epsilon", 9, "--delta", 1e-6, "--unit", "rating")
    with steps.watched(folder) as whole:
        assert publish(ratings, "--epsilon", 0.1, "--ledger", ledger, out="counted").code == 0
    for at in range(1, whole.seen + 1):
        before = ledger.read_bytes()
        with steps.watched(folder, error, at):
            outcome = publish(ratings, "--epsilon", 0.1, "--ledger", ledger, out=f"release{at}")
        assert (outcome.code == 0) == (here / f"release{at}").exists()
        assert "Traceback" not in outcome.err
        after = ledger.read_bytes()
        assert after.startswith(before)
        assert after != before or outcome.code == 2, "a release without a line in the ledger"
        lock = ".budget.jsonl.lock"  # stays where it could not be removed: an empty promise, which nobody holds
        assert {path.name for path in folder.iterdir()} - {lock} == {"budget.jsonl"}
    Ledger(ledger).read()
