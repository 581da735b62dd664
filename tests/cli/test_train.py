"""``train``: what it takes, what it leaves behind, and how a run is resumed, repeated and built upon."""

import errno
import json
import os
import re
import shutil
import stat

import numpy as np
import pytest

from pricdr import FittedModel, Ratings, publish
from pricdr.data.reading.read import read_ratings
from pricdr.data.tables import write_ratings
from pricdr.privacy.accounting import Guarantee
from pricdr.strategies import JLT
from pricdr.training import checkpoints


@pytest.fixture
def train(pricdr, target, here):
    """Train small networks in the folder ``here``; what an option may name is looked for in the target's folder."""
    paths = {"--release", "--source", "--like", "--start", "--config"}

    def run(data, out, *options, small=True):
        before = ("", *options)
        given = [
            target / one if option in paths and (target / one).exists() else one
            for option, one in zip(before, options, strict=False)
        ]
        config = ["--config", target / "small.toml"] if small else []
        return pricdr("train", target / data, "--out", out, *config, *given)

    return run


def about(model) -> dict:
    return json.loads((model / "model.json").read_text())


def parts(model) -> set[str]:
    """Which networks the log of a model says were trained."""
    return {json.loads(line)["part"] for line in (model / "log.jsonl").read_text().splitlines()}


def test_models_hold_what_the_design_says_and_are_for_their_owner_alone(target):
    for name, own in {
        "popularity": set(),
        "dmf": {"networks"},
        "hetero": {"release.certificate.json"},  # it found the network of the model beside it
    }.items():
        files = {"model.safetensors", "model.json", "items.txt", "users.txt", "log.jsonl"} | own
        assert {path.name for path in (target / name).iterdir()} == files
        for path in (target / name, *(target / name).rglob("*")):
            assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    assert [about(target / name)["plaintext_source"] for name in ("plaintext", "ease", "ridge")] == [True, False, False]
    networks = about(target / "hetero")["chosen"]["epochs"]  # the source's too, unless the evidence test failed it
    assert parts(target / "hetero") == set(networks) - {"target"}
    assert not [path for path in target.iterdir() if path.name.startswith(".")]


def test_settings_come_from_preset_file_and_flags_in_this_order(train, here):
    assert train("split", "m", "--release", "release", "--epochs", 1, "--preset", "paper").code == 0
    found = about(here / "m")
    assert found["method"] == "hetero-paper"
    assert found["config"]["config"] == {"hidden": 16, "width": 8, "alignment": 100.0, "gated": True}
    assert [found["config"]["options"][name] for name in ("epochs", "batch", "seed")] == [1, 64, 3]


WRONG = (
    ("hiden = 3", (), "c.toml: method hetero has no setting 'hiden'"),
    ('hidden = "3"', (), "c.toml: hidden must be int"),
    (None, ("--config", "nowhere.toml"), "nowhere.toml: no such file"),
    ("learning_rate = nan", (), "learning_rate must be a finite number, got nan"),
    (f"epochs = 1{'0' * 400}", (), "c.toml: epochs must be a number that fits in 64 bits"),
    (None, ("--epochs", 10**12), "1000000000000"),
    (None, ("--seed", -1), "-1"),
    (None, ("--seed", 2**70), "--seed"),
    (None, ("--method", "dmf", "--preset", "paper"), "no preset 'paper'"),
    (None, ("--method", "popularity", "--epochs", 3), "not trained in epochs"),
    (None, ("--method", "symmetric"), "symmetric takes a release, not target ratings"),
    (None, ("--source", "strangers.parquet"), "same people"),
    (None, ("--release", "noiseless"), "NOT PRIVATE"),
    (None, ("--release", "strangers"), "another user list"),
    (None, ("--release", "nowhere"), "no such folder"),
    (None, ("--threshold", 3), "--threshold: this is for files of ratings"),
    ('delimiter = ";"', (), "delimiter: this is for files of ratings"),
)


def test_wrong_settings_and_inputs_end_in_one_line(target, pricdr, here):
    for name in ("split", "release", "noiseless", "source.parquet"):
        (here / name).symlink_to(target / name)
    stranger = Ratings.from_triples(["nobody", "here"], ["a", "b"])
    write_ratings(here / "strangers.parquet", stranger)
    publish(stranger, Guarantee(epsilon=8, delta=1e-6), strategy=JLT(dim=2)).save(here / "strangers")
    for settings, options, says in WRONG:
        if settings is not None:
            (here / "c.toml").write_text(settings)
            options = ("--config", "c.toml")
        outcome = pricdr("train", "split", "--out", "m", *options)
        assert (outcome.code, outcome.err.count("error: ")) == (2, 1), outcome
        assert says in outcome.err.splitlines()[-1]
        assert not (here / "m").exists()
        assert not list(here.glob(".*"))


