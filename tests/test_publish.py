import re
import warnings

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

import pricdr
from pricdr import Bounds, Guarantee, Ledger, Ratings, Unit, publish, verify
from pricdr.cli import run
from pricdr.errors import InputError, ParameterError, PriCDRError, PublishWarning
from pricdr.privacy.accounting import Calibration, composed_epsilon
from pricdr.release.certify import check
from pricdr.release.readme import readme
from pricdr.strategies import JLT, SJLT, Spectral

USERS = tuple(f"u{i}" for i in range(30))
ITEMS = tuple(f"i{i}" for i in range(20))
PROMISE = Guarantee(epsilon=4, delta=1e-6)
TO_USER = Guarantee(epsilon=4, delta=1e-6, unit=Unit.USER)


def _ratings():
    """Ratings of most users."""
    rng = np.random.default_rng(0)
    cells = [(u, i, float(rng.integers(1, 6))) for u in USERS[:-3] for i in ITEMS[:-2] if rng.random() < 0.3]
    return Ratings.from_triples(*map(list, zip(*cells, strict=True)))


def test_every_listed_user_gets_a_row_in_the_lists_order():
    release = publish(_ratings(), PROMISE, users=USERS[::-1], insecure_no_noise=True)
    assert release.users == USERS[::-1]
    assert publish(_ratings(), PROMISE, users=USERS[:5]).users == USERS[:5], "others are left out"
    silent_users = [USERS[::-1].index(u) for u in USERS[-3:]]
    assert not release.matrix[silent_users].any()
    noisy = publish(_ratings(), PROMISE, users=USERS)
    assert (noisy.matrix[-3:] != 0).mean() > 0.99


@pytest.mark.parametrize(
    ("options", "field", "stated", "sentence"),
    [
        ({"users": None}, "user_list", "read off the ratings", "Who has ratings"),
        ({}, "user_list", "declared", "The user list itself"),
        ({}, "item_universe", "not needed", None),
        ({"strategy": SJLT()}, "item_universe", "read off the ratings", "Which items exist"),
        ({"strategy": SJLT(), "items": ITEMS}, "item_universe", "declared", None),
        ({"filtered": "a 5-core"}, "filtered_by", "a 5-core", "The filter the ratings went through"),
        ({}, "filtered_by", None, None),
    ],
)
def test_where_lists_and_ratings_come_from_is_disclosed(options, field, stated, sentence):
    arguments = {"strategy": JLT(), "users": USERS, **options}
    filtered = arguments.pop("filtered", None)
    ratings = _ratings() if filtered is None else _ratings().disclosing(filtered)
    certificate = publish(ratings, PROMISE, **arguments).certificate
    assert getattr(certificate.input, field) == stated
    about = {
        "user_list": ("Who has ratings", "The user list"),
        "item_universe": "Which items",
        "filtered_by": "The filter",
    }
    said = [text for text in certificate.not_protected if text.startswith(about[field])]
    assert [text.startswith(sentence or "nothing") for text in said] == ([True] if sentence else [])


def test_two_releases_share_no_noise_but_a_seeded_one_repeats_and_is_not_private():
    one, two = (publish(_ratings(), PROMISE, users=USERS, strategy=JLT(dim=50)) for _ in range(2))
    assert (one.matrix == two.matrix).mean() < 0.01
    one, two = (publish(_ratings(), PROMISE, users=USERS, insecure_seed=1) for _ in range(2))
    assert np.array_equal(one.matrix, two.matrix)
    assert not one.certificate.private
    assert "NOT PRIVATE" in repr(one)
    other = publish(_ratings(), PROMISE, users=USERS, insecure_seed=2)
    assert (one.matrix == other.matrix).mean() < 0.01


def test_a_noiseless_release_is_a_times_e_and_not_private():
    release = publish(_ratings(), PROMISE, users=USERS, strategy=JLT(dim=300), insecure_no_noise=True)
    certificate = release.certificate
    assert (certificate.private, certificate.epsilon, certificate.mu, certificate.sigma) == (False, None, None, 0)
    binary = _ratings().select(users=USERS).positives().matrix
    gram = binary @ binary.T
    assert np.linalg.norm(release.matrix @ release.matrix.T - gram) < 0.4 * np.linalg.norm(gram.toarray())


