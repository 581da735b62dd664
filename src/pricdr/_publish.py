"""STAGE ONE · the source party: ratings + guarantee + strategy → Release.

The order matters and is visible below: check what was declared, lay out the steps, settle every σ, record the spend
once, and only then draw anything. Nothing is filtered here, and nothing read off the ratings leaves except the noisy
matrix.
"""

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pricdr import __version__
from pricdr.data.ratings import Ids, Ratings
from pricdr.errors import InputError, ParameterError
from pricdr.privacy.bounds import Bounds
from pricdr.privacy.calibration import Calibration, composed_epsilon, paper_sigma
from pricdr.privacy.dimension import ChosenDim, choose_dim, require_room
from pricdr.privacy.guarantee import Guarantee, Unit
from pricdr.privacy.ledger import Balance, Ledger
from pricdr.privacy.mechanism import MOST_ITEMS, Grid
from pricdr.privacy.registry import BY_NAME, strategy_named
from pricdr.privacy.run import Entries, Run
from pricdr.privacy.steps import MOST_RATINGS, MOST_USERS, Declared, Settled, noiseless, settle, total_mu, total_numbers
from pricdr.privacy.strategies import Spectral, Strategy
from pricdr.progress import Progress, silent
from pricdr.randomness import Randomness, Secret, Simulation
from pricdr.release import Release
from pricdr.release.certificate import (
    DimStatement,
    GuideStatement,
    InputStatement,
    ItemUniverse,
    NoiseSource,
    StrategyStatement,
    require_issuer,
)
from pricdr.release.issue import issue
from pricdr.release.ledger_check import ledger_statement
from pricdr.release.terms import Terms

_DEFAULT_STRATEGY = Spectral()
_PRESENCE = Bounds()


@dataclass(frozen=True)
class _Plan:
    """Everything settled before the first random bit."""

    guarantee: Guarantee
    calibration: Calibration
    source: NoiseSource
    strategy: Strategy
    settled: tuple[Settled, ...]
    cost: float
    """μ of the whole release."""


@dataclass(frozen=True)
class _Origin:
    """What the source says about itself."""

    issuer: str | None
    issued: str


def publish(
    ratings: Ratings,
    guarantee: Guarantee,
    *,
    strategy: Strategy | str = _DEFAULT_STRATEGY,
    users: Sequence[str] | None = None,
    items: Sequence[str] | None = None,
    bounds: Bounds = _PRESENCE,
    calibration: Calibration = Calibration.EXACT,
    ledger: Ledger | None = None,
    issuer: str | None = None,
    allow_not_private_guide: bool = False,
    insecure_seed: int | None = None,
    insecure_no_noise: bool = False,
    progress: Progress = silent,
) -> Release:
    """Publish ``ratings`` under ``guarantee``: one noisy row per user of the list.

    Args:
        ratings: the source's ratings; by default each rated pair counts as 1 (see ``bounds``).
        guarantee: (ε, δ) and whether one rating or one user is protected.
        strategy: the steps from ratings to rows, or their name, for one that needs nothing beyond its defaults;
            :class:`Spectral` unless given.
        users: the user list both parties agreed on. Every listed user gets a row, in this order; others are left
            out. Without it the users are read off the ratings, and the certificate says so.
        items: the public item universe; ratings of other items are left out.
        bounds: the declared rating bound and step, and the clip of the user unit.
        calibration: how σ follows from the guarantee.
        ledger: records the spend before anything is drawn, or refuses it.
        issuer: who publishes, for the certificate; a claim that only a signature can vouch for.
        allow_not_private_guide: take a guide that protects nobody on the other side; the certificate says so.
        insecure_seed: draw everything from this seed. For tests: the release is marked not private.
        insecure_no_noise: leave the noise out. For experiments: the release is marked not private.
        progress: called now and then with how far the work has come.

    Returns:
        A release whose matrix is ``grid · (S + Z)``: S the strategy's sums in whole grid steps, Z independent discrete
        Gaussians.

    >>> source = Ratings.from_triples(["alice", "bob"], ["dune", "emma"])
    >>> publish(source, Guarantee(epsilon=4, delta=1e-6))
    Release(2 users x 8, spectral, epsilon=4, delta=1e-06 per rating)
    """
    origin = _origin(issuer)
    strategy = _known(strategy)
    items = strategy.catalogue if items is None else items
    selected = _select(ratings, users, items)
    if bounds.rating_bound is not None and not ratings.has_values:
        raise InputError("rating values were asked for, and these ratings hold none: there was no rating column")
    source: NoiseSource = "none" if insecure_no_noise else "secret" if insecure_seed is None else "seeded"
    guide = _guide_statement(strategy, selected.users, allow_not_private_guide)
    strategy = strategy.resolved(guarantee, selected.users)
    if strategy.dim is None and not strategy.rows_cancel:  # only random rows choose it by a part of the budget
        raise ParameterError(f"strategy {strategy.name} leaves its number of columns open: give it a dim")
    declared = Declared(
        bounds=bounds, unit=guarantee.unit, users=len(selected.users), items=None if items is None else len(items)
    )
    plan = _plan(guarantee, strategy, declared, Calibration(calibration), source)
    unlisted = _unlisted(ratings, strategy, selected)
    inputs = InputStatement(
        threshold=ratings.threshold,
        user_list="read off the ratings" if users is None else "declared",
        item_universe=_item_universe(strategy, items),
        filtered_by=ratings.filtered_by,
    )
    if strategy.dim is not None:  # what cannot be certified must not be paid for either
        issue(_terms(plan, declared, inputs, origin, None, None, guide))
    balance = None if ledger is None else _spend(plan, ledger)
    entries = Entries.of(
        selected, bounds, summed=strategy.learns, universe_declared=items is not None, unlisted=unlisted
    )
    chosen = None
    with ExitStack() as lifetime:
        randomness: Randomness
        # Made here and nowhere else, and erased on the way out: no caller can hand in noise that was used before.
        randomness = lifetime.enter_context(Secret()) if insecure_seed is None else Simulation(insecure_seed)
        if strategy.dim is None:
            chosen = _choose_dim(entries, plan, randomness)
            plan = _with_dim(plan, chosen.dim)
        run = Run(plan.settled, randomness, noisy=not insecure_no_noise, progress=progress)
        matrix = plan.strategy.publish(entries, run)
    certificate = issue(_terms(plan, declared, inputs, origin, balance, chosen, guide))
    return Release(matrix, selected.users, certificate)


