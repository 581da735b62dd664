"""The target party's commands, end to end: two folders that share nothing but the release."""

import json
import os
import re
import shutil
import stat

import numpy as np
import polars as pl
import pytest

from pricdr import Guarantee, publish, synthetic_pair
from pricdr.cli import run
from pricdr.data.synthetic import SyntheticConfig
from pricdr.data.tables import write_ratings
from pricdr.strategies import JLT

QUICK = ["--epochs", "3", "--device", "cpu"]


@pytest.fixture(scope="module")
def parties(tmp_path_factory):
    """A target's ratings and split, and releases it received."""
    folder = tmp_path_factory.mktemp("target")
    pair = synthetic_pair(SyntheticConfig(users=150, source_items=300, target_items=300))
    write_ratings(folder / "ratings.parquet", pair.target)
    private = Guarantee(epsilon=8, delta=1e-6)
    publish(pair.source, private, strategy=JLT(dim=16), users=pair.users).save(folder / "release")
    publish(pair.source, private, strategy=JLT(dim=16), users=pair.users, insecure_no_noise=True).save(folder / "plain")
    others = tuple(f"x{i}" for i in range(150))
    source = pair.source.select(users=pair.users)
    stranger = type(source)(source.matrix, others, source.items)
    publish(stranger, private, strategy=JLT(dim=16), users=others).save(folder / "strangers")
    assert run(["split", str(folder / "ratings.parquet"), "--out", str(folder / "split"), "--cold", "0.2"]) == 0
    return folder


@pytest.fixture(scope="module")
def models(parties):
    for name, extra in (
        ("popularity", ["--method", "popularity"]),
        ("dmf", QUICK),
        ("hetero", ["--release", str(parties / "release"), *QUICK]),
    ):
        assert run(["train", str(parties / "split"), "--out", str(parties / name), *extra]) == 0
    return parties


def test_models_hold_what_the_design_says(models):
    for name in ("popularity", "dmf", "hetero"):
        about = json.loads((models / name / "model.json").read_text())
        assert about["method"] == name
        expected = {"model.safetensors", "model.json", "items.txt", "users.txt", "log.jsonl"}
        # The model with a release found the network of the other one beside it, and keeps what its release promises.
        own = {"dmf": {"networks"}, "hetero": {"release.certificate.json"}}.get(name, set())
        assert {p.name for p in (models / name).iterdir()} == expected | own
    assert 0 < about["chosen"]["evidence"] <= 1
    lines = [json.loads(line) for line in (models / "hetero" / "log.jsonl").read_text().splitlines()]
    networks = list(about["chosen"]["epochs"])  # the source's too, unless the release failed the evidence test
    assert networks[0] == "target"
    expected = [(network, epoch) for network in networks[1:] for epoch in (1, 2, 3)]
    assert [(line["part"], line["epoch"]) for line in lines] == expected
    assert not [p for p in models.iterdir() if p.name.startswith(".")]


def test_folders_that_hold_ratings_are_for_their_owner_alone(models):
    for name in ("popularity", "dmf", "hetero", "split"):
        modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (models / name).iterdir() if path.is_file()}
        assert set(modes.values()) == {0o600}, name
        assert stat.S_IMODE((models / name).stat().st_mode) == 0o700


def test_evaluating_reports_both_rankings_and_strata(models, capsys, tmp_path):
    out, users = tmp_path / "e.json", tmp_path / "users.parquet"
    fixed = ["evaluate", str(models / "hetero"), str(models / "split")]
    arguments = [*fixed, "--json", str(out), "--per-user", str(users)]
    assert run(arguments) == 0
    content = json.loads(out.read_text())
    assert {"sampled", "full", "schema_version", "differences"} <= set(content)
    for figures in (content["sampled"], content["full"]):
        assert set(figures) == {"all", "warm", "few", "cold"}
        for stratum in figures.values():
            assert {"HR@5", "NDCG@5", "MRR@5", "HR@10", "NDCG@10", "MRR@10"} <= set(stratum)
            assert stratum["HR@10"] >= stratum["NDCG@10"] >= stratum["MRR@10"] >= 0
    frame = pl.read_parquet(users)
    sampled = frame.filter(pl.col("ranking") == "sampled")
    assert sampled["NDCG@10"].mean() == pytest.approx(content["sampled"]["all"]["NDCG@10"])
    assert "cold" in capsys.readouterr().out