def test_values_are_published_in_declared_steps():
    ratings = Ratings.from_triples(["u", "v", "w"], ["i", "i", "i"], [4.0, 2.0, 99.0])
    bounds = Bounds(rating_bound=5, rating_step=1)
    release = publish(ratings, PROMISE, bounds=bounds, strategy=JLT(dim=40), insecure_no_noise=True)
    norms = np.linalg.norm(release.matrix, axis=1)
    np.testing.assert_allclose(norms, [4, 2, 5], rtol=1e-3)
    assert release.certificate.sensitivity == 5


def test_the_user_unit_clips_profiles():
    to_user = {"bounds": Bounds(clip=1.5), "users": USERS}
    release = publish(_ratings(), TO_USER, insecure_no_noise=True, **to_user)
    assert np.linalg.norm(release.matrix, axis=1).max() <= 1.5 * (1 + 1e-6)
    certificate = publish(_ratings(), TO_USER, strategy=JLT(), **to_user).certificate
    assert (certificate.sensitivity, certificate.whole_user) == (1.5, [])
    assert composed_epsilon([(1.5 / certificate.sigma, 200)], 1e-6) == pytest.approx(4)
    # Replaced by others, they move a row twice as far.
    assert composed_epsilon([(3 / certificate.sigma, 200)], 1e-6) == pytest.approx(
        certificate.replacement.epsilon, rel=1e-5
    )
    assert certificate.replacement.mu == 2 * certificate.mu


def test_the_certificate_states_the_ledgers_account(tmp_path):
    ledger = pricdr.Ledger.create(tmp_path / "ledger", Guarantee(epsilon=8, delta=1e-6))
    first, second = (publish(_ratings(), PROMISE, ledger=ledger).certificate for _ in range(2))
    assert (first.ledger.releases, second.ledger.releases) == (1, 2)
    assert first.ledger.epsilon_total == pytest.approx(4, rel=1e-6)
    assert second.ledger.mu_total == pytest.approx(2**0.5 * second.mu)
    assert 4 < second.ledger.epsilon_total < 8
    line = ledger.read().spends[1]
    assert (second.ledger.head, second.ledger.recorded) == (line.hash, line.recorded)


@settings(deadline=None, max_examples=30)
@given(
    st.floats(0.05, 100),
    st.floats(1e-12, 0.1),
    st.integers(1, 300),
    st.sampled_from([JLT, SJLT]),
    st.sampled_from([(Unit.RATING, Bounds()), (Unit.RATING, Bounds(rating_bound=5)), (Unit.USER, Bounds(clip=2.5))]),
)
def test_every_certificate_checks_out(epsilon, delta, dim, strategy, unit):
    guarantee = Guarantee(epsilon=epsilon, delta=delta, unit=unit[0])
    certificate = publish(_ratings(), guarantee, strategy=strategy(dim=dim), bounds=unit[1], users=USERS).certificate
    check(certificate)
    assert certificate.epsilon == epsilon
    assert certificate.private == (certificate.epsilon <= 16)


@pytest.mark.parametrize(
    ("unit", "bounds", "epsilon"),
    [
        (Unit.RATING, Bounds(rating_bound=5, rating_step=0.01), 1.0),
        (Unit.USER, Bounds(clip=30.0), 1.0),
        (Unit.RATING, Bounds(), 0.001),
    ],
)
def test_ratings_still_matter_where_the_noise_is_large(unit, bounds, epsilon):
    """The same seed with and without ratings: the difference is A E, not zero."""
    guarantee = Guarantee(epsilon=epsilon, delta=1e-6, unit=unit)
    full, empty = (
        publish(r, guarantee, strategy=JLT(), users=USERS, items=ITEMS, bounds=bounds, insecure_seed=1)
        for r in (_ratings(), Ratings.from_triples(["u0"], ["i0"], [3.0]))
    )
    signal = np.linalg.norm(full.matrix[1:-3].astype(float) - empty.matrix[1:-3], axis=1)
    same = {"strategy": JLT(), "users": USERS, "items": ITEMS, "bounds": bounds, "insecure_seed": 1}
    plain = publish(_ratings(), guarantee, insecure_no_noise=True, **same)
    np.testing.assert_allclose(signal, np.linalg.norm(plain.matrix[1:-3], axis=1), rtol=0.05)
    assert not any("pure noise" in text for text in full.certificate.warnings)