def _known(strategy: Strategy | str) -> Strategy:
    """Return the strategy that is given or named; a certificate will name it, so its name must be its own."""
    if isinstance(strategy, str):
        return strategy_named(strategy)
    if not isinstance(strategy, Strategy):
        given = f"the class {strategy.__name__}" if isinstance(strategy, type) else type(strategy).__name__
        raise ParameterError(f"strategy must be a strategy, such as pricdr.JLT(dim=200), or its name, got {given}")
    BY_NAME.register(type(strategy))
    return strategy


def _origin(issuer: str | None) -> _Origin:
    """Return who publishes and on which day, read off the clock before any work: its length must not show."""
    return _Origin(None if issuer is None else require_issuer(issuer), datetime.now(UTC).date().isoformat())


def _select(ratings: Ratings, users: Sequence[str] | None, items: Sequence[str] | None) -> Ratings:
    """Return the listed users and items; refusals go by the lists and by sizes.

    Ratings none of which counts are published like any others, as noise alone: a refusal would tell whoever waits for
    the release what was rated.
    """
    for name, ids in (("users", users), ("items", items)):
        if isinstance(ids, str):
            raise ParameterError(f"{name} must be a list of ids, got a text: read a file of them with read_ids")
    selected = ratings.select(
        users=None if users is None else tuple(users), items=None if items is None else tuple(items)
    )
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


def _plan(
    guarantee: Guarantee, strategy: Strategy, declared: Declared, calibration: Calibration, source: NoiseSource
) -> _Plan:
    """Settle every σ, every grid and the cost; refuse what would fail later, since nothing may fail once it is paid."""
    bounds = declared.bounds
    steps = strategy.steps(declared)
    settled: tuple[Settled, ...]
    if calibration is Calibration.PAPER:
        settled = (Settled(steps[-1], _paper_grid(guarantee, strategy, bounds)),)
    else:
        settled = settle(steps, guarantee, bounds)
    # Refused here, not when the mean is drawn: by then it would be paid for.
    if any(one.step.name == "dimension" for one in settled):
        require_room(settled[0].mu)
    cost = total_mu(settled)
    delivered = composed_epsilon([(cost, total_numbers(settled))], guarantee.delta)
    exact = calibration is Calibration.EXACT
    if not math.isfinite(delivered) or (exact and delivered > guarantee.epsilon * (1 + 1e-10)):
        raise ParameterError(f"epsilon {guarantee.epsilon:g} at delta {guarantee.delta:g} cannot be certified")
    if source == "none":
        if strategy.dim is None:
            raise ParameterError("the dimension is chosen by a noisy mean: without noise, give --dim a number")
        settled = noiseless(steps, bounds)
    settled[-1].grid.radius(bounds)  # refuses a scale that exact arithmetic cannot hold
    return _Plan(guarantee, calibration, source, strategy, settled, cost)


