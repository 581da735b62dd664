"""``pricdr report`` and ``pricdr model card``: pages in files, and refusals in one line."""

import pytest

from tests.pages.parsed import require_self_contained
from tests.report import made_up
from tests.serving.two_companies import two_companies


@pytest.fixture
def results(here):
    made_up.frontier(here / "results", {"guided, ε = 4": 0.15})


def test_a_page_is_written_and_never_overwritten(here, results, pricdr, refused):
    done = pricdr("report", "results", "--out", "report.html")
    page = (here / "report.html").read_text(encoding="utf-8")
    size = f"{len(page) / 1e6:.1f} MB"
    assert (done.code, done.out) == (0, f"report.html: 30 runs of 1 experiments, 0 missing, {size}\n")
    assert "50\xa0%" in page
    refused("report", "results", "--out", "report.html", says="exists already")
    refused("report", "nowhere", "--out", "r.html", says="nowhere is not a results folder: no such folder")
    with (here / "results" / "frontier_toy.jsonl").open("a") as file:
        file.write('{"spec": "\\u001b[31m"}\n')
    said = refused("report", "results", "--out", "r.html", says="frontier_toy.jsonl, line 31: not a result")
    assert "\x1b" not in said


def test_a_release_is_verified_before_it_is_drawn(here, results, pricdr, release):
    assert pricdr("report", "results", "--out", "report.html", "--release", "release").code == 0
    shown = (here / "report.html").read_text(encoding="utf-8")
    assert "A verified release: 3 users x 8 numbers" in shown
    assert "An example, not a release" not in shown
    assert pricdr("keygen", "--out", "key").code == 0
    another = ("report", "results", "--out", "another.html")
    assert pricdr(*another, "--release", "release", "--public-key", "key.pub").code == 1
    # The key may be set for every command (PRICDR_PUBLIC_KEY), and an example has no signature.
    assert pricdr("report", "results", "--out", "example.html", "--public-key", "key.pub").code == 0
    (release / "README.md").write_text("changed")
    assert pricdr(*another, "--release", "release").code == 1
    assert not (here / "another.html").exists()


@pytest.fixture(scope="module")
def companies(tmp_path_factory):
    return two_companies(tmp_path_factory)


def test_a_card_goes_to_the_screen_as_markdown_and_to_a_file_by_its_suffix(pricdr, companies, here):
    done = pricdr("model", "card", companies.model("final"), "--evaluation", companies.evaluation)
    assert done.code == 0
    assert done.out.startswith("# Model card: final\n\n- **Method:** ease-release\n")
    assert "&#91;" not in done.out
    assert all(line.isprintable() for line in done.out.split("\n"))
    for name in ("card.md", "card.html"):
        done = pricdr("model", "card", companies.model("final"), "--out", name)
        assert (done.code, done.out) == (0, f"{name}: the card of {companies.model('final')}\n")
    assert (here / "card.md").read_text().startswith("# Model card: final")
    assert require_self_contained((here / "card.html").read_text()).tags.count("h2") == 9


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nowhere",), "nowhere is not a model: no such folder"),
        (("{final}", "--out", "card.pdf"), "--out card.pdf: the file name must end in .md or .html"),
        (("{final}", "--out", "here.md"), "here.md exists already"),
        (("{final}", "--evaluation", "nowhere.json"), "nowhere.json cannot be read: No such file"),
        (("{final}", "--evaluation", "here.md"), "here.md: not what pricdr evaluate --json writes"),
    ],
)
def test_a_card_that_cannot_be_written_is_refused_in_one_line(refused, companies, here, arguments, says):
    (here / "here.md").write_text("x")
    given = [str(one).format(final=companies.model("final")) for one in arguments]
    refused("model", "card", *given, says=(says,))
