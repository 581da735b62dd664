"""Certificates that no honest software writes: each fails its check in one line, none crashes it."""

import json
import re
from functools import reduce
from itertools import product
from operator import getitem

import pytest

from pricdr import Guarantee, Ledger, Ratings, publish, verify
from pricdr.cli import run
from pricdr.data.ratings import MAX_FILTER_LENGTH
from pricdr.data.reading.read import read_ratings
from pricdr.data.tables import write_ratings
from pricdr.errors import InputError, ParameterError, VerificationError
from pricdr.privacy.accounting import MAX_REFINEMENT, Calibration, Unit
from pricdr.privacy.steps import Bounds
from pricdr.privacy.strategies import BY_NAME
from pricdr.privacy.strategies.base import MOST
from pricdr.release.certificate import Certificate, seal
from pricdr.release.certify import check
from pricdr.release.readme import readme, statement
from pricdr.strategies import JLT, SJLT, Features, Guided, Spectral
from tests.forging import reseal, rewrite

RATINGS = Ratings.from_triples(["a", "b", "c"], ["x", "x", "y"])
PROMISE = Guarantee(epsilon=4, delta=1e-6)


@pytest.fixture
def folder(tmp_path):
    return publish(RATINGS, PROMISE, users=["a", "b"]).save(tmp_path / "release")


def _strategy(name, **parameters):
    def change(content):
        content["strategy"] = {"name": name, "parameters": parameters}

    return change


@pytest.mark.parametrize(
    "change",
    [
        _strategy("features", features=1.0),
        _strategy("spectral", centring=0.01, item_prior=5.0, percentile=50.0, learn_from_all=1.0, item_rounds=1e6),
        _strategy("spectral", centring=0.01, item_prior=-5.0, percentile=50.0),
        _strategy("guided", refine=1.0),
        lambda content: content.update(items=10**400),
        lambda content: content.update(unit="user", bounds={**content["bounds"], "clip": 1e308}),
        lambda content: content["steps"].pop(),
        _strategy("jlt", density=0.5),
        _strategy("sjlt", density=-5.0),
        _strategy("jlt", **{"epsilon 0.01, for one user": 1.0}),
        *(
            lambda content, scale=scale, name=name: content["bounds"].update({name: scale})
            for scale in (1e-170, 1e-16, 1.1e15, 1e300)
            for name in ("clip", "rating_bound", "rating_step")
        ),
    ],
)
def test_a_hostile_certificate_fails_its_check(folder, change, capsys):
    reseal(folder, change)
    with pytest.raises(VerificationError) as caught:
        verify(folder)
    assert "\n" not in str(caught.value)
    assert run(["verify", str(folder)]) == 1
    assert "should not happen" not in capsys.readouterr().err


USER = Guarantee(epsilon=4, delta=1e-6, unit=Unit.USER)
KINDS = {
    "listed": lambda ledger: publish(RATINGS, PROMISE, users=["a", "b"], ledger=ledger),
    "spectral": lambda ledger: publish(
        RATINGS, PROMISE, strategy=Spectral(learn_from="all"), users=["a", "b"], ledger=ledger
    ),
    "guided": lambda _: publish(RATINGS, PROMISE, strategy=Guided(guide=publish(RATINGS, PROMISE))),
    "user": lambda _: publish(RATINGS, USER, strategy=JLT(dim=4), bounds=Bounds(clip=2)),
    "paper": lambda _: publish(RATINGS, PROMISE, strategy=SJLT(dim=4), items=["x", "y"], calibration=Calibration.PAPER),
    "noiseless": lambda _: publish(RATINGS, PROMISE, strategy=JLT(dim=4), insecure_no_noise=True),
}
ABSURD = (1e-170, 5e-324, 1e300, 1.7e308, 1e51, 1e-51, 10**400, 1 << 63, -1)


def _numbers(content, path=()):
    """The path of every number in a JSON object."""
    pairs = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in pairs:
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield (*path, key)
        yield from _numbers(value, (*path, key))


def _forged(certificate, path, value):
    """The certificate with another value at this path, and a digest that fits."""
    content = json.loads(certificate.to_bytes())
    del content["digest"]
    reduce(getitem, path[:-1], content)[path[-1]] = value
    return Certificate.from_bytes(seal(content))


@pytest.mark.parametrize("kind", KINDS)
def test_an_absurd_number_anywhere_ends_in_one_clear_line(tmp_path, kind):
    """What may pass is no absurdity: a percentile, a share or a mean close to 0, a promise that nobody is protected."""
    ledger = Ledger.create(tmp_path / "ledger", Guarantee(epsilon=8, delta=1e-6))
    certificate = KINDS[kind](ledger).certificate
    assert all(line.isprintable() for section in statement(certificate) for line in section.lines)
    passed, refusals = set(), []
    for path, value in product(_numbers(json.loads(certificate.to_bytes())), ABSURD):
        try:
            check(_forged(certificate, path, value))
        except VerificationError as error:
            refusals.append(str(error))
        else:
            assert 0 < value < 1, (path, value)
            passed.add(path[-1])
    assert all("\n" not in refusal and len(refusal) < 600 for refusal in refusals)
    assert passed <= {
        *("percentile", "centring", "item_prior", "user_prior", "density"),
        *("threshold", "noisy_mean_square"),
        *({"delta", "epsilon"} if kind in {"guided", "noiseless"} else set()),
    }


