"""No figure in the documentation differs from the committed results."""

import re

import pytest
from docs._generate import results
from docs._generate.results import DUPLICATES, PAGE, ROOT, Experiment, figure, percent, short

from pricdr.experiments.results import Mean


def test_the_results_page_is_what_the_results_give():
    assert PAGE.read_text(encoding="utf-8") == results.page(), "run `make results`"


def test_a_changed_result_changes_the_page(monkeypatch):
    monkeypatch.setattr(results, "share", lambda *_: Mean(0.123, 0.01, 5))
    assert "| 4 | 12 ± 1 % | 12 ± 1 % | 12 ± 1 % | 12 ± 1 % |" in results.page()


@pytest.mark.parametrize("epsilon", [8, 4])
def test_the_readme_has_the_shares_of_the_results(epsilon):
    shares = [Experiment(f"frontier_{data}").share(f"guided, ε = {epsilon}") for data in DUPLICATES]
    row = f"| {epsilon} | {percent(shares[0])} | {percent(shares[1])} |"
    assert row in (ROOT / "README.md").read_text(encoding="utf-8")


def test_at_epsilon_one_a_quarter_to_a_half_is_left_as_the_readme_says():
    shares = [Experiment(f"frontier_{data}").share("guided, ε = 1").value for data in DUPLICATES]
    assert [round(4 * share) for share in shares] == [1, 2]


def test_the_readme_counts_the_controls_that_were_refused():
    """A control that was refused leaves one model, whatever it was made of."""
    pairs = [Experiment(f"frontier_{data}") for data in (*DUPLICATES, "douban_book_music")]
    for pair in pairs:
        left = {tuple(r.validation for r in pair.by_arm[name]) for name in pair.controls()}
        assert len(left) == 1
    trainings = sum(len(pair.by_arm[name]) for pair in pairs for name in pair.controls())
    assert f"in all {trainings} trainings" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_douban_is_told_as_it_was_measured():
    """Its order in the table, and that errors there are as large as the gains."""
    compared, frontier = Experiment("compared_douban_book_music"), Experiment("frontier_douban_book_music")
    alone = min(compared.ndcg(arm, "warm").value for arm in ("BPR", "NeuMF", "DMF"))
    rivals = ("CoNet (plaintext)", "DDTCDR (plaintext)", "DARec (plaintext)", "ETL (plaintext)")
    assert alone > max(compared.ndcg(arm, "warm").value for arm in rivals)
    assert frontier.share("guided, ε = 4").error > 0.25


def test_duplicates_are_those_that_the_data_tests_count():
    counted = (ROOT / "tests" / "data" / "test_realdata.py").read_text(encoding="utf-8").replace("_", "")
    for items, ratings, target_ratings in DUPLICATES.values():
        assert re.search(rf"\b{target_ratings}\],\s*\({items}, {ratings}\)", counted)


def test_figures_are_printed_as_tables_print_them():
    assert percent(Mean(-0.021, 0.012, 5)) == "−2 ± 1 %"
    assert figure(Mean(-0.0539, 0.0031, 5)) == "−.0539 ± .0031"
    assert short(Mean(0.2239, 0.01, 5)) == ".224"
