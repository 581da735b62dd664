"""What notebooks show: sizes and promises, escaped, and nothing that was rated."""

import re
from dataclasses import replace

import numpy as np
import pytest

import pricdr
from pricdr import Comparison, Guarantee, Ratings
from pricdr.data.splits import hold_out
from pricdr.evaluation.comparison import RepeatedComparison
from pricdr.models import EASE, Chosen, EASESource, Trust
from pricdr.pages import summary_html, table
from pricdr.signing import create_keys
from pricdr.testing.contracts import Planted
from tests.pages.parsed import Parsed

EVIL = "<script>alert(1)</script>\x1b[31m"


class Page(Parsed):
    """The cells of a piece of HTML; tags that are not closed, or not ours, are an error."""

    def __init__(self, html: str) -> None:
        self.texts: list[str] = []
        super().__init__(html)
        assert not self.open
        assert set(self.tags) <= {"div", "style", "table", "caption", "thead", "tbody", "tr", "th", "td", "p", "strong"}
        assert {name for _, name, _ in self.attributes} <= {"class", "scope"}
        assert all(c.isprintable() for c in html if c not in "\n\xa0")

    def handle_data(self, data):
        if data.strip() and self.open[-1] != "style":
            self.texts.append(data.strip())

    @property
    def facts(self) -> dict[str, str]:
        return dict(zip(self.texts[1::2], self.texts[2::2], strict=False))


def shown(value) -> Page:
    return Page(value._repr_html_())


@pytest.fixture(scope="module")
def planted() -> Planted:
    return Planted.pair()


@pytest.fixture(scope="module")
def split(planted):
    return hold_out(planted.target.select(items=tuple(f"i{at:02d}" for at in range(300))), seed=3, cold=0.25)


def test_everything_in_a_summary_is_text():
    rows = table("t", EVIL, (EVIL, EVIL), [(EVIL, EVIL)])
    page = Page(summary_html(EVIL, {EVIL: EVIL}, tables=(rows,), notes=(EVIL,), warning=EVIL))
    assert page.texts == [EVIL.replace("\x1b", r"\u001b")] * 10


def test_a_summary_is_readable_on_light_and_dark_pages():
    """Text takes the page's colour, and what is behind it too: neither is chosen here."""
    style = re.search(r"<style>(.*)</style>", summary_html("a", {}), re.DOTALL)[1]
    for colour in re.findall(r"(?<![-\w])(?:color|background)\s*:\s*([^;}]+)", style):
        assert colour.strip() in {"inherit", "none"}
    assert "url(" not in style
    assert "@import" not in style


def test_ratings_show_sizes_and_what_was_declared():
    ratings = Ratings.from_triples(["ann", "ann", EVIL[:8]], ["dune", "emma", "dune"], [4.5, 2.25, 1.125])
    assert shown(ratings).texts == [
        *("Ratings", "users", "2", "items", "2", "rated", "3 (75.00% of all pairs)", "values", "ratings")
    ]
    page = shown(ratings.positives(threshold=2).disclosing("<b>a core</b>"))
    assert page.facts["values"] == "each rated pair counts as 1"
    assert page.facts["kept"] == "pairs rated at least 2"
    assert page.facts["filtered by"] == "<b>a core</b>"
    assert shown(ratings.select(users=())).facts["rated"] == "0"


@pytest.mark.parametrize("what", ["ratings", "split", "release", "model", "exported"])
def test_no_id_no_value_and_no_fingerprint_is_shown(planted, split, what):
    users, items = (tuple(f"id<{name}>" for name in getattr(split.train, f"{kind}s")) for kind in ("user", "item"))
    train = replace(split.train, users=users, items=items)
    model = EASE().fit(train)
    value = {
        "ratings": lambda: train,
        "split": lambda: replace(split, train=train),
        "release": lambda: pricdr.publish(train, Guarantee(epsilon=4, delta=1e-6)),
        "model": lambda: model,
        "exported": lambda: replace(
            model, user_vectors=np.ones((60, 1)), item_vectors=np.ones((300, 1))
        ).without_histories(),
    }[what]()
    html = value._repr_html_()
    Page(html)
    assert "id<" not in html
    assert "id&lt;" not in html
    assert train.fingerprint() not in html
    assert not re.search(r"[0-9a-f]{32}", html)


def test_a_split_shows_how_many_users_it_measures_by(split):
    facts = shown(split).facts
    strata = {name: int(keep.sum()) for name, keep in split.strata().items()}
    assert {name: facts[f"test users, {name}"] for name in strata} == {k: f"{v:,}" for k, v in strata.items()}
    assert facts["seed"] == "3"
    assert shown(replace(split, seed=None)).facts["seed"] == "none: an official split"


