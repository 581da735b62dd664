"""The parts of ``benchmarks.frontier_synthetic`` at a tiny size."""

import json

import numpy as np
import pytest
from benchmarks import frontier_synthetic as frontier
from benchmarks.frontier_table import CONTROLS, PLAIN, STRATEGIES, Table
from benchmarks.latent_pair import LatentConfig, latent_pair

from pricdr.experiments.arms import ReleaseSpec
from pricdr.experiments.releases import seeded_release
from pricdr.privacy.guarantee import Guarantee

TINY = LatentConfig(users=1500, source_items=320, target_items=320)


@pytest.fixture(scope="module")
def task():
    return frontier.Task.of(TINY, 1)


def test_a_seed_gives_one_pair():
    small = LatentConfig(users=60, source_items=300, target_items=250)
    first, second, other = (latent_pair(small, seed=seed) for seed in (1, 1, 2))
    assert first.pair.source.fingerprint() == second.pair.source.fingerprint() != other.pair.source.fingerprint()
    assert first.source_vectors.shape == (300, small.tastes)
    assert np.diff(first.pair.source.matrix.indptr).min() >= 1


def test_cold_users_have_nothing_to_train_on(task):
    assert not np.diff(task.train.matrix.indptr)[task.test.users].any()
    assert not task.known[task.test.users].any()
    assert len(task.test) == len(task.validation) == pytest.approx(0.2 * TINY.users, rel=0.05)
    rated = task.drawn.pair.target.matrix
    for at in range(20):
        own = set(rated[[task.test.users[at]]].indices.tolist())
        assert {int(task.test.items[at]), int(task.validation.items[at])} <= own
        assert not own & set(task.test.negatives[at].tolist())


@pytest.mark.parametrize("name", ["jlt", "spectral", "guided"])
def test_releases_are_those_of_the_experiments(task, name):
    guarantee = Guarantee(epsilon=4, delta=frontier.DELTA)
    found = frontier.publish(task.source, frontier.strategy_of(task, frontier.Arm(name, 4), guarantee), guarantee, 1)
    spec = ReleaseSpec(strategy=name, epsilon=4, delta=frontier.DELTA)
    np.testing.assert_array_equal(found.matrix, seeded_release(task.source, spec, 1, target=task.train).matrix)


def test_it_runs_resumes_and_prints_a_table(tmp_path):
    out = tmp_path / "found.jsonl"
    wanted = frontier.arms((4.0,))
    frontier.run(TINY, 1, wanted[:3], out)
    frontier.run(TINY, 1, wanted, out)
    before = out.read_text()
    frontier.run(TINY, 1, wanted, out)
    assert out.read_text() == before
    lines = [json.loads(line) for line in before.splitlines()]
    assert len(lines) == len(wanted) == len(CONTROLS) + len(STRATEGIES)
    gains = {line["arm"]: line["gain"] for line in lines}
    assert gains[PLAIN] > 0.02
    assert gains[frontier.SHUFFLED] < 0.5 * gains[PLAIN]
    assert gains[frontier.TRUE] > gains["jlt"]
    table = str(Table(before.splitlines()))
    assert all(name in table for name in (*CONTROLS, *STRATEGIES))