def _paper_grid(guarantee: Guarantee, strategy: Strategy, bounds: Bounds) -> Grid:
    if strategy.dim is None:
        raise ParameterError("the paper's calibration depends on the dimension: give --dim a number")
    if not strategy.rows_cancel:
        raise ParameterError(f"the paper's calibration is for its own jlt and sjlt, not for {strategy.name}")
    if bounds.largest != 1 or guarantee.unit is not Unit.RATING:
        raise ParameterError("the paper's calibration is for one rating counted as 1: unit rating, no values")
    sigma = paper_sigma(guarantee.epsilon, guarantee.delta, dim=strategy.dim)
    return Grid.for_noise(sigma, bounds=bounds, dim=strategy.dim)


def _choose_dim(entries: Entries, plan: _Plan, randomness: Randomness) -> ChosenDim:
    mean, rows = plan.settled
    return choose_dim(
        entries.listed,
        bounds=entries.bounds,
        unit=plan.guarantee.unit,
        mu=mean.mu,
        sigma=rows.grid.sigma,
        randomness=randomness,
    )


def _with_dim(plan: _Plan, dim: int) -> _Plan:
    """Return the plan with a dimension that was paid for: the noise stays as settled, there are only fewer columns."""
    strategy = plan.strategy.with_dim(dim)
    mean, rows = plan.settled
    step = replace(rows.step, numbers=dim, moved=dim)
    return replace(plan, strategy=strategy, settled=(mean, Settled(step, rows.grid)))


def _spend(plan: _Plan, ledger: Ledger) -> Balance:
    if plan.source != "secret":
        raise ParameterError("a release that is not private cannot be entered in a ledger")
    return ledger.spend(
        mu=plan.cost,
        dim=total_numbers(plan.settled),
        unit=plan.guarantee.unit,
        strategy=plan.strategy.name,
        promise=str(plan.guarantee),
    )


def _unlisted(ratings: Ratings, strategy: Strategy, selected: Ratings) -> Ratings | None:
    """Return the users outside the list, where the strategy learns from them too."""
    if not strategy.learns_from_unlisted:
        return None
    listed = set(selected.users)
    # Nobody may be in both groups: each group pays with its whole budget.
    return ratings.select(users=tuple(user for user in ratings.users if user not in listed), items=selected.items)


def _guide_statement(strategy: Strategy, users: Ids, allow_not_private: bool) -> GuideStatement | None:
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


def _item_universe(strategy: Strategy, items: Sequence[str] | None) -> ItemUniverse:
    if items is not None:
        return "declared"
    if strategy.learns_from_unlisted:
        return "hashed into buckets"
    return "read off the ratings" if strategy.needs_catalogue else "not needed"


def _terms(
    plan: _Plan,
    declared: Declared,
    inputs: InputStatement,
    origin: _Origin,
    balance: Balance | None,
    chosen: ChosenDim | None,
    guide: GuideStatement | None,
) -> Terms:
    strategy = plan.strategy
    assert strategy.dim is not None, "settled by now"
    return Terms(
        epsilon=None if plan.source == "none" else plan.guarantee.epsilon,
        delta=plan.guarantee.delta,
        calibration=plan.calibration,
        declared=declared,
        settled=plan.settled,
        source=plan.source,
        strategy=StrategyStatement(name=strategy.name, parameters=strategy.parameters()),
        dim=strategy.dim,
        input=inputs,
        guide=guide,
        ledger=None if balance is None else ledger_statement(balance),
        chosen=None if chosen is None else DimStatement(mu=chosen.mu, noisy_mean_square=chosen.noisy_mean_square),
        software=f"pricdr {__version__}",
        issuer=origin.issuer,
        issued=origin.issued,
    )
