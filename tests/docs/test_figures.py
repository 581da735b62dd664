"""No figure in the documentation differs from the committed results."""

import re
from dataclasses import replace
from math import ceil, exp

import pytest
from benchmarks import new_year, series
from docs._generate import results
from docs._generate.results import DUPLICATES, ROOT, Experiment, figure, percent, short
from scipy.optimize import brentq
from scipy.stats import norm

from pricdr.evaluation.verdict import Verdict
from pricdr.experiments.measured import Measurement

ARMS = ("popularity", "guided, ε = 4", "DDTCDR (plaintext)")
"""The floor, a release and the ceiling of a frontier."""


def test_the_page_of_figures_is_what_the_results_give():
    assert (ROOT / "docs" / "results.md").read_text(encoding="utf-8") == results.page(), "run `make results`"


def test_a_changed_result_changes_the_page(monkeypatch):
    monkeypatch.setattr(Experiment, "share", lambda *_: Measurement({1: 0.113, 2: 0.133}))
    assert "| 4 | 12 ± 1 % | 12 ± 1 % | 12 ± 1 % | 12 ± 1 % |" in results.page()


@pytest.mark.parametrize("epsilon", [8, 4])
def test_the_readme_has_the_shares_of_the_results(epsilon):
    shares = [Experiment(f"frontier_{data}").share(f"guided, ε = {epsilon}") for data in DUPLICATES]
    row = f"| {epsilon} | {percent(shares[0])} | {percent(shares[1])} |"
    assert row in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_says_what_the_full_ranking_shows():
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    movie, cell = (
        [short(Experiment(f"frontier_{data}").ndcg(arm, "cold", "full"), 4) for arm in ARMS] for data in DUPLICATES
    )
    assert "NDCG@10 {} by popularity, {} at ε = 4 and {} in plaintext".format(*movie) in readme
    assert "on Electronics→Cell {}, {} and {}.".format(*cell) in readme


def test_the_page_for_operators_says_what_weekly_releases_keep():
    page = " ".join((ROOT / "docs" / "operations.md").read_text(encoding="utf-8").split())
    for epsilon, words in (
        ("2", "{} of the plaintext gain on Movie→Music and {} on"),
        ("1", "{} and {}"),
        ("0.5", "{} and {}"),
    ):
        shares = [percent(Experiment(f"frontier_{data}").share(f"guided, ε = {epsilon}")) for data in DUPLICATES]
        assert f"at ε = {epsilon} {words}".format(*shares) in page.replace("at ε = 2 keeps", "at ε = 2")


def test_the_page_for_operators_says_what_a_series_keeps():
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    found = series.read_simulated(ROOT / "results" / "series.jsonl")
    rows = series.table(found)
    assert len(rows) >= 16
    assert [row for row in page.splitlines() if " releases" in row and row.startswith("| ") and ", ε = " in row] == rows
    controls = [one for one in found if one.plan.rows != series.OWN]
    assert len(controls) == 26
    assert all(value == one.single for one in controls for value in one.sum.values())


def test_the_page_for_operators_says_what_crossing_into_a_year_keeps():
    found = new_year.read_two_years(ROOT / "results" / "new_year.jsonl")
    rows = new_year.table(found)
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    assert [row for row in page.splitlines() if " a year | " in row] == rows
    assert len(found) == 20
    for plan in {replace(one.plan, seed=0) for one in found}:
        same = [one for one in found if replace(one.plan, seed=0) == plan]
        gain = Measurement({one.plan.seed: one.ndcg["went on"]["26"] - one.ndcg["began anew"]["26"] for one in same})
        assert gain.value > 2 * gain.error


def test_at_epsilon_one_a_quarter_to_a_half_is_left_as_the_readme_says():
    shares = [Experiment(f"frontier_{data}").share("guided, ε = 1").value for data in DUPLICATES]
    assert [round(4 * share) for share in shares] == [1, 2]


def test_the_readme_counts_the_controls_that_were_refused():
    pairs = [Experiment(f"frontier_{data}") for data in (*DUPLICATES, "douban_book_music")]
    trainings = sum(len(pair.by_arm[name]) for pair in pairs for name in pair.controls())
    refused = trainings - sum(pair.accepted() for pair in pairs)
    assert f"in {refused} of {trainings} trainings" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_duplicates_are_those_that_the_data_tests_count():
    counted = (ROOT / "tests" / "data" / "test_realdata.py").read_text(encoding="utf-8").replace("_", "")
    for items, ratings, target_ratings in DUPLICATES.values():
        assert re.search(rf"\b{target_ratings}\],\s*\({items}, {ratings}\)", counted)


