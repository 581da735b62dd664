"""What a release will be, settled before its first random bit: who and what is in it, every σ, the cost.

Whatever can be refused is refused here: nothing may fail once a ledger has paid.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pricdr.data.blocks import RatingsSource
from pricdr.data.ids import Ids
from pricdr.errors import InputError, ParameterError
from pricdr.privacy.accounting import Calibration, Guarantee, Unit, composed_epsilon, paper_sigma
from pricdr.privacy.bounds import Bounds
from pricdr.privacy.mechanism import MOST_ITEMS, Grid
from pricdr.privacy.steps import (
    MOST_RATINGS,
    MOST_USERS,
    CalibratedStep,
    Declared,
    calibrate,
    noiseless,
    total_mu,
    total_numbers,
)
from pricdr.privacy.strategies import Strategy
from pricdr.release.certificate import GuideStatement, ItemUniverse, NoiseSource
from pricdr.release.folder import Release


@dataclass(frozen=True)
class Plan:
    """Everything settled before the first random bit."""

    guarantee: Guarantee
    calibration: Calibration
    source: NoiseSource
    strategy: Strategy
    settled: tuple[CalibratedStep, ...]
    cost: float
    """μ of the whole release."""


def select(ratings: RatingsSource, users: Ids | None, items: Ids | None) -> RatingsSource:
    """Return the listed users and items; refusals go by the lists and by sizes.

    Ratings none of which counts are published like any others, as noise alone: a refusal would tell whoever waits for
    the release what was rated.
    """
    selected = ratings.select(users, items)
    if not selected.users:
        raise InputError("there are no users to publish")
    if items is not None and not selected.items:
        raise InputError("there are no items to publish")
    if len(selected.items) > MOST_ITEMS:
        raise InputError(f"{len(selected.items):,} items are more than the {MOST_ITEMS:,} that sums are exact for")
    if len(selected.users) > MOST_USERS:
        raise InputError(f"{len(selected.users):,} users are more than the {MOST_USERS:,} that sums are exact for")
    if len(ratings) > MOST_RATINGS:
        raise InputError(f"{len(ratings):,} ratings are more than the {MOST_RATINGS:,} that sums are exact for")
    return selected


def settled_plan(
    guarantee: Guarantee, strategy: Strategy, declared: Declared, calibration: Calibration, source: NoiseSource
) -> Plan:
    """Settle every σ, every grid and the cost; refuse what would fail later, since nothing may fail once it is paid."""
    bounds = declared.bounds
    steps = strategy.steps(declared)
    settled: tuple[CalibratedStep, ...]
    if calibration is Calibration.PAPER:
        settled = (CalibratedStep(steps[-1], _paper_grid(guarantee, strategy, bounds)),)
    else:
        settled = calibrate(steps, guarantee, bounds)
    cost = total_mu(settled)
    delivered = composed_epsilon([(cost, total_numbers(settled))], guarantee.delta)
    exact = calibration is Calibration.EXACT
    if not math.isfinite(delivered) or (exact and delivered > guarantee.epsilon * (1 + 1e-10)):
        raise ParameterError(f"epsilon {guarantee.epsilon:g} at delta {guarantee.delta:g} cannot be certified")
    if source == "none":
        settled = noiseless(steps, bounds)
    settled[-1].grid.radius(bounds)  # refuses a scale that exact arithmetic cannot hold
    return Plan(guarantee, calibration, source, strategy, settled, cost)


def _paper_grid(guarantee: Guarantee, strategy: Strategy, bounds: Bounds) -> Grid:
    assert strategy.dim is not None, "settled by now"
    if not strategy.rows_cancel:
        raise ParameterError(f"the paper's calibration is for its own jlt and sjlt, not for {strategy.name}")
    if bounds.largest != 1 or guarantee.unit is not Unit.RATING:
        raise ParameterError("the paper's calibration is for one rating counted as 1: unit rating, no values")
    sigma = paper_sigma(guarantee.epsilon, guarantee.delta, dim=strategy.dim)
    return Grid.for_noise(sigma, bounds=bounds, dim=strategy.dim)


def unlisted_users(ratings: RatingsSource, strategy: Strategy, selected: RatingsSource) -> RatingsSource | None:
    """Return the users outside the list, where the strategy learns from them too."""
    if not strategy.learns_from_unlisted:
        return None
    # Nobody may be in both groups: each group pays with its whole budget.
    return ratings.outside(selected.users, selected.items)


def guide_statement(strategy: Strategy, users: Ids, allow_not_private: bool) -> GuideStatement | None:
    """Return what the certificate says of the guide; a guide that protects nobody is refused unless it is allowed."""
    if not strategy.takes_guide:
        return None
    release = strategy.guide
    if not isinstance(release, Release):
        raise InputError("a guide must be a release of the other party (pricdr.Release.load)")
    promise = release.certificate
    if not promise.private and not allow_not_private:
        raise InputError(
            "the guide is marked NOT PRIVATE: it protects nobody on the other side "
            "(allow_not_private_guide, or --allow-not-private-guide, if that is known and meant)"
        )
    return GuideStatement(
        sha256=release.sha256(),
        strategy=promise.strategy.name,
        private=promise.private,
        epsilon=promise.epsilon,
        delta=promise.delta,
        unit=promise.unit,
        missing_users=len(set(users) - set(release.users)),  # a fact about two lists, not about ratings
    )


def item_universe(strategy: Strategy, items: Sequence[str] | None) -> ItemUniverse:
    """Return what the certificate says of where the items came from."""
    if items is not None:
        return "declared"
    if strategy.learns_from_unlisted:
        return "hashed into buckets"
    return "read off the ratings" if strategy.needs_catalogue else "not needed"
