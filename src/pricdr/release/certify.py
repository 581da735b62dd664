"""Issues certificates from what was declared or drawn, and checks them: checking is issuing again and comparing.

:class:`Terms` holds everything a certificate cannot derive; :func:`issue` derives the rest. So every figure and every
sentence of a certificate has one source, and :func:`check` has nothing to keep in step with it. The words belong to the
schema version: changing one means a new version, or older releases would no longer verify.
"""

import math
from typing import Any, Final

from pricdr.errors import ParameterError, VerificationError
from pricdr.privacy.accounting import (
    LATTICE_FACTOR,
    SAMPLER_DISTANCE,
    Calibration,
    Unit,
    composed_epsilon,
    composed_mu,
    delta_warnings,
    epsilon_warnings,
    grid_steps,
    is_private,
    paper_sigma,
)
from pricdr.privacy.registry import BY_NAME
from pricdr.privacy.steps import CalibratedStep, UserGroup, total_mu, total_numbers
from pricdr.release.certificate import (
    BoundsStatement,
    Certificate,
    EpsilonAtDelta,
    GroupFigure,
    LedgerStatement,
    NoiseStatement,
    StepStatement,
    rounded_up,
)
from pricdr.release.terms import Terms

DELTAS: Final = (1e-5, 1e-6, 1e-8, 1e-10)
"""Where every certificate states its ε, beside its own δ."""
GROUP_SIZES: Final = (5, 20, 100)
"""Numbers of ratings for which the cost to a whole user is stated: declared here, not read off anybody."""
_TOLERANCE: Final = 1e-9


def issue(terms: Terms) -> Certificate:
    """Return the certificate for these terms, without its files; :class:`VerificationError` where they disagree."""
    epsilon, nominal = _epsilons(terms)
    _check_terms(terms)
    last, declared = terms.settled[-1], terms.declared
    return Certificate(
        private=terms.source == "secret" and epsilon is not None and is_private(epsilon),
        epsilon=epsilon,
        nominal_epsilon=nominal,
        delta=terms.delta,
        unit=terms.unit.value,
        sigma=last.grid.sigma,
        sensitivity=last.step.sensitivity,
        mu=total_mu(terms.settled) if terms.noisy else None,
        grid=last.grid.sigma / grid_steps(last.grid.refinement) if terms.noisy else last.grid.step,
        strategy=terms.strategy,
        users=declared.users,
        items=declared.items,
        dim=terms.dim,
        steps=[_step(one, terms) for one in terms.settled],
        guide=terms.guide,
        neighbours=_neighbours(terms),
        epsilon_at_delta=_curve(terms),
        whole_user=_whole_user(terms),
        bounds=BoundsStatement(
            counts="rows" if terms.bounds.rating_bound is None else "values",
            rating_bound=terms.bounds.largest,
            rating_step=terms.bounds.rating_step,
            clip=terms.bounds.clip,
        ),
        calibration=terms.calibration.value,
        noise=NoiseStatement(
            law="discrete Gaussian on the grid, independent in every coordinate" if terms.noisy else "none",
            source=terms.source,
            refinement=last.grid.refinement,
            grid_steps_per_sigma=grid_steps(last.grid.refinement) if terms.noisy else None,
            lattice_factor=LATTICE_FACTOR,
            sampler_distance=SAMPLER_DISTANCE,
        ),
        input=terms.input,
        ledger=terms.ledger,
        not_protected=_not_protected(terms),
        warnings=_warnings(terms),
        software=terms.software,
        issuer=terms.issuer,
        issued=terms.issued,
    )


def _step(one: CalibratedStep, terms: Terms) -> StepStatement:
    step, grid = one.step, one.grid
    whole = composed_mu(other.mu for other in terms.settled if other.step.payer is step.payer) if terms.noisy else 0.0
    return StepStatement(
        name=step.name,
        purpose=step.purpose,
        payer=step.payer.value,
        published=step.published,
        rows=step.rows,
        numbers=step.numbers,
        moved=step.moved,
        sensitivity=step.sensitivity,
        rounding=step.rounding(grid),
        sigma=grid.sigma,
        grid=grid.sigma / grid_steps(grid.refinement) if terms.noisy else grid.step,
        refinement=grid.refinement,
        mu=one.mu if terms.noisy else None,
        share=(one.mu / whole) ** 2 if terms.noisy else None,
    )


def check(certificate: Certificate) -> None:
    """Issue the certificate again from its own terms; :class:`VerificationError` names the first field that differs."""
    try:
        again = issue(Terms.of(certificate))
    except (ValueError, ArithmeticError) as error:  # refused parameters, figures out of all proportion
        raise VerificationError(f"the certificate contradicts itself: {error!s:.200}") from error
    for name in type(certificate).model_fields:
        if name in {"files", "signed_by"}:  # facts about the folder, which ``verify`` checks against it
            continue
        _agree(name, _plain(getattr(certificate, name)), _plain(getattr(again, name)))


