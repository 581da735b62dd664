"""A package with a method and a strategy, installed: everything takes them by name."""

import json
import sys

import polars as pl
import pytest

from pricdr import synthetic_pair, verify
from pricdr.cli import run
from pricdr.data.synthetic import SyntheticConfig
from pricdr.data.tables import write_ratings
from pricdr.models.catalogue import METHODS
from pricdr.privacy.strategies import BY_NAME
from tests.extensions.packages import BUCKETS, NEIGHBOURS

PROMISE = ["--epsilon", "8", "--delta", "1e-6"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    pair = synthetic_pair(SyntheticConfig(users=120, source_items=250, target_items=300))
    write_ratings(folder / "source.parquet", pair.source)
    write_ratings(folder / "target.parquet", pair.target)
    (folder / "users.txt").write_text("\n".join(pair.users) + "\n")
    assert run(["split", str(folder / "target.parquet"), "--out", str(folder / "split"), "--cold", "0.2"]) == 0
    return folder


@pytest.fixture
def here(data, tmp_path, monkeypatch):
    """A folder to work in, with the data at hand."""
    folder = tmp_path / "here"
    folder.mkdir()
    for file in data.iterdir():
        (folder / file.name).symlink_to(file)
    monkeypatch.chdir(folder)
    return folder


def publish_buckets() -> int:
    fixed = ["publish", "source.parquet", *PROMISE, "--users", "users.txt", "--out", "release"]
    return run([*fixed, "--strategy", "buckets"])


def imported() -> bool:
    return any(name.split(".")[0] == "pricdr_examples" for name in sys.modules)


def test_nothing_is_imported_before_it_is_asked_for(installed, here, capsys):
    installed()
    assert "neighbours" in METHODS
    assert list(METHODS)[-1] == "neighbours"
    assert METHODS.complete("ne") == ["neumf", "neighbours"]
    assert BY_NAME.complete("b") == ["buckets"]
    assert METHODS.origin("neighbours") == "pricdr-examples 1.2"
    assert run(["train", "--help"]) == 0
    assert run(["train", "split", "--method", "popularity", "--out", "m"]) == 0
    assert not imported()
    assert METHODS.find("neighbours").name == "neighbours"
    assert imported()


def test_the_list_says_what_is_not_private_what_each_needs_and_where_it_comes_from(installed, capsys):
    installed()
    assert run(["list"]) == 0
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading.split() == ["method", "private?", "needs", "what", "it", "is"]
    assert [line.split()[0] for line in lines if line] == [*METHODS, "strategy", *BY_NAME]
    assert [line for line in lines if "(from pricdr-examples 1.2)" in line] == [
        line for line in lines if line.startswith(("neighbours", "buckets"))
    ]
    assert run(["list", "--json", "-"]) == 0
    listed = json.loads(capsys.readouterr().out)
    private = {one["name"]: one["private"] for one in listed["methods"]}
    assert {name for name, note in private.items() if "NOT PRIVATE" in note} == {
        *("hetero", "conet", "ddtcdr", "darec", "etl", "ease-source")
    }
    assert {name for name, note in private.items() if "as the release" in note} == {
        *("hetero", "hetero-paper", "symmetric", "ease-release", "ridge-release", "neighbours")
    }
    assert {one["name"]: one["needs"] for one in listed["strategies"]}["guided"] == "guide"


@pytest.mark.slow
def test_both_parties_use_it_and_a_machine_without_it_reads_models_and_says_why_it_cannot_verify(
    installed, here, monkeypatch, capsys
):
    site = installed()
    assert publish_buckets() == 0
    assert "strategy buckets is not part of PriCDR" in capsys.readouterr().err
    assert run(["verify", "release"]) == 0
    assert run(["inspect", "release"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "PUBLIC buckets that items are hashed into" in shown
    assert "strategy buckets is not part of PriCDR" in shown
    audit = ["--strategy", "buckets", *PROMISE, "--draws", "2000", "--canaries", "1000"]
    assert run(["audit", *audit]) == 0
    assert run(["train", "split", "--release", "release", "--method", "neighbours", "--out", "model"]) == 0
    assert json.loads((here / "model" / "model.json").read_text())["method"] == "neighbours"
    assert run(["evaluate", "model", "split"]) == 0
    guided = ["publish", "target.parquet", *PROMISE, "--users", "users.txt", "--out", "guided"]
    assert run([*guided, "--strategy", "guided", "--guide", "release"]) == 0
    assert verify("guided").certificate.guide.strategy == "buckets"
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != str(site)])
    monkeypatch.setattr(BY_NAME, "_registered", {})
    for name in [name for name in sys.modules if name.startswith("pricdr_examples")]:
        del sys.modules[name]
    assert verify("guided").certificate.guide.strategy == "buckets"  # the promise does not rest on the guide
    assert run(["recommend", "model", "--out", "r.parquet", "-k", "3"]) == 0
    assert len(pl.read_parquet("r.parquet")) == 3 * 120
    capsys.readouterr()
    for command in (["verify", "release"], ["train", "split", "--release", "release", "--out", "m"]):
        assert run(command) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert (
            "strategy 'buckets' is not one this software knows (spectral, guided, continued, features, jlt, sjlt)"
            in line
        )
        assert "where the package that brings this strategy is installed" in line
    assert run(["train", "split", "--release", "release", "--method", "neighbours", "--out", "m"]) == 2
    assert "--method: there is no method 'neighbours': hetero," in capsys.readouterr().err
    assert not imported()


def test_a_module_on_the_path_needs_no_package(here, monkeypatch, forgetting, capsys):
    (here / "mine.py").write_text(NEIGHBOURS)
    (here / "ways.py").write_text(BUCKETS)
    train = ["train", "split", "--release", "release", "--method", "mine:Neighbours", "--out", "model"]
    fixed = ["publish", "source.parquet", *PROMISE, "--users", "users.txt", "--out", "release"]
    assert run([*fixed, "--strategy", "ways:Buckets"]) == 2  # the folder somebody works in is not searched by itself
    assert "--strategy: strategy ways:Buckets: No module named 'ways' (is its folder" in capsys.readouterr().err
    monkeypatch.syspath_prepend(str(here))
    assert run([*fixed, "--strategy", "ways:Buckets", "--dim", "6"]) == 0
    assert run(train) == 0
    assert BY_NAME.origin("buckets") == "ways:Buckets"
    assert json.loads((here / "model" / "model.json").read_text())["method"] == "neighbours"
    assert run(["train", "split", "--method", "pricdr.models.methods.linear:EASE", "--out", "ours"]) == 0
    assert json.loads((here / "ours" / "model.json").read_text())["method"] == "ease"


SPEC = """
title = "with others"
seeds = [1, 2]
[data]
folder = "pair"
source = "source.parquet"
target = "target.parquet"
filtered = true
[[arm]]
name = "theirs"
method = "METHOD"
release = { strategy = "STRATEGY", epsilon = 8 }
"""


def reproduced(here, method: str, strategy: str, *options: str) -> list[str]:
    (here / "data" / "pair").mkdir(parents=True)
    for side in ("source", "target"):
        (here / "data" / "pair" / f"{side}.parquet").symlink_to((here / f"{side}.parquet").resolve())
    (here / "table.toml").write_text(SPEC.replace("METHOD", method).replace("STRATEGY", strategy))
    assert run(["reproduce", "table.toml", "--data", "data", "--out", "results", *options]) == 0
    return [json.loads(line)["arm"] for line in (here / "results" / "table.jsonl").read_text().splitlines()]


def test_specs_take_its_names(installed, here):
    installed()
    assert reproduced(here, "neighbours", "buckets") == ["theirs"] * 2


@pytest.mark.slow
def test_every_process_imports_what_the_user_named(here, monkeypatch, forgetting):
    (here / "mine.py").write_text(NEIGHBOURS + BUCKETS)
    monkeypatch.syspath_prepend(str(here))
    allowed = ["--method", "mine:Neighbours", "--strategy", "mine:Buckets", "--jobs", "2"]
    assert reproduced(here, "mine:Neighbours", "buckets", *allowed) == ["theirs"] * 2
