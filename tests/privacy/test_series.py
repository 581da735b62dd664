"""A series: what a week may go on from, what it makes of the weeks before it, and who is in it no more."""

from dataclasses import replace
from datetime import date
from unittest.mock import patch

import numpy as np
import pytest

from pricdr import Bounds, Guarantee, Ledger, Ratings, Unit, publish
from pricdr.data.periods import PeriodRatings, Window
from pricdr.errors import InputError, ParameterError
from pricdr.privacy.strategies import continued
from pricdr.privacy.strategies.continued import added_up
from pricdr.privacy.sums import whole_guide
from pricdr.randomness import Simulation
from pricdr.release.certify import check
from pricdr.release.series import MAX_MEMBERS, Series, by_series, place, series_id, to_continue
from pricdr.strategies import JLT, Continued, Guided, Spectral
from tests.attacks.series import SeriesTarget, sums_of
from tests.attacks.transcript import GuideOf

USERS = tuple(f"u{at:02d}" for at in range(40))
PROMISE = Guarantee(epsilon=4, delta=1e-6)
TO_USER = Guarantee(epsilon=4, delta=1e-6, unit=Unit.USER)


def rated(*, leaver=0, more=()):
    """Ratings by users of two tastes; the first one's are others for every ``leaver``."""
    cells = {(user, f"i{(2 * ((5 * at + n) % 9)) + at % 2:02d}") for at, user in enumerate(USERS) for n in range(5)}
    cells = {cell for cell in cells if cell[0] != USERS[0]} | {(USERS[0], f"i{n:02d}") for n in range(leaver, 12)}
    return Ratings.from_triples(*zip(*sorted(cells | set(more)), strict=True))


@pytest.fixture(scope="module")
def first():
    return publish(rated(), PROMISE, strategy=Spectral(dim=3), users=USERS)


@pytest.fixture(scope="module")
def second(first):
    return publish(rated(), PROMISE, strategy=Continued(before=[first]), users=USERS)


def at_place(release, number, **changes):
    """The same release of a series, said to be elsewhere in it."""
    stated = release.certificate.series.model_copy(update={"place": number, **changes})
    return replace(release, certificate=release.certificate.model_copy(update={"series": stated}))


# what a week goes on from


def test_a_week_keeps_what_the_series_has_and_states_its_place(first, second):
    for release, number in ((first, 1), (second, 2)):
        check(release.certificate)
        assert (place(release), series_id(release)) == (number, first.sha256())
    assert second.certificate.dim == first.certificate.dim
    assert second.certificate.private
    assert second.certificate.epsilon == 4


@pytest.mark.parametrize("beginning", [Guided, Spectral])
def test_any_learnt_release_begins_a_series(first, beginning):
    given = {"guide": first} if beginning is Guided else {}
    begun = publish(rated(), PROMISE, strategy=beginning(dim=2, **given), users=USERS)
    assert place(publish(rated(), PROMISE, strategy=Continued(before=[begun]), users=USERS)) == 2


def test_lists_grow_and_shrink_and_new_users_are_served(first):
    joined = tuple(f"new{n}" for n in range(6))
    more = {(user, f"i{2 * n:02d}") for user in joined for n in range(4)}
    week = publish(rated(more=more), PROMISE, strategy=Continued(before=[first]), users=(*USERS[10:], *joined))
    assert week.users == (*USERS[10:], *joined)
    series = Series((first, week))
    assert set(series.users) == {*USERS, *joined}
    assert series.sum.present.all()
    assert series.sum.rows.any(axis=1).all()


def test_who_left_changes_no_byte_of_a_later_week(first):
    """Whatever ratings a leaver has, the week after is the same; those of somebody who stayed change it."""
    left = {"strategy": Continued(before=[first]), "users": USERS[1:], "insecure_seed": 5}
    weeks = [publish(rated(leaver=n), PROMISE, **left) for n in (0, 11)]
    assert np.array_equal(weeks[0].matrix, weeks[1].matrix)
    assert weeks[0].certificate == weeks[1].certificate
    stayed = {**left, "users": USERS}
    one, two = (publish(rated(leaver=n), PROMISE, **stayed) for n in (0, 11))
    assert not np.array_equal(one.matrix, two.matrix)


