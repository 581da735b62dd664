"""The page opens with what the results say, has everything in the folder, and says what is missing; names are text."""

import json
import re
from collections import Counter, defaultdict
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from pricdr.pages import SideBySide, Table
from pricdr.report.folder import read_folder
from pricdr.report.page import lead, report
from tests.pages.parsed import require_self_contained
from tests.report import made_up

RESULTS = Path(__file__).parents[2] / "results"


def text_of(html):
    """What a reader sees of a page, on one line."""
    body = re.sub(r"<(script|style)\b.*?</\1>", " ", html, flags=re.DOTALL)
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", body))).replace("\xa0", " ")


def summary(folder):
    """The rows of the table that the page opens with, as a reader sees them, and the sentences beside it."""
    blocks = lead(read_folder(folder))
    rows = [row for block in blocks if isinstance(block, Table) for row in block.drawn]
    rows = [" ".join(f"{cell.text} {cell.detail}".strip() for cell in row) for row in rows]
    beside = [line for block in blocks if isinstance(block, SideBySide) for line in block.blocks[-1].items]
    return rows, " ".join([*(block for block in blocks if isinstance(block, str)), *beside])


@pytest.fixture(scope="module")
def html(tmp_path_factory):
    return report(read_folder(made_up.everything(tmp_path_factory.mktemp("results"))))


@pytest.fixture(scope="module")
def committed():
    return summary(RESULTS)


def edit(path, change):
    """Change every line of a file of results; a line becomes nothing where ``change`` returns None."""
    lines = [change(json.loads(line)) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines if line))


def test_the_answer_comes_first_with_its_picture_and_its_table(html):
    shown = text_of(html)
    answer = shown.index(
        "Of what the source's ratings in plaintext would gain for users who are new at the target (cold), a private "
        "release at ε = 4 keeps 75 ± 0 % on Toy A→B. Nothing can be told on Noisy A→B."
    )
    picture = shown.index("Share of the plaintext gain that cold users keep")
    table = shown.index("NDCG@10 of cold users among 99 items, with the best private release at ε = 4")
    assert answer < picture < shown.index("0 of 4 controls") < table < shown.index("Every result")
    row = next(row for row in re.findall(r"<tr.*?</tr>", html, re.DOTALL) if "Toy" in row)
    figures = r"Toy A→B 0\.1000 ± \S+ 0\.1750 ± \S+ 0\.2000 ± \S+ 75 % ± 0 helps cannot be told"
    assert re.search(figures, text_of(row))
    assert "guided, ε = 4" in row


def test_every_figure_of_the_answer_is_that_of_the_committed_results(committed):
    """Shares and gains from the lines of the files; verdicts are the table's, whose rule has tests of its own."""
    _, told = committed
    kept, controls = {}, []
    for path in RESULTS.glob("frontier_*.spec.json"):
        spec = json.loads(path.read_text())["spec"]
        measured = defaultdict(dict)
        for line in map(json.loads, (RESULTS / f"{spec['name']}.jsonl").read_text().splitlines()):
            measured[line["arm"]][line["seed"]] = line["figures"]["sampled"]["cold"]["NDCG@10"]
        popular, whole = (
            np.array([measured[spec[key]][seed] for seed in spec["seeds"]]) for key in ("baseline", "ceiling")
        )
        for arm in (arm for arm in spec["arm"] if arm["name"] in measured and arm.get("release")):
            gain = np.array([measured[arm["name"]][seed] for seed in spec["seeds"]]) - popular
            share = 100 * gain / (whole - popular).mean()
            if arm["release"].get("rows") in ("shuffled", "noise"):
                controls.append(gain)
            elif arm["release"]["epsilon"] == 4 and arm["release"].get("guide") != "clear" and arm.get("point"):
                words = f"{share.mean():.0f} ± {share.std(ddof=1) / np.sqrt(len(share)):.0f} %"
                kept.setdefault(spec["data"]["title"], []).append((share.mean(), words))
    for words, title in re.findall(r"(-?\d+ ± \d+ %) on (.+?)(?: and |, (?=\d)|\. )", told):
        assert max(kept[title])[1] == words, title
    assert told.count(" % on ") == 2
    certain = sum(stats.ttest_1samp(gain, 0).confidence_interval().low > 0 for gain in controls if gain.std() > 0)
    assert f"{certain} of {len(controls)} controls" in told
    assert f"the most that one gained is {max(gain.mean() for gain in controls):+.4f}:" in told
    mu = brentq(lambda m: stats.norm.cdf(m / 2 - 4 / m) - np.exp(4) * stats.norm.cdf(-m / 2 - 4 / m) - 1e-6, 0.1, 5)
    assert f"right in at most {np.ceil(100 * stats.norm.cdf(mu / 2)):.0f} of 100 guesses" in told
    assert f"at δ = 1e-06 (μ = {mu:.3g})" in told