def test_a_release_of_pure_noise_says_so():
    certificate = publish(_ratings(), Guarantee(epsilon=1e-6, delta=1e-9), strategy=JLT(), users=USERS).certificate
    assert any("pure noise" in text for text in certificate.warnings)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-7, 3.3e-6, 440.0, 452.0])
@pytest.mark.parametrize("delta", [1e-6, 1e-12])
def test_extreme_epsilons_are_certified_or_refused_before_the_spend(tmp_path, epsilon, delta):
    ledger = pricdr.Ledger.create(tmp_path / "ledger", Guarantee(epsilon=1e9, delta=delta))
    try:
        check(publish(_ratings(), Guarantee(epsilon=epsilon, delta=delta), users=USERS, ledger=ledger).certificate)
    except ParameterError:
        assert ledger.read().spends == ()
    else:
        assert len(ledger.read().spends) == 1


LIKED = Ratings.from_triples(["a"], ["x"])
PAPER = {"calibration": Calibration.PAPER}


@pytest.mark.parametrize(
    ("guarantee", "arguments", "message"),
    [
        (PROMISE, {"bounds": Bounds(rating_bound=5)}, "no rating column"),
        (PROMISE, {"bounds": Bounds(clip=1)}, "user unit"),
        (PROMISE, {"users": ["a", 7.0]}, "must be text"),
        (PROMISE, {"users": ["a", "\ud800"]}, "UTF-8"),
        (PROMISE, {"users": ["a", ""]}, "empty"),
        (PROMISE, {"users": ["a", "b\n"]}, "line break"),
        (PROMISE, {"users": ["a", "b" * 1001]}, "1,000 characters"),
        (PROMISE, {"users": ("a", "a")}, "more than once"),
        (PROMISE, {"users": ()}, "no users"),
        (PROMISE, {"items": ()}, "no items"),
        (PROMISE, {"calibration": "magic"}, "magic"),
        (PROMISE, PAPER, "for its own jlt and sjlt"),
        (TO_USER, {**PAPER, "strategy": JLT(), "bounds": Bounds(clip=1)}, "unit rating"),
        (PROMISE, {"insecure_seed": 1}, "cannot be entered in a ledger"),
        (PROMISE, {"insecure_no_noise": True}, "cannot be entered in a ledger"),
        # What would fail in the accounting or in the arithmetic fails before the spend too.
        (TO_USER, {"bounds": Bounds(clip=1e-15)}, "too small"),
        (Guarantee(epsilon=1e7, delta=1e-6), {**PAPER, "strategy": JLT()}, "cannot be certified"),
        (Guarantee(epsilon=600, delta=1e-6), {}, "too large to certify"),
        (
            TO_USER,
            {"bounds": Bounds(rating_step=0.01, rating_bound=100, clip=5e-9), "strategy": JLT(dim=1)},
            "too small",
        ),
    ],
)
def test_what_is_refused_is_named_and_costs_nothing(tmp_path, guarantee, arguments, message):
    ledger = pricdr.Ledger.create(tmp_path / "ledger", Guarantee(epsilon=1e9, delta=1e-6, unit=guarantee.unit))
    has_values = arguments.get("bounds", Bounds()).rating_bound == 100
    with pytest.raises((PriCDRError, ValueError), match=message):
        publish(_ratings() if has_values else LIKED, guarantee, ledger=ledger, **arguments)
    assert ledger.read().spends == ()


def test_values_that_cannot_be_compared_are_refused_before_there_is_anything_to_publish():
    valued = Ratings.from_triples(["a"], ["x"], [4])
    for make, message in (
        (lambda: LIKED.positives(threshold=3), "no rating column"),
        (lambda: valued.positives(threshold=np.nan), "from -1e15 to 1e15"),
        (lambda: Ratings.from_triples(["a"], ["x"], [np.nan]), "finite"),
    ):
        with pytest.raises(PriCDRError, match=message):
            make()


