"""Releases for experiments: what ``publish`` makes, with bits that repeat. Every one is marked NOT PRIVATE."""

from dataclasses import replace
from typing import Any

import numpy as np

from pricdr._publish import publish
from pricdr.arrays import IntArray
from pricdr.data.ratings import Ratings
from pricdr.errors import ParameterError
from pricdr.experiments.arms import DELTA, GUIDE_DIM, Guide, ReleaseSpec, RowContent
from pricdr.privacy.accounting import Guarantee
from pricdr.privacy.strategies import BY_NAME
from pricdr.randomness import Simulation
from pricdr.release.folder import Release
from pricdr.strategies import Guided, Spectral, Strategy


def sampled_source(source: Ratings, share: float, seed: int) -> Ratings:
    """Return a share of the ratings, over the same users and items; with one seed smaller shares lie in larger ones.

    The number is exact (rounded), and not a coin for every rating: the density of the sample is then what the axis
    says. Nobody is dropped from the lists, since both parties have agreed on them: a user may be left without a rating.
    """
    if not 0 < share <= 1:
        raise ParameterError(f"the share of the source must lie in (0, 1], got {share!r}")
    if share == 1:
        return source
    # One order for every share, of which the first so many are kept: that is what nests them.
    order = Simulation(seed).generator("sampled source").permutation(len(source))
    kept = np.zeros(len(source), dtype=bool)
    kept[order[: round(share * len(source))]] = True
    return source.only(kept)


def seeded_release(source: Ratings, spec: ReleaseSpec, seed: int, *, target: Ratings | None = None) -> Release:
    """Publish ``source`` (unit: one rating counted as 1) with bits that follow from ``seed``, or a control.

    Args:
        source: the ratings to release.
        spec: strategy, budget, and which control it is, if any.
        seed: everything drawn follows from it.
        target: what the other party trains on, of which a guide is a release at the same ε and δ.
    """
    strategy = _strategy(source, spec, seed, target)
    noisy = spec.rows in (RowContent.PRIVATE, RowContent.NOISE) or (
        strategy.learns and spec.rows is RowContent.SHUFFLED
    )
    given = source
    if spec.rows is RowContent.NOISE:
        given = source.only(np.zeros(len(source), dtype=bool))
    elif spec.rows is RowContent.SHUFFLED and strategy.learns:
        # Before anything is learnt: a guide would recognise rows that were only moved afterwards.
        to, taken_from = _cycle(len(source.users), seed)
        places = np.empty_like(to)
        places[to] = taken_from
        given = replace(source, matrix=source.matrix[places])
    release = _publish(given, strategy, spec, seed, noisy=noisy)
    if spec.rows is RowContent.SHUFFLED and not strategy.learns:
        to, taken_from = _cycle(len(source.users), seed)
        moved = np.empty_like(release.matrix)
        moved[to] = release.matrix[taken_from]
        return replace(release, matrix=moved)
    return release


def _cycle(n_users: int, seed: int) -> tuple[IntArray, IntArray]:
    """Return who is given whose row: along one cycle through all users, so that nobody keeps their own."""
    order = Simulation(seed).generator("shuffled rows").permutation(n_users)
    return order, np.roll(order, 1)


def _strategy(source: Ratings, spec: ReleaseSpec, seed: int, target: Ratings | None) -> Strategy:
    kind = BY_NAME.find(spec.strategy_name)
    if kind is not Guided:
        given: dict[str, Any] = {"dim": spec.dim, "density": spec.density}
        return kind(**{name: value for name, value in given.items() if value is not None})
    assert target is not None, "a guide is a release of the other party"
    # A seed of its own: the two parties share none.
    theirs, guide_seed = target.select(users=source.users), 1_000_000 + seed
    guide = _publish(theirs, Spectral(dim=GUIDE_DIM), spec, guide_seed, noisy=spec.guide is not Guide.CLEAR)
    return Guided(guide=guide, dim=spec.dim, refine=spec.refine)


def _guarantee(spec: ReleaseSpec) -> Guarantee:
    return Guarantee(epsilon=spec.epsilon, delta=DELTA if spec.delta is None else spec.delta)


def _publish(ratings: Ratings, strategy: Strategy, spec: ReleaseSpec, seed: int, *, noisy: bool) -> Release:
    """Publish with declared lists of users and items, as two companies would agree on."""
    return publish(
        ratings,
        _guarantee(spec),
        strategy=strategy,
        users=ratings.users,
        items=ratings.items,
        calibration=spec.calibration,
        insecure_seed=seed,
        insecure_no_noise=not noisy,
        allow_not_private_guide=True,
    )
