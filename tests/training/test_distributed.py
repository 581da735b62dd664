"""Two processes under torchrun train the model that one process trains."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from pricdr.errors import ParameterError
from pricdr.models import DMF, EASE, HeteroCDR
from pricdr.models import base as method_base
from pricdr.training.distributed import Processes, processes
from pricdr.training.run_log import RunLog
from tests.training.together import TRAINED, fitted, save

WORKER = Path(__file__).with_name("together.py")
SECONDS = 300


def torchrun(*arguments: object, count: int = 2) -> subprocess.CompletedProcess[str]:
    """Start processes that talk over loopback."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    return subprocess.run(
        [*command, *map(str, arguments)], capture_output=True, text=True, env=environment, timeout=SECONDS, check=False
    )


def test_without_a_process_group_a_process_is_alone():
    together = processes()
    assert (together.rank, together.count, together.is_first) == (0, 1, True)
    rows = torch.ones(3, 2)
    assert together.gather_rows(rows, together.portion(3)) is rows
    assert together.all_reduce(rows) is rows
    assert together.compute_on_first(lambda: 2.5, torch.device("cpu")) == 2.5


def test_methods_that_cannot_be_distributed_are_refused_in_one_line(monkeypatch):
    monkeypatch.setattr(method_base, "processes", lambda: Processes(1, 2))
    joint = HeteroCDR(config=HeteroCDR().config.__class__(joint=True))
    for method in (EASE(), joint):
        with pytest.raises(ParameterError, match="is trained by one process: start it without torchrun"):
            method.require_shared()
    for method in (DMF(), HeteroCDR()):
        method.require_shared()


def test_memory_is_counted_for_every_process_on_the_machine(monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert Processes(0, 4).on_this_machine == 2
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "many")
    assert Processes(0, 4).on_this_machine == 4


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder with the output of two processes."""
    folder = tmp_path_factory.mktemp("together")
    completed = torchrun(WORKER, folder)
    assert completed.returncode == 0, completed.stderr[-3000:]
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINED)
def test_two_processes_end_with_the_model_of_one(trained, tmp_path, name):
    save(fitted(name, RunLog(file=tmp_path / "log.jsonl")), tmp_path / "alone.npz")
    alone = np.load(tmp_path / "alone.npz")
    for rank in range(2):
        both = np.load(trained / f"{name}.{rank}.npz")
        assert both["epochs"].tolist() == alone["epochs"].tolist()
        scores, expected = (model["users"] @ model["items"].T + model["bias"] for model in (both, alone))
        # Rounding in a different order changes scores a little; a different draw would change them a lot.
        assert np.median(np.abs(scores - expected)) < 1e-5
        np.testing.assert_allclose(scores, expected, atol=2e-2)
        assert (np.argsort(-scores, axis=1)[:, :5] == np.argsort(-expected, axis=1)[:, :5]).mean() > 0.99
    # One log, written by one process, with the same losses and metrics.
    lines, own = (
        [json.loads(line) for line in path.read_text().splitlines()]
        for path in (trained / f"{name}.log.jsonl", tmp_path / "log.jsonl")
    )
    assert [(line["part"], line["epoch"]) for line in lines] == [(line["part"], line["epoch"]) for line in own]
    np.testing.assert_allclose([line["loss"] for line in lines], [line["loss"] for line in own], rtol=1e-4)
    np.testing.assert_allclose([line["metric"] for line in lines], [line["metric"] for line in own], atol=1e-3)


@pytest.mark.slow
def test_processes_that_differ_are_refused_by_all(trained):
    first, second = ((trained / f"refused.{rank}.txt").read_text().splitlines() for rank in range(2))
    assert (
        first[0]
        == second[0]
        == ("1 of 2 processes have different data or settings than the first: give every process the same")
    )
    assert (first[1], second[1]) == ("no metric", "the first process of this training failed")
    assert all("method ease" in messages[2] and "one process" in messages[2] for messages in (first, second))
    assert first[3] == second[3] == first[0]


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_two_gpus_end_with_the_model_of_one(tmp_path):
    """nccl, one GPU each: through the command line, which gives every process its GPU."""
    from pricdr import SyntheticConfig, synthetic_pair
    from pricdr.data.reading.readers import write_ratings
    from pricdr.models import FittedModel

    write_ratings(tmp_path / "r.parquet", synthetic_pair(SyntheticConfig(users=300)).target)
    train = ("-m", "pricdr", "train", tmp_path / "r.parquet", "--epochs", 3, "--device", "cuda", "--out")
    assert torchrun(*train, tmp_path / "two" / "model").returncode == 0
    subprocess.run([sys.executable, *map(str, train), str(tmp_path / "one" / "model")], check=True)
    two, one = (FittedModel.load(tmp_path / name / "model") for name in ("two", "one"))
    np.testing.assert_allclose(two.item_vectors, one.item_vectors, atol=1e-3)