def test_number_types_and_names_of_units_do_not_matter():
    assert Bounds(clip=np.uint8(130)).sensitivity(Unit.USER) == 130
    assert type(Guarantee(epsilon=np.float32(4), delta=np.float64(1e-6)).epsilon) is float
    assert publish(_ratings(), PROMISE, strategy=JLT(dim=np.int64(5)), users=USERS).matrix.shape == (30, 5)
    assert Guarantee(epsilon=1, delta=1e-6, unit="user").unit is Unit.USER
    with pytest.raises(ParameterError, match="rating, user, user-period, got 'planet'"):
        Guarantee(epsilon=1, delta=1e-6, unit="planet")
    values = Ratings.from_triples(["a", "a"], ["x", "x"], np.array([2.0, 3.0]))
    assert values.matrix.toarray().tolist() == [[3.0]]


LIKES = Ratings.from_triples(["a", "b", "b"], ["x", "x", "y"])
STARS = Ratings.from_triples(["a", "b", "b"], ["x", "x", "y"], [1.0, 5.0, 3.0])


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "budget", Guarantee(epsilon=99, delta=1e-6))


def _said(publishing):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        publishing()
    assert all(one.category is PublishWarning and one.filename == __file__ for one in caught)
    return [str(one.message) for one in caught]


@pytest.mark.parametrize(
    ("changes", "beginnings"),
    [
        ({}, []),
        ({"ledger": None}, ["no ledger: "]),
        ({"users": None}, ["no user list: "]),
        ({"ratings": STARS}, ["ratings from 1 to 5 look like stars: "]),
        (
            {"ratings": pl.DataFrame({"user": ["a", "b"], "item": ["x", "y"], "rating": [1, 5]})},
            ["ratings from 1 to 5"],
        ),
        ({"ratings": STARS, "bounds": Bounds(rating_bound=5, rating_step=1)}, []),
        ({"ratings": STARS.at_least(3)}, []),
        ({"strategy": SJLT(dim=8)}, ["sjlt without an item list: "]),
        ({"guarantee": Guarantee(epsilon=4, delta=1e-5)}, ["delta = 1e-05 is large"]),
        ({"guarantee": Guarantee(epsilon=4, delta=0.6)}, ["delta = 0.6 is large", "delta = 0.6 is at least 1/2"]),
        ({"guarantee": Guarantee(epsilon=9, delta=1e-6)}, ["epsilon = 9 is above 8"]),
        (
            {"guarantee": Guarantee(epsilon=20, delta=1e-6)},
            ["epsilon = 20 is above 16", "NOT PRIVATE, LITTLE IS PROMISED", "this release is NOT PRIVATE"],
        ),
        ({"insecure_seed": 1, "ledger": None, "users": None}, []),
    ],
)
def test_each_weakness_is_warned_of_once(ledger, changes, beginnings):
    arguments = {"ratings": LIKES, "guarantee": PROMISE, "users": ["a", "b"], "strategy": JLT(dim=8), "ledger": ledger}
    said = _said(lambda: publish(**{**arguments, **changes}))
    assert len(said) == len(beginnings)
    assert all(text.startswith(beginning) for text, beginning in zip(said, beginnings, strict=True))


def test_a_delta_too_large_for_the_users_is_warned_of_before_anything_is_spent(ledger):
    """Where warnings are errors, nothing is spent."""
    warnings.filterwarnings("error", "delta = 0.5 is at least", PublishWarning)
    with pytest.raises(PublishWarning, match="at least 1/2, one over the number of"):
        publish(LIKES, Guarantee(epsilon=4, delta=0.5), users=["a", "b"], strategy=JLT(dim=8), ledger=ledger)
    assert ledger.read().spends == ()


