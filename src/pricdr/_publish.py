"""STAGE ONE · the source party: ratings + guarantee + strategy → Release.

The order matters and is visible below: check what was declared, lay out the steps, settle every σ, record the spend
once, and only then draw anything. Nothing is filtered here, and nothing read off the ratings leaves except the noisy
matrix.
"""

import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from pricdr import __version__
from pricdr.alignment.messages import AlignmentRecord, require_list
from pricdr.alignment.normalisation import agreed_normalisation
from pricdr.data.blocks import RatingsSource
from pricdr.data.ids import Ids, as_ids
from pricdr.data.ratings import IdsLike, Ratings, RatingsLike
from pricdr.data.reading.report import stars_caution, stars_in
from pricdr.errors import InputError, ParameterError, PriCDRError, PublishWarning
from pricdr.privacy.accounting import Calibration, Guarantee
from pricdr.privacy.bounds import Bounds
from pricdr.privacy.estimate import Estimate, estimate
from pricdr.privacy.ledger import Balance, Cost, Ledger
from pricdr.privacy.registry import BY_NAME, strategy_named
from pricdr.privacy.run import Entries, Run
from pricdr.privacy.steps import Declared, total_numbers
from pricdr.privacy.strategies import Spectral, Strategy
from pricdr.progress import Progress, shown
from pricdr.randomness import Randomness, Secret, Simulation
from pricdr.release import Release
from pricdr.release.certificate import (
    AlignmentStatement,
    Certificate,
    GuideStatement,
    InputStatement,
    NoiseSource,
    NoiseStatement,
    StrategyStatement,
    require_issuer,
    today,
)
from pricdr.release.certify import bounds_statement, issue, ledger_statement
from pricdr.release.plan import (
    Plan,
    guide_statement,
    item_universe,
    select,
    settled_plan,
    unlisted_users,
)
from pricdr.release.readme import cautions

_DEFAULT_STRATEGY = Spectral()
_PRESENCE = Bounds()


@dataclass(frozen=True, kw_only=True)
class _Ready:
    """A release before its first random bit: nothing that follows can be refused, except by a ledger."""

    plan: Plan
    selected: RatingsSource
    unlisted: RatingsSource | None
    declared: Declared
    inputs: InputStatement
    issuer: str | None
    issued: str
    """The day on which publishing began, read off the clock before any work: how long that takes must not show."""
    guide: GuideStatement | None

    def entries(self) -> Entries:
        """Return the ratings as the strategy sees them."""
        return Entries.of(
            self.selected,
            self.declared.bounds,
            summed=self.plan.strategy.learns,
            universe_declared=self.declared.items is not None,
            unlisted=self.unlisted,
        )

    def certificate(self, balance: Balance | None = None) -> Certificate:
        """Return the certificate; without a ledger's line unless that has been paid."""
        plan, strategy = self.plan, self.plan.strategy
        assert strategy.dim is not None, "settled by now"
        draft = Certificate.model_construct(
            epsilon=None if plan.source == "none" else plan.guarantee.epsilon,
            delta=plan.guarantee.delta,
            unit=plan.guarantee.unit.value,
            calibration=plan.calibration.value,
            bounds=bounds_statement(self.declared.bounds),
            noise=NoiseStatement.model_construct(source=plan.source),
            users=self.declared.users,
            items=self.declared.items,
            strategy=StrategyStatement(name=strategy.name, parameters=strategy.parameters()),
            dim=strategy.dim,
            input=self.inputs,
            guide=self.guide,
            ledger=None if balance is None else ledger_statement(balance),
            software=f"pricdr {__version__}",
            issuer=self.issuer,
            issued=self.issued,
        )
        return issue(draft, plan.settled)


@dataclass(frozen=True, kw_only=True)
class Rehearsal:
    """What a release would be, as far as that can be known before anything is drawn. It stays with the source."""

    certificate: Certificate
    """Without its files, and without the hash of a ledger's line."""
    sigma: float
    mu: float | None
    """What it would cost; None without noise."""
    balance: Balance | None
    """The ledger after it."""
    work: Estimate


