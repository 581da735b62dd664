"""``train --start``: a network that was trained once is not trained again."""

import json
import shutil
import stat

import numpy as np
import pytest

from pricdr import FittedModel, Guarantee, publish, synthetic_pair
from pricdr.cli import run
from pricdr.data.synthetic import SyntheticConfig
from pricdr.data.tables import write_ratings
from pricdr.strategies import JLT

QUICK = ["--epochs", "3", "--device", "cpu"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A target's ratings and split, a release without noise, and a model of the target alone."""
    folder = tmp_path_factory.mktemp("target")
    pair = synthetic_pair(SyntheticConfig(users=150, source_items=300, target_items=300))
    write_ratings(folder / "ratings.parquet", pair.target)
    promise = Guarantee(epsilon=8, delta=1e-6)
    publish(pair.source, promise, strategy=JLT(dim=16), users=pair.users, insecure_no_noise=True).save(
        folder / "release"
    )
    assert run(["split", str(folder / "ratings.parquet"), "--out", str(folder / "split"), "--cold", "0.2"]) == 0
    assert train(folder, folder / "alone" / "dmf") == 0
    return folder


def train(folder, out, *options, data="split", quick=QUICK):
    return run(["train", str(folder / data), "--out", str(out), *quick, *map(str, options)])


def with_release(folder, out, *options, **changes):
    return train(folder, out, "--release", folder / "release", "--allow-not-private", *options, **changes)


def parts(model):
    """Return which networks the log of a model says were trained."""
    return {json.loads(line)["part"] for line in (model / "log.jsonl").read_text().splitlines()}


def test_the_same_network_is_used_again_and_makes_the_same_model(folder, tmp_path, capsys):
    assert with_release(folder, tmp_path / "afresh") == 0
    assert "target" in parts(tmp_path / "afresh")
    capsys.readouterr()
    assert with_release(folder, tmp_path / "other" / "again", "--start", folder / "alone" / "dmf") == 0
    assert f"not trained again: the network of the same data and settings in {folder / 'alone' / 'dmf'}" in (
        capsys.readouterr().out
    )
    assert "target" not in parts(tmp_path / "other" / "again")
    afresh, again = (FittedModel.load(tmp_path / name) for name in ("afresh", "other/again"))
    assert again.chosen == afresh.chosen
    np.testing.assert_array_equal(again.user_vectors, afresh.user_vectors)
    np.testing.assert_array_equal(again.item_vectors, afresh.item_vectors)


def test_a_model_beside_the_new_one_is_found_without_asking(folder, tmp_path, capsys):
    shutil.copytree(folder / "alone", tmp_path / "models")
    assert with_release(folder, tmp_path / "models" / "hetero") == 0
    assert "not trained again" in capsys.readouterr().out
    assert "target" not in parts(tmp_path / "models" / "hetero")


@pytest.mark.parametrize("change", [["--seed", "1"], ["--epochs", "2"]])
def test_another_training_is_another_network(folder, tmp_path, capsys, change):
    shutil.copytree(folder / "alone", tmp_path / "models")
    assert with_release(folder, tmp_path / "models" / "hetero", *change) == 0
    assert "not trained again" not in capsys.readouterr().out
    assert with_release(folder, tmp_path / "x", *change, "--start", folder / "alone" / "dmf") == 2
    assert f"{folder / 'alone' / 'dmf'} has no network of this training" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_what_a_model_keeps_is_for_its_owner_alone(folder):
    networks = folder / "alone" / "dmf" / "networks"
    assert stat.S_IMODE(networks.stat().st_mode) == 0o700
    (file,) = networks.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_an_export_keeps_no_network(folder, tmp_path):
    assert run(["recommend", str(folder / "alone" / "dmf"), "--export", str(tmp_path / "export")]) == 0
    assert not (tmp_path / "export" / "networks").exists()


def test_on_all_ratings_it_needs_to_know_the_epochs(folder, tmp_path, capsys):
    start = ["--start", folder / "alone" / "dmf"]
    assert with_release(folder, tmp_path / "x", *start, data="ratings.parquet") == 2
    assert "--start on all ratings needs --like" in capsys.readouterr().err


def test_deployed_models_share_a_network_too(folder, tmp_path, capsys):
    assert with_release(folder, tmp_path / "hetero", "--start", folder / "alone" / "dmf") == 0
    deploy = {"data": "ratings.parquet", "quick": ["--device", "cpu"]}
    assert train(folder, tmp_path / "d" / "dmf", "--like", folder / "alone" / "dmf", **deploy) == 0
    capsys.readouterr()
    assert with_release(folder, tmp_path / "d" / "hetero", "--like", tmp_path / "hetero", **deploy) == 0
    assert f"not trained again: the network of the same data and settings in {tmp_path / 'd' / 'dmf'}" in (
        capsys.readouterr().out
    )


@pytest.mark.parametrize("harm", [lambda file: file.write_bytes(b"\xff" * 100), lambda file: file.write_bytes(b"")])
def test_a_damaged_network_is_named(folder, tmp_path, capsys, harm):
    shutil.copytree(folder / "alone", tmp_path / "models")
    (file,) = (tmp_path / "models" / "dmf" / "networks").iterdir()
    harm(file)
    assert with_release(folder, tmp_path / "x", "--start", tmp_path / "models" / "dmf") == 2
    assert f"{file} is not a checkpoint that can be resumed" in capsys.readouterr().err


def test_a_method_without_a_network_to_share_starts_from_none(folder, tmp_path, capsys):
    start = ["--method", "ease", "--start", folder / "alone" / "dmf"]
    assert train(folder, tmp_path / "x", *start, quick=[]) == 2
    assert "method ease has none" in capsys.readouterr().err
