"""STAGE ONE · the source party: ratings + guarantee + strategy → Release.

The order matters and is visible below: check what was declared, settle σ, record the spend, and only then draw
anything. Nothing is filtered here, and nothing read off the ratings leaves except the noisy matrix.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Literal

from pricdr import __version__
from pricdr.blocks import Progress, silent
from pricdr.certificate import (
    BoundsStatement,
    Certificate,
    DimStatement,
    InputStatement,
    LedgerStatement,
    StrategyStatement,
    epsilon_curve,
    neighbours_text,
    noise_statement,
    whole_user_figures,
)
from pricdr.data.ratings import Ratings
from pricdr.errors import InputError, ParameterError
from pricdr.privacy.bounds import Bounds
from pricdr.privacy.calibration import (
    Calibration,
    composed_mu,
    epsilon_for,
    paper_sigma,
    sigma_for,
)
from pricdr.privacy.dimension import BUDGET_SHARE, LARGEST, ChosenDim, choose_dim
from pricdr.privacy.guarantee import Guarantee, Unit, delta_warnings
from pricdr.privacy.ledger import Balance, Ledger
from pricdr.privacy.mechanism import Grid, on_grid, release_rows
from pricdr.privacy.noise import DiscreteGaussian
from pricdr.privacy.strategies import JLT, Strategy
from pricdr.randomness import Randomness, Secret, Simulation
from pricdr.release import Release

_DEFAULT_STRATEGY = JLT()
_PRESENCE = Bounds()


@dataclass(frozen=True)
class _Plan:
    """Everything settled before the first random bit."""

    guarantee: Guarantee
    strategy: Strategy
    bounds: Bounds
    calibration: Calibration
    source: Literal["secret", "seeded", "none"]
    sensitivity: float
    sigma: float
    dim_mu: float
    """μ of the noisy mean behind an automatic dimension; 0 where the dimension was given."""

    @property
    def mu(self) -> float:
        return composed_mu([self.sensitivity / self.sigma, self.dim_mu])


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
        A release whose rows have the law ``grid · (round(A E / grid) + discrete Gaussian)``.

    >>> source = Ratings.from_triples(["alice", "bob"], ["dune", "emma"])
    >>> publish(source, Guarantee(epsilon=4, delta=1e-6), strategy=JLT(dim=8))
    Release(2 users x 8, jlt, epsilon=4, delta=1e-06 per rating)
    """
    selected = _select(ratings, users, items)
    plan = _plan(guarantee, strategy, bounds, calibration, insecure_seed, insecure_no_noise)
    balance = _spend(plan, ledger)
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
                sigma=plan.sigma,
                randomness=randomness,
            )
            strategy = strategy.with_dim(chosen.dim)
        grid = Grid.noiseless(bounds) if insecure_no_noise else Grid.for_noise(plan.sigma)
        rows = strategy.item_rows(selected.items, randomness, progress)
        matrix = release_rows(
            entries,
            on_grid(rows, radius=bounds.rating_step / grid.step),
            grid=grid,
            bounds=bounds,
            noise=None if insecure_no_noise else DiscreteGaussian(randomness, "noise"),
            progress=progress,
        )
    inputs = InputStatement(
        user_list="read off the ratings" if users is None else "declared",
        item_universe=_item_universe(strategy, items),
        filtered_by=ratings.filtered_by,
    )
    certificate = _certificate(plan, strategy, grid, len(selected.users), inputs, balance, chosen)
    return Release(matrix, selected.users, certificate)


def _select(ratings: Ratings, users: Sequence[str] | None, items: Sequence[str] | None) -> Ratings:
    selected = ratings.select(
        users=None if users is None else tuple(users), items=None if items is None else tuple(items)
    )
    if not selected.users:
        raise InputError("there are no users to publish")
    if not selected.items:
        raise InputError("there are no items to publish")
    if users is not None and not set(selected.users) & set(ratings.users):
        raise InputError(
            f"none of the {len(selected.users):,} listed users occurs in the ratings: "
            "are the user and item columns swapped, or is it another list?"
        )
    return selected


def _plan(
    guarantee: Guarantee,
    strategy: Strategy,
    bounds: Bounds,
    calibration: Calibration,
    insecure_seed: int | None,
    insecure_no_noise: bool,
) -> _Plan:
    sensitivity = bounds.sensitivity(guarantee.unit)
    dim_mu = 0.0
    if calibration is Calibration.PAPER:
        if strategy.dim is None:
            raise ParameterError("the paper's calibration depends on the dimension: give --dim a number")
        if bounds.largest != 1 or guarantee.unit is not Unit.RATING:
            raise ParameterError("the paper's calibration is for one rating counted as 1: unit rating, no values")
        sigma = paper_sigma(guarantee.epsilon, guarantee.delta, dim=strategy.dim)
    else:
        widest = LARGEST if strategy.dim is None else strategy.dim
        sigma = sigma_for(guarantee.epsilon, guarantee.delta, sensitivity=sensitivity, dim=widest + 1)
        if strategy.dim is None:
            total = sensitivity / sigma
            dim_mu, sigma = total * BUDGET_SHARE**0.5, sigma / (1 - BUDGET_SHARE) ** 0.5
    source: Literal["secret", "seeded", "none"]
    source = "none" if insecure_no_noise else "secret" if insecure_seed is None else "seeded"
    return _Plan(guarantee, strategy, bounds, calibration, source, sensitivity, sigma, dim_mu)