def test_figures_are_printed_as_tables_print_them():
    assert percent(Measurement({1: -0.009, 2: -0.033})) == "−2 ± 1 %"
    assert figure(Measurement({1: -0.057, 2: -0.0508})) == "−.0539 ± .0031"
    assert short(Measurement({1: 0.2239})) == ".224"


def test_verdicts_on_the_paper_s_figures_are_what_was_measured():
    """Sentences of docs/results.md that no template computes."""
    pair, noise = Experiment("rq4_epsilon_movie_music"), "noise, gates off (control)"
    alone = pair.ndcg(noise, "cold")
    for point in pair.curve("jlt, paper's noise, gates off", "cold").values():
        assert abs(point.value - alone.value) < 2 * max(point.error, alone.error)
    exact = pair.curve("jlt, gates off", "cold")
    assert all(exact[at].value - alone.value > 2 * exact[at].error for at in (16, 32, 64))
    assert exact[64].value < exact[32].value + exact[32].error
    dims = Experiment("rq4_dim_movie_music").curve("jlt, noiseless, gates off", "cold")
    assert max(dims, key=lambda n: dims[n].value) >= 700
    density = Experiment("rq4_density_movie_music")
    for curve in ("sjlt, ε = 8, gates off", "sjlt, noiseless, gates off"):
        low, high = density.lowest(curve, "cold"), density.highest(curve, "cold")
        assert high.value - low.value < 3 * max(low.error, high.error)
    sparse = Experiment("rq5_movie_music")
    for end in ("noiseless, gates off", "ε = 8, gates off"):
        jlt, sjlt = (sparse.curve(f"{name}, {end}", "cold") for name in ("jlt", "sjlt"))
        assert all(abs(jlt[at].value - sjlt[at].value) < 2 * max(jlt[at].error, sjlt[at].error) for at in jlt)
    parts = Experiment("rq3_movie_music")
    whole = parts.ndcg("PriCDR-J, noiseless", "cold")
    for left_out in ("alignment", "reconstruction"):
        assert abs(parts.ndcg(f"PriCDR-J, noiseless, without {left_out}", "cold").value - whole.value) < whole.error


def test_the_paper_s_order_on_douban_turns_round():
    pair, paper = Experiment("table2_douban_book_music"), results.paper_rows()
    alone, rivals = ("BPR", "NeuMF", "DMF"), ("CoNet", "DDTCDR", "DARec", "ETL")
    assert max(paper[name]["NDCG@10"] for name in alone) < min(paper[name]["NDCG@10"] for name in rivals)
    best = max(pair.ndcg(f"{name} (plaintext)", "warm").value for name in rivals)
    assert min(pair.ndcg(name, "warm").value for name in alone) > best
    assert pair.ndcg("DMF", "warm").value > max(row["NDCG@10"] for row in paper.values())
    assert pair.metrics("PriCDR-J, ε = 8") == pair.metrics("PriCDR-S, ε = 8")
    arms = {name: next(arm for arm in pair.by_arm if re.match(rf"{name}($| \(|,)", arm)) for name in paper}
    above = {name: pair.ndcg(arm, "warm").value - paper[name]["NDCG@10"] for name, arm in arms.items()}
    assert abs(above.pop("PriCDR-SYM")) < pair.ndcg(arms["PriCDR-SYM"], "warm").error
    assert all(above[name] > 2 * pair.ndcg(arms[name], "warm").error for name in above)
    # Errors there are as large as the gains.
    assert Experiment("frontier_douban_book_music").share("guided, ε = 4").error > 0.25


def test_what_the_privacy_officer_reads_of_each_epsilon_is_computed():
    """From the definition of the profile: which μ has this ε at δ = 1e-6, and what tests of it find."""
    page = (ROOT / "docs" / "privacy-officer.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\d.]+) \| ([\d.]+) \| (\d+) \| (\d+) %", page, re.MULTILINE)
    assert [float(row[0]) for row in rows] == [0.5, 1, 4, 8, 16]
    for epsilon, mu, guesses, detected in rows:
        at = float(epsilon)
        exact = brentq(lambda m, e=at: norm.cdf(m / 2 - e / m) - exp(e) * norm.cdf(-m / 2 - e / m) - 1e-6, 0.01, 10)
        assert f"{exact:.2f}" == mu
        assert ceil(100 * norm.cdf(exact / 2)) == int(guesses)
        assert ceil(100 * norm.cdf(norm.ppf(0.05) + exact)) == int(detected)


