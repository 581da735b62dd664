"""The parts of ``benchmarks.frontier_synthetic`` at a tiny size."""

from pathlib import Path

import numpy as np
import pytest
from benchmarks import frontier_synthetic as frontier
from benchmarks.frontier_table import CONTROLS, NOTE, PLAIN, STRATEGIES, Table, read_synthetic, share
from benchmarks.latent_pair import LatentConfig

from pricdr.experiments.arms import ReleaseSpec
from pricdr.experiments.runner import seeded_release
from pricdr.privacy.accounting import Guarantee

TINY = LatentConfig(users=1500, source_items=320, target_items=320)


@pytest.fixture(scope="module")
def task():
    return frontier.Task.of(TINY, 1)


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
    out.write_text(before[:-30])  # killed while it wrote the last line
    frontier.run(TINY, 1, wanted, out)
    results = read_synthetic(out)
    assert len(results) == len(before.splitlines()) == len(wanted) == len(CONTROLS) + len(STRATEGIES)
    gains = {one.arm: one.gain for one in results}
    assert gains[PLAIN] > 0.02
    assert gains[frontier.SHUFFLED] < 0.5 * gains[PLAIN]
    assert gains[frontier.TRUE] > gains["jlt"]
    assert share(results, frontier.TRUE, 4.0, 1500).value == pytest.approx(gains[frontier.TRUE] / gains[PLAIN])
    assert share(results, frontier.TRUE, 2.0, 1500) is None
    table = str(Table(results))
    assert all(name in table for name in (*CONTROLS, *STRATEGIES))


@pytest.mark.parametrize(
    ("name", "value", "changed"),
    [
        ("JLT_DIM", 100, {"jlt"}),
        ("TAGGED", 0.2, {"features: vectors", "features: tags", "true directions", frontier.TRUE_LESS}),
        ("GUIDE_DIM", 4, {"guided"}),
        ("REVISION", 2, {arm.name for arm in frontier.arms((4.0,))}),
    ],
)
def test_a_key_changes_with_the_settings_it_rests_on(monkeypatch, name, value, changed):
    before = {arm.name: frontier.key(TINY, arm) for arm in frontier.arms((4.0,))}
    assert len(set(before.values())) == len(before)
    monkeypatch.setattr(frontier, name, value)
    after = {arm.name: frontier.key(TINY, arm) for arm in frontier.arms((4.0,))}
    assert {arm for arm in before if before[arm] != after[arm]} == changed


COMMITTED = Path(__file__).parents[2] / "results" / "frontier_synthetic.jsonl"


def test_what_is_committed_was_measured_with_the_settings_of_today_and_controls_gain_nothing():
    results = read_synthetic(COMMITTED)
    assert {one.users for one in results} == {10_000, 100_000, 1_000_000}
    for one in results:
        assert one.key == frontier.key(LatentConfig(users=one.users), frontier.Arm(one.arm, one.epsilon))
    measured = {(one.users, one.arm, one.epsilon) for one in results}
    assert {(name, epsilon) for _, name, epsilon in measured} == set(frontier.arms(frontier.DIMS))
    assert len(measured) == 3 * len(frontier.arms(frontier.DIMS))
    assert COMMITTED.with_suffix(".md").read_text(encoding="utf-8") == f"{NOTE}\n{Table(results)}\n"
    controls = [one for one in results if one.arm in ("shuffled", "noise")]
    assert len(controls) == 2 * len({(one.users, one.seed) for one in results})
    assert {(one.gain, one.chosen) for one in controls} == {(0.0, "popularity")}
