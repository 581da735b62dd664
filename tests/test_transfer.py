"""Training on everything: what validation chose on items set aside is followed."""

import json

import numpy as np
import pytest

from pricdr import JLT, Guarantee, HeteroCDR, publish, synthetic_pair, transfer
from pricdr.data.synthetic import SyntheticConfig
from pricdr.models.factorisation.bpr import BPR
from pricdr.models.linear.ease import EASE
from pricdr.models.pricdr.dmf import DMF
from pricdr.testing.contracts import Planted
from pricdr.training.loop import Choices, Recording, TrainingOptions

OPTIONS = TrainingOptions(epochs=12, patience=2, patience_steps=1, device="cpu", learning_rate=5e-3)


@pytest.fixture(scope="module")
def pair():
    return synthetic_pair(SyntheticConfig(users=150, source_items=300, target_items=300))


@pytest.fixture(scope="module")
def release(pair):
    return publish(pair.source, Guarantee(epsilon=8, delta=1e-6), strategy=JLT(dim=16), users=pair.users)


def epochs(log):
    found = {}
    for line in log.read_text().splitlines():
        found.setdefault(json.loads(line)["part"], []).append(json.loads(line))
    return found


def test_everything_is_trained_on_for_as_long_as_items_set_aside_say(pair, release, tmp_path):
    log, choices = tmp_path / "log.jsonl", Choices()
    model = transfer(
        pair.target, release, method=HeteroCDR(options=OPTIONS), recording=Recording(log=log, choices=choices)
    )
    parts = epochs(log)
    assert list(parts) == ["choosing history", "choosing source", "history", "source"]
    for part in ("history", "source"):
        tried = [line["metric"] for line in parts[f"choosing {part}"]]
        assert choices.epochs[part] == 1 + int(np.argmax(tried)) == len(parts[part])
        assert {line["metric"] for line in parts[part]} == {None}
    assert choices.gates is not None
    again = HeteroCDR(options=OPTIONS).fit(pair.target, release, recording=Recording(choices=choices))
    np.testing.assert_array_equal(model.user_vectors, again.user_vectors)
    assert (model.seen != pair.target.matrix).nnz == 0


def test_gates_that_were_closed_stay_closed_on_everything(pair, release):
    closed = Choices(epochs={"history": 2, "source": 2}, gates=(0.0, 0.0))
    method, told = HeteroCDR(options=OPTIONS), Recording(choices=closed)
    alone = DMF(options=OPTIONS).fit(pair.target, recording=Recording(choices=Choices(epochs={"training": 2})))
    model = method.fit(pair.target, release, recording=told)
    np.testing.assert_array_equal(model.score(np.arange(150)), alone.score(np.arange(150)))
    open_ = Choices(epochs=closed.epochs, gates=(1.0, 1.0))
    trusting = method.fit(pair.target, release, recording=Recording(choices=open_))
    assert (trusting.score(np.arange(150)) != model.score(np.arange(150))).any()


def test_one_part_methods_and_closed_forms(pair, tmp_path):
    log = tmp_path / "log.jsonl"
    transfer(pair.target, method=BPR(options=OPTIONS), recording=Recording(log=log))
    assert list(epochs(log)) == ["choosing training", "training"]
    choices = Choices()
    transfer(pair.target, method=EASE(), recording=Recording(choices=choices))
    assert choices == Choices()


def test_a_finished_network_is_trained_again_where_its_epoch_has_to_be_known(pair, tmp_path):
    models = []
    for _ in range(2):
        choices = Choices()
        told = Recording(finished=tmp_path, choices=choices)
        models.append(transfer(pair.target, method=DMF(options=OPTIONS), recording=told))
        assert choices.epochs["training"] < 12
    np.testing.assert_array_equal(models[0].user_vectors, models[1].user_vectors)


def test_a_release_that_knows_few_users_is_judged_by_those(pair):
    few = pair.users[:30]
    release = publish(pair.source, Guarantee(epsilon=8, delta=1e-6), strategy=JLT(dim=16), users=few)
    choices = Choices()
    transfer(pair.target, release, method=HeteroCDR(options=OPTIONS), recording=Recording(choices=choices))
    assert set(choices.epochs) == {"history", "source"}


def test_too_few_items_to_set_any_aside_are_trained_on_to_the_last_epoch(tmp_path):
    log = tmp_path / "log.jsonl"
    choices = Choices()
    transfer(Planted.pair().target, method=DMF(options=OPTIONS), recording=Recording(log=log, choices=choices))
    assert "items are too few" in choices.not_made
    assert [line["epoch"] for line in epochs(log)["training"]] == list(range(1, 13))


def test_a_run_on_everything_that_is_killed_anywhere_resumes_to_the_same_model(pair, release, tmp_path):
    method = HeteroCDR(options=OPTIONS)
    straight = transfer(pair.target, release, method=method)
    total = []
    transfer(pair.target, release, method=method, recording=Recording(progress=lambda *_: total.append(1)))

    class KilledError(Exception):
        pass

    for after in (1, len(total) // 2, len(total) - 1):
        seen, checkpoint = [], tmp_path / f"after{after}"

        def die(*_, seen=seen, after=after):
            seen.append(1)
            if len(seen) == after:
                raise KilledError

        with pytest.raises(KilledError):
            transfer(pair.target, release, method=method, recording=Recording(checkpoint=checkpoint, progress=die))
        resumed = transfer(pair.target, release, method=method, recording=Recording(checkpoint=checkpoint))
        np.testing.assert_array_equal(straight.user_vectors, resumed.user_vectors)