def test_a_release_shows_its_promise_and_whether_anybody_checked_it(planted, tmp_path):
    release = pricdr.publish(planted.source, Guarantee(epsilon=4, delta=1e-6))
    facts = shown(release).facts
    assert facts["Promise"] == "ε = 4, δ = 1e-06, μ = 0.8379, for one rating"
    assert facts["Checks"] == "not verified"
    private, public = create_keys(tmp_path / "key")
    loaded = pricdr.verify(release.save(tmp_path / "release", signing_key=private), public_key=public)
    assert shown(loaded).facts["Checks"] == f"verified, signed by {loaded.certificate.signed_by}"
    # whoever wrote a folder that was never verified may name anybody as its signer
    assert loaded.certificate.signed_by not in replace(loaded, verified=False)._repr_html_()


def test_what_is_not_private_says_so_first(planted):
    for flags in ({"insecure_seed": 1}, {"insecure_no_noise": True}):
        page = shown(pricdr.publish(planted.source, Guarantee(epsilon=4, delta=1e-6), **flags))
        assert page.texts[0].startswith("NOT PRIVATE")
        assert "epsilon" not in " ".join(page.texts)
    assert shown(EASESource().fit(planted.target, plaintext_source=planted.source)).texts[0].startswith("NOT PRIVATE")


def test_a_model_shows_what_it_was_trained_on_and_what_was_chosen(planted):
    model = EASE().fit(planted.target)
    assert shown(model).facts["trained on"] == "target ratings alone"
    assert shown(replace(model, method=EVIL)).facts["method"].startswith("<script>alert(1)")
    chosen = Chosen(
        epochs={"target": 1200, EVIL: 3}, trust=Trust(0.25, 0.5), settings={"weight": 0.5}, not_chosen="too few"
    )
    facts = shown(replace(model, chosen=chosen)).facts
    assert facts["epochs"].startswith("target 1,200, <script>")
    assert facts["trust"] == "25% for warm users and 50% for cold ones"
    assert facts["settings"] == "weight 0.5"
    assert facts["nothing chosen"] == "too few"


def test_a_comparison_shows_every_metric_it_has(any_seed):
    rng = np.random.default_rng(any_seed)
    strata = {"all": np.ones(6, dtype=bool), "cold": np.array([True] * 2 + [False] * 4), "few": np.zeros(6, dtype=bool)}
    metrics = ("HR@10", "NDCG@10", "MRR@10")
    values = {name: {"full": {metric: rng.random(6) for metric in metrics}} for name in ("<b>first</b>", "second")}
    comparison = Comparison(tuple(f"user<{at}" for at in range(6)), strata, values)
    html = comparison._repr_html_()
    texts = Page(html).texts
    assert [text for text in texts if "@" in text and " " not in text] == [*metrics, "NDCG@10"]
    for model in values:
        for metric in metrics:
            mean = values[model]["full"][metric].mean()
            assert any(text.startswith(f"{mean:.4f} ± ") for text in texts)
    assert texts.count("–") == 6, "nobody is few"
    assert "difference" not in " ".join(shown(replace(comparison, values={"only": values["second"]})).texts)
    difference = comparison.differences[0].difference
    at = texts.index("full ranking, difference from <b>first</b>")
    assert texts[at + 6 : at + 9] == ["second", "all", f"{difference.mean:+.4f}"]
    assert "user" not in html.replace("users", "")


def test_a_comparison_says_what_it_comes_to_and_shows_no_figure_twice():
    some, none = np.array([True, False]), np.zeros(2, dtype=bool)
    strata = {"all": some | ~some, "warm": some, "few": none, "cold": ~some}
    metrics = {f"{measure}@10": np.array([0.5, 1.0]) for measure in ("HR", "NDCG", "MRR", "Recall", "MAP")}
    comparison = Comparison(("a", "b"), strata, {name: {"full": metrics} for name in ("A", "B")}, cutoffs=(10,))
    texts = shown(comparison).texts
    assert [text for text in texts if "@" in text and " " not in text] == ["HR@10", "NDCG@10", "MRR@10", "NDCG@10"]
    sentences = [one.sentence for one in comparison.verdicts]
    assert set(sentences) <= set(map(str.strip, texts))
    several = replace(comparison, test_items=4)
    assert "Recall@10" in shown(several).texts
    repeated = RepeatedComparison({1: comparison, 2: several})
    texts = [text.strip() for text in shown(repeated).texts]
    assert {one.sentence for one in repeated.verdicts} <= set(texts)
    assert repeated.title in texts
