"""Certificates that no honest software writes: each fails its check in one line, none crashes it."""

import json
import re
import shutil
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
from pricdr.strategies import JLT, SJLT, Continued, Features, Guided
from tests.forging import reseal, rewrite

RATINGS = Ratings.from_triples(["a", "b", "c"], ["x", "x", "y"])
PROMISE = Guarantee(epsilon=4, delta=1e-6)


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    users = [f"u{at}" for at in range(6)]
    release = publish(Ratings.from_triples(users[1:], list("xyxzy")), PROMISE, strategy=JLT(dim=5), users=users)
    return release.save(tmp_path_factory.mktemp("honest") / "release")


@pytest.fixture
def folder(honest, tmp_path):
    return shutil.copytree(honest, tmp_path / "release")


BOUNDS = {"counts": "rows", "rating_bound": 1.0, "rating_step": 1.0, "clip": None}
NOISE = {
    **{"law": "discrete Gaussian on the grid, independent in every coordinate", "source": "secret", "refinement": 1},
    **{"grid_steps_per_sigma": 7.0, "lattice_factor": 1.0, "sampler_distance": 0.0},
}


SERIES = {"first": "0" * 64, "place": 2, "before": "0" * 64, "before_place": 1}


def _account(mu_total, epsilon_total):
    line = {"numbers": 5, "recorded": "2026-01-01", "nonce": "2" * 32, "opening": "0" * 64, "head": "1" * 64}
    totals = {"releases": 1, "mu_total": mu_total, "epsilon_total": epsilon_total}
    return {**totals, "budget_epsilon": 1.0, "budget_delta": 1e-6, **line}


def _strategy(name, **parameters):
    return {"strategy": {"name": name, "parameters": parameters}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, None),  # an honest edit of nothing
        ({"epsilon": 3.9}, "promises more than sigma gives"),
        ({"delta": 1e-7}, "promises more than sigma gives"),
        ({"sigma": 5.0}, "sigma is stated"),
        ({"sensitivity": 0.5}, "sensitivity is stated"),
        ({"mu": 0.1}, "mu is stated"),
        ({"grid": 1.0}, "grid is stated"),
        ({"users": 7}, "steps.0.rows is stated as 6, but 7"),
        ({"users": "6"}, "users"),
        ({"dim": 6}, "steps.0.numbers is stated"),
        ({"private": False}, "private is stated as False"),
        ({"schema_version": 6}, "schema_version 6, this software knows 7"),
        ({"schema_version": "1"}, "schema_version '1'"),
        ({"epsilon_at_delta": []}, "epsilon_at_delta"),
        ({"whole_user": []}, "whole_user"),
        ({"nominal_epsilon": 1.0}, "digest does not fit"),
        ({"warnings": ["all is well"]}, "warnings.0 is stated"),
        ({"not_protected": []}, "not_protected.0 is stated"),
        ({"neighbours": "nobody"}, "neighbours is stated"),
        (_strategy("magic"), "not one this software knows"),
        (_strategy("sjlt", density=0.5), "input.item_universe is stated as not needed"),
        (_strategy("sjlt"), "strategy sjlt has no such parameters"),
        (_strategy("sjlt", density=-5.0), "strategy.parameters.density: Input should be greater"),
        (_strategy("jlt", density=0.5), "has no such parameters"),
        (_strategy("jlt", **{"epsilon 0.01, for one user": 1.0}), "has no such parameters"),
        (_strategy("features", features=1.0), "a guide|has no such|contradicts"),
        (_strategy("spectral", centring=0.01, item_prior=5.0, percentile=50.0, rounds=1e6), "no such parameters"),
        (_strategy("guided", refine=1.0), "no such parameters"),
        ({"steps": []}, "steps: List should have at least 1 item"),
        ({"items": 3}, "input.item_universe is stated as not needed, but declared follows"),
        ({"bounds": {**BOUNDS, "clip": 1.0}}, "belongs to the user unit"),
        ({"bounds": {**BOUNDS, "rating_step": 0.5}}, "contradicts itself"),
        ({"ledger": _account(50.0, 0.1)}, "less than its releases cost"),
        ({"ledger": _account(0.1, 0.9)}, "less than its releases cost"),
        ({"ledger": _account(0.9, 9.0)}, "more than its budget"),
        ({"noise": NOISE}, "noise.grid_steps_per_sigma is stated"),
        ({"epsilon": None}, "must be stated"),
        ({"sigma": 0.0}, "sigma is stated"),
        ({"unit": "user"}, "unit user needs a clip"),
        ({"unit": "user", "bounds": {**BOUNDS, "clip": 1e308}}, "bounds.clip"),
        ({"unit": "planet"}, "unit: Input should be"),
        ({"files": {"../../etc/passwd": "0" * 64}}, "exactly release.safetensors, users.txt and README.md"),
        ({"files": {}}, "exactly release.safetensors, users.txt and README.md"),
        ({"series": SERIES}, "strategy jlt and the statement about a series do not fit"),
        ({"series": {**SERIES, "place": 1}}, "series.place: Input should be greater than or equal to 2"),
        ({"series": {**SERIES, "weeks": 4}}, "series.weeks"),
        (_strategy("continued", centring=0.01, item_prior=5.0, percentile=50.0), "steps"),
        (_strategy("continued", centring=0.01), "no such parameters"),
        ({"surprise": 1}, "surprise"),
    ],
    ids=str,
)
def test_a_careful_forgery_is_noticed(folder, capsys, changes, message):
    reseal(folder, **changes)
    if message is None:
        assert verify(folder)
        return
    with pytest.raises(VerificationError, match=message) as caught:
        verify(folder)
    assert str(caught.value).isprintable()
    assert run(["verify", str(folder)]) == 1
    assert "should not happen" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"schema_version": 1}', b"1" * (1 << 21)]
)
def test_a_certificate_that_is_none_is_refused_in_one_line(folder, content):
    (folder / "certificate.json").write_bytes(content)
    with pytest.raises(VerificationError) as caught:
        verify(folder)
    assert len(str(caught.value)) < 300


