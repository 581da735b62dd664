"""The sentences that open the page say what the results say: that something crosses, that it does not, or neither."""

import json

import pytest

from pricdr.evaluation.verdict import Verdict
from pricdr.report.answer import answer, crosses
from pricdr.report.folder import Access, read_folder
from tests.report import made_up


def sentences(folder):
    return {sentence.about: sentence.text for sentence in answer(read_folder(folder)).sentences}


def test_what_crosses_is_told_with_its_share_and_the_least_epsilon(tmp_path):
    cold = {"guided, ε = 1": 0.1, "guided, ε = 2": 0.13, "guided, ε = 4": 0.175, "guided, ε = 8": 0.19}
    told = sentences(made_up.frontier(tmp_path, {**cold, "spectral, ε = 4": 0.15}))
    assert "of what plain gains for cold users over popularity." in told["What crosses"]
    assert "At ε = 4 the best private release keeps 75 ± 0 % on Toy A→B (guided)" in told["What crosses"]
    assert "Cold users gain from ε = 2 on Toy A→B (guided). A gain is where " in told["From which ε, and how certain"]
    assert "None of 2 controls (shuffled source, noise alone) gained" in told["From which ε, and how certain"]
    assert "Warm users gain nothing that could be told at ε = 4 on Toy A→B (" in told["Who else gains"]


def test_other_figures_give_other_sentences(tmp_path):
    told = sentences(made_up.frontier(tmp_path, {"guided, ε = 4": 0.15, "guided, ε = 8": 0.1}))
    assert "keeps 50 ± 0 % on" in told["What crosses"]
    # It helps at 4 and not at 8: no ε from which on it is certain.
    assert "at no ε up to 8 on Toy A→B" in told["From which ε, and how certain"]


def test_a_noisy_gain_cannot_be_told(tmp_path):
    told = sentences(made_up.frontier(tmp_path, {"guided, ε = 4": 0.11}, noise=0.02))
    assert "Whether cold users gain at ε = 4 cannot be told on Toy A→B (guided: +" in told["What crosses"]
    assert "[−" in told["What crosses"]
    assert "at no ε up to 4" in told["From which ε, and how certain"]


def test_a_loss_is_told_as_one(tmp_path):
    told = sentences(made_up.frontier(tmp_path, {"guided, ε = 4": 0.05}, warm={"guided, ε = 4": 0.2}))
    assert "Cold users lose at ε = 4 on Toy A→B (guided: −0.05" in told["What crosses"]
    assert "Warm users are better off without a release at ε = 4 on Toy A→B (−0.1" in told["Who else gains"]


def test_warm_users_who_gain_are_told_so(tmp_path):
    told = sentences(made_up.frontier(tmp_path, {"guided, ε = 4": 0.15}, warm={"guided, ε = 4": 0.35}))
    assert "Warm users gain at ε = 4 on Toy A→B (+0.0" in told["Who else gains"]


def test_warm_users_are_compared_with_the_best_target_only_arm_of_any_spec(tmp_path):
    """A spec whose own target-only arm is weak must not make its releases look good."""
    made_up.frontier(tmp_path, {"guided, ε = 4": 0.15}, warm={"guided, ε = 4": 0.35})
    bpr = made_up.results("table2_toy", {"BPR": {"cold": 0.1, "warm": 0.4}}, validation=0.5)
    made_up.write(tmp_path, made_up.outline("table2_toy", "table2", [made_up.arm("BPR", "bpr")]), bpr)
    told = sentences(tmp_path)
    assert "Warm users are better off without a release at ε = 4 on Toy A→B (−0.0500 with" in told["Who else gains"]
    assert " against BPR)" in told["Who else gains"]
    assert "keeps 50 ± 0 %" in told["What crosses"]


def test_a_target_only_arm_on_other_data_is_not_compared_with(tmp_path):
    made_up.frontier(tmp_path, {"guided, ε = 4": 0.15}, warm={"guided, ε = 4": 0.35})
    bpr = made_up.results("table2_toy", {"BPR": {"cold": 0.1, "warm": 0.4}}, validation=0.5)
    other = made_up.outline("table2_toy", "table2", [made_up.arm("BPR", "bpr")], data={"cold": 0.0})
    made_up.write(tmp_path, other, bpr)
    assert "Warm users gain at ε = 4 on Toy A→B (+0.0" in sentences(tmp_path)["Who else gains"]


def test_controls_that_the_gate_refused_are_told(tmp_path):
    folder = made_up.frontier(tmp_path, {"guided, ε = 4": 0.15})
    path = folder / "frontier_toy.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if "control" in line["arm"]:
            line["trust"] = {"warm": 0.0, "cold": 0.0 if line["seed"] < 5 else 0.5}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    told = sentences(folder)["From which ε, and how certain"]
    assert told.endswith("In 8 of 10 runs the model's gate refused the control's release.")


