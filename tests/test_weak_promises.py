"""Above ε = 8 whoever publishes or reads a release is warned; above 16 it is not private: one field says so to all."""

import json
import math
import re
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from pricdr import Bounds, Guarantee, Ratings, Unit, publish, synthetic_pair, transfer, verify
from pricdr.cli import run
from pricdr.data.synthetic import SyntheticConfig
from pricdr.data.tables import write_ratings
from pricdr.errors import InputError
from pricdr.privacy.accounting import Calibration, epsilon_warnings, odds_factor
from pricdr.release.inspection import Inspection, render_inspection
from pricdr.release.readme import readme, statement, weakness
from pricdr.strategies import JLT
from tests.settings import config

RATINGS = Ratings.from_triples(["a", "b", "b"], ["x", "x", "y"])
USERS = ["a", "b", "c"]
CALLED_PRIVATE = "PRIVATE: it may leave the source, within the promise below."


def _released(epsilon, unit="rating", **options):
    bounds = Bounds(clip=2.0) if unit == "user" else Bounds()
    promise = Guarantee(epsilon=epsilon, delta=1e-6, unit=Unit(unit))
    return publish(RATINGS, promise, users=USERS, bounds=bounds, **options)


def _text(sections):
    return " ".join(line for section in sections for line in section.lines)


@pytest.mark.parametrize(
    ("epsilon", "warned", "private"),
    [
        (0.5, False, True),
        (8, False, True),
        (8.01, True, True),
        (16, True, True),
        (16.01, True, False),
        (40, True, False),
    ],
)
@pytest.mark.parametrize("unit", ["rating", "user"])
def test_what_a_release_of_each_epsilon_is_called(tmp_path, epsilon, warned, private, unit):
    certificate = _released(epsilon, unit).certificate
    shown, file = _text(statement(certificate)), readme(certificate)
    assert (CALLED_PRIVATE in shown) == (CALLED_PRIVATE in file) == private
    assert ("LITTLE IS PROMISED" in shown) == ("LITTLE IS PROMISED" in file) == (not private)
    assert certificate.private == private
    assert any(text.startswith("epsilon = ") for text in certificate.warnings) == warned
    if warned:
        assert f"the odds about one {unit} may change by a factor of {odds_factor(epsilon)}" in certificate.warnings[0]
    if not private:
        assert f"everything but {'one rating' if unit == 'rating' else 'the ratings of one user'}, and guesses" in shown


@pytest.fixture
def company(tmp_path, monkeypatch):
    """Ratings of a source and of a target that share users, as files."""
    pair = synthetic_pair(SyntheticConfig(users=60, source_items=100, target_items=100))
    write_ratings(tmp_path / "source.parquet", pair.source)
    write_ratings(tmp_path / "target.parquet", pair.target)
    (tmp_path / "users.txt").write_text("".join(f"{user}\n" for user in pair.users))
    monkeypatch.chdir(tmp_path)
    return pair


@pytest.mark.parametrize(("epsilon", "private"), [(16, True), (16.01, False)])
def test_one_field_decides_what_every_command_does_with_a_release(company, capsys, epsilon, private):
    def pricdr(*arguments):
        capsys.readouterr()
        code = run([str(one) for one in arguments])
        out, err = capsys.readouterr()
        return code, " ".join((out + err).split())

    publishing = ("--users", "users.txt", "--delta", "1e-6", "--epsilon")
    code, shown = pricdr("publish", "source.parquet", *publishing, epsilon, "--out", "r")
    assert code == 0
    assert ("warning: this release is NOT PRIVATE" in shown) == (not private)
    assert json.loads(Path("r/certificate.json").read_text())["private"] == private
    for command in ("verify", "inspect"):
        code, shown = pricdr(command, "r")
        assert code == 0
        assert ("NOT PRIVATE" in shown) == (not private)
    refusal = "the release is marked NOT PRIVATE"
    train = ("train", "target.parquet", "--method", "ridge-release", "--release", "r", "--out")
    code, shown = pricdr(*train, "m")
    assert (code, refusal in shown) == ((0, False) if private else (2, True))
    assert pricdr(*train, "allowed", "--allow-not-private")[0] == 0
    for model in [*(["m"] if private else []), "allowed"]:
        assert ("NOT PRIVATE" in pricdr("model", "card", model)[1]) == (not private)
    with nullcontext() if private else pytest.raises(InputError, match=refusal):
        transfer(company.target, verify("r"), method="ridge-release")
    guided = ("publish", "target.parquet", *publishing, "4", "--strategy", "guided", "--guide", "r", "--out")
    code, shown = pricdr(*guided, "g")
    assert (code, "the guide is marked NOT PRIVATE" in shown) == ((0, False) if private else (2, True))
    assert pricdr(*guided, "h", *config(allow_not_private_guide=True))[0] == 0