def test_what_the_page_says_of_a_base_holds():
    alone, both = "HeteroCDR, spectral, ε = 4", "HeteroCDR on BPR, spectral, ε = 4"
    for data in ("douban_book_music", "movie_music"):
        pair = Experiment(f"bases_{data}")
        for other in ("DMF", "BPR"):
            gain = pair.gain(both, "warm", other)
            assert gain.value > 1.9 * gain.error, (data, other)
        own = pair.gain(both, "warm", alone)
        assert own.error < own.value < 2 * own.error
        assert set(pair.gain(both, "cold", alone).by_seed.values()) == {0.0}
        assert all(result.trust["warm"] == 0 for result in pair.by_arm[both])
        assert all(pair.refused(control) == 5 for control in pair.controls())
        assert all(pair.ndcg(control, "warm") == pair.ndcg(both, "warm") for control in pair.controls())


def test_what_the_page_says_of_larger_data_holds():
    pairs = {name: Experiment(f"larger_{name}") for name in results.LARGER}

    def sure(name, *arms):
        return [pairs[name].gain(arm).verdict is Verdict.HELPS for arm in arms]

    own = [f"spectral, ε = {epsilon}" for epsilon in (8, 4, 2, 1)]
    assert sure("douban_500", "spectral, without noise", *own) == [False] * 5
    assert sure("douban_1000", "spectral, without noise", *own) == [True] + [False] * 4
    assert sure("douban_1000", "guided, ε = 4") == [True]
    assert sure("douban_2000", *own[:2]) == [True, True]
    assert all(sure(name, *own) == [True] * 4 for name in ("douban_4000", "douban_book_music"))
    assert [sure(f"joined_{pair}", *own[:3]) for pair in ("movie_music", "movie_book", "music_book")] == [
        [False] * 3,
        [False] * 3,
        [True] * 3,
    ]
    for pair in (pairs["joined_movie_music"], pairs["joined_movie_book"]):
        guided = pair.gain("guided, ε = 8")
        assert guided.verdict is Verdict.HELPS
        assert pair.gain("guided, ε = 16").value > pair.gain("spectral, without noise").value
    assert not any(any(sure(name, "jlt, ε = 8", "jlt, ε = 4")) for name in pairs)
    assert sum(pair.refused(control) for pair in pairs.values() for control in pair.controls()) == 90


def test_what_the_page_says_of_two_sources_holds():
    pairs = {at: Experiment("sources_{}_{}".format(*at)) for at in results.SEVERAL}
    worst = min(
        (gain.value / gain.error, at, epsilon, stratum)
        for at, pair in pairs.items()
        for epsilon in (8, 4)
        for stratum in ("warm", "cold")
        if (gain := pair.over_better(epsilon, stratum)).error
    )
    assert worst[1:3] == (("book", "every"), 8)
    assert -2 < worst[0] < -1
    for users in ("every", "any"):
        gain = pairs["movie", users].over_better(8, "cold")
        assert gain.value > 2 * gain.error
        assert all(pairs[target, users].refused("A, ε = 4") == 5 for target in ("music", "book"))
    for pair in pairs.values():
        assert all(pair.refused(control) == 5 for control in pair.controls())
        for epsilon in (8, 4):
            both, beside = (f"A and B, {more}ε = {epsilon}" for more in ("", "beside worthless ones, "))
            assert [one.figures for one in pair.by_arm[both]] == [one.figures for one in pair.by_arm[beside]]


def test_what_the_page_says_of_folding_in_holds():
    folded = results.FoldedIn()
    cold, warm, known = (folded.lost(kind) for kind in ("cold newcomers", "warm newcomers", "cold users known before"))
    assert abs(cold.value) < cold.error
    assert warm.value < -2 * warm.error
    assert known.value > -known.error
    for kind in ("cold newcomers", "warm newcomers"):
        popular, own = folded.ndcg(kind, "popularity"), folded.ndcg(kind, "folded in")
        assert own.value - popular.value > 2 * own.error
    gains = [one.ndcg["cold users known before"] for one in folded.results]
    assert all(one["folded in"] > one["before"] for one in gains)
