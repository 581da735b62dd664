"""Being listed is a disclosure: a release says that its users came from ``align``, what that revealed, but no sizes."""

import hashlib
import json
from contextlib import suppress

import pytest

from pricdr import Guarantee, Ratings, publish, verify
from pricdr._publish import dry_run
from pricdr.alignment.messages import AlignmentRecord, WhoLearns, read_alignment
from pricdr.alignment.normalisation import Normalisation
from pricdr.errors import InputError, ParameterError, VerificationError
from pricdr.release.certificate import Certificate, seal
from pricdr.release.inspection import Inspection, difference
from pricdr.release.page import render_inspection
from pricdr.release.readme import readme
from pricdr.strategies import JLT
from tests.alignment.records import ANSWERER_IDS, SESSION, STARTER_IDS, record_of, write_list

PROMISE = Guarantee(epsilon=4, delta=1e-6)
USERS = ("a", "b", "c")
RATINGS = Ratings.from_triples(["a", "b", "b", "z"], ["x", "x", "y", "y"])
BOTH_KNOW = "That everybody on the list is a user of two parties"
TITLE = "Where the user list came from"


def published(**options):
    return publish(RATINGS, PROMISE, strategy=JLT(dim=2), **{"users": USERS, "alignment": record_of(USERS), **options})


def reseal(folder, change):
    """Change a release as a careful forger would: README, hashes and digest all match."""
    content = json.loads((folder / "certificate.json").read_text())
    del content["digest"]
    change(content)
    with suppress(ValueError):
        (folder / "README.md").write_text(readme(Certificate.model_validate(content)))
    content["files"] = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in content["files"]}
    (folder / "certificate.json").write_bytes(seal(content))


def test_certificate_readme_and_inspection_state_the_alignment(tmp_path):
    folder = published().save(tmp_path / "r")
    certificate = verify(folder).certificate
    assert json.loads((folder / "certificate.json").read_text())["input"] == {
        "threshold": None,
        "user_list": "declared",
        "item_universe": "not needed",
        "filtered_by": None,
        "alignment": {"session": SESSION, "normalisation": "exact", "learnt_by": "both"},
    }
    assert any(sentence.startswith(BOTH_KNOW) for sentence in certificate.not_protected)
    inspection = Inspection.of(verify(folder), key_given=False)
    said = {section.title: " ".join(section.lines) for section in inspection.sections()}[TITLE]
    for words in ("By the source's own account", SESSION, "byte for byte", "how many ids the other one showed"):
        assert words in said
    text = (folder / "README.md").read_text()
    for where in (text, render_inspection(inspection), json.dumps(inspection.to_dict())):
        assert TITLE in where
        assert BOTH_KNOW in where
        assert SESSION in where
    assert "found by align, by the source&#39;s own account" in render_inspection(inspection)


@pytest.mark.parametrize(
    ("who", "words"),
    [
        (WhoLearns.BOTH, "to both parties, which users both have"),
        (WhoLearns.STARTER, "to the party that began it, which users both have"),
    ],
)
def test_it_says_who_learnt_the_common_users(who, words):
    assert words in readme(published(alignment=record_of(USERS, who_learns=who)).certificate)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (Normalisation.EXACT, "ids were compared byte for byte"),
        (Normalisation.EMAIL, "ids were compared as e-mail addresses"),
        (Normalisation.PHONE, "ids were compared as telephone numbers"),
    ],
)
def test_it_says_how_ids_were_compared(rule, words):
    assert words in readme(published(alignment=record_of(USERS, rule)).certificate)


def test_a_release_has_no_size_and_no_hash_of_a_message(tmp_path):
    """The parties know how many ids each of them showed. Others who get the release do not need to."""
    folder = published().save(tmp_path / "r")
    inspected = json.dumps(Inspection.of(verify(folder), key_given=False).to_dict())
    for text in ((folder / "certificate.json").read_text(), (folder / "README.md").read_text(), inspected):
        plain = text.replace(",", "")
        for secret in (str(STARTER_IDS), str(ANSWERER_IDS), "ab" * 32, "cd" * 32):
            assert secret not in plain


