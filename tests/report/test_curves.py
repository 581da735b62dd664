"""A curve has the paper's shape, the opposite one, or is flat within error; sentences count which."""

import pytest

from pricdr.evaluation.verdict import Verdict
from pricdr.report.curves import Shape, Variant, contrasts, studies
from pricdr.report.folder import read_folder
from pricdr.report.measurements import Measurement
from pricdr.report.shapes import sentences
from tests.report import made_up

LINES = [made_up.arm("popularity", "popularity"), made_up.arm("plain", plaintext=True), made_up.control("shuffled")]
LEVELS = {"popularity": {"cold": 0.1, "warm": 0.1}, "plain": {"cold": 0.2, "warm": 0.3}}
LEVELS |= {"shuffled (control)": {"cold": 0.1, "warm": 0.3}}


def write(folder, family, axis, cold, *, warm=0.3, noise=0.0002, **more):
    """Write curves: name → place → level for cold users; warm users have the same everywhere."""
    arms = [*LINES]
    levels = dict(LEVELS)
    for curve, places in cold.items():
        strategy = curve.partition(",")[0]
        release = {"calibration": "paper"} if "paper" in curve else {}
        for at, level in places.items():
            one = made_up.along(curve, axis, at, strategy=strategy, release=release)
            arms.append(one)
            levels[one["name"]] = {"cold": level, "warm": warm}
    lines = made_up.results(f"{family}_toy", levels, noise=noise)
    for line in lines:
        line.update({key: value(line) for key, value in more.items()})
    return made_up.write(folder, made_up.outline(f"{family}_toy", family, arms, baseline="popularity"), lines)


def study(folder):
    (found,) = studies(read_folder(folder))
    return found


def verdicts(folder, stratum="cold"):
    return {trend.curve: trend.verdict for trend in study(folder).trends if trend.stratum == stratum}


EPSILONS = (0.5, 1, 2, 4, 8, 16, 32, 64)


def test_rising_flat_and_falling_curves_are_told_apart(tmp_path):
    cold = {
        "jlt": {at: 0.1 + 0.01 * place for place, at in enumerate(EPSILONS)},
        "sjlt": dict.fromkeys(EPSILONS, 0.1),
        "spectral": {at: 0.2 - 0.01 * place for place, at in enumerate(EPSILONS)},
    }
    write(tmp_path, "rq4_epsilon", "epsilon", cold)
    assert verdicts(tmp_path) == {"jlt": Verdict.HELPS, "sjlt": Verdict.UNCLEAR, "spectral": Verdict.HURTS}
    claim, told, *_ = sentences(study(tmp_path))
    assert claim == "The paper: performance improves with ε and then stays level."
    # Three curves for cold users, and three that are flat for warm ones.
    assert told.startswith(
        "With gates on, ours agrees in shape on 1 of 6 curves only: 4 flat within error, 1 the other"
    )
    assert "+0.07" in told
    assert "(jlt, cold users, Toy A→B)" in told


def test_the_contrast_of_a_straight_line_is_its_rise():
    rising = {2.0**power: Measurement({1: 0.1 * power, 2: 0.1 * power + 1}) for power in range(4)}
    (rise,) = contrasts(rising, Shape.RISING)
    assert rise.by_seed == pytest.approx({1: 0.3, 2: 0.3})


def test_the_contrasts_of_a_bell_are_how_far_the_middle_is_above_each_end():
    bell = {100.0: Measurement({1: 0.1}), 400.0: Measurement({1: 0.3}), 800.0: Measurement({1: 0.2})}
    assert [one.by_seed for one in contrasts(bell, Shape.BELL)] == [pytest.approx({1: 0.2}), pytest.approx({1: 0.1})]


def test_a_contrast_needs_places_and_common_seeds():
    assert contrasts({1.0: Measurement({1: 0.1})}, Shape.RISING) == ()
    assert contrasts({1.0: Measurement({1: 0.1}), 2.0: Measurement({1: 0.1})}, Shape.BELL) == ()
    assert contrasts({1.0: Measurement({1: 0.1}), 2.0: Measurement({2: 0.1})}, Shape.RISING) == ()
    assert contrasts({0.0: Measurement({1: 0.1}), 2.0: Measurement({1: 0.1})}, Shape.RISING) == ()