REFUSED = {
    "nothing": ((), {}, "needs the releases|of one series, got those of 0"),
    "something else": ([GuideOf(np.zeros((40, 3), np.float32), USERS)], {}, "goes on from releases"),
    "a fixed projection": ([publish(rated(), PROMISE, strategy=JLT(dim=3), users=USERS)], {}, "and jlt is none"),
    "another unit": (None, {"guarantee": TO_USER, "bounds": Bounds(clip=2)}, "unit user differs"),
    "other bounds": (None, {"bounds": Bounds(rating_bound=5)}, "no rating column|bounds .* differs"),
    "another threshold": (None, {"ratings": rated().positives(), "threshold": 3.0}, "threshold 3.0 differs"),
    "one that is not private": (
        [publish(rated(), PROMISE, strategy=Spectral(dim=3), users=USERS, insecure_seed=1)],
        {},
        "at place 1 of the series is NOT PRIVATE: begin another series",
    ),
    "nobody on the list": (None, {"users": ["zoe"]}, "no release of the series has a row for any listed user"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_week_goes_on_from_is_refused_before_the_spend(name, first, tmp_path, refused):
    before, changes, says = REFUSED[name]
    given = {"ratings": rated(), "guarantee": PROMISE, "users": USERS, "bounds": Bounds(), **changes}
    if given.pop("threshold", None):
        given["ratings"] = replace(given["ratings"], threshold=3.0)
    unit = given["guarantee"].unit
    ledger = Ledger.create(tmp_path / "ledger", Guarantee(epsilon=8, delta=1e-6, unit=unit))
    strategy = Continued(before=[first] if before is None else before, dim=3)
    with pytest.raises((InputError, ParameterError), match=says) as caught:
        publish(given.pop("ratings"), given.pop("guarantee"), strategy=strategy, ledger=ledger, **given)
    assert "\n" not in str(caught.value)
    assert ledger.read().spends == ()


def test_a_release_for_tests_may_go_on_from_one():
    """Neither promises anything."""
    before = publish(rated(), PROMISE, strategy=Spectral(dim=3), users=USERS, insecure_seed=1)
    week = publish(rated(), PROMISE, strategy=Continued(before=[before]), users=USERS, insecure_seed=2)
    assert (place(week), week.certificate.private) == (2, False)


# which releases are a series


def test_members_are_put_in_order_and_missing_places_known(first, second):
    far = at_place(second, 7, before=second.sha256(), before_place=2)
    series = Series((far, first))
    assert [place(one) for one in series.members] == [1, 7]
    assert series.missing == [2, 3, 4, 5, 6]
    assert Series((far, second, first)).missing == [3, 4, 5, 6]


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"unit": "user"}, "the unit user"),
        ({"dim": 4}, "the columns 4"),
        ({"signed_by": "A" * 43 + "="}, "the signer AAAA"),
    ],
)
def test_members_that_cannot_be_added_up_are_refused(first, second, changes, what, refused):
    matrix = np.zeros((40, changes.get("dim", 3)), dtype=np.float32)
    other = replace(second, matrix=matrix, certificate=second.certificate.model_copy(update=changes))
    message = refused(lambda: Series((first, other)))
    assert f"the release at place 2 of the series has {what}" in message
    assert "they cannot be added up" in message


def test_two_at_one_place_a_broken_chain_and_too_many_are_refused(first, second, refused):
    again = publish(rated(), PROMISE, strategy=Continued(before=[first]), users=USERS)
    third = publish(rated(), PROMISE, strategy=Continued(before=[first, second]), users=USERS)
    assert "two releases are at place 2" in refused(lambda: Series((first, second, again)))
    assert "place 3 of the series follows another release" in refused(lambda: Series((again, third)))
    many = [at_place(second, number, before_place=1) for number in range(2, 1002)]
    assert refused(lambda: Series(tuple(many))) == f"a series has at most {MAX_MEMBERS} releases, got 1,000"
    foreign = publish(rated(), PROMISE, strategy=Spectral(dim=3), users=USERS)
    assert "of one series, got those of 2" in refused(lambda: to_continue([first, foreign]))
    assert "releases 1 and 3 are the same" in refused(lambda: by_series([first, second, first]), ParameterError)


