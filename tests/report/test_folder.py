"""A results folder is read whole and checked; what is missing, stale or not ours is counted and named."""

import json
import os

import pytest

from pricdr.errors import InputError
from pricdr.evaluation.verdict import Verdict
from pricdr.experiments.measured import Access
from pricdr.report.folder import read_folder
from tests.report import made_up


def simple(folder):
    arms = [made_up.arm("DMF", "dmf", settings={"width": 64}), made_up.arm("popularity", "popularity")]
    levels = {"DMF": {"warm": 0.3}, "popularity": {"warm": 0.1}}
    return made_up.write(folder, made_up.outline("some_toy", arms), made_up.results("some_toy", levels))


def test_a_folder_that_is_no_results_folder_is_refused_in_one_line(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    for path, why in (
        (tmp_path, r"it holds no \*\.spec\.json"),
        (tmp_path / "nowhere", "no such folder"),
        (tmp_path / "notes.txt", "it is not a folder"),
    ):
        with pytest.raises(InputError, match=f"is not a results folder: {why}"):
            read_folder(path)


def _pipe(path):
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("name", "spoil", "says"),
    [
        (
            "some_toy.jsonl",
            lambda path: path.write_text(path.read_text() + '{"spec": "toy"}\n'),
            "line 11: not a result",
        ),
        (
            "some_toy.spec.json",
            lambda path: path.rename(path.with_name("other.spec.json")),
            "'some_toy', not of 'other'",
        ),
        ("some_toy.spec.json", _pipe, "is not a file of results: it is a folder, a pipe, or"),  # and not waited for
        ("some_toy.jsonl", _pipe, "is not a file of results: it is a folder, a pipe, or"),
    ],
    ids=range(4),
)
def test_a_file_that_cannot_be_read_is_refused_by_its_name(tmp_path, name, spoil, says):
    simple(tmp_path)
    spoil(tmp_path / name)
    with pytest.raises(InputError, match=rf"{name.partition('_toy')[2][1:]}\b.*{says}"):
        read_folder(tmp_path)


def test_stale_and_missing_runs_are_counted_and_stale_ones_are_no_results(tmp_path):
    simple(tmp_path)
    path = tmp_path / "some_toy.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    stale = [{**line, "key": "an older key"} for line in lines[:3]]
    path.write_text("".join(json.dumps(line) + "\n" for line in [*lines[1:], *stale]))
    (tmp_path / "old_table.jsonl").write_text("")
    folder = read_folder(tmp_path)
    (experiment,) = folder.experiments
    assert (len(experiment.runs), experiment.stale, experiment.missing) == (9, 3, {"DMF": [1]})
    assert 1 not in experiment.arms["DMF"].measured("warm").by_seed
    assert folder.unclaimed == ("old_table.jsonl",)


@pytest.mark.parametrize(
    ("one", "access"),
    [
        (made_up.arm("a"), Access.TARGET),
        (made_up.arm("a", plaintext=True), Access.PLAINTEXT),
        (made_up.released("a"), Access.PRIVATE),
        (made_up.control("noise"), Access.CONTROL),
        (made_up.control("shuffled"), Access.CONTROL),
        (made_up.released("a", release={"rows": "noiseless"}), Access.NOISELESS),
        (made_up.released("a", strategy="guided", release={"guide": "clear"}), Access.CLEAR_GUIDE),
        (made_up.released("a", strategy="guided"), Access.PRIVATE),
    ],
)
def test_what_an_arm_saw_is_read_off_its_settings_not_its_name(tmp_path, one, access):
    made_up.write(tmp_path, made_up.outline("some_toy", [one]))
    (experiment,) = read_folder(tmp_path).experiments
    assert experiment.arms[one["name"]].access is access


def test_shares_are_of_the_plaintext_gain(tmp_path):
    made_up.frontier(tmp_path, {"guided, ε = 4": 0.15, "guided, ε = 1": 0.12, "jlt, ε = 8": 0.1})
    (pair,) = read_folder(tmp_path).experiments
    assert pair.has_ceiling
    shares = {arm.name: round(pair.share(arm).value, 2) for arm in pair.private_arms("cold")}
    assert shares == {"guided, ε = 4": 0.5, "guided, ε = 1": 0.2, "jlt, ε = 8": 0.0}
    assert pair.private_arms("cold")[0] is pair.arms["guided, ε = 4"]


def test_what_controls_gain_as_well_does_not_cross(tmp_path):
    """A release that is no better than noise has not transferred anything, however far it is above popularity."""
    (pair,) = read_folder(made_up.frontier(tmp_path, {"guided, ε = 4": 0.15}, controls=0.15)).experiments
    arm = pair.arms["guided, ε = 4"]
    assert pair.worst_gain(arm, "cold")[0].verdict is Verdict.UNCLEAR
    assert pair.gain(arm, "cold").verdict is Verdict.HELPS


@pytest.mark.parametrize(("same_data", "reference"), [(True, "BPR"), (False, "DMF")])
def test_warm_users_are_compared_with_the_best_target_only_arm_of_any_spec_on_the_same_data(
    tmp_path, same_data, reference
):
    """A spec whose own target-only arm is weak must not make its releases look good."""
    made_up.frontier(tmp_path, {"guided, ε = 4": 0.15}, warm={"guided, ε = 4": 0.35})
    bpr = made_up.results("table2_toy", {"BPR": {"cold": 0.1, "warm": 0.4}}, validation=0.5)
    data = {} if same_data else {"data": {"cold": 0.0}}
    made_up.write(tmp_path, made_up.outline("table2_toy", [made_up.arm("BPR", "bpr")], **data), bpr)
    (pair,) = read_folder(tmp_path).family("frontier")
    assert pair.reference("warm").name == reference
    assert pair.reference("cold").name == "popularity"
    worst, against = pair.worst_gain(pair.arms["guided, ε = 4"], "warm")
    assert (worst.verdict, against == "BPR") == ((Verdict.HURTS, True) if same_data else (Verdict.HELPS, False))
