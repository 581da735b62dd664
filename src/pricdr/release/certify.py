"""Issues certificates from what was declared or drawn, and checks them: checking is issuing again and comparing.

A *draft* is a certificate of which only what follows from nothing else has to be there: what was declared, the ε that
was asked for, and where the noise came from. :func:`issue` derives the rest, so that every figure and every sentence
has one source. The words belong to the schema version: if one changed, older releases would no longer verify.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

from pricdr.errors import ParameterError, VerificationError
from pricdr.privacy.accounting import (
    LATTICE_FACTOR,
    SAMPLER_DISTANCE,
    Guarantee,
    Unit,
    composed_epsilon,
    delta_warnings,
    epsilon_warnings,
    grid_steps,
    is_private,
    paper_sigma,
)
from pricdr.privacy.ledger import Balance
from pricdr.privacy.steps import Bounds, CalibratedStep, Declared, Grid, total_mu, total_numbers
from pricdr.privacy.strategies import BY_NAME
from pricdr.privacy.strategies.base import Strategy
from pricdr.release.certificate import (
    TOLERANCE,
    BoundsStatement,
    Certificate,
    EpsilonAtDelta,
    GroupFigure,
    InputStatement,
    ItemUniverse,
    LedgerStatement,
    NoiseStatement,
    ReplacementFigure,
    StepStatement,
    alike,
    leaves,
    rounded_up,
)

DELTAS: Final = (1e-5, 1e-6, 1e-8, 1e-10)  # where every certificate states its ε, beside its own δ
GROUP_SIZES: Final = (5, 20, 100)  # ratings for which a whole user's cost is stated: declared, not read off anybody


def issue(draft: Certificate, calibrated: Sequence[CalibratedStep]) -> Certificate:
    """Return the certificate of a draft, without its files; :class:`VerificationError` where it contradicts itself."""
    universe = {**dict(draft.input), "item_universe": _item_universe(draft)}
    draft = draft.model_copy(update={"input": InputStatement(**universe)})
    noisy, last, bounds = draft.noisy, calibrated[-1], declared_by(draft).bounds
    mu = total_mu(calibrated) if noisy else None
    epsilon, nominal = _epsilons(draft, calibrated)
    _check_statements(draft, calibrated)
    derived: dict[str, Any] = {
        "private": draft.noise.source == "secret" and epsilon is not None and is_private(epsilon),
        "epsilon": epsilon,
        "nominal_epsilon": nominal,
        "sigma": last.grid.sigma,
        "sensitivity": last.step.sensitivity,
        "mu": mu,
        "grid": _stated_grid(last.grid, noisy),
        "steps": [_step(one, mu) for one in calibrated],
        "neighbours": _neighbours(draft),
        "epsilon_at_delta": [
            EpsilonAtDelta(delta=delta, epsilon=_certified(calibrated, delta)) for delta in DELTAS if noisy
        ],
        "whole_user": _whole_user(draft, calibrated) if noisy and draft.unit == "rating" else [],
        "replacement": _replacement(calibrated, draft.delta) if noisy and draft.unit != "rating" else None,
        "bounds": bounds_statement(bounds),
        "noise": NoiseStatement(
            law="discrete Gaussian on the grid, independent in every coordinate" if noisy else "none",
            source=draft.noise.source,
            refinement=last.grid.refinement,
            grid_steps_per_sigma=grid_steps(last.grid.refinement) if noisy else None,
            lattice_factor=LATTICE_FACTOR,
            sampler_distance=SAMPLER_DISTANCE,
        ),
        "not_protected": _not_protected(draft),
        "warnings": _warnings(draft, last, bounds, epsilon),
        "signed_by": None,
        "files": {},
    }
    return Certificate.model_validate({**dict(draft), **derived})


def check(certificate: Certificate) -> None:
    """Issue the certificate again, with itself as the draft; :class:`VerificationError` names a field that differs."""
    try:
        again = issue(certificate, calibrated_by(certificate))
    except (ValueError, ArithmeticError) as error:  # refused parameters, figures out of all proportion
        raise VerificationError(f"the certificate contradicts itself: {error!s:.200}") from error
    # These two are facts about the folder, which ``verify`` checks against it.
    stated, follows = (dict(leaves(c.model_dump(exclude={"files", "signed_by"}))) for c in (certificate, again))
    for name in {**stated, **follows}:
        _require_agreement(name, stated.get(name, "nothing"), follows.get(name, "nothing"))


def declared_by(c: Certificate) -> Declared:
    """Return what a certificate or its draft says was declared about the ratings."""
    bounds = Bounds(
        rating_bound=c.bounds.rating_bound if c.bounds.counts == "values" else None,
        rating_step=c.bounds.rating_step,
        clip=c.bounds.clip,
    )
    guarantee = guaranteed_by(c, 1.0)
    periods = 1 if guarantee.window is None else guarantee.window.periods
    return Declared(bounds=bounds, unit=guarantee.unit, users=c.users, periods=periods)


def guaranteed_by(c: Certificate, epsilon: float, delta: float | None = None) -> Guarantee:
    """Return an ε for the unit and the days that a certificate or its draft states."""
    window = None if c.window is None else c.window.window()
    return Guarantee(epsilon=epsilon, delta=c.delta if delta is None else delta, unit=Unit(c.unit), window=window)


def described(certificate: Certificate) -> Strategy:
    """Return the strategy that a certificate names, with its parameters."""
    stated = certificate.strategy
    if stated.name not in BY_NAME:
        raise VerificationError(
            f"strategy {stated.name!r:.40} is not one this software knows ({', '.join(BY_NAME)}): the release can be "
            "verified where the package that brings this strategy is installed"
        )
    try:
        kind = BY_NAME[stated.name]
    except ParameterError as error:  # its package does not load
        raise VerificationError(f"{error}") from error
    try:
        strategy = kind.described(certificate.dim, stated.parameters)
    except (TypeError, KeyError, ValueError, OverflowError) as error:
        raise VerificationError(f"strategy {kind.name} has no such parameters: {error!s:.80}") from error
    # Defaults would fill in what a certificate leaves out: it must state every parameter, and no other.
    if strategy.parameters() != stated.parameters:
        raise VerificationError(f"strategy {kind.name} cannot have the parameters {stated.parameters!s:.80}")
    return strategy


def calibrated_by(c: Certificate) -> tuple[CalibratedStep, ...]:
    """Return the steps that its strategy lays out again, with the stated noise."""
    layout = described(c).steps(declared_by(c))
    if len(c.steps) != len(layout):
        raise VerificationError(f"strategy {c.strategy.name} has {len(layout)} steps, the certificate {len(c.steps)}")
    grids = (Grid(step.sigma, step.grid, step.refinement) for step in c.steps)
    return tuple(map(CalibratedStep, layout, grids))


def bounds_statement(bounds: Bounds) -> BoundsStatement:
    """Return what a certificate says of the declared bounds."""
    return BoundsStatement(
        counts="rows" if bounds.rating_bound is None else "values",
        rating_bound=bounds.largest,
        rating_step=bounds.rating_step,
        clip=bounds.clip,
    )


def ledger_statement(balance: Balance, *, foreseen: bool = False) -> LedgerStatement:
    """Return what a certificate says about the ledger whose last line records its release, or is only ``foreseen``."""
    line = balance.spends[-1]
    return LedgerStatement(
        releases=len(balance.spends),
        mu_total=balance.mu,
        epsilon_total=balance.epsilon,
        budget_epsilon=balance.budget.epsilon,
        budget_delta=balance.budget.delta,
        numbers=line.dim,
        recorded=None if foreseen else line.recorded,
        nonce=None if foreseen else line.nonce,
        opening=None if foreseen else balance.opening,
        head=None if foreseen else line.hash,
    )


def _certified(calibrated: Sequence[CalibratedStep], delta: float, times: float = 1.0) -> float | None:
    """Return ε of so many times the steps' μ, the noise table's error counted; None where it has no limit."""
    epsilon = composed_epsilon([(times * total_mu(calibrated), total_numbers(calibrated))], delta)
    return rounded_up(epsilon) if math.isfinite(epsilon) else None


def _stated_grid(grid: Grid, noisy: bool) -> float:
    return grid.sigma / grid_steps(grid.refinement) if noisy else grid.step


def _step(one: CalibratedStep, mu: float | None) -> StepStatement:
    """Return what the certificate says of a step; ``mu``: of all steps together, None where there is no noise."""
    step, grid = one.step, one.grid
    copied = ("name", "purpose", "published", "rows", "numbers", "moved", "sensitivity")
    return StepStatement(
        **{name: getattr(step, name) for name in copied},
        rounding=step.rounding(grid),
        sigma=grid.sigma,
        grid=_stated_grid(grid, mu is not None),
        refinement=grid.refinement,
        mu=None if mu is None else one.mu,
        share=None if mu is None else (one.mu / mu) ** 2,
    )


def _epsilons(c: Certificate, calibrated: Sequence[CalibratedStep]) -> tuple[float | None, float | None]:
    """Return the exact and the nominal ε; refuse an ε below what σ gives."""
    sigmas, asked = [one.grid.sigma for one in calibrated], c.asked
    if {c.noisy} != {asked is not None, *(sigma > 0 for sigma in sigmas)}:
        raise VerificationError("sigma and epsilon must be stated where there is noise, and nowhere else")
    if asked is None:
        return None, None
    delivered = composed_epsilon([(total_mu(calibrated), total_numbers(calibrated))], c.delta)
    if c.calibration == "paper":
        # Here σ follows from the nominal ε, not from what is delivered, so it has to be compared itself.
        _require_agreement("sigma", sigmas[-1], paper_sigma(asked, c.delta, dim=c.dim))
        if not math.isfinite(delivered):
            raise ParameterError(f"nominal epsilon {asked:g} delivers nothing that can be certified")
        return delivered, asked
    if delivered > asked * (1 + TOLERANCE):
        raise VerificationError(
            f"epsilon {asked:g} promises more than sigma gives: {delivered:.6g} at delta {c.delta:g}"
        )
    return asked, None


def _item_universe(c: Certificate) -> ItemUniverse:
    if c.items is not None:
        return "declared"
    return "read off the ratings" if BY_NAME[c.strategy.name].needs_catalogue else "not needed"


def _check_statements(c: Certificate, calibrated: Sequence[CalibratedStep]) -> None:
    """Refuse statements that contradict each other where no derived field would show it."""
    if c.input.alignment is not None and c.input.user_list != "declared":
        raise VerificationError("an aligned user list is a declared one, and this was read off the ratings")
    if (c.guide is not None) != BY_NAME[c.strategy.name].takes_guide:
        raise VerificationError(f"strategy {c.strategy.name} and the statement about a guide do not fit")
    if c.guide is not None and c.guide.missing_users >= c.users:
        raise VerificationError("the guide lacks every listed user")
    if (c.series is not None) != BY_NAME[c.strategy.name].continues:
        raise VerificationError(f"strategy {c.strategy.name} and the statement about a series do not fit")
    if (s := c.series) is not None and not (
        s.before_place < s.place and (s.before_place == 1) == (s.before == s.first)
    ):
        raise VerificationError("the statement about a series contradicts itself")
    account = c.ledger
    if account is None:
        return
    # Without noise a release costs more than any budget: no ledger can have paid for it.
    mu, numbers = total_mu(calibrated) if c.noisy else math.inf, total_numbers(calibrated)
    # At least what one release of that μ would cost; the true total counts more noisy numbers.
    least = composed_epsilon([(account.mu_total, 1)], account.budget_delta)
    if account.mu_total < mu * (1 - TOLERANCE) or account.epsilon_total < least * (1 - TOLERANCE):
        raise VerificationError("the ledger's totals are less than its releases cost")
    if account.epsilon_total > account.budget_epsilon * (1 + 2 * TOLERANCE):
        raise VerificationError("the ledger states more than its budget as spent")
    if None in (account.recorded, account.nonce, account.opening, account.head):
        raise VerificationError("the ledger's statement does not say which line of which ledger this release is")
    if account.numbers != numbers:
        raise VerificationError(f"the ledger counts {account.numbers:,} noisy numbers, the release has {numbers:,}")


def _whole_user(c: Certificate, calibrated: Sequence[CalibratedStep]) -> list[GroupFigure]:
    """Return the cost of a rating-level release to a user with t ratings: t·μ if removed at worst, 2t·μ if replaced."""
    cancel = BY_NAME[c.strategy.name].rows_cancel  # rows in independent random directions give about √t·μ
    return [
        GroupFigure(
            ratings=t,
            removed_at_worst=_certified(calibrated, c.delta, t),
            replaced_at_worst=_certified(calibrated, c.delta, 2 * t),
            removed_typically=_certified(calibrated, c.delta, t**0.5) if cancel else None,
        )
        for t in GROUP_SIZES
    ]


def _neighbours(c: Certificate) -> str:
    """Return the neighbouring relation that the promise is about, in one sentence."""
    days = "" if c.window is None else f"{c.window.window()} (UTC, that day excluded)"
    if c.unit == "rating":
        return (
            f"two inputs over the same listed users that differ in one (user, item) entry{days and ' '}{days}, "
            f"each value within [0, {declared_by(c).bounds.largest:g}], not rated being 0"
        )
    within = f" in one period of {days}" if days else ""
    return f"two inputs over the same listed users, one of which lacks all ratings of one user{within}, however many"


def _replacement(calibrated: Sequence[CalibratedStep], delta: float) -> ReplacementFigure:
    """Return the cost of replacing a user's ratings: of removing them and of adding others."""
    return ReplacementFigure(mu=2 * total_mu(calibrated), epsilon=_certified(calibrated, delta, 2))