def test_the_command_line_says_the_same_before_the_spend_and_nothing_twice(tmp_path, monkeypatch, capsys, ledger):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.csv").write_text("user,item,rating\na,x,1\nb,x,5\nb,y,3\n")
    spend, shown_before = Ledger.spend, []

    def looking(self, **cost):
        shown_before.append(capsys.readouterr().err)
        return spend(self, **cost)

    monkeypatch.setattr(Ledger, "spend", looking)
    options = ["--epsilon", "20", "--delta", "0.6", "--strategy", "sjlt", "--dim", "8", "--out", "out"]
    run(["ledger", "init", "wide", "--epsilon", "99", "--delta", "0.6", "--unit", "rating"])
    capsys.readouterr()
    assert run(["publish", "r.csv", *options, "--ledger", "wide"]) == 0
    assert "warning:" not in capsys.readouterr().err
    said = re.findall(r"warning: (.*)", shown_before[0])
    in_python = _said(
        lambda: publish(STARS, Guarantee(epsilon=20, delta=0.6), strategy=SJLT(dim=8), ledger=Ledger(tmp_path / "wide"))
    )
    assert said == in_python
    assert len(set(said)) == len(said) >= 7


HOSTILE = ["", " ", "x" * 201, "a\nb", "\x1b[2J", "\u202egnp.exe", "a\u2028b", " a", "a ", "\ud800", "\x00"]


def published(**options):
    return publish(LIKES, PROMISE, strategy=JLT(dim=2), users=["a", "b"], **options)


def test_what_was_declared_is_in_the_certificate_and_in_the_readme(tmp_path, monkeypatch):
    monkeypatch.setattr("pricdr._publish.today", lambda: "2026-02-03")
    folder = published(issuer="Films & Co. (é)").save(tmp_path / "r")
    certificate = verify(folder).certificate
    assert (certificate.issuer, certificate.issued) == ("Films & Co. (é)", "2026-02-03")
    text = (folder / "README.md").read_text()
    assert 'issuer: "`Films & Co. (é)`"; day of issue: 2026-02-03 (UTC)' in text
    assert "What vouches for them is a signature" in text
    nobody = published().certificate
    assert (nobody.issuer, nobody.issued) == (None, "2026-02-03")
    assert "no issuer is named" in readme(nobody)


def test_an_issuer_is_one_short_printable_line(tmp_path):
    ledger = Ledger.create(tmp_path / "budget.jsonl", Guarantee(epsilon=8, delta=1e-6))
    for issuer in HOSTILE:
        with pytest.raises(ParameterError, match="issuer must be 1 to 200 printable characters"):
            published(issuer=issuer, ledger=ledger)
    assert not ledger.read().spends, "refused before anything was paid"


def test_markup_in_a_name_stays_inside_its_quotation():
    text = readme(published(issuer='x`"** [a](http://e.org) <img src=x> "').certificate)
    assert "\"`x''** [a](http://e.org) <img src=x> '`\"" in text
    assert text.count("http://") == 1


def test_the_day_is_taken_before_any_work(monkeypatch):
    """How long publishing takes may depend on the ratings: the clock is read first, and once."""
    order = []
    monkeypatch.setattr("pricdr._publish.today", lambda: order.append("clock") or "2026-02-03")
    select = Ratings.select
    monkeypatch.setattr(Ratings, "select", lambda *given, **named: order.append("work") or select(*given, **named))
    published()
    assert order[0] == "clock"
    assert order.count("clock") == 1


@pytest.mark.parametrize(("limit", "says"), [("MAX_ITEMS", "3 items are more"), ("MAX_USERS", "3 users are more")])
def test_more_than_sums_are_exact_for_is_refused(monkeypatch, limit, says):
    ratings = Ratings.from_triples(["a", "b", "c"], ["x", "y", "z"])
    monkeypatch.setattr(f"pricdr._publish.{limit}", 3)
    publish(ratings, PROMISE)
    monkeypatch.setattr(f"pricdr._publish.{limit}", 2)
    with pytest.raises(InputError, match=says):
        publish(ratings, PROMISE)


def test_ratings_of_users_outside_the_list_are_not_read(monkeypatch):
    seen, original = [], Spectral.publish

    def watched(self, entries, run):
        seen.append(entries)
        return original(self, entries, run)

    monkeypatch.setattr(Spectral, "publish", watched)
    ratings = Ratings.from_triples(["a", "b", "out", "off", "off"], ["x", "y", "z", "x", "y"])
    publish(ratings, PROMISE, users=["b", "a"], items=["x", "y", "z"])
    assert seen[0].listed.matrix.toarray().tolist() == [[0, 1, 0], [1, 0, 0]]