def _epsilons(terms: Terms) -> tuple[float | None, float | None]:
    """Return the exact and the nominal ε; refuse an ε below what σ gives."""
    sigmas = [one.grid.sigma for one in terms.settled]
    if not terms.noisy:
        if any(sigmas) or terms.epsilon is not None:
            raise VerificationError("a release without noise cannot state sigma or epsilon")
        return None, None
    if not all(sigmas) or terms.epsilon is None:
        raise VerificationError("sigma and epsilon must be stated where there is noise")
    delivered = terms.epsilon_at(terms.delta)
    if terms.calibration is Calibration.PAPER:
        # Here σ follows from the nominal ε, not from what is delivered, so it has to be compared itself.
        _agree("sigma", terms.grid.sigma, paper_sigma(terms.epsilon, terms.delta, dim=terms.dim))
        if not math.isfinite(delivered):
            raise ParameterError(f"nominal epsilon {terms.epsilon:g} delivers nothing that can be certified")
        return delivered, terms.epsilon
    if delivered > terms.epsilon * (1 + _TOLERANCE):
        raise VerificationError(
            f"epsilon {terms.epsilon:g} promises more than sigma gives: {delivered:.6g} at delta {terms.delta:g}"
        )
    return terms.epsilon, None


def _check_terms(terms: Terms) -> None:
    """Refuse terms that contradict each other where no derived field would show it."""
    kind = BY_NAME[terms.strategy.name]
    universe = terms.input.item_universe
    if universe == "not needed" and kind.needs_catalogue:
        raise VerificationError(f"strategy {kind.name} needs an item universe, and none is stated")
    # Users outside the list may have rated items that nobody declared; which ones exist must not show.
    hashes = any(one.step.payer is UserGroup.UNLISTED for one in terms.settled) and terms.declared.items is None
    if hashes != (universe == "hashed into buckets"):
        raise VerificationError(f"strategy {kind.name} and the statement about hashed items do not fit")
    if (universe == "declared") != (terms.declared.items is not None):
        raise VerificationError("an item universe is declared with its size, or neither is stated")
    if terms.input.alignment is not None and terms.input.user_list != "declared":
        raise VerificationError("an aligned user list is a declared one, and this was read off the ratings")
    if (terms.guide is not None) != kind.takes_guide:
        raise VerificationError(f"strategy {kind.name} and the statement about a guide do not fit")
    if terms.guide is not None and terms.guide.missing_users >= terms.declared.users:
        raise VerificationError("the guide lacks every listed user")
    # Without noise a release costs more than any budget: no ledger can have paid for it.
    total = total_mu(terms.settled) if terms.noisy else math.inf
    if terms.ledger is not None:
        _check_account(terms.ledger, total)
        _check_line(terms.ledger, total_numbers(terms.settled))


def _check_account(account: LedgerStatement, mu: float) -> None:
    # At least what one release of that μ would cost; the true total counts more noisy numbers.
    least = composed_epsilon([(account.mu_total, 1)], account.budget_delta)
    if account.mu_total < mu * (1 - _TOLERANCE) or account.epsilon_total < least * (1 - _TOLERANCE):
        raise VerificationError("the ledger's totals are less than its releases cost")
    if account.epsilon_total > account.budget_epsilon * (1 + 2 * _TOLERANCE):
        raise VerificationError("the ledger states more than its budget as spent")


def _check_line(account: LedgerStatement, numbers: int) -> None:
    if None in (account.recorded, account.nonce, account.opening, account.head):
        raise VerificationError("the ledger's statement does not say which line of which ledger this release is")
    if account.numbers != numbers:
        raise VerificationError(f"the ledger counts {account.numbers:,} noisy numbers, the release has {numbers:,}")


def _curve(terms: Terms) -> list[EpsilonAtDelta]:
    if not terms.noisy:
        return []
    return [EpsilonAtDelta(delta=d, epsilon=_stated(terms.epsilon_at(d))) for d in DELTAS]


def _whole_user(terms: Terms) -> list[GroupFigure]:
    """Return the cost of a rating-level release to a user with t ratings: t·μ if removed at worst, 2t·μ if replaced.

    Rows in independent random directions give about √t·μ; parallel rows attain the worst case.
    """
    if terms.unit is Unit.USER or not terms.noisy:
        return []

    whole = total_mu(terms.settled)

    def cost(mu: float) -> float | None:
        return _stated(terms.epsilon_at(terms.delta, mu=mu))

    return [
        GroupFigure(
            ratings=t,
            removed_at_worst=cost(t * whole),
            replaced_at_worst=cost(2 * t * whole),
            removed_typically=cost(t**0.5 * whole) if BY_NAME[terms.strategy.name].rows_cancel else None,
        )
        for t in GROUP_SIZES
    ]