@pytest.mark.parametrize(
    ("levels", "verdict", "words"),
    [
        ((0.1, 0.15, 0.15, 0.1), Verdict.HELPS, "as in the paper"),
        ((0.1, 0.1, 0.1, 0.1), Verdict.UNCLEAR, "flat within error"),
        ((0.1, 0.05, 0.05, 0.1), Verdict.HURTS, "lowest in the middle"),
        ((0.1, 0.15, 0.15, 0.15), Verdict.HURTS, "rises, no fall"),
        ((0.1, 0.12, 0.14, 0.16), Verdict.HURTS, "rises, no fall"),
        ((0.16, 0.14, 0.12, 0.1), Verdict.HURTS, "falls, no rise"),
    ],
)
def test_a_bell_has_to_rise_and_to_fall(tmp_path, levels, verdict, words):
    """A curve that rises and stays up is no bell, however far its middle is above the mean of its ends."""
    write(tmp_path, "rq4_dim", "dim", {"jlt": dict(zip((100, 200, 400, 800), levels, strict=True))})
    (trend,) = (trend for trend in study(tmp_path).trends if trend.stratum == "cold")
    assert (trend.verdict, trend.in_words) == (verdict, words)


def test_all_curves_flat_do_not_agree_and_the_width_of_their_intervals_is_told(tmp_path):
    write(tmp_path, "rq4_density", "density", {"sjlt": dict.fromkeys((0.1, 0.5, 0.9), 0.1)}, noise=0.003)
    told = sentences(study(tmp_path))[1]
    assert "ours does not agree in shape on any of 2 curves: 2 flat within error" in told
    assert "; half of the intervals are ± 0.0" in told
    assert told.endswith(" or narrower.")


def test_sjlt_that_loses_less_is_told_so(tmp_path):
    shares = (0.125, 0.25, 0.5, 1)
    cold = {
        "jlt": {at: 0.1 + 0.02 * place for place, at in enumerate(shares)},
        "sjlt": {at: 0.15 + 0.005 * place for place, at in enumerate(shares)},
    }
    write(tmp_path, "rq5", "source_share", cold)
    told = sentences(study(tmp_path))[-1]
    assert told == (
        "Of 2 pairs of curves, sjlt loses less than jlt as the source grows sparser in 1, more in 0; it cannot be told "
        "in 1."
    )


def test_the_papers_noise_is_drawn_at_its_exact_epsilon(tmp_path):
    facts = {"dim": 200, "sigma": 9.0, "delta": 1e-6}
    write(
        tmp_path,
        "rq4_epsilon",
        "epsilon",
        {"jlt, paper's noise": dict.fromkeys((1, 8), 0.1), "jlt, exact noise": dict.fromkeys((1, 8), 0.1)},
        release=lambda line: {**facts, "epsilon": 0.02} if "paper's" in line["arm"] else None,
    )
    points = [point for point in study(tmp_path).points if point.stratum == "cold"]
    assert [(point.at, point.exact, point.nominal) for point in points] == [
        *((1.0, 0.02, True), (8.0, 0.02, True)),
        *((1.0, 1.0, False), (8.0, 8.0, False)),
    ]


def test_refused_releases_are_counted(tmp_path):
    write(
        tmp_path,
        "rq4_epsilon",
        "epsilon",
        {"jlt": dict.fromkeys((1, 8), 0.1)},
        trust=lambda line: {"warm": 0.0, "cold": 1.0 if line["seed"] == 1 else 0.0} if "jlt" in line["arm"] else None,
    )
    assert "in 10 of 10 runs for warm users and in 8 of 10 runs for cold users: " in sentences(study(tmp_path))[2]