def test_what_is_not_private_or_does_not_verify_is_used_only_where_the_caller_says_so(train, target, here):
    plaintext = train("split", "a", "--method", "ease-source", "--source", "source.parquet", small=False)
    assert "NOT PRIVATE" in plaintext.err
    assert train("split", "b", "--release", "noiseless", "--allow-not-private").code == 0
    spoilt = shutil.copytree(target / "release", here / "spoilt")
    (spoilt / "README.md").write_text("trust me")
    refused = train("split", "c", "--release", spoilt)
    assert (refused.code, "README.md" in refused.err) == (1, True)
    assert train("split", "c", "--release", spoilt, "--allow-unverified").code == 0


def test_folders_may_have_any_name(target, pricdr, here):
    """Not only names in UTF-8."""
    folder = os.fsdecode(os.fsencode(here) + b"/\xff")
    assert pricdr("train", target / "split", "--method", "popularity", "--out", folder).code == 0
    assert pricdr("recommend", folder, "--out", f"{folder}.csv").code == 0
    assert pricdr("recommend", folder, "--export", f"{folder}.export").code == 0


def test_a_run_that_was_stopped_is_resumed_by_itself_alone_and_ends_with_the_same_model(train, here, monkeypatch):
    saves, save = [], checkpoints.Checkpoint.save

    def dying(self, *arguments):
        save(self, *arguments)
        saves.append(1)
        if len(saves) == 2:
            raise KeyboardInterrupt

    options = ("--release", "release", "--base", "dmf", "--epochs", 5)
    assert train("split", "apart/straight", *options).code == 0  # beside the other one, its network would be found
    monkeypatch.setattr(checkpoints.Checkpoint, "save", dying)
    stopped = train("split", "m", *options)
    assert (stopped.code, "continue with --resume" in stopped.err) == (130, True)
    monkeypatch.undo()
    monkeypatch.chdir(here)
    hidden = here / ".m.training"
    kept = sorted(path.name for path in hidden.iterdir())
    assert "checkpoint.target" in kept
    for data, given, says in (
        ("split", ("--release", "no such release"), "no such release"),
        ("split", ("--method", "bpr", "--resume"), "was left by hetero on a split"),
        ("ratings.parquet", (*options, "--resume"), "not by hetero on all ratings"),
    ):
        outcome = train(data, "m", *given, small="bpr" not in given)
        assert (outcome.code, says in outcome.err) == (2, True), outcome
    log, elsewhere = hidden / "log.jsonl", here / "elsewhere"
    log.rename(elsewhere)
    log.symlink_to(elsewhere)
    before = elsewhere.read_bytes()
    assert train("split", "m", *options, "--resume").code == 2, "a log must not lead anywhere else"
    assert elsewhere.read_bytes() == before
    elsewhere.rename(log)
    assert sorted(path.name for path in hidden.iterdir()) == kept
    assert train("split", "m", *options, "--resume").code == 0
    straight, resumed = ((here / name / "model.safetensors").read_bytes() for name in ("apart/straight", "m"))
    assert straight == resumed
    assert sorted(path.name for path in here.iterdir()) == ["apart", "m"]
    assert "nothing to resume" in train("split", "n", "--method", "popularity", "--resume", small=False).err


def test_training_on_everything_says_what_was_chosen_anew_and_by_what(train, pricdr, here):
    told = train("ratings.parquet", "m", "--release", "release").out
    assert re.search("epochs chosen by validation: bpr [1-3], target [1-3]", told)
    assert "% for warm users" in told
    assert "chosen anew, from ratings set aside; --like MODEL would carry them over" in told
    assert "the release covers 120 of 120 users" in told
    assert [path.name for path in here.iterdir()] == ["m"]
    assert "anew" not in train("ratings.parquet", "e", "--method", "ease", small=False).out  # nothing was to be chosen
    rows = "".join(f"u{u},i{(7 * u + n) % 90},{1 + (u + n) % 5}\n" for u in range(30) for n in range(8))
    (here / "r.csv").write_text(f"user,item,rating\n{rows}")
    few = pricdr("train", "r.csv", "--epochs", 2, "--device", "cpu", "--threshold", 3, "--out", "few")
    assert "no ratings were set aside to choose by" in few.err
    assert "144 ratings" in few.out


