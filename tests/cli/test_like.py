"""``train --like``: the deployed model is trained as the measured one was."""

import json
import shutil

import numpy as np
import pytest
import scipy.sparse as sp

from pricdr import FittedModel, Guarantee, HeteroCDR, publish, synthetic_pair, transfer
from pricdr.cli import run
from pricdr.data.reading.read import read_ratings
from pricdr.data.synthetic import SyntheticConfig
from pricdr.data.tables import write_ratings
from pricdr.errors import ParameterError
from pricdr.models import method_of
from pricdr.strategies import JLT

SETTINGS = "hidden = 16\nwidth = 8\nbatch = 64\n"
QUICK = ["--epochs", "4", "--device", "cpu", "--seed", "3"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A target's ratings, two releases, and models measured on a split: with the release, and without."""
    folder = tmp_path_factory.mktemp("target")
    pair = synthetic_pair(SyntheticConfig(users=150, source_items=300, target_items=300))
    write_ratings(folder / "ratings.parquet", pair.target)
    promise = Guarantee(epsilon=8, delta=1e-6)
    for name in ("release", "newer"):
        publish(pair.source, promise, strategy=JLT(dim=16), users=pair.users).save(folder / name)
    (folder / "settings.toml").write_text(SETTINGS)
    split = folder / "split"
    assert run(["split", str(folder / "ratings.parquet"), "--out", str(split), "--cold", "0.2"]) == 0
    for name, options in {
        "with": ["--release", folder / "release", "--config", folder / "settings.toml", *QUICK],
        "without": ["--config", folder / "settings.toml", *QUICK],
        "linear": ["--method", "ease-release", "--release", folder / "release"],
        "plain": ["--method", "ease"],
        "plaintext": ["--source", folder / "ratings.parquet", "--method", "ease-source"],
    }.items():
        assert run(["train", str(split), "--out", str(folder / name), *map(str, options)]) == 0
    return folder


def train_like(folder, out, model, *options):
    return run(["train", *map(str, (folder / "ratings.parquet", "--like", folder / model, "--out", out, *options))])


@pytest.mark.parametrize(
    ("measured", "options"),
    [("with", ["--release", "release"]), ("without", []), ("linear", ["--release", "release"]), ("plain", [])],
)
def test_the_deployed_model_is_trained_as_the_measured_one(folder, tmp_path, capsys, monkeypatch, measured, options):
    monkeypatch.chdir(folder)
    assert train_like(folder, tmp_path / "final", measured, *options) == 0
    told = capsys.readouterr()
    before, after = FittedModel.load(folder / measured), FittedModel.load(tmp_path / "final")
    assert after.method == before.method
    assert after.chosen == before.chosen
    assert after.origin.settings == before.origin.settings
    assert after.origin.trained_on != before.origin.trained_on
    assert after.seen.nnz == len(read_ratings(folder / "ratings.parquet"))
    assert "chosen anew" not in told.out
    assert not [line for line in told.err.splitlines() if "look like stars" not in line]
    lines = [json.loads(line) for line in (tmp_path / "final" / "log.jsonl").read_text().splitlines()]
    epochs = {name: sum(line["part"] in {name, f"{name} training"} for line in lines) for name in before.chosen.epochs}
    if before.chosen.trust is None or any(before.chosen.trust):
        assert epochs == before.chosen.epochs
    assert not [line for line in lines if "choosing" in line["part"]]
    if before.chosen.epochs:
        assert f"epochs carried over from {folder / measured}: " in told.out


def test_it_says_what_was_chosen_anew_and_by_what(folder, tmp_path, capsys):
    options = ["--release", folder / "release", "--config", folder / "settings.toml", *QUICK, "--out", tmp_path / "m"]
    assert run(["train", *map(str, (folder / "ratings.parquet", *options))]) == 0
    told = capsys.readouterr().out
    assert "chosen anew, from ratings set aside; --like MODEL would carry them over" in told
    assert run(["train", str(folder / "ratings.parquet"), "--method", "ease", "--out", str(tmp_path / "e")]) == 0
    assert "anew" not in capsys.readouterr().out  # there was nothing to choose


def test_a_seed_and_a_device_may_be_given(folder, tmp_path):
    assert train_like(folder, tmp_path / "final", "without", "--seed", 9, "--device", "cpu") == 0
    before, after = FittedModel.load(folder / "without"), FittedModel.load(tmp_path / "final")
    assert after.origin.settings["options"] == {**before.origin.settings["options"], "seed": 9}
    assert after.chosen == before.chosen


def test_another_release_is_said(folder, tmp_path, capsys):
    assert train_like(folder, tmp_path / "final", "linear", "--release", folder / "newer") == 0
    told = capsys.readouterr().err
    assert told.startswith("warning: this is not the release that ")
    assert FittedModel.load(tmp_path / "final").chosen == FittedModel.load(folder / "linear").chosen


REFUSED = {
    "a method": (("with", "--release", "release", "--method", "ease-release"), "remove --method"),
    "a preset": (("with", "--release", "release", "--preset", "default"), "remove --preset"),
    "settings": (("with", "--release", "release", "--config", "settings.toml"), "remove --config"),
    "epochs": (("with", "--release", "release", "--epochs", "5", "--preset", "paper"), "remove --preset, --epochs"),
    "a release that is new": (("without", "--release", "release"), "was trained without a release: remove --release"),
    "no release": (("with",), "was trained with a release: give --release too"),
    "a source that is new": (("plain", "--source", "ratings.parquet"), "was trained without the source's ratings"),
    "no source": (("plaintext",), "was trained with the source's ratings: give --source too"),
    "no model": (("nowhere",), "nowhere"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_contradictions_are_refused_in_one_line(folder, tmp_path, capsys, monkeypatch, case):
    monkeypatch.chdir(folder)
    (model, *options), words = REFUSED[case]
    assert train_like(folder, tmp_path / "final", model, *options) == 2
    told = capsys.readouterr().err
    assert words in told
    assert told.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_split_is_refused(folder, tmp_path, capsys):
    arguments = ["train", folder / "split", "--like", folder / "without", "--out", tmp_path / "m"]
    assert run([str(argument) for argument in arguments]) == 2
    assert "--like is for training on all ratings" in capsys.readouterr().err


def test_a_model_that_does_not_record_what_was_chosen_is_refused(folder, tmp_path, capsys):
    shutil.copytree(folder / "without", tmp_path / "old")
    record = json.loads((tmp_path / "old" / "model.json").read_text())
    record["chosen"] = {"epochs": {}, "trust": None, "settings": {}, "evidence": None, "not_chosen": ""}
    (tmp_path / "old" / "model.json").write_text(json.dumps(record))
    assert train_like(folder, tmp_path / "final", tmp_path / "old") == 2
    assert "does not record what was chosen" in capsys.readouterr().err


def test_an_export_still_says_how_it_was_trained(folder, tmp_path):
    assert run(["recommend", str(folder / "without"), "--export", str(tmp_path / "export")]) == 0
    assert train_like(folder, tmp_path / "final", tmp_path / "export") == 0
    assert FittedModel.load(tmp_path / "final").chosen == FittedModel.load(folder / "without").chosen


def test_the_method_of_a_model_in_python(folder):
    model = FittedModel.load(folder / "with")
    method = method_of(model)
    assert isinstance(method, HeteroCDR)
    assert (method.config.hidden, method.options.epochs, method.options.seed) == (16, 4, 3)
    assert method.settings() == model.origin.settings
    target = read_ratings(folder / "ratings.parquet").positives()
    plain = FittedModel.load(folder / "plain")
    assert transfer(target, method=method_of(plain), chosen=plain.chosen).method == "ease"


def test_a_model_of_unknown_origin_has_no_method():
    model = FittedModel(
        method="ease",
        users=("u",),
        items=("i",),
        user_vectors=np.zeros((1, 1), dtype=np.float32),
        item_vectors=np.zeros((1, 1), dtype=np.float32),
        item_bias=np.zeros(1, dtype=np.float32),
        seen=sp.csr_array((1, 1)),
        in_release=np.zeros(1, dtype=bool),
    )
    with pytest.raises(ParameterError, match="does not say what it was trained with"):
        method_of(model)
