"""A series is one source: its releases are added up, and the sum serves people better than any of them."""

from dataclasses import replace
from functools import partial
from math import hypot

import numpy as np
import pytest

from pricdr import FittedModel, Guarantee, publish
from pricdr.errors import InputError, ParameterError
from pricdr.models import Chosen, RidgeRelease, Trust
from pricdr.privacy.accounting import composed_epsilon
from pricdr.release.certificate import SeriesStatement, rounded_up
from pricdr.report.card import ModelCard
from pricdr.strategies import Continued, Spectral
from pricdr.testing.contracts import release_with_rows
from tests.models.test_fold_in import SMALL
from tests.models.test_several import USERS, cold_ndcg, tastes, world  # noqa: F401

WEEKS = 4
PROMISE = Guarantee(epsilon=4, delta=1e-6)


@pytest.fixture(scope="module")
def weeks(tastes):  # noqa: F811
    """Releases of the same rows in the same columns, with noise of their own; the last 50 users join in week 3."""
    rng = np.random.default_rng(70)
    rows, made = tastes @ rng.standard_normal((tastes.shape[1], 6)), []
    for place in range(1, WEEKS + 1):
        count = USERS - 50 * (place < 3)
        noisy = (rows + 2.5 * rng.standard_normal(rows.shape))[:count].astype(np.float32)
        made.append(at_place(release_with_rows(noisy, tuple(f"u{n:03d}" for n in range(count))), place, made))
    return made


def at_place(release, place, before):
    """The release as the next one of the series of those before it, with the noise that it has."""
    series = None
    if before:
        first, last = before[0].sha256(), before[-1].sha256()
        series = SeriesStatement(first=first, place=place, before=last, before_place=place - 1)
    return replace(release, certificate=release.certificate.model_copy(update={"series": series, "sigma": 2.5}))


def test_a_series_is_one_source_and_its_sum_serves_newcomers_better_than_any_week(world, weeks):  # noqa: F811
    target, validation = world
    together = RidgeRelease().fit(target, weeks[::-1], validation=validation)
    alone = [RidgeRelease().fit(target, one, validation=validation) for one in weeks]
    assert cold_ndcg(together, validation) > max(cold_ndcg(model, validation) for model in alone) + 0.02
    assert together.in_release.shape == (USERS, 1)
    assert together.chosen.used in (None, (0,))
    assert [one.source for one in together.origin.releases] == [0] * WEEKS
    assert [one.sha256 for one in together.origin.releases] == [one.sha256() for one in weeks], "by their places"
    assert [one.covers for one in together.origin.releases] == [(350, USERS)] * 2 + [(USERS, USERS)] * 2


def test_a_series_beside_another_source_makes_two_sources(world, weeks, tastes, tmp_path):  # noqa: F811
    target, validation = world
    other = release_with_rows(tastes[:, :2].astype(np.float32), tuple(f"u{n:03d}" for n in range(USERS)))
    model = RidgeRelease().fit(target, [weeks[0], other, weeks[1]], validation=validation)
    loaded = FittedModel.load(model.save(tmp_path / "model"))
    for one in (model, loaded):
        assert one.in_release.shape[1] == len(one.chosen.used or (0, 1))
        assert [release.source for release in one.origin.releases] == [0, 0, 1]
    assert [len(one.members) for one in ModelCard("model", loaded).releases] == [2, 1]


def test_the_card_states_what_all_weeks_promise_together(world):  # noqa: F811
    target, validation = world
    first = publish(target, PROMISE, strategy=Spectral(dim=3), users=target.users)
    second = publish(target, PROMISE, strategy=Continued(before=[first]), users=target.users)
    model = RidgeRelease().fit(target, [second, first], validation=validation)
    mus = first.certificate.mu, second.certificate.mu
    together = composed_epsilon([(mu, 1) for mu in mus], 1e-6)
    (card,) = ModelCard("model", model).releases
    figures = f"ε = {rounded_up(together, 4):g}, δ = 1e-06, μ = {rounded_up(hypot(*mus), 4):g}"
    assert card.promise.startswith(f"{figures}, for one rating over all 2 releases")
    assert card.origin.sha256 == second.sha256()


def test_what_cannot_be_added_up_is_refused_before_training(world, weeks):  # noqa: F811
    target, validation = world
    wide = np.zeros((USERS, 5), dtype=np.float32)
    other = at_place(release_with_rows(wide, tuple(f"u{n:03d}" for n in range(USERS))), 2, weeks[:1])
    for given, error, says in (
        ([weeks[0], other], InputError, "has the columns 5, and that at place 1 has 6: they cannot be added up"),
        ([*weeks[:2], weeks[1]], ParameterError, "releases 2 and 3 are the same"),
    ):
        with pytest.raises(error, match=says):
            RidgeRelease().fit(target, given, validation=validation)


@pytest.mark.slow
def test_the_whole_series_takes_the_place_of_the_week_that_a_model_has(world, weeks, refused):  # noqa: F811
    """The weeks it was trained with are in the sum already; a later week by itself is added to them."""
    chosen = Chosen(epochs={"target": 2, "source": 2}, trust=Trust(1.0, 1.0))
    model = SMALL.fit(world[0], weeks[1], chosen=chosen)
    folded = model.with_release(weeks)
    assert [one.sha256 for one in folded.origin.releases] == [one.sha256() for one in weeks]
    assert {one.source for one in folded.origin.releases} == {0}
    assert folded.in_release.all()
    assert model.in_release.sum() == USERS - 50
    again = folded.with_release(weeks)
    assert np.corrcoef(again.user_vectors.ravel(), folded.user_vectors.ravel())[0, 1] > 0.99  # not added twice
    later = model.with_release(weeks[3])
    assert [one.sha256 for one in later.origin.releases] == [weeks[1].sha256(), weeks[3].sha256()]
    for part in (weeks[3], weeks[2:]):  # week 4 would count twice
        assert "knows some of these releases" in refused(partial(later.with_release, part))


def test_the_card_numbers_sources_as_the_model_does(world, weeks, tastes):  # noqa: F811
    """Also where a later release of the first source is recorded after those of the second."""
    target, validation = world
    other = release_with_rows(tastes[:, :2].astype(np.float32), tuple(f"u{n:03d}" for n in range(USERS)))
    model = RidgeRelease().fit(target, [weeks[0], other], validation=validation)
    first, second = model.origin.releases
    folded = replace(model, origin=replace(model.origin, releases=(second, first)))
    assert [one.origin.source for one in ModelCard("model", folded).releases] == [0, 1]