def test_what_is_said_of_users_with_a_history_is_what_the_table_says(committed):
    rows, told = committed
    warm = Counter(
        next(word for word in ("helps", "hurts", "cannot be told") if row.endswith(word)) for row in rows[:3]
    )
    assert (
        f"helps on {warm['helps']} of 3 data sets, hurts on {warm['hurts']}, and cannot be told from none on " in told
    )
    assert f"from none on {warm['cannot be told']}." in told


@pytest.mark.parametrize(
    ("figures", "words", "said"),
    [
        ({"cold": {"guided, ε = 4": 0.15}}, "50 % ± 0 helps cannot be told", "keeps 50 ± 0 % on Toy A→B"),
        (
            {"cold": {"guided, ε = 4": 0.11}, "noise": 0.02},
            "cannot be told cannot be told",
            "Nothing can be told on Toy",
        ),
        (
            {"cold": {"guided, ε = 4": 0.05}, "warm": {"guided, ε = 4": 0.2}},
            "hurts hurts",
            "It hurts on Toy A→B.",
        ),
        (
            {"cold": {"guided, ε = 4": 0.15}, "warm": {"guided, ε = 4": 0.35}},
            "helps helps",
            "helps on 1 of 1 data sets",
        ),
        ({"cold": {"guided, ε = 4": 0.15}, "controls": 0.15}, "cannot be told cannot be told", "Nothing can be told"),
        (
            {"cold": {f"spectral, ε = {at}": 0.1 + at / 20 for at in (0.5, 1, 1.5)}},
            "50 % ± 0 helps .*",
            "at ε = 1 keeps",
        ),
        # A guide in the clear protects nobody at the target, however much better it is.
        ({"cold": {"guide in the clear, ε = 4": 0.19, "guided, ε = 4": 0.15}}, "50 % ± 0 helps .*", "keeps 50 ± 0 %"),
    ],
)
def test_other_figures_give_other_verdicts(tmp_path, figures, words, said):
    (row, *_), told = summary(made_up.frontier(tmp_path, **figures))
    assert re.fullmatch(f"Toy A→B .* {words}", row), row
    assert said in told


def test_controls_that_gain_are_counted_and_without_controls_the_reader_is_warned(tmp_path):
    folder = made_up.frontier(tmp_path, {"guided, ε = 4": 0.15}, controls=0.15)
    _, told = summary(folder)
    assert "2 of 2 controls" in told
    assert "the most that one gained is +0.05" in told
    edit(folder / "frontier_toy.jsonl", lambda line: None if "(control)" in line["arm"] else line)
    assert "No control was run" in summary(folder)[1]


def test_one_seed_makes_no_certainty_and_no_error(tmp_path):
    folder = made_up.frontier(tmp_path, {"guided, ε = 4": 0.15})
    edit(folder / "frontier_toy.jsonl", lambda line: line if line["seed"] == 1 else None)
    rows, _ = summary(folder)
    assert rows[0].endswith("cannot be told cannot be told")
    page = report(read_folder(folder))
    assert "+0.0496, one seed" in page
    assert not re.search(r"\bnan\b", text_of(page))


@pytest.mark.parametrize(
    ("stratum", "row"), [("cold", "– – – – – cannot be told"), ("warm", "0.1000 .* 50 % ± 0 helps –")]
)
def test_users_that_nobody_evaluated_are_not_spoken_of(tmp_path, stratum, row):
    folder = made_up.frontier(tmp_path, {"guided, ε = 4": 0.15})
    made_up.frontier(folder, {"guided, ε = 4": 0.15}, name="frontier_other", data={"title": "Other"})
    edit(folder / "frontier_toy.jsonl", lambda line: {**line, "users": {**line["users"], stratum: 0}})
    rows, told = summary(folder)
    assert any(re.fullmatch(f"Toy A→B {row}", one) for one in rows), rows
    assert ("on Toy" in told) == (stratum == "warm")