USER = Guarantee(epsilon=4, delta=1e-6, unit=Unit.USER)
LISTED = {"users": ["a", "b"]}
KINDS = {
    "listed": lambda ledger: publish(RATINGS, PROMISE, **LISTED, ledger=ledger),
    "guided": lambda _: publish(RATINGS, PROMISE, strategy=Guided(guide=publish(RATINGS, PROMISE))),
    "continued": lambda ledger: publish(
        RATINGS, PROMISE, strategy=Continued(before=[publish(RATINGS, PROMISE, ledger=ledger)]), ledger=ledger
    ),
    "user": lambda _: publish(RATINGS, USER, strategy=JLT(dim=4), bounds=Bounds(clip=2)),
    "paper": lambda _: publish(RATINGS, PROMISE, strategy=SJLT(dim=4), items=["x", "y"], calibration=Calibration.PAPER),
    "noiseless": lambda _: publish(RATINGS, PROMISE, strategy=JLT(dim=4), insecure_no_noise=True),
}
ABSURD = (5e-324, 1e-170, 1e-51, 1e-16, 1.1e15, 1e51, 1e300, 1.7e308, 10**400, 1 << 63, -1)


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
@pytest.mark.slow
def test_an_absurd_number_anywhere_ends_in_one_clear_line(tmp_path, kind):
    """What may pass is no absurdity: a percentile, a share or a mean close to 0, a promise that nobody is protected."""
    ledger = Ledger.create(tmp_path / "ledger", Guarantee(epsilon=8, delta=1e-6))
    certificate = KINDS[kind](ledger).certificate
    assert all(line.isprintable() for section in statement(certificate) for line in section.lines)
    passed, refusals = set(), []
    values = ABSURD if kind == "user" else ABSURD[::2]
    for path, value in product(_numbers(json.loads(certificate.to_bytes())), values):
        try:
            check(_forged(certificate, path, value))
        except VerificationError as error:
            refusals.append(str(error))
        else:
            assert 0 < value < 1, (path, value)
            passed.add(path[-1])
    assert all("\n" not in refusal and len(refusal) < 600 for refusal in refusals)
    assert passed <= {
        *("percentile", "centring", "item_prior", "density"),
        *("threshold", "noisy_mean_square"),
        *({"delta", "epsilon"} if kind in {"guided", "noiseless"} else set()),
    }


def test_what_is_absurd_is_refused_where_it_is_declared_too():
    for kind, dim in product((JLT, SJLT, Features), (10**400, 10**30, MOST + 1)):
        with pytest.raises(ParameterError, match="numbers per user"):
            kind(dim=dim)
    for scale in (1e-170, 1e-16, 1.1e15, 1e300):
        for limits in ({"rating_bound": scale, "rating_step": scale}, {"clip": scale}):
            with pytest.raises(ParameterError, match=r"must be a number from 1e-15 to 1e\+15"):
                Bounds(**limits)


LINES = ["", " ", "a\nb", "\x1b[2J", "\u202egnp.exe", "a\u2028b", " a", "a ", "\x00"]
WORDS = {
    ("issuer",): [*LINES, "x" * 201],
    ("issued",): [*LINES, "2026-02-30", "2026-2-3", "26-02-03", "today", "2026-02-03T00:00:00", "0000-01-01", 5],
    ("ledger", "recorded"): ["![](http://e.vil/a)", "<b>PRIVATE</b>", "2026-01-01T00:00:00+00:00 ok", "today"],
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
def test_whatever_is_said_is_one_short_line_of_its_kind(tmp_path, path):
    """README.md repeats it, which people read with the images and links that are in it."""
    ledger = Ledger.create(tmp_path / "ledger", Guarantee(epsilon=8, delta=1e-6))
    certificate = KINDS["listed" if path[0] == "ledger" else "guided"](ledger).certificate
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


def test_a_readme_that_promises_something_else_does_not_verify_whoever_is_said_to_have_made_it(folder):
    reseal(folder, software="pricdr 99.0.0")
    rewrite(folder, "README.md", (folder / "README.md").read_text().replace("epsilon = 4", "epsilon = 0.01").encode())
    with pytest.raises(VerificationError, match=r"README\.md does not say"):
        verify(folder)


def test_what_is_said_about_a_filter_is_shown_as_the_sources_own_words(tmp_path):
    claim = 'nothing". epsilon = 0.01, `for one user`. "'
    release = publish(RATINGS.disclosing(claim), PROMISE, **LISTED)
    (line,) = [line for line in readme(release.certificate).splitlines() if "filter before" in line]
    quoted = "\"`nothing'. epsilon = 0.01, 'for one user'. '`\"."
    assert line.endswith(f"in the words of the source, which nothing here vouches for: {quoted}")
    assert verify(release.save(tmp_path / "release"))
