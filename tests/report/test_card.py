"""The card of a model: what it says, what it must not say, and what becomes of it when a folder or a file lies."""

import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pricdr import FittedModel, Guarantee, Ratings, Release, publish
from pricdr.errors import InputError
from pricdr.models import EASE, EASERelease, EASESource, RidgeRelease
from pricdr.models.catalogue import METHODS
from pricdr.pages import markdown, render
from pricdr.release.certificate import Certificate, seal
from pricdr.report.card import ModelCard
from pricdr.report.evaluation import read_evaluation
from pricdr.signing import fingerprint, public_text
from tests.pages.parsed import require_self_contained
from tests.serving.two_companies import HOSTILE, SCRIPT, two_companies

COPY = "release.certificate.json"


@pytest.fixture(scope="module")
def companies(tmp_path_factory):
    return two_companies(tmp_path_factory)


@pytest.fixture
def final(companies, tmp_path):
    """A model folder of one's own."""
    return shutil.copytree(companies.model("final"), tmp_path / "final")


def text_of(card):
    """The card's Markdown as one line, for sentences that are wrapped nowhere."""
    return " ".join(markdown(card.page).split())


def edited(folder, **changes):
    """Change what is recorded of the model's release."""
    record = json.loads((folder / "model.json").read_text())
    record["releases"][0] |= changes
    (folder / "model.json").write_text(json.dumps(record))
    return folder


def test_a_card_tells_method_data_promise_quality_trust_limits_and_how_to_repeat_it(companies):
    text = text_of(ModelCard.of(companies.model("final"), companies.evaluation))
    for part in (
        "**Method:** ease-release",
        "**Promise to the source's users:** ε = 8, δ = 1e-06, μ = 1.532, for one rating",
        "330 of the target's 400 users",
        "strategy spectral",
        "multiplies the odds by at most",
        "figures of “with”, a model trained the same way on a split,",
        "Evidence test: passed, p = 0.005",
        "Trust: 100% for warm users",
        "The user list itself: its ids, their number and their order are in the release.",
        "The target's own ratings. The model learnt from them without noise",
        "regularisation = 300.0",
        "pricdr train RATINGS --release RELEASE --method ease-release --config settings.toml --out MODEL",
        "pricdr train SPLIT --method ease --out without.model",
    ):
        assert part in text


def test_figures_with_and_without_the_release_are_those_of_the_evaluation(companies):
    content = json.loads(companies.evaluation.read_text())
    text = markdown(ModelCard.of(companies.model("final"), companies.evaluation).page)
    for ranking in ("sampled", "full"):
        rows = re.findall(r"^\| cold users \|.*$", text.partition(f"with and without the release, {ranking}")[2], re.M)
        without, with_it = (content["models"][name][ranking]["cold"] for name in ("without", "with"))
        verdict = next(v for v in content["verdicts"] if (v["ranking"], v["stratum"]) == (ranking, "cold"))
        for shown in (f"{without['NDCG@10']:.4f}", f"{with_it['NDCG@10']:.4f}", f"{verdict['difference']:+.4f}"):
            assert shown in rows[0]
        assert rows[0].endswith(f"| {verdict['verdict']} |")


def test_users_with_and_without_a_release_row_are_told_apart(companies):
    content = json.loads(companies.evaluation.read_text())
    groups = {(one["stratum"], one["row"]): one for one in content["release_rows"] if one["ranking"] == "full"}
    assert all(groups[stratum, row]["users"] for stratum in ("warm", "cold") for row in (True, False))
    text = markdown(ModelCard.of(companies.model("with"), companies.evaluation).page)
    for (stratum, row), one in groups.items():
        name = f"{stratum}, {'with' if row else 'without'} a release row in use"
        assert f"| {name} | {one['users']:,} | {one['baseline_value']:.4f} | {one['value']:.4f} |" in text
    # Whom no release lists cannot gain by it, if they are cold.
    assert groups["cold", False]["value"] == pytest.approx(groups["cold", False]["baseline_value"])
    assert groups["cold", True]["value"] != groups["cold", True]["baseline_value"]


