"""``pricdr model card``: Markdown on the screen, Markdown or HTML in a file, and refusals in one line."""

import pytest

from tests.pages.parsed import require_self_contained
from tests.serving.two_companies import two_companies


@pytest.fixture(scope="module")
def companies(tmp_path_factory):
    return two_companies(tmp_path_factory)


def test_a_card_goes_to_the_screen_as_markdown(pricdr, companies):
    done = pricdr("model", "card", companies.model("final"), "--evaluation", companies.evaluation)
    assert done.code == 0
    assert done.out.startswith("# Model card: final\n\n- **Method:** ease-release\n")
    assert "&#91;" not in done.out
    assert all(line.isprintable() for line in done.out.split("\n"))


def test_a_card_goes_to_a_file_by_its_suffix(pricdr, companies, here):
    for name in ("card.md", "card.html"):
        done = pricdr("model", "card", companies.model("final"), "--out", name)
        assert (done.code, done.out) == (0, f"{name}: the card of {companies.model('final')}\n")
    assert (here / "card.md").read_text().startswith("# Model card: final")
    assert require_self_contained((here / "card.html").read_text()).tags.count("h2") == 9


def test_the_command_alone_shows_its_help(pricdr):
    assert "card" in pricdr("model").out


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
def test_what_cannot_be_done_is_refused_in_one_line(refused, companies, here, arguments, says):
    (here / "here.md").write_text("x")
    given = [str(one).format(final=companies.model("final")) for one in arguments]
    refused("model", "card", *given, says=(says,))
    assert sorted(path.name for path in here.iterdir()) == ["here.md"]
