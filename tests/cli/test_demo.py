"""``pricdr demo``: a newcomer's first command."""

import dataclasses
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import urllib.request
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from pricdr import Ledger, demo as story, verify
from pricdr.data.splits import load_split
from pricdr.data.synthetic import SyntheticConfig, synthetic_pair
from pricdr.evaluation.metrics import per_user
from pricdr.evaluation.ranking import ranks
from pricdr.models.catalogue import configure
from pricdr.models.fitted import FittedModel
from pricdr.progress import silent
from tests.pages.parsed import require_self_contained

SMALL = SyntheticConfig(
    users=240, source_items=60, target_items=320, tastes=4, source_ratings_per_user=12, activity_spread=0.5
)
ROOT = Path(__file__).parents[2]
NO_BAR = partial(nullcontext, silent)
QUICK = {"hidden": 16, "width": 8, "epochs": 2}


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """A small demo's folder and what it said."""
    folder = tmp_path_factory.mktemp("demo") / "my demo"
    said = []
    story.play(folder, lambda *lines: said.extend(lines), NO_BAR, data=SMALL, settings=QUICK)
    return folder, "\n".join(said)


def test_the_demo_publishes_and_verifies(played, pricdr):
    folder, said = played
    assert "verified" in said
    assert f"pricdr inspect '{folder}/target/movies.release'" in said
    received = verify(folder / "target" / "movies.release", public_key=folder / "target" / "source.pub")
    assert received.certificate.private
    assert (received.certificate.epsilon, received.certificate.delta) == (pytest.approx(4, rel=1e-3), 1e-6)
    guide = verify(folder / "source" / "music.release", public_key=folder / "source" / "target.pub")
    assert guide.certificate.private
    assert received.certificate.guide.sha256 == guide.certificate.files["release.safetensors"]
    assert received.certificate.guide.private
    assert received.users == tuple((folder / "target" / "users.txt").read_text().splitlines())
    for party in ("source", "target"):
        assert len(Ledger(folder / party / "ledger.jsonl").read().spends) == 1
        assert stat.S_IMODE((folder / party / "key").stat().st_mode) == 0o600
    assert pricdr("inspect", folder / "target" / "movies.release").code == 0


def test_the_parties_share_nothing_but_a_release_each_way_and_the_public_keys(played):
    folder, _ = played
    assert {path.name for path in folder.iterdir()} == {"source", "target", "comparison", "report.html"}
    contents = {
        party: {
            p.read_bytes()
            for p in (folder / party).rglob("*")
            if p.is_file() and p.name != "release.certificate.json"  # a model's copy of what came with the release
        }
        for party in ("source", "target")
    }
    target = folder / "target"
    handed = [target / name for name in ("source.pub", "key.pub", "users.txt")]
    releases = [file for name in ("movies.release", "music.release") for file in (target / name).iterdir()]
    assert contents["source"] & contents["target"] == {file.read_bytes() for file in (*handed, *releases)}


def test_neither_party_needs_a_folder_but_its_own_and_the_guide_holds_nothing_that_was_held_out(tmp_path):
    """Ratings that are hidden to be measured by must not come back through the guide: it is made of the rest."""
    source, target = story.set_up(tmp_path, synthetic_pair(SMALL))
    split = story.split_as_target(target)
    with mock.patch.object(story, "_publish", wraps=story._publish) as publish:
        story.publish_as_target(target, split)
    assert publish.call_args.args[1] == split.train
    story.hand_over(target / "music.release", target / "key.pub", to=source)
    target.rename(tmp_path / "away")
    story.publish_as_source(source)
    (tmp_path / "away").rename(target)
    story.hand_over(source / "movies.release", source / "key.pub", to=target)
    shutil.rmtree(source)
    received = verify(target / "movies.release", public_key=target / "source.pub")
    assert (
        story.train(target, story.RELEASE, split, QUICK, release=received).origin.releases[0].sha256
        == received.sha256()
    )
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


def test_evaluating_the_demos_models_gives_the_demos_table(played, here, pricdr):
    folder, said = played
    names = ("target/popularity", "target/target-only", "target/with-release", "comparison/plaintext-source")
    models = [folder / name for name in names]
    assert pricdr("evaluate", *models, folder / "target" / "split", "--json", "e.json").code == 0
    figures = json.loads((here / "e.json").read_text())
    for model in models:
        found = figures[str(model)]["sampled"]
        rows = [line for line in said.splitlines() if re.match(model.name.replace("-", " ") + r" +\d\.\d+ ±", line)]
        means = [float(mean) for row in rows for mean in re.findall(r"(\d\.\d+) ±", row)]
        wanted = [found[stratum]["NDCG@10"] for stratum in ("cold", "warm")]
        assert means == pytest.approx(wanted, abs=5.1e-5)
    about = json.loads((models[-1] / "model.json").read_text())
    assert about["plaintext_source"] is True