def _not_protected(c: Certificate) -> list[str]:
    """Return what the promise does not cover, from who is listed to what holds of everybody."""
    strategy, given = BY_NAME[c.strategy.name], c.input
    declared, rating = given.user_list == "declared", c.unit == "rating"
    sentences = {
        "The user list itself: its ids, their number and their order are in the release.": declared,
        "Who has ratings at all: without a declared user list the users were read off the ratings.": not declared,
        "That everybody on the list is a user of two parties: it came from an intersection of their users, so "
        "being listed says so.": given.alignment is not None,
        "Which items exist: the item universe was read off the ratings, and the first rating of an item changes "
        "it; the guarantee holds for ratings of items that somebody else rated too.": (
            given.item_universe == "read off the ratings"
        ),
        "The filter the ratings went through before: the guarantee holds for the filtered matrix with its user "
        "and item sets fixed; which users and items survived the filter is not covered.": given.filtered_by is not None,
        "Erasure: directions were learnt from everybody's ratings, so deleting a user's row from the release does "
        "not take that user's ratings out of the other rows.": strategy.learns,
        **dict.fromkeys(strategy.not_protected, True),
        "Ratings that the guide's party holds too: they pay in both releases. And every new guide is a new release "
        "of the same ratings.": c.guide is not None,
        "A user's taste as a whole: the promise is for one rating; the section on a whole user says more.": rating,
        "A user's taste over time: whoever has ratings in t periods pays up to t times the mu of one.": (
            c.unit == "user-period"
        ),
        "A rating whose time may change: moved from one period into another, it pays in both.": c.window is not None,
        "What other releases of the same ratings tell, unless one ledger counts them all.": True,
        "What holds of the population: the release is made to tell general tastes.": True,
    }
    return [sentence for sentence, holds in sentences.items() if holds]