def test_sizes_do_not_change_a_single_byte_of_a_release(tmp_path):
    """Two exchanges that differ only in how many ids were shown give the same certificate."""
    few, many = (
        published(alignment=record_of(USERS, starter_ids=count), insecure_seed=1).save(tmp_path / str(count))
        for count in (3, 4_000_000)
    )
    for name in ("certificate.json", "README.md", "release.safetensors", "users.txt"):
        assert (few / name).read_bytes() == (many / name).read_bytes()


def test_without_an_alignment_nothing_is_said_of_one(tmp_path):
    folder = published(alignment=None).save(tmp_path / "r")
    content = json.loads((folder / "certificate.json").read_text())
    assert content["input"]["alignment"] is None
    assert TITLE not in (folder / "README.md").read_text()
    assert BOTH_KNOW not in (folder / "README.md").read_text()


def test_a_record_of_another_list_is_refused():
    for other in (("a", "b"), ("a", "c", "b"), ("a", "b", "c", "d")):
        with pytest.raises(
            InputError, match=r"users: this is not the list that align wrote.*unchanged and in its order"
        ):
            published(alignment=record_of(other))
    with pytest.raises(ParameterError, match="alignment is the record of a user list: give users too"):
        published(users=None)


def test_an_unknown_rule_does_not_reach_a_certificate():
    record = record_of(USERS)
    for changes in ({"normalisation": "\x1b[2J"}, {"rule": "Ids are anonymous."}):
        with pytest.raises(InputError, match=r"must be exact, email or phone|the rule exact reads"):
            published(alignment=record.model_copy(update=changes))


def test_a_dry_run_states_and_refuses_the_same():
    given = {"strategy": JLT(dim=2), "users": USERS}
    certificate = dry_run(RATINGS, PROMISE, alignment=record_of(USERS), **given).certificate
    assert certificate.input.alignment.session == SESSION
    with pytest.raises(InputError, match="not the list that align wrote"):
        dry_run(RATINGS, PROMISE, alignment=record_of(("a",)), **given)


def test_a_list_that_is_read_off_the_ratings_cannot_have_been_aligned(tmp_path):
    folder = published().save(tmp_path / "r")
    reseal(folder, lambda content: content["input"].update(user_list="read off the ratings"))
    with pytest.raises(VerificationError, match="an aligned user list is a declared one"):
        verify(folder)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda content: content["input"].update(alignment=None), "not_protected is stated"),
        (lambda content: content["input"].pop("alignment"), "input.alignment: Field required"),
        (lambda content: content["input"]["alignment"].update(session="x"), "input.alignment.session"),
        (lambda content: content["input"]["alignment"].update(learnt_by="<b>nobody</b>"), "input.alignment.learnt_by"),
        (
            lambda content: content["input"]["alignment"].update(normalisation="soundex"),
            "input.alignment.normalisation",
        ),
        (lambda content: content["input"]["alignment"].update(starter_ids=3), "input.alignment.starter_ids"),
        (lambda content: content["not_protected"].pop(1), "not_protected is stated"),
    ],
)
def test_a_forged_statement_does_not_verify(tmp_path, change, why):
    folder = published().save(tmp_path / "r")
    reseal(folder, change)
    with pytest.raises(VerificationError, match=why):
        verify(folder)


def test_a_comparison_names_the_alignment(tmp_path):
    before, after = (
        verify(published(alignment=alignment).save(tmp_path / name))
        for name, alignment in (("before", None), ("after", record_of(USERS)))
    )
    fields = {change.field for change in difference(before, after).changes}
    assert {"input.alignment.session", "input.alignment.learnt_by", "not_protected"} <= fields


def test_the_record_is_found_beside_the_list(tmp_path):
    assert read_alignment(tmp_path / "users.txt") is None
    record = read_alignment(str(write_list(tmp_path / "users.txt", USERS)))
    assert isinstance(record, AlignmentRecord)
    assert record == record_of(USERS)