def test_evaluating_two_models_compares_them_user_by_user(models, tmp_path, capsys):
    users = tmp_path / "users.parquet"
    arguments = [str(models / "popularity"), str(models / "dmf"), str(models / "split"), "--per-user", str(users)]
    assert run(["evaluate", *arguments]) == 0
    shown = re.findall(
        r"dmf − .*popularity, (\w+): NDCG@10 ([+-][\d.]+) \[([+-][\d.]+), ([+-][\d.]+)\], p = ([\d.]+)",
        capsys.readouterr().out,
    )
    assert [stratum for stratum, *_ in shown] == ["all", "warm", "few", "cold"] * 2  # sampled, then full
    sampled = pl.read_parquet(users).filter(pl.col("ranking") == "sampled")
    by_model = {name: sampled.filter(pl.col("model").str.ends_with(name)) for name in ("popularity", "dmf")}
    for stratum, mean, low, high, p_value in shown[:4]:
        kept = {"all": pl.lit(True), "warm": ~pl.col("cold"), "cold": pl.col("cold")}.get(stratum)
        if kept is not None:  # few are not marked in the per-user file
            left, right = (by_model[name].filter(kept)["NDCG@10"].mean() for name in ("dmf", "popularity"))
            assert float(mean) == pytest.approx(left - right, abs=1e-4)
        assert float(low) <= float(mean) <= float(high)
        assert 0 < float(p_value) <= 1


def test_a_model_trained_on_everything_is_refused_on_a_split(models, capsys):
    arguments = ["train", str(models / "ratings.parquet"), "--out", str(models / "whole"), "--method", "popularity"]
    assert run(arguments) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"to {models / 'whole'}"
    assert run(["evaluate", str(models / "whole"), str(models / "split")]) == 2
    assert "was not trained on this split" in capsys.readouterr().err


def test_training_on_everything_says_what_was_chosen(models, tmp_path, capsys):
    arguments = ["train", str(models / "ratings.parquet"), "--release", str(models / "release"), *QUICK]
    assert run([*arguments, "--out", str(tmp_path / "whole")]) == 0
    told = capsys.readouterr().out
    assert "epochs chosen by validation: target" in told
    assert "% for warm users" in told
    assert [path.name for path in tmp_path.iterdir()] == ["whole"]


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_recommendations_carry_ids_ranks_and_their_basis(models, tmp_path, capsys, suffix):
    (tmp_path / "some.txt").write_text("u0000001\nnobody\n")
    out = tmp_path / f"r{suffix}"
    assert run(["recommend", str(models / "hetero"), "--out", str(out), "--users", str(tmp_path / "some.txt")]) == 0
    frame = pl.read_parquet(out) if suffix == ".parquet" else pl.read_csv(out)
    assert frame.columns == ["user", "item", "score", "rank", "basis"]
    assert frame["user"].to_list() == ["u0000001"] * 10 + ["nobody"] * 10
    assert frame["rank"].to_list() == [*range(1, 11)] * 2
    assert set(frame.filter(pl.col("user") == "nobody")["basis"]) == {"popularity"}
    assert "1 of 2 users are unknown" in capsys.readouterr().err


def test_folders_may_have_any_name(parties, tmp_path):
    """Not only names in UTF-8."""
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    assert run(["train", str(parties / "split"), "--method", "popularity", "--out", folder]) == 0
    assert run(["recommend", folder, "--out", f"{folder}.csv"]) == 0
    assert run(["recommend", folder, "--export", f"{folder}.export"]) == 0