def test_what_controls_gain_as_well_does_not_cross(tmp_path):
    """A release that is no better than noise has not transferred anything, however far it is above popularity."""
    folder = made_up.frontier(tmp_path, {"guided, ε = 4": 0.15}, controls=0.15)
    told = sentences(folder)
    assert "cannot be told on Toy A→B" in told["What crosses"]
    assert "Of 2 controls (shuffled source, noise alone), 2 gained as well" in told["From which ε, and how certain"]
    (pair,) = read_folder(folder).experiments
    assert crosses(pair, pair.arms["guided, ε = 4"], "cold")[0] is Verdict.UNCLEAR
    assert pair.gain(pair.arms["guided, ε = 4"], "cold").verdict is Verdict.HELPS


def test_without_the_usual_epsilon_the_middle_one_is_told(tmp_path):
    told = sentences(made_up.frontier(tmp_path, {f"spectral, ε = {epsilon}": 0.15 for epsilon in (0.5, 1, 2)}))
    assert "At ε = 1 the best private release keeps" in told["What crosses"]


def test_a_guide_in_the_clear_is_no_private_release(tmp_path):
    cold = {"guide in the clear, ε = 4": 0.19, "guided, ε = 4": 0.15}
    told = sentences(made_up.frontier(tmp_path, cold))
    assert "keeps 50 ± 0 % on Toy A→B (guided)" in told["What crosses"]


def test_the_papers_projections_are_told_at_their_largest_epsilon(tmp_path):
    told = sentences(made_up.frontier(tmp_path, {"jlt, ε = 4": 0.1, "jlt, ε = 8": 0.102, "guided, ε = 4": 0.15}))
    assert "the paper's projections keep 2 ± 0 % on Toy A→B (jlt, ε = 8) for cold users." in told["Who else gains"]


def test_one_seed_makes_no_certainty(tmp_path):
    folder = made_up.frontier(tmp_path, {"guided, ε = 4": 0.15})
    path = folder / "frontier_toy.jsonl"
    path.write_text("".join(line for line in path.read_text().splitlines(True) if '"seed": 1' in line))
    told = sentences(folder)
    assert "cannot be told on Toy A→B (guided: +0.0496, one seed)" in told["What crosses"]


@pytest.mark.parametrize("stratum", ["cold", "warm"])
def test_users_that_nobody_evaluated_are_not_spoken_of(tmp_path, stratum):
    folder = made_up.frontier(tmp_path, {"guided, ε = 4": 0.15})
    path = folder / "frontier_toy.jsonl"
    path.write_text(path.read_text().replace(f'"{stratum}": 100', f'"{stratum}": 0'))
    told = " ".join(sentences(folder).values())
    assert f"{stratum} users" not in told.lower()


def test_without_results_nothing_is_said_and_nothing_drawn(tmp_path):
    made_up.write(tmp_path, made_up.outline("frontier_toy", "frontier", [made_up.arm("popularity", "popularity")]))
    assert answer(read_folder(tmp_path)) == answer(read_folder(tmp_path)).__class__((), ())


def test_without_controls_the_reader_is_warned(tmp_path):
    folder = made_up.frontier(tmp_path, {"guided, ε = 4": 0.15})
    path = folder / "frontier_toy.jsonl"
    path.write_text("".join(line for line in path.read_text().splitlines(True) if "(control)" not in line))
    assert "No control was run" in sentences(folder)["From which ε, and how certain"]


def test_points_are_shares_of_the_plaintext_gain(tmp_path):
    made_up.frontier(tmp_path, {"guided, ε = 4": 0.15, "guided, ε = 1": 0.12, "jlt, ε = 8": 0.1})
    every = answer(read_folder(tmp_path)).points
    assert {point.epsilon for point in every if point.access is Access.CONTROL} == {8.0}
    points = [point for point in every if point.access is not Access.CONTROL]
    assert [(point.curve, point.epsilon) for point in points] == [("guided", 4.0), ("guided", 1.0), ("jlt", 8.0)]
    assert [round(point.share.value, 2) for point in points] == [0.5, 0.2, 0.0]


@pytest.mark.parametrize("at", [0.0, -1.0])
def test_an_epsilon_that_has_no_place_on_the_axis_is_not_drawn(tmp_path, at):
    folder = made_up.frontier(tmp_path, {"guided, ε = 1": 0.12, "guided, ε = 4": 0.15})
    path = folder / "frontier_toy.spec.json"
    content = json.loads(path.read_text())
    content["arms"][-2]["at"] = at
    path.write_text(json.dumps(content))
    assert [point.epsilon for point in answer(read_folder(folder)).points if point.curve == "guided"] == [4.0]