def _spend(plan: _Plan, ledger: Ledger | None) -> Balance | None:
    if ledger is None:
        return None
    if plan.source != "secret":
        raise ParameterError("a release that is not private cannot be entered in a ledger")
    dim = LARGEST if plan.strategy.dim is None else plan.strategy.dim
    return ledger.spend(mu=plan.mu, dim=dim + 1, unit=plan.guarantee.unit, strategy=plan.strategy.name)


def _item_universe(
    strategy: Strategy, items: Sequence[str] | None
) -> Literal["declared", "read off the ratings", "not needed"]:
    if items is not None:
        return "declared"
    return "read off the ratings" if strategy.needs_catalogue else "not needed"


def _certificate(
    plan: _Plan,
    strategy: Strategy,
    grid: Grid,
    n_users: int,
    inputs: InputStatement,
    balance: Balance | None,
    chosen: ChosenDim | None,
) -> Certificate:
    guarantee, bounds, noisy = plan.guarantee, plan.bounds, plan.source != "none"
    assert strategy.dim is not None
    epsilon = guarantee.epsilon
    if plan.calibration is Calibration.PAPER:
        epsilon = epsilon_for(plan.sigma, guarantee.delta, sensitivity=plan.sensitivity, dim=strategy.dim)
    certificate = Certificate(
        schema_version=1,
        private=plan.source == "secret",
        epsilon=float(epsilon) if noisy else None,
        nominal_epsilon=float(guarantee.epsilon) if noisy and plan.calibration is Calibration.PAPER else None,
        delta=guarantee.delta,
        unit=guarantee.unit.value,
        sigma=grid.sigma,
        sensitivity=float(plan.sensitivity),
        mu=plan.mu if noisy else None,
        grid=grid.step,
        strategy=StrategyStatement(
            name=strategy.name, parameters=strategy.parameters(), rows_cancel=strategy.rows_cancel
        ),
        users=n_users,
        dim=strategy.dim,
        neighbours=neighbours_text(guarantee.unit, bounds.largest),
        epsilon_at_delta=[],
        whole_user=[],
        bounds=_bounds_statement(bounds),
        calibration=plan.calibration.value,
        noise=noise_statement(plan.source),
        input=inputs,
        ledger=_ledger_statement(balance),
        dim_chosen_by=_dim_statement(chosen),
        not_protected=_not_protected(plan, inputs),
        warnings=list(delta_warnings(guarantee.delta, n_users)),
        software=f"pricdr {__version__}",
    )
    if not noisy:
        return certificate
    return certificate.model_copy(
        update={
            "epsilon_at_delta": epsilon_curve(certificate.spends()),
            "whole_user": whole_user_figures(certificate),
        }
    )


def _bounds_statement(bounds: Bounds) -> BoundsStatement:
    if bounds.rating_bound is None:
        entries = "every rated item counts as 1"
    else:
        entries = (
            f"a rating counts as its value in steps of {bounds.rating_step:g}, forced into [0, {bounds.largest:g}]"
        )
    return BoundsStatement(
        entries=entries,
        rating_bound=float(bounds.largest),
        rating_step=float(bounds.rating_step),
        clip=None if bounds.clip is None else float(bounds.clip),
    )


def _dim_statement(chosen: ChosenDim | None) -> DimStatement | None:
    return None if chosen is None else DimStatement(mu=chosen.mu, noisy_mean_square=chosen.noisy_mean_square)


def _ledger_statement(balance: Balance | None) -> LedgerStatement | None:
    if balance is None:
        return None
    return LedgerStatement(
        releases=len(balance.spends),
        mu_total=balance.mu,
        epsilon_total=balance.epsilon,
        budget_epsilon=float(balance.budget.epsilon),
        budget_delta=balance.budget.delta,
    )


def _not_protected(plan: _Plan, inputs: InputStatement) -> list[str]:
    found = [
        "The user list itself: its ids, their number and their order are in the release."
        if inputs.user_list == "declared"
        else "Who has ratings at all: without a declared user list the users were read off the ratings."
    ]
    if inputs.item_universe == "read off the ratings":
        found.append(
            "Which items exist: the item universe was read off the ratings, and the first rating of an item changes "
            "it; the guarantee holds for ratings of items that somebody else rated too."
        )
    if inputs.filtered_by is not None:
        found.append(
            "The filter the ratings went through before: the guarantee holds for the filtered matrix with its user "
            "and item sets fixed; which users and items survived the filter is not covered."
        )
    if plan.guarantee.unit is Unit.RATING:
        found.append("A user's taste as a whole: the promise is for one rating; the section on a whole user says more.")
    found.append("What other releases of the same ratings tell, unless one ledger counts them all.")
    found.append("What holds of the population: the release is made to tell general tastes.")
    return found