def test_a_resumed_run_ends_with_the_same_model(parties, tmp_path, monkeypatch):
    """A run that dies after two epochs and is resumed, against one that was left alone."""
    import pricdr.training.checkpoints as checkpoints

    fixed = ["train", str(parties / "split"), "--release", str(parties / "release"), "--epochs", "5", "--device", "cpu"]
    assert run([*fixed, "--out", str(tmp_path / "apart" / "straight")]) == 0  # or its network would be found
    saves, original = [], checkpoints.Checkpoint.save

    def dying(self, *arguments):
        original(self, *arguments)
        saves.append(1)
        if len(saves) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(checkpoints.Checkpoint, "save", dying)
    assert run([*fixed, "--out", str(tmp_path / "killed")]) == 130
    monkeypatch.undo()
    assert not (tmp_path / "killed").exists()
    log, elsewhere = tmp_path / ".killed.training" / "log.jsonl", tmp_path / "elsewhere"
    log.rename(elsewhere)
    log.symlink_to(elsewhere)
    before = elsewhere.read_bytes()
    assert run([*fixed, "--out", str(tmp_path / "killed"), "--resume"]) == 2, "a log must not lead anywhere else"
    assert elsewhere.read_bytes() == before
    elsewhere.rename(log)
    assert run([*fixed, "--out", str(tmp_path / "killed"), "--resume"]) == 0
    straight, resumed = ((tmp_path / n / "model.safetensors").read_bytes() for n in ("apart/straight", "killed"))
    assert straight == resumed
    assert sorted(p.name for p in tmp_path.iterdir()) == ["apart", "killed"]


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--release", "plain"], "NOT PRIVATE"),
        (["--release", "strangers"], "another user list"),
        (["--release", "nowhere"], "no such folder"),
        (["--method", "hetero"], "hetero takes a release or the source's"),
        (["--method", "dmf", "--release", "release"], "dmf takes target ratings alone, not a release"),
        (["--epochs", "0"], "epochs"),
    ],
)
def test_what_cannot_be_trained_ends_in_one_line(parties, tmp_path, monkeypatch, capsys, extra, message):
    monkeypatch.chdir(parties)
    assert run(["train", "split", "--out", str(tmp_path / "m"), *QUICK, *extra]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_release_that_fails_verification_is_refused_unless_allowed(parties, tmp_path, capsys):
    spoilt = shutil.copytree(parties / "release", tmp_path / "spoilt")
    (spoilt / "README.md").write_text("trust me")
    fixed = ["train", str(parties / "split"), "--release", str(spoilt), *QUICK]
    assert run([*fixed, "--out", str(tmp_path / "m")]) == 1
    assert "README.md" in capsys.readouterr().err
    assert run([*fixed, "--out", str(tmp_path / "m"), "--allow-unverified"]) == 0


@pytest.mark.parametrize("name", ["model.json", "model.safetensors", "items.txt", "users.txt"])
def test_a_corrupt_model_is_refused_in_one_line(models, tmp_path, capsys, name):
    spoilt = shutil.copytree(models / "dmf", tmp_path / "spoilt")
    (spoilt / name).write_bytes(b"junk")
    assert run(["evaluate", str(spoilt), str(models / "split")]) == 2
    error = capsys.readouterr().err
    assert "spoilt" in error
    assert error.count("\n") == 1


def test_a_private_release_is_used_and_a_noiseless_one_only_when_allowed(parties, tmp_path):
    fixed = ["train", str(parties / "split"), "--release", str(parties / "plain"), *QUICK, "--allow-not-private"]
    assert run([*fixed, "--out", str(tmp_path / "m")]) == 0
    assert np.isfinite(json.loads((tmp_path / "m" / "log.jsonl").read_text().splitlines()[-1])["loss"])