def test_a_ledger_numbers_the_places(first, tmp_path):
    """A release that was paid for and is not there leaves its place empty; another ledger's releases do not."""
    ledger = Ledger.create(tmp_path / "ledger", Guarantee(epsilon=16, delta=1e-6))
    begun = publish(rated(), PROMISE, strategy=Spectral(dim=3), users=USERS, ledger=ledger)
    ledger.spend(mu=0.1, dim=1, unit=Unit.RATING, strategy="continued", promise="failed after its spend")
    week = publish(rated(), PROMISE, strategy=Continued(before=[begun]), users=USERS, ledger=ledger)
    assert (place(week), week.certificate.series.before_place) == (3, 1)
    other = Ledger.create(tmp_path / "other", Guarantee(epsilon=16, delta=1e-6))
    for _ in range(3):
        other.spend(mu=0.1, dim=1, unit=Unit.RATING, strategy="jlt", promise="")
    assert place(publish(rated(), PROMISE, strategy=Continued(before=[begun]), users=USERS, ledger=other)) == 2


def test_the_next_ledger_goes_on_with_the_places(first, tmp_path):
    """A release that it paid for and that is not there leaves its place empty, from its first line on."""
    years = [Window(date(year, 1, 1), date(year + 1, 1, 1)) for year in (2024, 2025)]
    promises = [replace(PROMISE, window=year) for year in years]
    old = Ledger.create(tmp_path / "2024", replace(promises[0], epsilon=16))
    of_years = [replace(rated(), window=year) for year in years]
    begun = publish(of_years[0], promises[0], strategy=Spectral(dim=3), users=USERS, ledger=old)
    new = Ledger.create(tmp_path / "2025", replace(promises[1], epsilon=16), after=old)
    new.spend(mu=0.1, dim=1, unit=Unit.RATING, window=years[1], strategy="continued", promise="failed after its spend")
    assert place(publish(of_years[1], promises[1], strategy=Continued(before=[begun]), users=USERS, ledger=new)) == 3


def test_periods_of_another_length_are_another_unit(refused):
    """A user's week and a user's month are not protected by one sum."""
    weekly, monthly = (Window(date(2025, 1, 1), date(2026, 1, 1), days) for days in (7, 30))

    def of(window, strategy):
        promise = Guarantee(epsilon=4, delta=1e-6, unit=Unit.USER_PERIOD, window=window)
        ratings = PeriodRatings(
            matrix=rated().matrix,
            owners=np.arange(len(USERS)),
            users=rated().users,
            items=rated().items,
            window=window,
            has_values=False,
        )
        return publish(ratings, promise, strategy=strategy, bounds=Bounds(clip=2))

    begun, other = of(weekly, Spectral(dim=3)), of(monthly, Spectral(dim=3))
    says = "days of a period 30 differs from that of the series, 7: its releases are added up"
    assert refused(lambda: of(monthly, Continued(before=[begun])), ParameterError) == says
    following = of(weekly, Continued(before=[begun])).certificate
    mixed = replace(other, certificate=following.model_copy(update={"window": other.certificate.window}))
    assert "has the days of a period 30" in refused(lambda: Series((begun, mixed)))


def test_a_single_release_in_place_of_several_is_refused_in_one_line(first, refused):
    rule = "a series goes on from releases (pricdr.Release.load), in a list"
    assert refused(lambda: publish(rated(), PROMISE, strategy=Continued(before=first), users=USERS)) == rule


# the sum


def planted(lengths, sigmas, *, seed=0, users=500, dim=4):
    """Rows of variance 1, and what releases of these lengths and this noise show of them."""
    rng = np.random.default_rng(seed)
    rows, names = rng.standard_normal((users, dim)), tuple(f"{at}" for at in range(users))
    rows -= rows.mean(axis=0)
    shown = [
        GuideOf((length * rows + sigma * rng.standard_normal(rows.shape)).astype(np.float32), names, sigma)
        for length, sigma in zip(lengths, sigmas, strict=True)
    ]
    return rows, names, shown


def error(rows, guess):
    return float(np.square(rows - guess).mean())


@pytest.mark.parametrize("seed", range(3))
def test_the_sum_is_nearer_than_the_best_single_release_and_than_plain_weights(seed):
    rows, names, shown = planted([1.0, 2.0, 4.0, 5.0, 6.0], [2.0, 3.0, 3.0, 3.0, 9.0], seed=seed)
    ours = error(rows, added_up(shown, names).rows)
    singles = [error(rows, added_up([one], names).rows) for one in shown]
    plain = np.sum([one.matrix / one.sigma**2 for one in shown], axis=0)
    plain *= (plain * rows).sum() / (plain**2).sum()  # as long as is best for it
    assert ours < 0.65 * min(singles)
    assert ours < 0.8 * error(rows, plain)
    assert ours == pytest.approx(1 / (1 + sum((one / two) ** 2 for one, two in LENGTHS)), rel=0.1)


