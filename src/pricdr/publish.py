"""STAGE ONE · the source party: ratings + guarantee + strategy → Release.

The order matters and is visible below: check what was declared, settle σ, record the spend, and only then draw
anything. Nothing is filtered here, and nothing read off the ratings leaves except the noisy matrix.
"""

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from pricdr import __version__
from pricdr.blocks import Progress, silent
from pricdr.certificate import (
    DimStatement,
    InputStatement,
    ItemUniverse,
    LedgerStatement,
    NoiseSource,
    StrategyStatement,
)
from pricdr.data.ratings import Ratings
from pricdr.errors import InputError, ParameterError
from pricdr.issuing import Terms, issue
from pricdr.privacy.bounds import Bounds
from pricdr.privacy.calibration import Calibration, composed_epsilon, composed_mu, paper_sigma, sigma_for
from pricdr.privacy.dimension import BUDGET_SHARE, LARGEST, ChosenDim, choose_dim, require_room
from pricdr.privacy.guarantee import Guarantee, Unit
from pricdr.privacy.ledger import Balance, Ledger
from pricdr.privacy.mechanism import MOST_ITEMS, Grid, draw
from pricdr.privacy.strategies import JLT, Strategy
from pricdr.randomness import Randomness, Secret, Simulation
from pricdr.release import Release

_DEFAULT_STRATEGY = JLT()
_PRESENCE = Bounds()


@dataclass(frozen=True)
class _Plan:
    """Everything settled before the first random bit."""

    guarantee: Guarantee
    calibration: Calibration
    source: NoiseSource
    grid: Grid
    dim_mu: float
    """μ of the noisy mean behind an automatic dimension; 0 where the dimension was given."""
    cost: float
    """μ of the whole release."""


def publish(
    ratings: Ratings,
    guarantee: Guarantee,
    *,
    strategy: Strategy = _DEFAULT_STRATEGY,
    users: Sequence[str] | None = None,
    items: Sequence[str] | None = None,
    bounds: Bounds = _PRESENCE,
    calibration: Calibration = Calibration.EXACT,
    ledger: Ledger | None = None,
    insecure_seed: int | None = None,
    insecure_no_noise: bool = False,
    progress: Progress = silent,
) -> Release:
    """Publish ``ratings`` under ``guarantee``: one noisy row per user of the list.

    Args:
        ratings: the source's ratings; by default each rated pair counts as 1 (see ``bounds``).
        guarantee: (ε, δ) and whether one rating or one user is protected.
        strategy: how item rows are built.
        users: the user list both parties agreed on. Every listed user gets a row, in this order; others are left
            out. Without it the users are read off the ratings, and the certificate says so.
        items: the public item universe; ratings of other items are left out.
        bounds: the declared rating bound and step, and the clip of the user unit.
        calibration: how σ follows from the guarantee.
        ledger: records the spend before anything is drawn, or refuses it.
        insecure_seed: draw everything from this seed. For tests: the release is marked not private.
        insecure_no_noise: leave the noise out. For experiments: the release is marked not private.
        progress: told how far the work has come.

    Returns:
        A release whose matrix is ``grid · (A · E_int + Z)``: E_int the item rows in whole grid steps, the product
        clipped in the user unit, Z independent discrete Gaussians.

    >>> source = Ratings.from_triples(["alice", "bob"], ["dune", "emma"])
    >>> publish(source, Guarantee(epsilon=4, delta=1e-6), strategy=JLT(dim=8))
    Release(2 users x 8, jlt, epsilon=4, delta=1e-06 per rating)
    """
    selected = _select(ratings, users, items)
    if bounds.rating_bound is not None and not ratings.has_values:
        raise InputError("rating values were asked for, and these ratings hold none: there was no rating column")
    source: NoiseSource = "none" if insecure_no_noise else "secret" if insecure_seed is None else "seeded"
    plan = _plan(guarantee, strategy, bounds, Calibration(calibration), source)
    balance = None if ledger is None else _spend(plan, strategy, ledger)
    entries = bounds.entries(selected)
    with ExitStack() as lifetime:
        randomness: Randomness
        randomness = lifetime.enter_context(Secret()) if insecure_seed is None else Simulation(insecure_seed)
        chosen = None
        if strategy.dim is None:
            chosen = choose_dim(
                entries,
                bounds=bounds,
                unit=guarantee.unit,
                mu=plan.dim_mu,
                sigma=plan.grid.sigma,
                randomness=randomness,
            )
            strategy = strategy.with_dim(chosen.dim)
        matrix = draw(
            entries,
            selected.items,
            strategy,
            grid=plan.grid,
            bounds=bounds,
            randomness=randomness,
            noisy=not insecure_no_noise,
            progress=progress,
        )
    inputs = InputStatement(
        threshold=ratings.threshold,
        user_list="read off the ratings" if users is None else "declared",
        item_universe=_item_universe(strategy, items),
        filtered_by=ratings.filtered_by,
    )
    certificate = issue(_terms(plan, strategy, bounds, len(selected.users), inputs, balance, chosen))
    return Release(matrix, selected.users, certificate)


