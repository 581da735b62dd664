"""``torchrun -m pricdr train``: one model, one output, and all processes end when one does."""

import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

from pricdr import FittedModel, SyntheticConfig, synthetic_pair
from pricdr.cli import processes
from pricdr.data.reading.readers import write_ratings

ENVIRONMENT = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}


@pytest.fixture
def many(here):
    """Enough ratings to train on."""
    pair = synthetic_pair(SyntheticConfig(users=80, source_items=200, target_items=320))
    write_ratings(here / "many.parquet", pair.target)
    return "many.parquet"


@pytest.fixture
def torchrun(here):
    """Start two processes that talk over loopback."""
    running = []

    def start(*arguments: object) -> subprocess.Popen[str]:
        launcher = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "pricdr")
        running.append(
            subprocess.Popen(
                [*launcher, *map(str, arguments)],
                cwd=here,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, **ENVIRONMENT},
            )
        )
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.communicate()


def own_lines(err: str) -> list[str]:
    """Return our own lines of standard error, without torchrun's report."""
    return [line for line in err.splitlines() if line.startswith(("error: ", "warning: "))]


def children(parent: int) -> list[int]:
    """Return the processes that ``parent`` started."""
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(parent)], capture_output=True, text=True, check=False)
    return [int(pid) for pid in listed.stdout.split()]


@pytest.mark.slow
def test_two_processes_write_the_model_of_one(here, many, torchrun, process):
    started = torchrun("train", many, "--epochs", 3, "--device", "cpu", "--out", "two/model")
    out, err = started.communicate(timeout=240)
    assert started.returncode == 0, err
    # In another folder: beside the other model, its finished network would be reused.
    alone = process("train", many, "--epochs", 3, "--device", "cpu", "--out", "one/model")
    assert out == alone.out.replace("one/model", "two/model")
    two, one = (FittedModel.load(here / name / "model") for name in ("two", "one"))
    assert two.chosen == one.chosen
    np.testing.assert_allclose(two.item_vectors, one.item_vectors, atol=1e-4)
    users = list(one.users)
    pairs = [{(row.user, row.item) for row in model.recommend(users)} for model in (two, one)]
    assert len(pairs[0] & pairs[1]) > 0.99 * len(pairs[1])
    names = [sorted(path.name for path in (here / name).rglob("*")) for name in ("two", "one")]
    assert names[0] == names[1]


@pytest.mark.slow
def test_a_method_that_one_process_trains_is_refused_in_one_line(here, many, torchrun):
    started = torchrun("train", many, "--method", "ease", "--out", "model")
    _, err = started.communicate(timeout=240)
    assert started.returncode != 0
    assert len(own_lines(err)) == 1
    assert "method ease, as it is set, is trained by one process" in own_lines(err)[0]
    assert not (here / "model").exists()


@pytest.mark.slow
def test_when_one_process_is_killed_the_other_says_so_and_ends(here, many, torchrun):
    started = torchrun("train", many, "--epochs", 100_000, "--device", "cpu", "--out", "model")
    log = here / ".model.training" / "log.jsonl"
    deadline = time.monotonic() + 200
    while not log.exists():
        assert started.poll() is None, started.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    killed = time.monotonic()
    os.kill(children(started.pid)[1], signal.SIGKILL)
    _, err = started.communicate(timeout=60)
    assert time.monotonic() - killed < 30
    assert started.returncode != 0
    assert [line for line in own_lines(err) if line.startswith("error: ")] == [
        "error: another process of this training has ended or cannot be reached"
    ]
    assert re.search(r"warning: the epochs so far are kept in .*--resume", err)
    assert not (here / "model").exists()


@pytest.fixture
def second_of_two(monkeypatch):
    """The environment that torchrun gives to the second process."""
    for name, value in (("TORCHELASTIC_RUN_ID", "x"), ("WORLD_SIZE", "2"), ("RANK", "1")):
        monkeypatch.setenv(name, value)


def test_only_the_first_process_prints(second_of_two, capsys):
    from pricdr.cli.console import progress_bar, say, warn

    say("a line")
    warn("something")
    with progress_bar("work") as progress:
        progress("work", 1, 2)
    assert capsys.readouterr() == ("", "")


def test_the_variables_of_torchrun_are_ignored_without_it(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "8")
    monkeypatch.setenv("RANK", "3")
    assert processes.started() == 1
    assert processes.is_first()
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    assert (processes.started(), processes.is_first()) == (8, False)
    monkeypatch.setenv("WORLD_SIZE", "\x1b[31m")
    assert processes.started() == 1


def test_torchrun_is_for_training_alone(second_of_two):
    with pytest.raises(processes.ParameterError, match="run pricdr publish without it"):
        processes.require_one_process("publish")
    processes.require_one_process("train")


def test_training_on_one_of_several_gpus_prints_how_to_use_all(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    hint = "one of 4 GPUs is used: torchrun --nproc-per-node 4 -m pricdr train … would use all of them"
    assert processes.idle_gpus("cuda") == processes.idle_gpus("auto") == hint
    assert processes.idle_gpus("cpu") is None
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert processes.idle_gpus("cuda") is None


def test_more_processes_than_gpus_are_refused(second_of_two, monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(processes.ParameterError, match="--nproc-per-node 2 needs as many GPUs, and this machine has 1"):
        processes.take_gpu("auto")
    processes.take_gpu("cpu")
    devices = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", devices.append)
    processes.take_gpu("cuda")
    assert devices == [1]
