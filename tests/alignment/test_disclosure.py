"""Being listed is a disclosure: a release says that its users came from ``align``, what that revealed, but no sizes."""

import json

import pytest

from pricdr import Guarantee, Ratings, publish, verify
from pricdr._publish import dry_run
from pricdr.errors import InputError, ParameterError, VerificationError
from pricdr.release.inspection import Inspection, render_inspection
from pricdr.release.readme import readme
from pricdr.strategies import JLT
from tests.alignment.records import SESSION, record_of
from tests.forging import reseal

PROMISE = Guarantee(epsilon=4, delta=1e-6)
USERS = ("a", "b", "c")
RATINGS = Ratings.from_triples(["a", "b", "b", "z"], ["x", "x", "y", "y"])
BOTH_KNOW = "That everybody on the list is a user of two parties"
TITLE = "Where the user list came from"


def published(**options):
    return publish(RATINGS, PROMISE, strategy=JLT(dim=2), **{"users": USERS, "alignment": record_of(USERS), **options})


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
    inspection = Inspection(verify(folder), key_given=False)
    said = {section.title: " ".join(section.lines) for section in inspection.sections()}[TITLE]
    for words in ("By the source's own account", SESSION, "byte for byte", "how many ids the other one showed"):
        assert words in said
    text = (folder / "README.md").read_text()
    for where in (text, render_inspection(inspection), json.dumps(inspection.to_dict())):
        assert TITLE in where
        assert BOTH_KNOW in where
        assert SESSION in where
    assert "found by align, by the source&#39;s own account" in render_inspection(inspection)


def test_it_says_how_ids_were_compared_and_who_learnt_the_users():
    for rule, who, words in (
        ("exact", "both", "ids were compared byte for byte"),
        ("email", "both", "to both parties, which users both have"),
        ("phone", "starter", "to the party that began it, which users both have"),
    ):
        certificate = published(alignment=record_of(USERS, rule, who_learns=who)).certificate
        assert certificate.input.alignment.normalisation == rule
        assert words in readme(certificate)


def test_sizes_and_hashes_of_messages_do_not_change_a_single_byte_of_a_release(tmp_path):
    """The parties know how many ids each of them showed. Others who get the release do not need to."""
    without = published(alignment=None).certificate
    assert without.input.alignment is None
    assert TITLE not in readme(without)
    other = {"starter_ids": 3, "answerer_ids": 4, "first_message": "0" * 64, "second_message": "1" * 64}
    few, many = (
        published(alignment=record_of(USERS, **changes), insecure_seed=1).save(tmp_path / str(len(changes)))
        for changes in (other, {})
    )
    for name in ("certificate.json", "README.md", "release.safetensors", "users.txt"):
        assert (few / name).read_bytes() == (many / name).read_bytes()


def test_a_record_of_another_list_is_refused_by_a_dry_run_too():
    given = {"strategy": JLT(dim=2), "users": USERS}
    says = r"users: this is not the list that align wrote.*unchanged and in its order"
    for other in (("a", "b"), ("a", "c", "b"), ("a", "b", "c", "d")):
        for use in (publish, dry_run):
            with pytest.raises(InputError, match=says):
                use(RATINGS, PROMISE, alignment=record_of(other), **given)
    with pytest.raises(ParameterError, match="alignment is the record of a user list: give users too"):
        published(users=None)
    certificate = dry_run(RATINGS, PROMISE, alignment=record_of(USERS), **given).certificate
    assert certificate.input.alignment.session == SESSION


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda content: content["input"].update(alignment=None), r"not_protected.\d+ is stated"),
        (lambda content: content["input"].pop("alignment"), "input.alignment: Field required"),
        (lambda content: content["input"]["alignment"].update(learnt_by="<b>nobody</b>"), "input.alignment.learnt_by"),
        (lambda content: content["input"]["alignment"].update(starter_ids=3), "input.alignment.starter_ids"),
        (lambda content: content["not_protected"].pop(1), r"not_protected.\d+ is stated"),
        (lambda content: content["input"].update(user_list="read off the ratings"), "an aligned user list is a decl"),
    ],
)
def test_a_forged_statement_does_not_verify(tmp_path, change, why):
    folder = published().save(tmp_path / "r")
    reseal(folder, change, rewrite_readme=True)
    with pytest.raises(VerificationError, match=why):
        verify(folder)
