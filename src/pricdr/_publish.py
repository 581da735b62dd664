"""STAGE ONE · the source party: ratings + guarantee + strategy → Release.

The order matters and is visible below: check what was declared, lay out the steps, calibrate every σ, record the spend
once, and only then draw anything. Nothing is filtered here, and nothing read off the ratings leaves except the noisy
matrix.
"""

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pricdr import __version__
from pricdr.data.blocks import RatingsSource
from pricdr.data.ids import Ids, as_ids
from pricdr.data.ratings import IdsLike, Ratings, RatingsLike, stars_caution
from pricdr.errors import InputError, ParameterError, PriCDRError, PublishWarning
from pricdr.privacy.accounting import Calibration, Guarantee, Unit, composed_epsilon, paper_sigma
from pricdr.privacy.ledger import Balance, Cost, Ledger
from pricdr.privacy.mechanism import Entries, Run
from pricdr.privacy.plan import Estimate, estimate
from pricdr.privacy.steps import (
    MAX_ITEMS,
    MAX_RATINGS,
    MAX_USERS,
    Bounds,
    CalibratedStep,
    Declared,
    Grid,
    calibrate,
    noiseless,
    total_mu,
    total_numbers,
)
from pricdr.privacy.strategies import BY_NAME, strategy_named
from pricdr.privacy.strategies.base import Strategy
from pricdr.privacy.strategies.spectral import Spectral
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
    SeriesStatement,
    StrategyStatement,
    WindowStatement,
    require_issuer,
    today,
)
from pricdr.release.certify import bounds_statement, declared_by, issue, ledger_statement
from pricdr.release.readme import cautions

if TYPE_CHECKING:
    from pricdr.alignment.messages import AlignmentRecord
    from pricdr.privacy.strategies.continued import Continued

CLIPS: Final = (1.0, 2.0, 3.0, 5.0)  # that a dry run shows σ for
_DEFAULT_STRATEGY = Spectral()
_PRESENCE = Bounds()


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A release before its first random bit: nothing that follows can be refused, except by a ledger."""

    guarantee: Guarantee
    strategy: Strategy
    ratings: RatingsSource
    selected: RatingsSource  # ratings of listed users
    steps: tuple[CalibratedStep, ...]
    draft: Certificate  # what a certificate cannot derive
    before: Release | None  # of a series, the release that this one follows

    def certificate(self, balance: Balance | None = None) -> Certificate:
        """Return the certificate; without a ledger's line unless that has been paid."""
        line = None if balance is None else ledger_statement(balance)
        return issue(self.draft.model_copy(update={"ledger": line, "series": self.series_at(balance)}), self.steps)

    def series_at(self, balance: Balance | None) -> SeriesStatement | None:
        """Return the place in the series: one release that was paid for and never arrived leaves its own empty."""
        series, line = self.draft.series, None if self.before is None else self.before.certificate.ledger
        if series is None or balance is None or line is None or line.opening not in (balance.opening, balance.after):
            return series
        counted = line.releases if line.opening == balance.opening else 0  # by this ledger, not by the one before it
        ahead = max(1, len(balance.spends) - counted)
        return series.model_copy(update={"place": series.before_place + ahead})

    @property
    def cost(self) -> Cost:
        """The release as a ledger counts it."""
        if not self.draft.promises:
            raise ParameterError("a release that is not private cannot be entered in a ledger")
        return Cost(
            mu=total_mu(self.steps),
            dim=total_numbers(self.steps),
            unit=self.guarantee.unit,
            window=self.guarantee.window,
            strategy=self.strategy.name,
            promise=str(self.guarantee),
        )


@dataclass(frozen=True, kw_only=True)
class DryRun:
    """What a release would be, as far as that can be known before anything is drawn. It stays with the source."""

    guarantee: Guarantee
    certificate: Certificate  # without its files, and without the hash of a ledger's line
    balance: Balance | None  # the ledger after it
    work: Estimate
    sigmas: dict[float, float]  # by clips that one may choose from, without a look at the ratings; empty for ratings