def publish(
    ratings: RatingsLike | RatingsSource,
    guarantee: Guarantee,
    *,
    strategy: Strategy | str = _DEFAULT_STRATEGY,
    users: IdsLike | None = None,
    alignment: AlignmentRecord | None = None,
    items: IdsLike | None = None,
    bounds: Bounds = _PRESENCE,
    calibration: Calibration = Calibration.EXACT,
    ledger: Ledger | None = None,
    issuer: str | None = None,
    allow_not_private_guide: bool = False,
    insecure_seed: int | None = None,
    insecure_no_noise: bool = False,
    progress: Progress | bool = False,
) -> Release:
    """Publish ``ratings`` under ``guarantee``: one noisy row per user of the list.

    Args:
        ratings: the source's ratings, in memory or wherever else they are kept, or a data frame of them; by default
            each rated pair counts as 1 (see ``bounds``).
        guarantee: (ε, δ) and whether one rating or one user is protected.
        strategy: the steps from ratings to rows, or their name, for one that needs nothing beyond its defaults;
            :class:`Spectral` unless given.
        users: the user list both parties agreed on, a list or a column. Every listed user gets a row, in this order;
            others are left out. Without it the users are read off the ratings, and the certificate says so.
        alignment: the record of the exchange that found ``users``, where ``pricdr align`` did (:func:`read_alignment`);
            the certificate then says so, and what that revealed.
        items: the public item universe; ratings of other items are left out.
        bounds: the declared rating bound and step, and the clip of the user unit.
        calibration: how σ follows from the guarantee.
        ledger: records the spend before anything is drawn, or refuses it.
        issuer: who publishes, for the certificate; a claim that only a signature can vouch for.
        allow_not_private_guide: take a guide that protects nobody on the other side; the certificate says so.
        insecure_seed: draw everything from this seed. For tests: the release is marked not private.
        insecure_no_noise: leave the noise out. For experiments: the release is marked not private.
        progress: True shows how far it has come; a function is called with it now and then.

    Warns:
        PublishWarning: before anything is spent, of whatever makes the promise weaker than it could be.

    Returns:
        A release whose matrix is ``grid · (S + Z)``: S the strategy's sums in whole grid steps, Z independent discrete
        Gaussians.

    >>> source = Ratings.from_triples(["alice", "bob"], ["dune", "emma"])
    >>> publish(source, Guarantee(epsilon=4, delta=1e-6))
    Release(2 users x 8, spectral, epsilon=4, delta=1e-06 per rating)
    """
    ratings = ratings if isinstance(ratings, RatingsSource) else Ratings.of(ratings)
    ready = _prepare(
        ratings,
        guarantee,
        strategy=strategy,
        users=users,
        alignment=alignment,
        items=items,
        bounds=bounds,
        calibration=calibration,
        source=_noise_source(insecure_seed, insecure_no_noise),
        issuer=issuer,
        allow_not_private_guide=allow_not_private_guide,
    )
    plan = ready.plan
    # What cannot be certified must not be paid for either.
    _warn_before_spending(ready.certificate(), ratings, bounds, counted=ledger is not None)
    with ExitStack() as lifetime:
        report = lifetime.enter_context(shown(progress))  # before the spend: opening a display may fail too
        entries = ready.entries()  # before it too: ratings on disk are sorted here, and the disk may be full
        balance = None if ledger is None else ledger.spend(**_cost(plan))
        lifetime.enter_context(_saying_what_is_spent(balance))
        randomness: Randomness
        # Made here and nowhere else, and erased on the way out: no caller can hand in noise that was used before.
        randomness = lifetime.enter_context(Secret()) if insecure_seed is None else Simulation(insecure_seed)
        run = Run(plan.settled, randomness, noisy=not insecure_no_noise, progress=report)
        matrix = plan.strategy.publish(entries, run)
    return Release(matrix, ready.selected.users, ready.certificate(balance))


def rehearse(
    ratings: RatingsLike | RatingsSource,
    guarantee: Guarantee,
    *,
    strategy: Strategy | str = _DEFAULT_STRATEGY,
    users: IdsLike | None = None,
    alignment: AlignmentRecord | None = None,
    items: IdsLike | None = None,
    bounds: Bounds = _PRESENCE,
    calibration: Calibration = Calibration.EXACT,
    ledger: Ledger | None = None,
    issuer: str | None = None,
    allow_not_private_guide: bool = False,
    insecure_seed: int | None = None,
    insecure_no_noise: bool = False,
) -> Rehearsal:
    """Return what :func:`publish` would do with the same arguments, up to the first random bit; refuse what it would.

    Nothing is drawn, spent or written. The certificate is derived as ``publish`` derives it before it spends: from
    what was declared. Time and memory go by the size of the ratings: they are for the source's own screen.
    """
    ready = _prepare(
        ratings,
        guarantee,
        strategy=strategy,
        users=users,
        alignment=alignment,
        items=items,
        bounds=bounds,
        calibration=calibration,
        source=_noise_source(insecure_seed, insecure_no_noise),
        issuer=issuer,
        allow_not_private_guide=allow_not_private_guide,
    )
    plan = ready.plan
    balance = None if ledger is None else ledger.after(**_cost(plan))
    certificate = ready.certificate()
    if balance is not None:
        certificate = certificate.model_copy(update={"ledger": ledger_statement(balance, foreseen=True)})
    counted = len(ready.selected) + (0 if ready.unlisted is None else len(ready.unlisted))
    return Rehearsal(
        certificate=certificate,
        sigma=plan.settled[-1].grid.sigma,
        mu=None if plan.source == "none" else plan.cost,
        balance=balance,
        work=estimate(plan.settled, ratings=counted, items=len(ready.selected.items)),
    )