def test_gates_off_and_rows_without_noise_are_told_apart(tmp_path):
    """A curve that is flat because releases are refused says nothing about one that is flat although they are used."""
    arms, levels = [*LINES], dict(LEVELS)
    kinds = {"jlt": {}, "jlt, gates off": {"settings": {"gated": False}}, "jlt, noiseless": {}}
    for curve, more in kinds.items():
        release = {"rows": "noiseless"} if "noiseless" in curve else {}
        for place, at in enumerate((0.25, 0.5, 1.0)):
            one = made_up.along(curve, "source_share", at, strategy="jlt", release=release, **more)
            arms.append(one)
            levels[one["name"]] = {"cold": 0.1 + (0.02 * place if "noiseless" in curve else 0)}
    made_up.write(tmp_path, made_up.outline("rq5_toy", "rq5", arms), made_up.results("rq5_toy", levels))
    found = study(tmp_path)
    assert {trend.curve: trend.variant for trend in found.trends} == {
        "jlt": Variant.GATED,
        "jlt, gates off": Variant.UNGATED,
        "jlt, noiseless": Variant.CLEAR,
    }
    told = sentences(found)
    assert told[1].startswith("With gates off, ours does not agree in shape on any of 1 curve: 1 flat")
    assert told[3].startswith("Without noise (NOT PRIVATE), ours agrees in shape on 1 of 1 curve: 0 flat")


@pytest.mark.parametrize("shaped", [True, False])
def test_a_control_with_the_papers_shape_is_told_and_not_counted_as_agreement(tmp_path, shaped):
    write(tmp_path, "rq4_dim", "dim", {"jlt": dict.fromkeys((100, 200, 400), 0.1)})
    arms, levels = [], {}
    for at in (100, 200, 400):
        one = made_up.along("noise", "dim", at, strategy="jlt", release={"rows": "noise"}, settings={"gated": False})
        arms.append(one)
        levels[one["name"]] = {"cold": 0.12 if shaped and at == 200 else 0.1}
    made_up.write(
        tmp_path, made_up.outline("rq4_noise_toy", "rq4_noise", arms), made_up.results("rq4_noise_toy", levels)
    )
    told = sentences(study(tmp_path))
    assert told[1].startswith("With gates on, ours does not agree in shape on any of 2 curves")
    done = "as in the paper" if shaped else "flat within error"
    assert told[2].startswith(f"Of 1 curves of releases that are worth nothing (controls): 1 {done}. What a curve has")


def test_lines_across_the_chart_are_the_arms_without_an_axis(tmp_path):
    write(tmp_path, "rq4_dim", "dim", {"jlt": dict.fromkeys((100, 200, 400), 0.1)})
    assert [level.name for level in study(tmp_path).levels if level.stratum == "cold"] == [
        *("popularity", "plain", "shuffled (control)")
    ]


def test_without_results_a_study_says_what_is_missing(tmp_path):
    content = made_up.outline("rq5_toy", "rq5", [made_up.along("jlt", "source_share", 0.5)])
    found = study(made_up.write(tmp_path, content))
    assert (found.points, sentences(found), found.absent) == ((), (), ("Toy A→B: not run yet",))


def test_one_seed_gives_points_and_no_claims(tmp_path):
    write(tmp_path, "rq4_dim", "dim", {"jlt": dict.fromkeys((100, 200, 400), 0.1)})
    path = tmp_path / "rq4_dim_toy.jsonl"
    path.write_text("".join(line for line in path.read_text().splitlines(True) if '"seed": 1' in line))
    found = study(tmp_path)
    assert len(found.points) == 6
    assert sentences(found) == ()


def test_the_papers_noise_is_spoken_of_apart_with_what_its_epsilon_is(tmp_path):
    told = sentences(study(made_up.curves(tmp_path)))
    assert told[1].startswith("With gates off and exact noise, ours agrees in shape on 1 of 2 curves only: 1 flat")
    assert told[2].startswith("With gates off and the paper's noise, ours does not agree in shape on any of 2 curves")
    assert "What the paper calls ε = 1 to 64 is an exact ε of 0.025 to 1.6: its curves are about far less" in told[-1]