def test_what_was_not_measured_is_said_to_be_with_the_commands_that_measure_it(companies, tmp_path):
    text = text_of(ModelCard.of(companies.model("final")))
    assert "Quality: not measured. With and without the release: not measured. Who gains: not measured." in text
    assert "pricdr evaluate without.model with.model SPLIT --json evaluation.json" in text
    alone = text_of(ModelCard.of(companies.model("without")))
    assert "Quality: not measured. To measure it, run:" in alone
    assert "No release was used." in alone
    content = json.loads(companies.evaluation.read_text())
    content["models"].pop("without")
    content["verdicts"] = []
    (tmp_path / "alone.json").write_text(json.dumps(content))
    text = text_of(ModelCard.of(companies.model("with"), tmp_path / "alone.json"))
    assert "With and without the release: not measured." in text
    assert f"{content['models']['with']['full']['cold']['HR@10']:.4f}" in text


def test_no_user_no_item_and_no_fingerprint_of_ratings_is_in_a_card(companies):
    card = ModelCard.of(companies.model("final"), companies.evaluation)
    model = card.model
    for text in (markdown(card.page), render(card.page)):
        words = set(re.findall(r"\w+", text))
        assert not words & {*model.users, *model.items}
        assert not any(user in text for user in HOSTILE if len(user) > 1)
        assert model.origin.trained_on not in text


def test_the_page_loads_nothing_and_shows_hostile_words_as_words(companies, tmp_path):
    card = ModelCard.of(companies.model("final"), companies.evaluation)
    page = require_self_contained(render(replace(card, name=SCRIPT).page))
    assert f"Model card: {SCRIPT}" in page.text
    assert "Films <b>& Co</b>" in page.text
    assert "b" not in page.tags
    shown = markdown(replace(card, name=SCRIPT).page)
    assert SCRIPT not in shown
    assert "&lt;script>" in shown


def test_every_built_in_method_has_a_description(companies):
    model = FittedModel.load(companies.model("final"))
    for method in METHODS.own:
        assert "**Description:**" in markdown(ModelCard("m", replace(model, method=method)).page), method


def test_a_model_folder_keeps_the_certificate_of_its_release_and_the_card_says_where_it_is_missing(companies, final):
    copy = (final / COPY).read_bytes()
    assert copy == (companies.folder / "release" / "certificate.json").read_bytes()
    origin = FittedModel.load(final).origin
    (used,) = origin.releases
    assert used.certificate == Certificate.from_bytes(copy)
    assert (used.verified, used.covers) == (True, (330, 400))
    assert origin.software.startswith("pricdr ")
    assert not (companies.model("without") / COPY).exists()
    (final / COPY).unlink()
    card = ModelCard.of(final)
    assert card.releases[0].certificate is None
    text = text_of(card)
    assert "**Promise to the source's users:** not recorded" in text
    assert "Not recorded: there is no copy of the certificate" in text


def test_a_release_that_was_never_saved_is_recorded_too(companies, tmp_path):
    model = FittedModel.load(companies.model("final"))
    ratings = Ratings.from_triples(model.users, [f"s{at % 40}" for at in range(len(model.users))])
    release = publish(ratings, Guarantee(epsilon=2, delta=1e-6), users=ratings.users)
    saved = EASERelease().fit(ratings, release).save(tmp_path / "m")
    origin = FittedModel.load(saved).origin
    (used,) = origin.releases
    assert used.certificate.epsilon == pytest.approx(2)
    assert used.verified is False
    assert "was not verified before it was used" in text_of(ModelCard.of(saved))


def test_a_signature_is_told_by_the_fingerprint_of_its_key_as_verify_prints_it(final):
    key = Ed25519PrivateKey.generate().public_key()
    loaded = FittedModel.load(final)
    used = replace(loaded.origin.releases[0], signed_by=public_text(key))
    model = replace(loaded, origin=replace(loaded.origin, releases=(used,)))
    text = text_of(ModelCard("final", model))
    assert f"compare the fingerprint of its key with the one from the source: {fingerprint(key)}" in text
    assert public_text(key) not in text


def _of_no_release(folder, companies):
    certificate = (folder / COPY).read_bytes()
    shutil.rmtree(folder)
    shutil.copytree(companies.model("without"), folder)
    (folder / COPY).write_bytes(certificate)


@pytest.mark.parametrize(
    ("lie", "rule"),
    [
        (
            lambda folder, _: edited(folder, signed_by=public_text(Ed25519PrivateKey.generate().public_key())),
            "is signed with a key other than the one that model.json names",
        ),
        (lambda folder, _: edited(folder, sha256="0" * 64), "is not the certificate of the release that"),
        (_of_no_release, "is not the certificate of the release"),
        *(
            (lambda folder, _, content=content: (folder / COPY).write_bytes(content), COPY)
            for content in (b"", b"[1]", b"\xff", b"[" * 100_000, b'{"schema_version": 99}')
        ),
    ],
)
def test_a_certificate_that_is_none_or_of_another_release_is_refused(companies, final, lie, rule):
    lie(final, companies)
    with pytest.raises(InputError, match=rule):
        FittedModel.load(final)