def _prepare(
    ratings: RatingsLike | RatingsSource,
    guarantee: Guarantee,
    *,
    strategy: Strategy | str,
    users: IdsLike | None,
    alignment: AlignmentRecord | None,
    items: IdsLike | None,
    bounds: Bounds,
    calibration: Calibration,
    source: NoiseSource,
    issuer: str | None,
    allow_not_private_guide: bool,
) -> _Ready:
    """Check everything that can be refused, and settle everything that needs no random bit."""
    issued = today()
    if issuer is not None:
        require_issuer(issuer)
    ratings = ratings if isinstance(ratings, RatingsSource) else Ratings.of(ratings)
    strategy = _known(strategy)
    users = None if users is None else as_ids("users", users)
    items = strategy.catalogue if items is None else as_ids("items", items)
    selected = select(ratings, users, items)
    if bounds.rating_bound is not None and not ratings.has_values:
        raise InputError("rating values were asked for, and these ratings hold none: there was no rating column")
    guide = guide_statement(strategy, selected.users, allow_not_private_guide)
    strategy = strategy.resolved(guarantee, selected.users)
    if strategy.dim is None:
        raise ParameterError(f"strategy {strategy.name} leaves its number of columns open: give it a dim")
    declared = Declared(
        bounds=bounds, unit=guarantee.unit, users=len(selected.users), items=None if items is None else len(items)
    )
    inputs = InputStatement(
        threshold=ratings.threshold,
        user_list="read off the ratings" if users is None else "declared",
        item_universe=item_universe(strategy, items),
        filtered_by=ratings.filtered_by,
        alignment=_alignment_statement(alignment, users),
    )
    return _Ready(
        plan=settled_plan(guarantee, strategy, declared, Calibration(calibration), source),
        selected=selected,
        unlisted=unlisted_users(ratings, strategy, selected),
        declared=declared,
        inputs=inputs,
        issuer=issuer,
        issued=issued,
        guide=guide,
    )


def _warn_before_spending(foreseen: Certificate, ratings: RatingsSource, bounds: Bounds, *, counted: bool) -> None:
    """Warn the caller of the caller. Who asks for a test release has been told by the name of the argument."""
    if not foreseen.promises:
        return
    stars = stars_caution(ratings, stars_in(ratings)) if bounds.rating_bound is None else None
    for text in [*([] if stars is None else [stars]), *cautions(foreseen, counted=counted)]:
        warnings.warn(text, PublishWarning, stacklevel=3)


@contextmanager
def _saying_what_is_spent(balance: Balance | None) -> Iterator[None]:
    """Let whatever fails from here on (a cluster, a disk) say what that means for the ledger."""
    try:
        yield
    except PriCDRError as error:
        if balance is not None:
            rule = "nothing was written, and the release stays spent in the ledger: to publish again is to pay again"
            error.args = (f"{error}; {rule}",)
            error.spent = True
        raise


def _noise_source(insecure_seed: int | None, insecure_no_noise: bool) -> NoiseSource:
    return "none" if insecure_no_noise else "secret" if insecure_seed is None else "seeded"


def _known(strategy: Strategy | str) -> Strategy:
    """Return the strategy that is given or named; a certificate will name it, so its name must be its own."""
    if isinstance(strategy, str):
        return strategy_named(strategy)
    if not isinstance(strategy, Strategy):
        given = f"the class {strategy.__name__}" if isinstance(strategy, type) else type(strategy).__name__
        raise ParameterError(
            f"strategy must be a strategy, such as pricdr.strategies.JLT(dim=200), or its name, got {given}"
        )
    BY_NAME.register(type(strategy))
    return strategy


def _alignment_statement(record: AlignmentRecord | None, users: Ids | None) -> AlignmentStatement | None:
    """Return what the certificate says of an exchange that found the user list: what it was, and no size."""
    if record is None:
        return None
    if users is None:
        raise ParameterError("alignment is the record of a user list: give users too")
    require_list(record, users)
    return AlignmentStatement(
        session=record.session,
        normalisation=agreed_normalisation(record.normalisation, record.rule).value,
        learnt_by=record.who_learns.value,
    )


def _cost(plan: Plan) -> Cost:
    """Return the release as a ledger counts it."""
    if plan.source != "secret":
        raise ParameterError("a release that is not private cannot be entered in a ledger")
    return Cost(
        mu=plan.cost,
        dim=total_numbers(plan.settled),
        unit=plan.guarantee.unit,
        strategy=plan.strategy.name,
        promise=str(plan.guarantee),
    )