def test_its_page_stands_alone_and_says_how_to_repeat_it(played, pricdr, monkeypatch):
    folder, said = played
    page = (folder / "report.html").read_text(encoding="utf-8")
    require_self_contained(page)
    assert str(folder) not in page
    assert page.count("<img") == 2  # the figures, and what an attacker could learn from the release
    assert "no real target" in page
    assert "no real target" in said
    assert "What is promised" in page
    for row in re.findall(r"^.* ± .*$", said, flags=re.MULTILINE):
        for figure in re.findall(r"(\d\.\d+) (± \d\.\d+)", row):
            assert f'>{figure[0]} <span class="detail">{figure[1]}</span></td>' in page
    monkeypatch.chdir(folder)
    commands = re.findall(r"pricdr ([^\n<]+)", re.search(r"<pre.*?</pre>", page, flags=re.DOTALL)[0])
    assert len(commands) == 5
    for command in commands:
        if not command.startswith("demo"):
            assert pricdr(*command.split()).code == 0, command
    shutil.rmtree(folder / "again")


SERVING = """
import sys
from functools import partial
from pricdr import cli
from pricdr import demo as story
from tests.cli.test_demo import QUICK, SMALL
story.play = partial(story.play, data=SMALL, settings=QUICK)
sys.exit(cli.run(["demo", "--out", "shown", "--serve", "--port", "0"]))
"""


@pytest.mark.slow
def test_serve_ends_with_a_page_of_the_model_and_its_card(here):
    with subprocess.Popen(
        [sys.executable, "-c", SERVING],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        address = next(found for line in running.stdout if (found := re.search(r"page is (http://\S+/page);", line)))
        with urllib.request.urlopen(f"{address[1]}/model", timeout=30) as answer:
            card = answer.read().decode()
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=30)
    assert running.returncode in {0, 130}
    assert "target-only" in card
    assert "not measured" not in card.partition("who gains")[2]


@pytest.mark.slow
def test_the_whole_demo_in_a_process_of_its_own_shows_a_gain_that_is_transfer(here):
    """Fresh noise each time: what is asserted holds with room to spare."""
    outcome = subprocess.run([sys.executable, "-m", "pricdr", "demo"], cwd=here, capture_output=True, text=True)
    assert outcome.returncode == 0
    # Off a terminal a line every 30 seconds says how far it has come, and nothing else.
    assert [line for line in outcome.stderr.splitlines() if not line.startswith("progress: ")] == []
    said = " ".join(outcome.stdout.split())
    (newcomers,) = re.findall(r"and ([\d,]+) cold users", said)
    assert int(newcomers.replace(",", "")) >= 1000
    assert "Cold users: the release helps." in said
    figures = r"[-+]\S+ \[\S+, \S+\] +([-+]\S+) \[(\S+), (\S+)\]"
    rows = re.findall(rf"^(\w.* − .*\w) +{figures}$", outcome.stdout, flags=re.MULTILINE)
    differences = {name: [float(x) for x in found] for name, *found in rows}
    assert min(differences["with release − popularity"]) > 0.02
    assert differences["plaintext source − with release"][0] > -0.02
    assert [path.name for path in here.iterdir()] == ["pricdr-demo"]
    assert shuffled_gain(here / "pricdr-demo" / "target") < 0.015


def shuffled_gain(target) -> float:
    """What cold users gain over popularity from the release with its rows dealt out to other users: regularisation."""
    received, split = verify(target / "movies.release"), load_split(target / "split")
    order = np.random.default_rng(0).permutation(len(received.users))
    shuffled = dataclasses.replace(received, matrix=received.matrix[order])
    method = configure("hetero", {**story.SETTINGS, "device": "cpu"})
    model = method.fit(split.train, shuffled, validation=split.validation)
    cold = split.test.only(split.cold[split.test.users])
    found = [
        per_user(ranks(fitted.score, cold, split.train.matrix)[0])["NDCG@10"].mean()
        for fitted in (model, FittedModel.load(target / "popularity"))
    ]
    return float(found[0] - found[1])