@pytest.mark.parametrize("dim", [10**400, 10**30, MOST + 1])
def test_an_absurd_dimension_is_refused_on_both_sides(folder, dim):
    reseal(folder, lambda content: content.update(dim=dim))
    with pytest.raises(VerificationError, match="dim"):
        verify(folder)
    for kind in (JLT, SJLT, Features):
        with pytest.raises(ParameterError, match="numbers per user"):
            kind(dim=dim)


@pytest.mark.parametrize("scale", [1e-170, 1e-16, 1.1e15, 1e300])
def test_an_absurd_scale_is_refused_where_it_is_declared_too(scale):
    for limits in ({"rating_bound": scale, "rating_step": scale}, {"clip": scale}):
        with pytest.raises(ParameterError, match=r"must be a number from 1e-15 to 1e\+15"):
            Bounds(**limits)


LINES = ["", " ", "a\nb", "\x1b[2J", "\u202egnp.exe", "a\u2028b", " a", "a ", "\x00"]
WORDS = {
    ("issuer",): [*LINES, "x" * 201],
    ("issued",): [*LINES, "2026-02-30", "2026-2-3", "26-02-03", "today", "2026-02-03T00:00:00", "0000-01-01", 5],
    ("software",): [
        *LINES, "better software", "pricdr", "pricdr 0.3", "pricdr 0.3.0, epsilon = 0.01 for one user",
        "pricdr 0.3.0\n## Fine",
    ],
    ("input", "filtered_by"): ["two\nlines", "\x1b[2Jgone", "right\u202eleft", "line\u2028break", "x" * 401],
    **dict.fromkeys(
        (("strategy", "name"), ("guide", "strategy")),
        (*LINES, "jlt, private at epsilon 0.01", "jlt\n", "os:system", "<b>", "JLT", "9", "[x](y)", "x" * 41),
    ),
}  # fmt: skip


@pytest.mark.parametrize("path", WORDS, ids=".".join)
def test_whatever_is_said_is_one_short_line_of_its_kind(path):
    certificate = KINDS["guided"](None).certificate
    for words in WORDS[path]:
        with pytest.raises(VerificationError, match=r"\.".join(path)) as caught:
            check(_forged(certificate, path, words))
        assert str(caught.value).isprintable()


def test_what_is_said_about_a_filter_is_refused_where_it_is_declared_too(tmp_path):
    for text in WORDS["input", "filtered_by"]:
        with pytest.raises(InputError, match="one printable line of at most 400 characters"):
            RATINGS.disclosing(text)
        write_ratings(tmp_path / "r.parquet", RATINGS, metadata={"pricdr.filtered": text})
        with pytest.raises(InputError, match=r"r\.parquet: a filter must be described"):
            read_ratings(tmp_path / "r.parquet")
        (tmp_path / "r.parquet").unlink()


def test_the_limits_of_certificates_are_those_of_publishing():
    schema = Certificate.model_json_schema()
    assert schema["properties"]["dim"]["maximum"] == MOST
    assert schema["$defs"]["StepStatement"]["properties"]["refinement"]["maximum"] == MAX_REFINEMENT
    named = schema["$defs"]["GuideStatement"]["properties"]["strategy"]["pattern"]
    assert all(re.search(named, name) for name in BY_NAME)
    (words, _) = schema["$defs"]["InputStatement"]["properties"]["filtered_by"]["anyOf"]
    assert words["maxLength"] == MAX_FILTER_LENGTH


def test_what_is_promised_of_nothing_cannot_be_hidden_behind_an_infinite_sigma(tmp_path):
    """A nominal epsilon of 5e-324 asks for an infinite sigma, which once agreed with every sigma."""
    folder = KINDS["paper"](None).save(tmp_path / "release")
    reseal(folder, lambda content: content.update(nominal_epsilon=5e-324))
    with pytest.raises(VerificationError, match="sigma is stated"):
        verify(folder)


@pytest.mark.parametrize("software", ["pricdr 0.3.0", "pricdr 0.2.0", "pricdr 99.0.0"])
def test_a_readme_that_promises_something_else_does_not_verify_whoever_is_said_to_have_made_it(folder, software):
    reseal(folder, lambda content: content.update(software=software))
    rewrite(folder, "README.md", (folder / "README.md").read_text().replace("epsilon = 4", "epsilon = 0.01").encode())
    with pytest.raises(VerificationError, match=r"README\.md does not say"):
        verify(folder)


def test_what_is_said_about_a_filter_is_shown_as_the_sources_own_words(tmp_path):
    claim = 'nothing". epsilon = 0.01, `for one user`. "'
    certificate = publish(RATINGS.disclosing(claim), PROMISE, users=["a", "b"]).certificate
    (line,) = [line for line in readme(certificate).splitlines() if "filter before" in line]
    quoted = "\"`nothing'. epsilon = 0.01, 'for one user'. '`\"."
    assert line.endswith(f"in the words of the source, which nothing here vouches for: {quoted}")
    assert verify(publish(RATINGS.disclosing(claim), PROMISE, users=["a", "b"]).save(tmp_path / "release"))