def test_what_promises_nothing_is_not_said_to_promise_little():
    for seeded in ({"insecure_seed": 1}, {"insecure_no_noise": True}):
        certificate = _released(20, **seeded).certificate
        assert weakness(certificate) == ()
        assert not any(text.startswith("epsilon") for text in certificate.warnings)
        first, second, *_ = statement(certificate)
        assert "NOT PRIVATE" in _text([first])
        assert "Nothing" in second.lines[0]


def test_the_papers_calibration_is_judged_by_what_it_delivers():
    certificate = _released(20, strategy=JLT(dim=8), calibration=Calibration.PAPER).certificate
    assert certificate.nominal_epsilon == 20
    assert certificate.epsilon < 8
    assert certificate.warnings == []
    assert CALLED_PRIVATE in readme(certificate)


def _best_guess(mu):
    """How often the best guess between N(0, 1) and N(μ, 1) is right, by integrating the larger density."""
    value, _ = quad(lambda x: max(norm.pdf(x), norm.pdf(x - mu)) / 2, -40, 40 + mu, points=[mu / 2], limit=500)
    return value


@pytest.mark.parametrize("epsilon", [0.5, 1, 2, 4, 8, 17, 20, 30, 60])
@pytest.mark.parametrize("unit", ["rating", "user"])
def test_the_stated_success_is_that_of_the_best_guess(tmp_path, epsilon, unit):
    """Everywhere the promise is shown; with power: nine tenths of μ, or eleven, would be another figure."""
    release = _released(epsilon, unit, strategy=JLT(dim=8))
    certificate = release.certificate
    release.save(tmp_path / "release")
    page = render_inspection(Inspection(verify(tmp_path / "release"), key_given=False))
    expected = {factor: math.ceil(100 * _best_guess(certificate.mu * factor)) for factor in (0.9, 1.0, 1.1)}
    for shown in (_text(statement(certificate)), readme(certificate), page):
        (stated,) = set(re.findall(r"right in at most (\d+) of 100 guesses; 50 is blind", shown))
        assert int(stated) == expected[1.0]
        (mu,) = re.findall(r"and mu = ([\d.]+), for one", shown)
        assert certificate.mu <= float(mu) <= certificate.mu * 1.001
    assert f"μ = {mu}, for one {unit}" in certificate.promise
    if 4 <= epsilon < 30:  # below, a tenth of μ moves less than one guess in 100; above, all of them are 100
        assert int(stated) not in {expected[0.9], expected[1.1]}


def test_a_best_guesser_against_the_real_mechanism_succeeds_as_often_as_stated():
    """Two equally likely neighbours, one number a row, 60,000 rows at once: Φ(μ/2) is reached, not exceeded."""
    rows = 60_000
    truth = np.random.default_rng().random(rows) < 0.5
    users = [f"u{at:06d}" for at in range(rows)]
    mine = [user for user, rated in zip(users, truth, strict=True) if rated]
    rated = Ratings.from_triples(mine, ["x"] * len(mine))
    release = publish(
        rated, Guarantee(epsilon=17, delta=1e-6), strategy=JLT(dim=1), users=users, items=["x"], bounds=Bounds()
    )
    mean = np.median(release.matrix[truth, 0])  # the one item's row is plus or minus 1
    guessed = release.matrix[:, 0] * np.sign(mean) > abs(mean) / 2
    success = float((guessed == truth).mean())
    stated = float(norm.cdf(release.certificate.mu / 2))
    error = math.sqrt(stated * (1 - stated) / rows)
    assert abs(success - stated) < 5 * error
    assert norm.cdf(release.certificate.mu * 1.1 / 2) - stated > 10 * error


def test_the_factor_never_looks_smaller_than_it_is():
    for epsilon in np.linspace(0.01, 30, 500):
        stated = int(odds_factor(float(epsilon)).replace(",", ""))
        assert math.exp(epsilon) <= stated <= max(1.01 * math.exp(epsilon), math.exp(epsilon) + 1)
    assert odds_factor(31.0) == "e^31"
    assert odds_factor(1e9) == "e^1e+09"
    assert epsilon_warnings(1e9, Unit.USER)[0].endswith("the odds about one user may change by a factor of e^1e+09")