def _warnings(c: Certificate, last: CalibratedStep, bounds: Bounds, epsilon: float | None) -> list[str]:
    """Return what readers should be warned of; ``epsilon``: what it really promises."""
    lines = list(delta_warnings(c.delta, c.users))
    if c.noise.source == "secret" and epsilon is not None:
        lines += epsilon_warnings(epsilon, Unit(c.unit))
    # A name that is not ours now must not become ours later: releases made with it would no longer say what they did.
    if c.strategy.name not in BY_NAME.own:
        lines.append(
            f"strategy {c.strategy.name} is not part of PriCDR: that one change to the ratings moves its steps no "
            "further than stated is the claim of whoever wrote it"
        )
    if c.guide is not None and not c.guide.private:
        lines.append("the guide is NOT PRIVATE: it protects nobody on the other side")
    # Learnt rows pay for their rounding instead, so it cannot hide anything that was not paid for.
    if c.noisy and last.step.spread is None and not last.grid.keeps_signal(bounds, c.dim):
        lines.append("sigma is so large against one rating step that nothing of the ratings is left: pure noise")
    return lines


def _require_agreement(name: str, stated: Any, follows: Any) -> None:  # noqa: ANN401
    if not alike(stated, follows):
        raise VerificationError(
            f"{name} is stated as {stated!s:.60}, but {follows!s:.60} follows from the rest of the certificate"
        )
