"""``recommend --export`` and ``--seen``, and the key that models are pinned to."""

import json

import polars as pl
import pytest

from pricdr import Guarantee, publish, synthetic_pair
from pricdr.cli import run
from pricdr.data.synthetic import SyntheticConfig
from pricdr.data.tables import write_ratings
from pricdr.signing import create_keys, public_text, read_public_key
from pricdr.strategies import JLT

QUICK = ["--method", "ridge-release"]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A model on a signed release, one on an unsigned one, and two without any."""
    folder = tmp_path_factory.mktemp("work")
    pair = synthetic_pair(SyntheticConfig(users=150, source_items=300, target_items=300))
    write_ratings(folder / "ratings.parquet", pair.target)
    create_keys(folder / "source.key")
    create_keys(folder / "other.key")
    release = publish(pair.source, Guarantee(epsilon=8, delta=1e-6), strategy=JLT(dim=8), users=pair.users)
    release.save(folder / "unsigned.release")
    release.save(folder / "signed.release", signing_key=folder / "source.key")
    assert run(["split", str(folder / "ratings.parquet"), "--out", str(folder / "split")]) == 0
    for name, extra in (
        ("popularity", ["--method", "popularity"]),
        ("ease", ["--method", "ease"]),
        ("unsigned", ["--release", str(folder / "unsigned.release"), *QUICK]),
        ("signed", ["--release", str(folder / "signed.release"), *QUICK]),
        ("unverified", ["--release", str(folder / "signed.release"), "--allow-unverified", *QUICK]),
    ):
        assert run(["train", str(folder / "split"), "--out", str(folder / name), *extra]) == 0
    return folder


@pytest.fixture
def pricdr(capsys, monkeypatch):
    monkeypatch.delenv("PRICDR_PUBLIC_KEY", raising=False)

    def call(*arguments):
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return call


def test_an_export_is_served_with_the_histories_handed_in(work, tmp_path, pricdr):
    code, out, _ = pricdr("recommend", work / "signed", "--export", tmp_path / "export")
    assert code == 0
    assert "without its training ratings" in out
    assert pricdr("recommend", work / "signed", "--out", tmp_path / "full.parquet")[0] == 0
    histories = work / "split" / "train.parquet"
    code, _, err = pricdr("recommend", tmp_path / "export", "--out", tmp_path / "served.parquet", "--seen", histories)
    assert (code, err) == (0, "")
    assert pl.read_parquet(tmp_path / "served.parquet").equals(pl.read_parquet(tmp_path / "full.parquet"))


def test_an_export_without_histories_warns_of_rated_items(work, tmp_path, pricdr):
    assert pricdr("recommend", work / "signed", "--export", tmp_path / "export")[0] == 0
    code, _, err = pricdr("recommend", tmp_path / "export", "--out", tmp_path / "r.csv")
    assert code == 0
    assert "it may recommend items that users have rated (give --seen)" in err
    (tmp_path / "strangers.csv").write_text("user,item\nx,y\n")
    code, _, err = pricdr(
        "recommend", tmp_path / "export", "--out", tmp_path / "s.csv", "--seen", tmp_path / "strangers.csv"
    )
    assert code == 0
    assert "no item was left out" in err


def test_an_export_cannot_be_evaluated(work, tmp_path, pricdr):
    assert pricdr("recommend", work / "signed", "--export", tmp_path / "export")[0] == 0
    code, _, err = pricdr("evaluate", tmp_path / "export", work / "split")
    assert code == 2
    assert "was exported" in err


@pytest.mark.parametrize(
    ("model", "extra", "says"),
    [
        ("ease", ["--export", "new"], "ease scores by the ratings themselves"),
        ("popularity", [], "either --out or --export"),
        ("popularity", ["--export", "new", "--out", "new.csv"], "either --out or --export"),
        ("popularity", ["--export", "new", "--seen", "ratings.parquet"], "belong to --out"),
        ("popularity", ["--export", "new", "--users", "users.txt"], "belong to --out"),
        ("popularity", ["--export", "split"], "exists already"),
        ("popularity", ["--out", "new.csv", "--threshold", "3"], "about --seen"),
        ("popularity", ["--out", "new.csv", "--seen", "nowhere.csv"], "nowhere.csv"),
    ],
)
def test_what_cannot_be_exported_or_served_ends_in_one_line(work, monkeypatch, pricdr, model, extra, says):
    monkeypatch.chdir(work)
    before = sorted(work.iterdir())
    code, _, err = pricdr("recommend", model, *extra)
    assert code == 2
    assert says in err
    assert err.count("\n") == 1
    assert sorted(work.iterdir()) == before


def test_a_model_records_who_signed_its_release(work):
    recorded = {
        name: json.loads((work / name / "model.json").read_text())["release_signed_by"]
        for name in ("popularity", "unsigned", "signed", "unverified")
    }
    key = public_text(read_public_key(work / "source.key.pub"))
    assert recorded == {"popularity": None, "unsigned": None, "signed": key, "unverified": None}


@pytest.mark.parametrize("way", ["option", "environment"])
@pytest.mark.parametrize(
    ("model", "key", "says"),
    [
        ("signed", "source.key.pub", None),
        ("popularity", "source.key.pub", None),
        ("signed", "other.key.pub", "signed with a key other than"),
        ("unsigned", "source.key.pub", "was not signed, or that was not verified"),
        ("unverified", "source.key.pub", "was not signed, or that was not verified"),
    ],
)
def test_a_pinned_key_is_asked_of_models(work, tmp_path, monkeypatch, pricdr, way, model, key, says):
    folder = work / model
    pinned = ["--public-key", work / key] if way == "option" else []
    if way == "environment":
        monkeypatch.setenv("PRICDR_PUBLIC_KEY", str(work / key))
    for command in (
        ["recommend", folder, "--out", tmp_path / "r.csv"],
        ["recommend", folder, "--export", tmp_path / "export"],
        ["evaluate", folder, work / "split"],
    ):
        code, _, err = pricdr(*command, *pinned)
        if says is None:
            assert code == 0, err
        else:
            assert code == 1
            assert says in err
            assert err.count("\n") == 1
            assert not (tmp_path / "r.csv").exists()


def test_a_pinned_key_that_cannot_be_read_is_refused_for_any_model(work, tmp_path, pricdr):
    for model in ("popularity", "signed"):
        code, _, err = pricdr("recommend", work / model, "--out", tmp_path / "r.csv", "--public-key", work / "nowhere")
        assert code == 2
        assert "cannot read key" in err


def test_training_says_what_the_folder_holds(pricdr):
    code, out, _ = pricdr("train", "--help")
    assert code == 0
    assert "holds every rating" in " ".join(out.split())


@pytest.mark.parametrize("seed", ["-1", str(2**70)])
@pytest.mark.parametrize("command", ["split", "train"])
def test_impossible_seeds_end_in_one_line(work, tmp_path, pricdr, command, seed):
    code, _, err = pricdr(command, work / "ratings.parquet", "--out", tmp_path / "new", "--seed", seed)
    assert code == 2
    *warnings, refusal = err.splitlines()
    assert seed in refusal
    assert all("look like stars" in warning for warning in warnings)
    assert not list(tmp_path.iterdir())