LENGTHS = ((1.0, 2.0), (2.0, 3.0), (4.0, 3.0), (5.0, 3.0), (6.0, 9.0))
"""Length and σ of each, for which theory gives the mean square error."""


def test_the_noise_of_the_sum_is_what_is_stated():
    rows, names, shown = planted([1.0, 2.0, 4.0], [2.0, 3.0, 3.0])
    exact = planted([1.0, 2.0, 4.0], [0.0, 0.0, 0.0])[2]
    found = added_up(shown, names)
    kept = (found.rows * rows).sum() / (rows**2).sum()
    assert np.std(found.rows - kept * rows) == pytest.approx(found.noise, rel=0.05)
    assert found.noise_share == pytest.approx(found.noise**2 / found.rows.var(), rel=0.01)
    assert added_up(exact, names).noise_share < 1e-6


def test_a_release_of_noise_alone_hardly_counts():
    rows, names, shown = planted([3.0, 0.0], [2.0, 0.1])
    assert error(rows, added_up(shown, names).rows) < 1.2 * error(rows, added_up(shown[:1], names).rows)


def test_who_is_in_fewer_releases_has_a_shorter_row_and_who_is_in_none_has_none():
    _, names, shown = planted([2.0] * 5, [3.0] * 5)
    late = [replace(one, matrix=one.matrix[250:], users=names[250:]) for one in shown[:4]]
    found = added_up([*late, shown[4]], (*names, "stranger"))
    early, often = (np.linalg.norm(part, axis=1).mean() for part in (found.rows[:250], found.rows[250:500]))
    assert early < 0.8 * often
    assert not found.rows[-1].any()
    assert found.present.tolist() == [True] * 500 + [False]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_rows_that_are_no_numbers_guide_nobody(first, bad, refused):
    spoilt = first.matrix.copy()
    spoilt[0, 0] = bad
    with np.errstate(all="ignore"):
        assert "finite" in refused(lambda: Continued(before=[replace(first, matrix=spoilt)]).resolved(PROMISE, USERS))


# twenty-six weeks


def by_columns(rows, dim, *, sigma, percentile, present, rotated):
    """Return what scales columns one by one to the root of the share that is not noise: no rotation at all."""
    assert not rotated
    known = (rows - rows[present].mean(axis=0)) * present[:, None]
    variance = known[present].var(axis=0)
    known *= np.sqrt(np.maximum(1 - sigma**2 / variance, 1e-3) / variance)
    return whole_guide(known / np.percentile(np.linalg.norm(known[present], axis=1), percentile))


def effective_rank(rows):
    """Return the exponential of the entropy of the shares of variance."""
    shares = np.linalg.eigvalsh(np.cov(rows.T))
    shares = shares[shares > 0] / shares[shares > 0].sum()
    return float(np.exp(-(shares * np.log(shares)).sum()))


def ranks_after(weeks, guide, *, users=400, items=300, dim=8):
    """Return the effective rank of the sum after the first week and after the last, on ratings by planted tastes."""
    rng = np.random.default_rng(0)
    strength = np.linspace(1.0, 0.4, dim)
    liking = 2 * rng.standard_normal((users, dim)) * strength @ rng.standard_normal((dim, items))
    best = np.argsort(-(liking + rng.gumbel(size=liking.shape)), axis=1)[:, :20]
    ratings = np.zeros((users, items))
    np.put_along_axis(ratings, best, 1, axis=1)
    target = SeriesTarget(first=Spectral(dim=dim), before=ratings, after=ratings, weeks=weeks, epsilon=16.0)
    shown, entries = [], target.entries(np.array([False]))
    with patch.object(continued, "guide", guide):
        for week in range(weeks):
            strategy, calibrated = target.week(shown)
            rows = sums_of(strategy, entries, calibrated, Simulation(week))["rows"]
            shown.append(GuideOf(rows.astype(np.float32), target.users, calibrated[-1].grid.sigma))
    return effective_rank(shown[0].matrix), effective_rank(added_up(shown, target.users).rows)


@pytest.mark.slow
def test_columns_stay_apart_over_26_weeks_and_would_not_where_they_are_scaled_one_by_one():
    begun, ours = ranks_after(26, continued.guide)
    _, scaled = ranks_after(26, by_columns)
    assert ours > 0.97 * begun
    assert scaled < 0.87 * begun
