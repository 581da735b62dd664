"""Several sources of one target: who is listed, what their releases share, and what tells their results apart."""

from dataclasses import replace

import numpy as np
import pytest

from pricdr.data.ratings import Ratings
from pricdr.data.tables import write_ratings
from pricdr.experiments.arms import Arm, DataSpec, ReleaseSpec, RowContent, result_key
from pricdr.experiments.results import read
from pricdr.experiments.runner import fit, run
from pricdr.experiments.spec import Spec
from pricdr.experiments.tasks import RunContext, load_task

DATA = DataSpec(folder="toy", source="a.parquet", more_sources=("b.parquet",), target="t.parquet", core=2, cold=0.2)
FIRST = ReleaseSpec(strategy="spectral", dim=4)
SECOND = replace(FIRST, source=2)
NOISE = replace(FIRST, rows=RowContent.NOISE)
BOTH = Arm(name="both", method="ridge-release", release=FIRST, more_releases=(SECOND, NOISE, NOISE))


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    """Users 0 to 89 rate in a, 30 to 119 in b, all 120 in t."""
    folder, rng = tmp_path_factory.mktemp("data") / "toy", np.random.default_rng(0)
    folder.mkdir()
    for name, users, items in (("a", range(90), 40), ("b", range(30, 120), 40), ("t", range(120), 250)):
        pairs = [(f"u{u:03d}", f"{name}{i:03d}") for u in users for i in rng.choice(items, items // 8, replace=False)]
        write_ratings(folder / f"{name}.parquet", Ratings.from_triples(*zip(*pairs, strict=True)))
    return RunContext(folder.parent, tmp_path_factory.mktemp("prepared"), "cpu")


@pytest.mark.parametrize(("any_source", "users", "listed"), [(False, 60, (60, 60)), (True, 120, (90, 90))])
def test_a_source_lists_its_own_users_among_those_of_the_target(context, any_source, users, listed):
    data = replace(DATA, any_source=any_source)
    for _ in range(2):  # the second time from the arrays that the first has kept
        task = load_task(data, context.data, context.prepared)
        assert len(task.pair.users) == users
        assert [source.users for source in task.more_sources] == [task.pair.users]
    _, releases, *_ = fit(task, task.split(1), BOTH, 1, "cpu")
    assert [len(release.users) for release in releases] == [*listed, listed[0], listed[0]]


def test_releases_of_one_arm_share_no_bits_and_are_those_of_arms_that_have_them_alone(context):
    task = load_task(DATA, context.data, context.prepared)
    _, together, *_ = fit(task, task.split(1), BOTH, 1, "cpu")
    for release, alone in ((FIRST, together[0]), (SECOND, together[1])):
        _, (made,), *_ = fit(task, task.split(1), replace(BOTH, release=release, more_releases=()), 1, "cpu")
        assert np.array_equal(made.matrix, alone.matrix)
    one, other = (release.matrix.ravel() for release in together[2:])
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.4  # 240 pairs: 6 standard deviations
    assert not np.array_equal(one, other)


def test_results_say_which_releases_were_used_and_nothing_where_there_is_one(context, tmp_path):
    alone = replace(BOTH, name="alone", more_releases=())
    plaintext = Arm(name="plaintext", method="ease-source", plaintext=True)
    spec = Spec(name="toy", title="Toy", data=DATA, arms=(BOTH, alone, plaintext), seeds=(1,))
    assert run(spec, tmp_path, context) == []
    used = {result.arm: result.releases_used for result in read(tmp_path / "toy.jsonl")}
    assert used == {"both": (), "alone": None, "plaintext": None}  # made up at random: there is nothing to find


def test_every_source_and_every_release_counts_in_a_key():
    keys = [
        result_key(data, arm, full=True)
        for data, arm in (
            (DATA, BOTH),
            (replace(DATA, any_source=True), BOTH),
            (replace(DATA, more_sources=("c.parquet",)), BOTH),
            (DATA, replace(BOTH, more_releases=(SECOND, NOISE))),
            (DATA, replace(BOTH, more_releases=())),
            (DATA, replace(BOTH, release=SECOND, more_releases=())),
        )
    ]
    assert len(set(keys)) == len(keys)
