"""Every method through the command line, with what it is allowed to see, and what is refused."""

import errno
import json

import polars as pl
import pytest

from pricdr import Guarantee, publish, synthetic_pair
from pricdr.cli import run
from pricdr.data.ratings import Ratings
from pricdr.data.synthetic import SyntheticConfig
from pricdr.data.tables import write_ratings
from pricdr.models.base import DataAccess
from pricdr.models.catalogue import METHODS, method_class
from pricdr.privacy.strategies import BY_NAME
from pricdr.strategies import JLT

TRAINED = {"hetero", "hetero-paper", "symmetric", "dmf", "bpr", "neumf", "conet", "ddtcdr", "darec", "etl"}


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A target's ratings and split, the release it received, and (for comparison) the source's ratings."""
    folder = tmp_path_factory.mktemp("target")
    pair = synthetic_pair(SyntheticConfig(users=120, source_items=250, target_items=300))
    write_ratings(folder / "ratings.parquet", pair.target)
    write_ratings(folder / "source.parquet", pair.source)
    promise = Guarantee(epsilon=8, delta=1e-6)
    publish(pair.source, promise, strategy=JLT(dim=16), users=pair.users).save(folder / "release")
    assert run(["split", str(folder / "ratings.parquet"), "--out", str(folder / "split"), "--cold", "0.2"]) == 0
    return folder


def inputs(here, name):
    access = method_class(name).data_access()
    if DataAccess.RELEASE in access:
        return ["--release", str(here / "release")]
    return ["--source", str(here / "source.parquet")] if DataAccess.PLAINTEXT in access else []


@pytest.mark.parametrize("name", METHODS)
def test_every_method_trains_evaluates_and_recommends(here, tmp_path, name):
    quick = ["--epochs", "1", "--device", "cpu"] if name in TRAINED else []
    model = tmp_path / "model"
    fixed = ["train", str(here / "split"), "--method", name, *inputs(here, name), *quick]
    assert run([*fixed, "--out", str(model)]) == 0
    about = json.loads((model / "model.json").read_text())
    assert about["method"] == name
    assert about["plaintext_source"] == ("--source" in fixed)
    assert run(["evaluate", str(model), str(here / "split"), "--json", str(tmp_path / "e.json")]) == 0
    both = json.loads((tmp_path / "e.json").read_text())
    assert 0 <= both["full"]["cold"]["NDCG@10"] <= 1
    sampled = ["--ranking", "sampled", "--json", str(tmp_path / "s.json")]
    assert run(["evaluate", str(model), str(here / "split"), *sampled]) == 0
    alone = json.loads((tmp_path / "s.json").read_text())
    assert (alone["rankings"], "full" in alone) == (["sampled"], False)
    for figures in (alone, both):
        figures["sampled"]["all"].pop("standard_error")
    assert alone["sampled"]["all"] == pytest.approx(both["sampled"]["all"], abs=0.01)  # near ties may fall otherwise
    assert run(["recommend", str(model), "--out", str(tmp_path / "r.parquet"), "-k", "3"]) == 0
    assert len(pl.read_parquet(tmp_path / "r.parquet")) == 3 * 120


def test_data_that_is_not_there_is_named(tmp_path, capsys):
    assert run(["train", str(tmp_path / "nowhere"), "--out", str(tmp_path / "m")]) == 2
    assert "nowhere: no such file" in capsys.readouterr().err


def test_a_model_of_another_schema_is_named_before_anything_is_read(here, tmp_path, capsys):
    assert run(["train", str(here / "split"), "--method", "popularity", "--out", str(tmp_path / "m")]) == 0
    about = json.loads((tmp_path / "m" / "model.json").read_text())
    (tmp_path / "m" / "model.json").write_text(json.dumps({**about, "schema_version": 99, "more": 1}))
    assert run(["evaluate", str(tmp_path / "m"), str(here / "split")]) == 2
    assert "schema_version 99" in capsys.readouterr().err


def test_the_list_says_which_methods_are_not_private_and_what_strategies_need(capsys):
    assert run(["list"]) == 0
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading.split() == ["method", "private?", "needs", "what", "it", "is"]
    assert [line.split()[0] for line in lines if line] == [*METHODS, "strategy", *BY_NAME]
    assert run(["list", "--json", "-"]) == 0
    listed = json.loads(capsys.readouterr().out)
    private = {one["name"]: one["private"] for one in listed["methods"]}
    assert {name for name, note in private.items() if "NOT PRIVATE" in note} == {
        *("hetero", "conet", "ddtcdr", "darec", "etl", "ease-source")
    }
    assert {name for name, note in private.items() if "as the release" in note} == {
        *("hetero", "hetero-paper", "symmetric", "ease-release", "ridge-release")
    }
    assert set(private.values()) <= {"yes", "NOT PRIVATE", "as the release", "as the release or NOT PRIVATE"}
    assert {one["name"]: one["needs"] for one in listed["strategies"]}["guided"] == "guide"


def test_reading_the_source_in_plaintext_is_said(here, tmp_path, capsys):
    fixed = ["train", str(here / "split"), "--source", str(here / "source.parquet"), "--epochs", "1"]
    assert run([*fixed, "--out", str(tmp_path / "m")]) == 0
    assert "NOT PRIVATE" in capsys.readouterr().err


def test_settings_come_from_preset_file_and_flags_in_this_order(here, tmp_path):
    (tmp_path / "c.toml").write_text("hidden = 12\nwidth = 6\nepochs = 9\n")
    fixed = ["train", str(here / "split"), "--release", str(here / "release"), "--config", str(tmp_path / "c.toml")]
    assert run([*fixed, "--epochs", "1", "--preset", "paper", "--out", str(tmp_path / "m")]) == 0
    config = json.loads((tmp_path / "m" / "model.json").read_text())["config"]
    assert config["config"] == {"hidden": 12, "width": 6, "alignment": 100.0, "gated": True}
    assert config["options"]["epochs"] == 1
    assert config["options"]["batch"] == 128
    assert json.loads((tmp_path / "m" / "model.json").read_text())["method"] == "hetero-paper"


@pytest.mark.parametrize(
    ("settings", "extra", "message"),
    [
        ("hiden = 3", [], "no setting 'hiden'"),
        ('hidden = "3"', [], "hidden must be int"),
        ("dropout = 1.5", [], "dropout"),
        ("hidden = ", [], "not TOML"),
        ("", ["--method", "dmf", "--preset", "paper"], "no preset 'paper'"),
        ("", ["--method", "popularity", "--epochs", "3"], "not trained in epochs"),
        ("hiden = 3", [], "c.toml"),
        ("", ["--method", "ease", "--source", "source.parquet"], "takes target ratings alone, not"),
        ("", ["--method", "conet"], "conet takes the source's ratings"),
        ("", ["--method", "conet", "--release", "release"], "conet takes the source's ratings"),
        ("", ["--release", "release", "--source", "source.parquet"], "not both"),
        ("", ["--source", "source.parquet", "--preset", "paper"], "hetero-paper takes a release"),
        ("", ["--source", "strangers.parquet"], "same people"),
    ],
)
def test_wrong_settings_and_inputs_end_in_one_line(here, tmp_path, monkeypatch, capsys, settings, extra, message):
    monkeypatch.chdir(here)
    write = tmp_path / "c.toml"
    write.write_text(settings)
    strangers = here / "strangers.parquet"
    if not strangers.exists():
        write_ratings(strangers, Ratings.from_triples(["nobody", "here"], ["a", "b"]))
    fixed = ["train", "split", "--out", str(tmp_path / "m"), *([] if not settings else ["--config", str(write)])]
    assert run([*fixed, *extra]) == 2
    error = capsys.readouterr().err.splitlines()
    assert message in error[-1]
    assert not (tmp_path / "m").exists()


def test_seed_and_device_may_stand_in_the_file_too(here, tmp_path):
    (tmp_path / "c.toml").write_text('seed = 5\ndevice = "cpu"\nepochs = 1\n')
    fixed = ["train", str(here / "split"), "--config", str(tmp_path / "c.toml")]
    assert run([*fixed, "--out", str(tmp_path / "m")]) == 0
    options = json.loads((tmp_path / "m" / "model.json").read_text())["config"]["options"]
    assert (options["seed"], options["device"]) == (5, "cpu")
    assert run([*fixed, "--out", str(tmp_path / "n"), "--seed", "6"]) == 0
    assert json.loads((tmp_path / "n" / "model.json").read_text())["config"]["options"]["seed"] == 6


def test_a_mistake_costs_no_checkpoint_and_an_interrupt_says_how_to_go_on(here, tmp_path, monkeypatch, capsys):
    import pricdr.training.checkpoints as checkpoints

    original = checkpoints.Checkpoint.save

    def dying(self, *arguments):
        original(self, *arguments)
        raise KeyboardInterrupt

    fixed = ["train", str(here / "split"), "--out", str(tmp_path / "m"), "--epochs", "2"]
    monkeypatch.setattr(checkpoints.Checkpoint, "save", dying)
    assert run([*fixed, "--release", str(here / "release")]) == 130
    assert "continue with --resume" in capsys.readouterr().err
    monkeypatch.undo()
    kept = sorted(path.name for path in (tmp_path / ".m.training").iterdir())
    assert "checkpoint.target" in kept
    assert run([*fixed, "--release", str(here / "no such release")]) == 2
    assert run([*fixed, "--method", "bpr", "--resume"]) == 2
    error = capsys.readouterr().err
    assert "was left by hetero on a split" in error
    assert "not by bpr on a split" in error
    assert (
        run(["train", str(here / "ratings.parquet"), *fixed[2:], "--release", str(here / "release"), "--resume"]) == 2
    )
    assert "not by hetero on all ratings" in capsys.readouterr().err
    assert sorted(path.name for path in (tmp_path / ".m.training").iterdir()) == kept
    assert run([*fixed, "--release", str(here / "release"), "--resume"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    capsys.readouterr()
    assert run(["train", str(here / "split"), "--out", str(tmp_path / "n"), "--epochs", "1", "--resume"]) == 0
    assert "nothing to resume" in capsys.readouterr().err


def test_training_on_everything_counts_what_its_split_counted(tmp_path, capsys):
    rows = ["user,item,rating", *(f"u{u},i{(7 * u + n) % 300},{1 + (u + n) % 5}" for u in range(60) for n in range(15))]
    (tmp_path / "r.csv").write_text("\n".join(rows))
    fixed = ["--method", "popularity", "--threshold", "3"]
    assert run(["train", str(tmp_path / "r.csv"), "--out", str(tmp_path / "m"), *fixed]) == 0
    assert "540 ratings" in capsys.readouterr().out
    assert run(["split", str(tmp_path / "r.csv"), "--threshold", "3", "--out", str(tmp_path / "s")]) == 0
    assert run(["train", str(tmp_path / "s"), "--out", str(tmp_path / "n"), *fixed]) == 2
    assert "--threshold is for files" in capsys.readouterr().err


def test_too_few_items_to_choose_by_are_said(tmp_path, capsys):
    rows = ["user,item", *(f"u{u},i{(7 * u + n) % 90}" for u in range(30) for n in range(8))]
    (tmp_path / "r.csv").write_text("\n".join(rows))
    arguments = ["train", str(tmp_path / "r.csv"), "--epochs", "2", "--device", "cpu", "--out", str(tmp_path / "m")]
    assert run(arguments) == 0
    assert "no ratings were set aside to choose by" in capsys.readouterr().err


def test_a_model_that_cannot_be_written_is_refused_before_it_is_trained(here, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert run(["train", str(here / "split"), "--out", str(tmp_path / "file" / "m"), "--epochs", "100000"]) == 2
    assert "Not a directory" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_full_disk_leaves_nothing_behind(here, tmp_path, monkeypatch, capsys):
    import pricdr.models.folder

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device", "model.safetensors")

    monkeypatch.setattr(pricdr.models.folder, "save_file", full)
    assert run(["train", str(here / "split"), "--method", "popularity", "--out", str(tmp_path / "m")]) == 2
    assert "No space left" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