def publish(
    ratings: RatingsLike | RatingsSource,
    guarantee: Guarantee,
    *,
    strategy: Strategy | str = _DEFAULT_STRATEGY,
    users: IdsLike | None = None,
    alignment: "AlignmentRecord | None" = None,
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
    Release(2 users x 8, spectral, ε = 4, δ = 1e-06, μ = 0.8379, for one rating)
    """
    ready = prepare(
        ratings,
        guarantee,
        strategy=strategy,
        users=users,
        alignment=alignment,
        items=items,
        bounds=bounds,
        calibration=calibration,
        issuer=issuer,
        allow_not_private_guide=allow_not_private_guide,
        insecure_seed=insecure_seed,
        insecure_no_noise=insecure_no_noise,
    )
    # What cannot be certified must not be paid for either.
    _warn_before_spending(ready.certificate(), ready.ratings, bounds, counted=ledger is not None)
    with ExitStack() as lifetime:
        report = lifetime.enter_context(shown(progress))  # before the spend: opening a display may fail too
        # Before it too: ratings on disk are sorted here, and the disk may be full.
        entries = Entries.of(ready.selected, bounds, summed=ready.strategy.learns)
        balance = None if ledger is None else ledger.spend(**ready.cost)
        lifetime.enter_context(_mark_spent_on_error(balance))
        randomness: Randomness
        # Made here and nowhere else, and erased on the way out: no caller can hand in noise that was used before.
        randomness = lifetime.enter_context(Secret()) if insecure_seed is None else Simulation(insecure_seed)
        run = Run(ready.steps, randomness, noisy=not insecure_no_noise, progress=report)
        matrix = ready.strategy.publish(entries, run)
    return Release(matrix, ready.selected.users, ready.certificate(balance))


def dry_run(
    ratings: RatingsLike | RatingsSource,
    guarantee: Guarantee,
    *,
    ledger: Ledger | None = None,
    **arguments: Any,  # noqa: ANN401 - those of prepare
) -> DryRun:
    """Return what :func:`publish` would do with these arguments, up to the first random bit; refuse what it would.

    Nothing is drawn, spent or written. Time and memory go by the size of the ratings: for the source's own screen.
    """
    ready = prepare(ratings, guarantee, **arguments)
    balance = None if ledger is None else ledger.after(**ready.cost)
    certificate = ready.certificate()
    if balance is not None:
        line = ledger_statement(balance, foreseen=True)
        certificate = certificate.model_copy(update={"ledger": line, "series": ready.series_at(balance)})
    work = estimate(ready.steps, ratings=len(ready.selected), items=len(ready.selected.items))
    sigmas = _sigmas(ready) if certificate.mu is not None else {}
    return DryRun(guarantee=guarantee, certificate=certificate, balance=balance, work=work, sigmas=sigmas)


def _sigmas(ready: Prepared) -> dict[float, float]:
    """Return σ of the published numbers for clips that one may choose from."""
    found: dict[float, float] = {}
    declared = declared_by(ready.draft)
    for clip in CLIPS if declared.bounds.clip is not None else ():
        bounds = replace(declared.bounds, clip=clip)
        with suppress(ParameterError):  # where rounding alone would take all of the budget
            layout = ready.strategy.steps(replace(declared, bounds=bounds))
            found[clip] = calibrate(layout, ready.guarantee, bounds)[-1].grid.sigma
    return found


def prepare(
    ratings: RatingsLike | RatingsSource,
    guarantee: Guarantee,
    *,
    strategy: Strategy | str = _DEFAULT_STRATEGY,
    users: IdsLike | None = None,
    alignment: "AlignmentRecord | None" = None,
    items: IdsLike | None = None,
    bounds: Bounds = _PRESENCE,
    calibration: Calibration = Calibration.EXACT,
    issuer: str | None = None,
    allow_not_private_guide: bool = False,
    insecure_seed: int | None = None,
    insecure_no_noise: bool = False,
) -> Prepared:
    """Check what can be refused, and calibrate what needs no random bit, with the arguments of :func:`publish`."""
    issued = today()  # before any work: how long that takes must not show
    if issuer is not None:
        require_issuer(issuer)
    ratings = ratings if isinstance(ratings, RatingsSource) else Ratings.of(ratings)
    if guarantee.window != ratings.window:
        promised, read = (one or "every day" for one in (guarantee.window, ratings.window))
        raise ParameterError(f"the guarantee is for {promised}, these ratings are of {read}: give both the same window")
    if guarantee.window is not None:
        guarantee.window.require_begun()
    calibration = Calibration(calibration)
    strategy = _known(strategy)
    users = None if users is None else as_ids("users", users)
    items = strategy.catalogue if items is None else as_ids("items", items)
    selected = _selected(ratings, users, items)
    if bounds.rating_bound is not None and not ratings.has_values:
        raise InputError("rating values were asked for, and these ratings hold none: there was no rating column")
    guide = _guide_statement(strategy, selected.users, allow_not_private_guide)
    series = before = None
    if strategy.continues:
        if TYPE_CHECKING:
            assert isinstance(strategy, Continued)
        promises = not insecure_no_noise and insecure_seed is None
        strategy, before, series = _continuing(strategy, guarantee, bounds, ratings.threshold, promises=promises)
    strategy = strategy.resolved(guarantee, selected.users)
    if strategy.dim is None:
        raise ParameterError(f"strategy {strategy.name} leaves its number of columns open: give it a dim")
    declared = Declared(
        bounds=bounds,
        unit=guarantee.unit,
        users=len(selected.users),
        periods=1 if guarantee.window is None else guarantee.window.periods,
    )
    steps = _calibrated(guarantee, strategy, declared, calibration, noisy=not insecure_no_noise)
    source: NoiseSource = "none" if insecure_no_noise else "secret" if insecure_seed is None else "seeded"
    draft = Certificate.model_construct(
        epsilon=None if insecure_no_noise else guarantee.epsilon,
        delta=guarantee.delta,
        unit=guarantee.unit.value,
        window=WindowStatement.of(guarantee.window),
        calibration=calibration.value,
        bounds=bounds_statement(bounds),
        noise=NoiseStatement.model_construct(source=source),
        users=declared.users,
        items=None if items is None else len(items),
        strategy=StrategyStatement(name=strategy.name, parameters=strategy.parameters()),
        dim=strategy.dim,
        input=InputStatement.model_construct(
            threshold=ratings.threshold,
            user_list="read off the ratings" if users is None else "declared",
            filtered_by=ratings.filtered_by,
            alignment=_alignment_statement(alignment, users),
        ),
        guide=guide,
        series=series,
        ledger=None,
        software=f"pricdr {__version__}",
        issuer=issuer,
        issued=issued,
    )
    return Prepared(
        guarantee=guarantee,
        strategy=strategy,
        ratings=ratings,
        selected=selected,
        steps=steps,
        draft=draft,
        before=before,
    )


def _selected(ratings: RatingsSource, users: Ids | None, items: Ids | None) -> RatingsSource:
    """Return the listed users and items; refusals go by the lists and by sizes.

    Ratings none of which count are published as noise alone: a refusal would tell others what was rated.
    """
    selected = ratings.select(users, items)
    if not selected.users:
        raise InputError("there are no users to publish")
    if items is not None and not selected.items:
        raise InputError("there are no items to publish")
    sizes = (len(selected.items), MAX_ITEMS), (len(selected.users), MAX_USERS), (len(ratings), MAX_RATINGS)
    for what, (count, most) in zip(("items", "users", "ratings"), sizes, strict=True):
        if count > most:
            raise InputError(f"{count:,} {what} are more than the {most:,} that sums are exact for")
    return selected


def _calibrated(
    guarantee: Guarantee, strategy: Strategy, declared: Declared, calibration: Calibration, *, noisy: bool
) -> tuple[CalibratedStep, ...]:
    """Return every step with its σ and its grid; refuse what would fail once it is paid."""
    bounds, exact = declared.bounds, calibration is Calibration.EXACT
    layout = strategy.steps(declared)
    if exact:
        steps = calibrate(layout, guarantee, bounds)
    elif not strategy.rows_cancel:
        raise ParameterError(f"the paper's calibration is for its own jlt and sjlt, not for {strategy.name}")
    elif bounds.largest != 1 or guarantee.unit is not Unit.RATING:
        raise ParameterError("the paper's calibration is for one rating counted as 1: unit rating, no values")
    else:
        sigma = paper_sigma(guarantee.epsilon, guarantee.delta, dim=strategy.columns)
        steps = (CalibratedStep(layout[-1], Grid.for_noise(sigma, bounds=bounds, dim=strategy.columns)),)
    delivered = composed_epsilon([(total_mu(steps), total_numbers(steps))], guarantee.delta)
    if not math.isfinite(delivered) or (exact and delivered > guarantee.epsilon * (1 + 1e-10)):
        raise ParameterError(f"epsilon {guarantee.epsilon:g} at delta {guarantee.delta:g} cannot be certified")
    if not noisy:
        steps = noiseless(layout, bounds)
    steps[-1].grid.radius(bounds)  # refuses a scale that exact arithmetic cannot hold
    return steps


def _warn_before_spending(foreseen: Certificate, ratings: RatingsSource, bounds: Bounds, *, counted: bool) -> None:
    """Warn the caller of the caller. Who asks for a test release has been told by the name of the argument."""
    if not foreseen.promises:
        return
    stars = stars_caution(ratings) if bounds.rating_bound is None else None
    for text in [*([] if stars is None else [stars]), *cautions(foreseen, counted=counted)]:
        warnings.warn(text, PublishWarning, stacklevel=3)


@contextmanager
def _mark_spent_on_error(balance: Balance | None) -> Iterator[None]:
    """Let whatever fails from here on (a cluster, a disk) say what that means for the ledger."""
    try:
        yield
    except PriCDRError as error:
        if balance is not None:
            rule = "nothing was written, and the release stays spent in the ledger: to publish again is to pay again"
            error.args = (f"{error}; {rule}",)
            error.spent = True
        raise


def _known(strategy: Strategy | str) -> Strategy:
    """Return the strategy that is given or named; a certificate will name it, so its name must be its own."""
    if isinstance(strategy, str):
        return strategy_named(strategy)
    if not isinstance(strategy, Strategy):
        given = f"the class {strategy.__name__}" if isinstance(strategy, type) else type(strategy).__name__
        such = "a strategy, such as pricdr.strategies.JLT(dim=200), or its name"
        raise ParameterError(f"strategy must be {such}, got {given}")
    BY_NAME.register(type(strategy))
    return strategy


def _alignment_statement(record: "AlignmentRecord | None", users: Ids | None) -> AlignmentStatement | None:
    if record is None:
        return None
    if users is None:
        raise ParameterError("alignment is the record of a user list: give users too")
    from pricdr.alignment.messages import require_list  # few releases have one

    require_list(record, users)
    # What the exchange was, and no size.
    return AlignmentStatement(session=record.session, normalisation=record.normalisation, learnt_by=record.who_learns)


def _guide_statement(strategy: Strategy, users: Ids, allow_not_private: bool) -> GuideStatement | None:
    """Return what the certificate says of the guide; a guide that protects nobody is refused unless it is allowed."""
    if not strategy.takes_guide:
        return None
    release = strategy.guide
    if not isinstance(release, Release):
        raise InputError("a guide must be a release of the other party (pricdr.Release.load)")
    promise = release.certificate
    if not promise.private and not allow_not_private:
        known = "(allow_not_private_guide, if that is known and meant)"
        raise InputError(f"the guide is marked NOT PRIVATE: it protects nobody on the other side {known}")
    return GuideStatement(
        sha256=release.sha256(),
        strategy=promise.strategy.name,
        private=promise.private,
        epsilon=promise.epsilon,
        delta=promise.delta,
        unit=promise.unit,
        missing_users=len(set(users) - set(release.users)),  # a fact about two lists, not about ratings
    )


def _continuing(
    strategy: "Continued", guarantee: Guarantee, bounds: Bounds, threshold: float | None, *, promises: bool
) -> "tuple[Continued, Release, SeriesStatement]":
    """Return the strategy along releases that were checked, the newest of them, and what the certificate says."""
    from pricdr.release.series import place, series_id, to_continue  # few releases go on from others

    for release in strategy.before if isinstance(strategy.before, Sequence) else (None,):
        if not isinstance(release, Release):
            raise InputError("a series goes on from releases (pricdr.Release.load), in a list")
        if promises and not release.certificate.private:
            raise InputError(
                f"the release at place {place(release)} of the series is NOT PRIVATE: begin another series"
            )
    series = to_continue(tuple(one for one in strategy.before if isinstance(one, Release)))
    newest = series.newest
    c = newest.certificate
    for what, own, theirs in (
        ("unit", guarantee.unit.value, c.unit),
        ("days of a period", *(None if one is None else one.days for one in (guarantee.window, c.window))),
        ("bounds", bounds_statement(bounds), c.bounds),
        ("threshold", threshold, c.input.threshold),
    ):
        if own != theirs:
            raise ParameterError(f"{what} {own} differs from that of the series, {theirs}: its releases are added up")
    statement = SeriesStatement(
        first=series_id(newest), place=place(newest) + 1, before=newest.sha256(), before_place=place(newest)
    )
    return replace(strategy, before=series.members), newest, statement