def test_a_model_that_cannot_be_written_is_refused_before_it_is_trained_and_leaves_nothing(train, here, monkeypatch):
    (here / "file").write_text("")
    assert "Not a directory" in train("split", "file/m", "--epochs", 100000).err

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device", "model.safetensors")

    monkeypatch.setattr("pricdr.models.folder.save_file", full)
    outcome = train("split", "m", "--method", "popularity", small=False)
    assert (outcome.code, "No space left" in outcome.err) == (2, True)
    assert [path.name for path in here.iterdir()] == ["file"]


@pytest.mark.parametrize(("model", "options"), [("hetero", ("--release", "release")), ("dmf", ()), ("ease", ())])
def test_like_trains_as_the_measured_model_was_trained(train, target, here, model, options):
    outcome = train("ratings.parquet", "final", "--like", target / model, *options, small=False)
    assert outcome.code == 0, outcome.err
    before, after = FittedModel.load(target / model), FittedModel.load(here / "final")
    found, measured = ((one.method, one.chosen, one.origin.settings) for one in (after, before))
    assert found == measured
    assert after.origin.trained_on != before.origin.trained_on
    assert after.seen.nnz == len(read_ratings(target / "ratings.parquet"))
    assert "chosen anew" not in outcome.out
    assert not [line for line in outcome.err.splitlines() if "look like stars" not in line]
    lines = [json.loads(line)["part"] for line in (here / "final" / "log.jsonl").read_text().splitlines()]
    if before.chosen.trust is None or any(before.chosen.trust):
        assert {name: lines.count(name) for name in before.chosen.epochs} == before.chosen.epochs
    assert not [part for part in lines if "choosing" in part]
    assert (f"epochs carried over from {target / model}: " in outcome.out) == bool(before.chosen.epochs)


def test_like_takes_a_seed_an_export_and_another_release_which_it_says(train, target, pricdr, here):
    assert pricdr("recommend", target / "dmf", "--export", "export").code == 0
    assert not (here / "export" / "networks").exists()
    assert train("ratings.parquet", "final", "--like", here / "export", "--seed", 9, small=False).code == 0
    before, after = FittedModel.load(target / "dmf"), FittedModel.load(here / "final")
    assert after.origin.settings["options"] == {**before.origin.settings["options"], "seed": 9}
    assert after.chosen == before.chosen
    newer = train("ratings.parquet", "newer", "--like", target / "linear", "--release", "release", small=False)
    assert newer.err.startswith("warning: these are not the releases that ")
    assert FittedModel.load(here / "newer").chosen == FittedModel.load(target / "linear").chosen


SMALL_DMF = ("--method", "dmf", "--config", "small.toml")
UNLIKE = (
    ("ratings.parquet", ("--like", "ridge", "--method", "ease"), "--method: --like carries the method"),
    ("ratings.parquet", ("--like", "dmf", "--epochs", 5, "--preset", "paper"), "--preset and --epochs: --like"),
    ("ratings.parquet", ("--like", "dmf", "--release", "release"), "was trained on target ratings alone"),
    ("ratings.parquet", ("--like", "ridge"), "was trained with a release"),
    ("ratings.parquet", ("--like", "ease", "--source", "source.parquet"), "was trained on target ratings alone"),
    ("ratings.parquet", ("--like", "plaintext"), "was trained with the source's ratings"),
    ("ratings.parquet", ("--like", "nowhere"), "nowhere"),
    ("ratings.parquet", ("--like", "old"), "does not record what was chosen"),
    ("split", ("--like", "dmf"), "--like is for training on all ratings"),
    ("ratings.parquet", ("--start", "dmf", "--config", "small.toml"), "--start on all ratings needs --like"),
    ("split", ("--start", "dmf", "--method", "ease"), "method ease has none"),
    (
        "split",
        ("--start", "dmf", *SMALL_DMF, "--seed", 1),
        "dmf has no network of this training",
    ),
    (
        "split",
        ("--start", "damaged", *SMALL_DMF),
        "is not a checkpoint that can be resumed",
    ),
)


