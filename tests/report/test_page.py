"""The whole page: everything in a folder is on it, what is missing is said to be, and names are text."""

import re
from html import unescape

import pytest

from pricdr.report.folder import read_folder
from pricdr.report.page import report
from tests.report import made_up

SECTIONS = (
    *("table2", "table3", "rq3", "rq4-epsilon", "rq5", "frontier", "others", "searches", "cost", "certificate"),
    "provenance",
)


def text_of(html):
    """What a reader sees of a page, on one line."""
    body = re.sub(r"<(script|style)\b.*?</\1>", " ", html, flags=re.DOTALL)
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", body))).replace("\xa0", " ")


@pytest.fixture(scope="module")
def html(tmp_path_factory):
    return report(read_folder(made_up.everything(tmp_path_factory.mktemp("results"))))


def test_every_section_is_there_and_can_be_linked_to(html):
    for name in SECTIONS:
        assert html.count(f'id="{name}"') == 1, name
        assert f'href="#{name}"' in html, name


def test_the_answer_comes_before_every_table(html):
    shown = text_of(html)
    answer = shown.index("At ε = 4 the best private release keeps 75 ± 0 % on Toy A→B (guided)")
    assert answer < shown.index("Table 2: methods and tasks", answer)
    assert "Whether cold users gain" not in shown[:answer]


def test_the_papers_figures_ours_and_the_difference_are_in_one_row(html):
    row = next(row for row in re.findall(r"<tr.*?</tr>", html, re.DOTALL) if ">BPR<" in row and "0.2889" in row)
    shown = text_of(row)
    assert re.search(r"BPR target alone 0\.2889 0\.1300 ± 0\.000\d −0\.1589 0\.1058", shown)


def test_impossible_cells_are_marked_and_explained(html):
    shown = text_of(html)
    assert "Of the paper's 60 rows, 32 contradict themselves, 0 of them rows of PriCDR" in shown
    assert "Impossible together with HR@5 and HR@10" in shown


def test_what_is_not_there_is_said_to_be_missing(html):
    shown = text_of(html)
    assert "Amazon Music→Book: data not present: point PRICDR_DATA at it." in shown
    assert "Amazon Movie→Book: Books.csv" in shown


def test_a_stand_in_is_called_one_and_has_no_figure_of_the_paper(html):
    section = html[html.index('id="table2-amazon-movie-music-stand-in-section"') :]
    section = section[: section.index("</section>")]
    assert "A stand-in: other data than the paper" in section
    assert "0.2035" not in section  # the paper's NDCG@10 of BPR on that task


def test_curves_that_are_refused_everywhere_are_not_drawn(html):
    assert "no chart, since every run refused its release and is the target-only model" in text_of(html)
    assert 'id="rq4-epsilon-ungated-1-cold"' in html
    assert 'id="rq4-epsilon-gated-1-cold"' not in html


def test_the_nominal_and_the_exact_epsilon_of_the_papers_noise_are_both_there(html):
    assert "jlt, paper's noise, gates off, nominal ε = 16, exact ε = 0.4: 0.1000" in text_of(html)


def test_names_from_outside_are_text(html):
    assert "<script>alert" not in html
    assert "</title><script>" not in html
    assert html.count("<script") == 1
    assert "{{ 7 * 7 }}" in text_of(html)


def test_the_page_asks_nobody_for_anything(html):
    assert "default-src 'none'" in html
    assert not re.search(r'(?:src|href)="(?!#)', html)


def test_a_folder_of_specs_without_results_says_so_everywhere(tmp_path):
    for family in ("frontier", "table2", "rq3", "rq4_dim", "other"):
        made_up.write(tmp_path, made_up.outline(f"{family}_toy", family, [made_up.arm("DMF", "dmf")]))
    shown = text_of(report(read_folder(tmp_path)))
    assert "There are no results of the frontier" in shown
    assert shown.count("Toy A→B: not run yet") >= 3
    assert "0 runs are shown; 25 that specs ask for are missing" in shown
    assert "Not counted yet: pricdr reproduce --table3 does it." in shown


def test_one_seed_and_no_cold_users_make_a_page(tmp_path):
    made_up.table2(tmp_path)
    path = tmp_path / "table2_douban.jsonl"
    path.write_text("".join(line for line in path.read_text().splitlines(True) if '"seed": 1' in line))
    shown = text_of(report(read_folder(tmp_path)))
    assert "BPR target alone 0.2889 0.1276 −0.1613" in shown  # no ± of a single seed
    assert not re.search(r"\bnan\b", shown)


def test_a_changed_result_changes_the_page(tmp_path):
    made_up.frontier(tmp_path / "one", {"guided, ε = 4": 0.15})
    made_up.frontier(tmp_path / "other", {"guided, ε = 4": 0.1})
    one, other = (text_of(report(read_folder(tmp_path / name))) for name in ("one", "other"))
    assert "keeps 50 ± 0 % on Toy A→B" in one
    assert "keeps" not in other
    assert "Whether cold users gain at ε = 4 cannot be told" in other