def _select(ratings: Ratings, users: Sequence[str] | None, items: Sequence[str] | None) -> Ratings:
    selected = ratings.select(
        users=None if users is None else tuple(users), items=None if items is None else tuple(items)
    )
    if not selected.users:
        raise InputError("there are no users to publish")
    if not selected.items:
        raise InputError("there are no items to publish")
    if items is not None and not set(selected.items) & set(ratings.items):
        raise InputError(f"none of the {len(selected.items):,} listed items occurs in the ratings: is it another list?")
    if len(selected.items) > MOST_ITEMS:
        raise InputError(f"{len(selected.items):,} items are more than the {MOST_ITEMS:,} that sums are exact for")
    if users is not None and not set(selected.users) & set(ratings.users):
        raise InputError(
            f"none of the {len(selected.users):,} listed users occurs in the ratings: "
            "are the user and item columns swapped, or is it another list?"
        )
    return selected


def _plan(
    guarantee: Guarantee, strategy: Strategy, bounds: Bounds, calibration: Calibration, source: NoiseSource
) -> _Plan:
    """Settle σ, the grid and the cost, and refuse whatever would fail later: nothing may fail after the spend."""
    sensitivity = bounds.sensitivity(guarantee.unit)
    widest = LARGEST if strategy.dim is None else strategy.dim
    dim_mu = 0.0
    if calibration is Calibration.PAPER:
        if strategy.dim is None:
            raise ParameterError("the paper's calibration depends on the dimension: give --dim a number")
        if bounds.largest != 1 or guarantee.unit is not Unit.RATING:
            raise ParameterError("the paper's calibration is for one rating counted as 1: unit rating, no values")
        sigma = paper_sigma(guarantee.epsilon, guarantee.delta, dim=strategy.dim)
    else:
        sigma = sigma_for(guarantee.epsilon, guarantee.delta, sensitivity=sensitivity, dim=_numbers(strategy))
        if strategy.dim is None:
            dim_mu, sigma = BUDGET_SHARE**0.5 * sensitivity / sigma, sigma / (1 - BUDGET_SHARE) ** 0.5
            require_room(dim_mu)
    delivered = composed_epsilon([(sensitivity / sigma, widest), (dim_mu, 1)], guarantee.delta)
    exact = calibration is Calibration.EXACT
    if not math.isfinite(delivered) or (exact and delivered > guarantee.epsilon * (1 + 1e-10)):
        raise ParameterError(f"epsilon {guarantee.epsilon:g} at delta {guarantee.delta:g} cannot be certified")
    grid = Grid.noiseless(bounds) if source == "none" else Grid.for_noise(sigma, bounds=bounds, dim=widest)
    grid.radius(bounds)
    return _Plan(guarantee, calibration, source, grid, dim_mu, composed_mu([sensitivity / sigma, dim_mu]))


def _numbers(strategy: Strategy) -> int:
    """Noisy numbers per user, at most: an automatic dimension adds the mean it is chosen by."""
    return LARGEST + 1 if strategy.dim is None else strategy.dim


def _spend(plan: _Plan, strategy: Strategy, ledger: Ledger) -> Balance:
    if plan.source != "secret":
        raise ParameterError("a release that is not private cannot be entered in a ledger")
    return ledger.spend(
        mu=plan.cost,
        dim=_numbers(strategy),
        unit=plan.guarantee.unit,
        strategy=strategy.name,
        promise=str(plan.guarantee),
    )


def _item_universe(strategy: Strategy, items: Sequence[str] | None) -> ItemUniverse:
    if items is not None:
        return "declared"
    return "read off the ratings" if strategy.needs_catalogue else "not needed"


def _terms(
    plan: _Plan,
    strategy: Strategy,
    bounds: Bounds,
    n_users: int,
    inputs: InputStatement,
    balance: Balance | None,
    chosen: ChosenDim | None,
) -> Terms:
    assert strategy.dim is not None, "settled by now"
    return Terms(
        epsilon=None if plan.source == "none" else plan.guarantee.epsilon,
        delta=plan.guarantee.delta,
        unit=plan.guarantee.unit,
        calibration=plan.calibration,
        bounds=bounds,
        grid=plan.grid,
        source=plan.source,
        strategy=StrategyStatement(name=strategy.name, parameters=strategy.parameters()),
        dim=strategy.dim,
        users=n_users,
        input=inputs,
        ledger=None if balance is None else _ledger_statement(balance),
        chosen=None if chosen is None else DimStatement(mu=chosen.mu, noisy_mean_square=chosen.noisy_mean_square),
        software=f"pricdr {__version__}",
    )


def _ledger_statement(balance: Balance) -> LedgerStatement:
    return LedgerStatement(
        releases=len(balance.spends),
        mu_total=balance.mu,
        epsilon_total=balance.epsilon,
        budget_epsilon=balance.budget.epsilon,
        budget_delta=balance.budget.delta,
    )