@pytest.mark.parametrize("at", [0.0, -1.0])
def test_an_epsilon_that_has_no_place_on_the_axis_is_not_spoken_of(tmp_path, at):
    folder = made_up.frontier(tmp_path, {"guided, ε = 1": 0.12, "guided, ε = 4": 0.15})
    path = folder / "frontier_toy.spec.json"
    content = json.loads(path.read_text())
    content["spec"]["arm"][-2]["point"]["at"] = at
    path.write_text(json.dumps(content))
    assert "ε = 1:" not in report(read_folder(folder)).partition('id="shares"')[2].partition("</figure>")[0]


def test_the_papers_figure_and_ours_are_in_one_row_and_impossible_cells_are_explained(html):
    row = next(row for row in re.findall(r"<tr.*?</tr>", html, re.DOTALL) if ">BPR<" in row and "0.2889" in row)
    assert re.search(r"BPR 0\.2889 0\.1300 ± 0\.000\d 0\.1058", text_of(row).replace(" a ", " "))
    assert "Of the 60 rows of the paper's Table 2, 32 contradict themselves" in text_of(html)
    assert "Impossible if all figures are of the same rankings" in text_of(html)


def test_a_stand_in_has_no_figure_of_the_paper(html):
    figures = html[html.index('id="table2-2"') :]
    assert "0.2035" in figures[: figures.index("</table>")]  # the paper's, of BPR on the task that it stands in for
    arms = re.search(r'<table>\s*<caption id="(\S+)-caption"><span class="title">Amazon Movie→Music \(stand-in\)', html)
    own = html[html.index(f'id="{arms[1]}"') :]
    assert "0.2035" not in own[: own.index("</table>")]


def test_what_is_missing_and_both_epsilons_of_the_papers_noise_are_told(html):
    for words in (
        "table2_absent: data not present: point PRICDR_DATA at it",
        "Table 2, Amazon Music→Book: no results of ours",
        "Amazon Movie→Book: Books.csv",
        "private, nominal ε = 16, exact ε = 0.4",
    ):
        assert words in text_of(html)


def test_names_from_outside_are_text_and_the_page_asks_nobody_for_anything(html):
    require_self_contained(html)
    assert "<script>alert" not in html
    assert html.count("<script") == 1
    assert "{{ 7 * 7 }}" in text_of(html)


def test_a_folder_of_specs_without_results_says_so(tmp_path):
    for family in ("frontier", "table2", "rq4_dim", "other"):
        made_up.write(tmp_path, made_up.outline(f"{family}_toy", [made_up.arm("DMF", "dmf")]))
    shown = text_of(report(read_folder(tmp_path)))
    assert "There are no results of the frontier" in shown
    assert shown.count("Not run yet.") == 4
    assert "0 runs are shown; 20 that specs ask for are missing" in shown
    assert "not counted yet: pricdr reproduce --table3 does it." in shown


def test_searches_costs_machines_and_stale_results_are_told(tmp_path):
    folder = made_up.frontier(tmp_path, {"guided, ε = 4": 0.15})
    made_up.searched(folder, ((0.21, {}, ""), (0.25, {"width": 64}, ""), (0.0, {"width": 8}, "diverged")))
    edit(folder / "frontier_toy.jsonl", lambda line: {**line, "seconds": 10.0 * line["seed"], "memory": None})
    path = folder / "frontier_toy.jsonl"
    path.write_text(path.read_text().replace("x86_64, 2 cores", "NVIDIA H200", 2).replace("key of DMF", "older", 1))
    shown = text_of(report(read_folder(folder)))
    assert "toy: dmf width = 64 3 1 0.2100 0.2500" in shown
    assert "2 runs on NVIDIA H200: commit 0123456789abcdef, pricdr 0.6.0, Python 3.11.2" in shown
    assert "1 were measured with other settings or seeds than their spec has now, and are left out." in shown
    assert "frontier_toy: DMF: seed 1" in shown
    assert re.search(r"guided, ε = 4 private, ε = 4 .* 30\.0", shown)