def _neighbours(terms: Terms) -> str:
    """Return the neighbouring relation that the promise is about, in one sentence."""
    unlisted = any(one.step.payer is UserGroup.UNLISTED for one in terms.settled)
    everybody = " (listed or not)" if unlisted else ""
    if terms.unit is Unit.RATING:
        return (
            f"two inputs over the same listed users that differ in one (user, item) entry{everybody}, "
            f"each value within [0, {terms.bounds.largest:g}], not rated being 0"
        )
    return f"two inputs over the same listed users that differ in all ratings of one user{everybody}, however many"


def _not_protected(terms: Terms) -> list[str]:
    """Return what the promise does not cover, one sentence each: from who is listed to what holds of everybody."""
    strategy = BY_NAME[terms.strategy.name]
    sentences = [
        "The user list itself: its ids, their number and their order are in the release."
        if terms.input.user_list == "declared"
        else "Who has ratings at all: without a declared user list the users were read off the ratings."
    ]
    if terms.input.alignment is not None:
        sentences.append(
            "That everybody on the list is a user of two parties: it came from an intersection of their users, so "
            "being listed says so."
        )
    if terms.input.item_universe == "read off the ratings":
        sentences.append(
            "Which items exist: the item universe was read off the ratings, and the first rating of an item changes "
            "it; the guarantee holds for ratings of items that somebody else rated too."
        )
    if terms.input.filtered_by is not None:
        sentences.append(
            "The filter the ratings went through before: the guarantee holds for the filtered matrix with its user "
            "and item sets fixed; which users and items survived the filter is not covered."
        )
    if strategy.learns:
        sentences.append(
            "Erasure: directions were learnt from everybody's ratings, so deleting a user's row from the release does "
            "not take that user's ratings out of the other rows."
        )
    sentences += strategy.not_protected
    if terms.guide is not None:
        sentences.append(
            "Ratings that the guide's party holds too: they pay in both releases. And every new guide is a new release "
            "of the same ratings."
        )
    if terms.unit is Unit.RATING:
        sentences.append(
            "A user's taste as a whole: the promise is for one rating; the section on a whole user says more."
        )
    sentences.append("What other releases of the same ratings tell, unless one ledger counts them all.")
    sentences.append("What holds of the population: the release is made to tell general tastes.")
    return sentences


def _warnings(terms: Terms) -> list[str]:
    """Return what whoever reads the certificate should be warned of; empty where there is nothing."""
    lines = list(delta_warnings(terms.delta, terms.declared.users))
    if terms.source == "secret" and terms.epsilon is not None:
        # Under the paper's calibration what was asked for is not what is promised.
        exact = terms.calibration is Calibration.EXACT
        lines += epsilon_warnings(terms.epsilon if exact else terms.epsilon_at(terms.delta), terms.unit)
    # A name that is not ours now must not become ours later: releases made with it would no longer say what they did.
    if terms.strategy.name not in BY_NAME.own:
        lines.append(
            f"strategy {terms.strategy.name} is not part of PriCDR: that one change to the ratings moves its steps no "
            "further than stated is the claim of whoever wrote it"
        )
    if terms.guide is not None and not terms.guide.private:
        lines.append("the guide is NOT PRIVATE: it protects nobody on the other side")
    # Learnt rows pay for their rounding instead, so it cannot hide anything that was not paid for.
    unrounded = terms.settled[-1].step.spread is None
    if terms.noisy and unrounded and not terms.grid.keeps_signal(terms.bounds, terms.dim):
        lines.append("sigma is so large against one rating step that nothing of the ratings is left: pure noise")
    return lines


def _stated(epsilon: float) -> float | None:
    return rounded_up(epsilon) if math.isfinite(epsilon) else None


def _agree(name: str, stated: Any, follows: Any) -> None:  # noqa: ANN401
    if not _same(stated, follows):
        raise VerificationError(
            f"{name} is stated as {stated!s:.60}, but {follows!s:.60} follows from the rest of the certificate"
        )


def _plain(value: object) -> Any:  # noqa: ANN401
    """Return models as dictionaries, for comparing and for showing."""
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return value.model_dump() if hasattr(value, "model_dump") else value


def _same(left: Any, right: Any) -> bool:  # noqa: ANN401
    """Return whether two values are equal up to rounding: another machine may compute the last bits otherwise."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    if isinstance(left, float) and isinstance(right, float | int) and not isinstance(right, bool):
        return math.isfinite(right) and abs(left - right) <= _TOLERANCE * abs(right)
    return bool(left == right)