def test_what_like_and_start_cannot_do_is_one_line(train, target, here):
    old, damaged = (shutil.copytree(target / "dmf", here / name) for name in ("old", "damaged"))
    nothing = {"epochs": {}, "trust": None, "settings": {}, "evidence": None, "used": None, "not_chosen": ""}
    (old / "model.json").write_text(json.dumps({**about(old), "chosen": nothing}))
    (file,) = (damaged / "networks").iterdir()
    file.write_bytes(b"\xff" * 100)
    for data, options, says in UNLIKE:
        outcome = train(data, "m", *options, small=False)
        assert (outcome.code, outcome.err.count("error: "), says in outcome.err) == (2, 1, True), outcome
        assert not (here / "m").exists()


def test_a_network_that_was_trained_once_is_not_trained_again_and_makes_the_same_model(train, target, here):
    options = ("--release", "noiseless", "--allow-not-private")
    assert train("split", "apart/afresh", *options).code == 0
    assert "target" in parts(here / "apart" / "afresh")
    shutil.copytree(target / "dmf", here / "models" / "dmf")
    for place, found, given in (
        ("elsewhere/again", target / "dmf", ("--start", target / "dmf")),
        ("models/again", "models/dmf", ()),  # without --start, one beside the new model is found
    ):
        told = train("split", place, *options, *given).out
        assert f"not trained again: the network of the same data and settings in {found}" in told
        assert "target" not in parts(here / place)
        afresh, again = (FittedModel.load(here / name) for name in ("apart/afresh", place))
        assert again.chosen == afresh.chosen
        np.testing.assert_array_equal(again.user_vectors, afresh.user_vectors)
        np.testing.assert_array_equal(again.item_vectors, afresh.item_vectors)
    other = train("split", "models/other", *options, "--seed", 1)
    assert (other.code, "not trained again" in other.out) == (0, False)


def test_deployed_models_share_a_network_too(train, target, here):
    assert train("ratings.parquet", "d/dmf", "--like", target / "dmf", small=False).code == 0
    told = train("ratings.parquet", "d/hetero", "--like", target / "hetero", "--release", "release", small=False).out
    assert "not trained again: the network of the same data and settings in d/dmf" in told


def test_a_release_that_covers_few_users_is_warned_of(train, target, here):
    users = [f"U{n}" for n in range(40)] + [FittedModel.load(target / "dmf").users[0]]
    few = Ratings.from_triples(users * 2, ["p"] * 41 + ["q"] * 41)
    publish(few, Guarantee(epsilon=8, delta=1e-6), strategy=JLT(dim=2)).save(here / "few")
    outcome = train("ratings.parquet", "m", "--method", "ridge-release", "--release", here / "few", small=False)
    assert "the release covers 1 of 120 users" in outcome.out
    assert "that is few: only in the target: " in outcome.err


def test_releases_of_several_sources_are_given_one_by_one_or_as_a_folder_of_them(train, target, here):
    received = here / "received"
    for name in ("release", "unsigned"):
        shutil.copytree(target / name, received / name)
    ridge = ("--method", "ridge-release")
    given = train("split", "a", *ridge, "--release", "release", "--release", "unsigned", small=False)
    assert given.out.count("the release covers 120 of 120 users") == 2
    assert train("split", "b", *ridge, "--release", received, small=False).code == 0
    a, b = (FittedModel.load(here / name) for name in "ab")
    assert a.origin == b.origin
    assert [one.signed_by is None for one in a.origin.releases] == [False, True]
    assert {path.name for path in (here / "a").glob("*.json")} == {
        "model.json",
        "release.certificate.json",
        "release-2.certificate.json",
    }
    again = train("ratings.parquet", "c", "--like", here / "a", "--release", "release", small=False)
    assert (again.code, "was measured with releases of 2 sources, got 1" in again.err) == (2, True)
    twice = train("split", "d", *ridge, "--release", "release", "--release", "release", small=False)
    assert (twice.code, "releases 1 and 2 are the same" in twice.err) == (2, True)


def test_a_base_is_named_by_an_option_and_recorded(train, here):
    for base in ("bpr", "dmf"):
        assert train("split", base, "--release", "release", "--base", base).code == 0
        assert about(here / base)["config"]["config"]["base"] == base
    assert "base weight" in about(here / "bpr")["chosen"]["settings"]
    for options, says in (
        (("--base", "neumf"), "base must be a method with a vector for each user and item"),
        (("--base", "dmf", "--method", "ease"), "method ease has no setting 'base'"),
        (("--base", "nothing"), "nothing"),
    ):
        outcome = train("split", "m", *options, small=options[-1] == "neumf")
        assert (outcome.code, outcome.err.count("error: "), says in outcome.err) == (2, 1, True), outcome