def test_what_was_measured_is_found_by_the_whole_name_of_the_folder_and_by_its_method(companies, tmp_path):
    """A name that another one ends with is not that name; nor is a model the one of its name by another method."""
    folder = shutil.copytree(companies.model("final"), tmp_path / "ith")  # what was measured is called "with"
    text = text_of(ModelCard.of(folder, companies.evaluation))
    assert "figures of “with”, a model trained the same way on a split," in text
    impostor = EASE().fit(_small()).save(tmp_path / "with")
    assert "figures of “without”, a model trained the same way" in text_of(ModelCard.of(impostor, companies.evaluation))
    content = json.loads(companies.evaluation.read_text())
    content["trainings"]["without"]["method"] = "bpr"
    (tmp_path / "e.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"measured 'without', 'with': none of them is 'unheard-of'"):
        ModelCard.of(impostor.rename(tmp_path / "unheard-of"), tmp_path / "e.json")


def test_a_certificate_that_promises_too_much_is_not_repeated(final):
    """Its digest is right: only who derives its figures again can tell."""
    content = json.loads((final / COPY).read_text())
    content.pop("digest")
    content["epsilon"] = 0.1
    (final / COPY).write_bytes(seal(content))
    card = ModelCard.of(final)
    text = text_of(card)
    assert "none that can be relied on: the certificate contradicts itself" in text
    assert "Do not rely on the recorded certificate." in text
    assert "ε = 0.1" not in text
    assert card.releases[0].certificate is None


def test_a_model_of_plaintext_is_called_not_private_and_an_exported_one_says_so(companies, tmp_path):
    known = ModelCard.of(companies.model("final")).model
    target = Ratings(known.seen.astype(np.float64), known.users, known.items, has_values=False)
    text = text_of(ModelCard.of(EASESource().fit(target, plaintext_source=target).save(tmp_path / "m")))
    assert text.count("NOT PRIVATE: this model was trained on the source's ratings in plaintext.") >= 2
    assert "--source SOURCE" in text
    exported = RidgeRelease().fit(target, Release.load(companies.folder / "release")).without_histories()
    text = text_of(ModelCard.of(exported.save(tmp_path / "exported")))
    assert "not in the model, which was exported without them" in text
    assert "so it may recommend items that a user has already rated" in text
    assert "ε = 8" in text


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "it is not JSON"),
        ("[" * 100_000, "it is nested too deeply"),
        ("[]", "it must be a table"),
        ('{"schema_version": true}', "schema_version must be 3, got True"),
        ('{"schema_version": 1}', "writes (measure again): schema_version must be 3, got 1"),
        ('{"schema_version": 3}', "it needs 'protocol'"),
        ('{"schema_version": 3, "models": {"a": 3}}', "not what pricdr evaluate --json writes"),
        ({"users": -1}, "users must be"),
        ({"models": {"another": {}}}, "judges a model that it did not measure"),
    ],
)
def test_an_evaluation_that_is_none_is_refused_in_one_line(companies, tmp_path, monkeypatch, content, says):
    if isinstance(content, dict):
        content = json.dumps(json.loads(companies.evaluation.read_text()) | content)
    (tmp_path / "e.json").write_text(content)
    with pytest.raises(InputError) as refused:
        read_evaluation(tmp_path / "e.json")
    assert says in str(refused.value)
    assert str(refused.value).isprintable()
    monkeypatch.setattr("pricdr.report.evaluation.MAX_BYTES", 10)
    with pytest.raises(InputError, match="has more than 10 bytes"):
        read_evaluation(companies.evaluation)


@pytest.mark.parametrize("value", [None, "x", {}, True, 10**400])
def test_a_figure_that_is_none_is_shown_as_missing(companies, tmp_path, value):
    content = json.loads(companies.evaluation.read_text())
    content["models"]["with"]["full"]["cold"]["NDCG@10"] = value
    (tmp_path / "e.json").write_text(json.dumps(content))
    assert read_evaluation(tmp_path / "e.json").figure("with", "full", "cold", "NDCG@10") is None
    render(ModelCard.of(companies.model("with"), tmp_path / "e.json").page)


def _small():
    return Ratings.from_triples(["a", "a", "b"], ["x", "y", "x"])
