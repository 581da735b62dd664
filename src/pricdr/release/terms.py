"""``Terms``: what a certificate is derived from. ``release.certify`` derives the rest."""

from dataclasses import dataclass

from pricdr.errors import ParameterError, VerificationError
from pricdr.privacy.accounting import MAX_REFINEMENT, Calibration, Unit, composed_epsilon
from pricdr.privacy.bounds import Bounds
from pricdr.privacy.mechanism import Grid
from pricdr.privacy.registry import BY_NAME
from pricdr.privacy.steps import CalibratedStep, Declared, Step, total_mu, total_numbers
from pricdr.privacy.strategies.base import Strategy
from pricdr.release.certificate import (
    Certificate,
    GuideStatement,
    InputStatement,
    LedgerStatement,
    NoiseSource,
    StrategyStatement,
)


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What was declared or drawn: everything else in a certificate follows from it."""

    epsilon: float | None
    """As asked for (nominal under the paper's calibration); None where there is no noise."""
    delta: float
    calibration: Calibration
    declared: Declared
    settled: tuple[CalibratedStep, ...]
    source: NoiseSource
    strategy: StrategyStatement
    dim: int
    input: InputStatement
    guide: GuideStatement | None
    ledger: LedgerStatement | None
    software: str
    issuer: str | None = None
    issued: str | None = None
    """The day, in UTC, on which publishing began."""

    @classmethod
    def of(cls, certificate: Certificate) -> "Terms":
        """Return the terms behind a certificate: its strategy lays out the steps again, with the stated noise."""
        c = certificate
        declared = Declared(
            bounds=Bounds(
                rating_bound=c.bounds.rating_bound if c.bounds.counts == "values" else None,
                rating_step=c.bounds.rating_step,
                clip=c.bounds.clip,
            ),
            unit=Unit(c.unit),
            users=c.users,
            items=c.items,
        )
        layout = described(c).steps(declared)
        return cls(
            epsilon=c.epsilon if c.nominal_epsilon is None else c.nominal_epsilon,
            delta=c.delta,
            calibration=Calibration(c.calibration),
            declared=declared,
            settled=tuple(map(CalibratedStep, layout, _grids(c, layout))),
            source=c.noise.source,
            strategy=c.strategy,
            dim=c.dim,
            input=c.input,
            guide=c.guide,
            ledger=c.ledger,
            software=c.software,
            issuer=c.issuer,
            issued=c.issued,
        )

    @property
    def noisy(self) -> bool:
        """Whether any noise was added."""
        return self.source != "none"

    @property
    def bounds(self) -> Bounds:
        """What was declared about the ratings."""
        return self.declared.bounds

    @property
    def unit(self) -> Unit:
        """What is protected."""
        return self.declared.unit

    @property
    def grid(self) -> Grid:
        """The grid of the last step, whose rows are published."""
        return self.settled[-1].grid

    def epsilon_at(self, delta: float, *, mu: float | None = None) -> float:
        """Return ε of the whole release, or of something that costs ``mu``, with the noise table's error counted."""
        return composed_epsilon([(total_mu(self.settled) if mu is None else mu, total_numbers(self.settled))], delta)


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
    except ParameterError as error:
        raise VerificationError(f"{error}") from error
    try:
        strategy = kind.described(certificate.dim, stated.parameters)
    except (TypeError, KeyError, ValueError, OverflowError) as error:
        raise VerificationError(f"strategy {kind.name} has no such parameters: {error!s:.80}") from error
    # Defaults would fill in what a certificate leaves out: it must state every parameter, and no other.
    if strategy.parameters() != stated.parameters:
        raise VerificationError(f"strategy {kind.name} cannot have the parameters {stated.parameters!s:.80}")
    return strategy


def _grids(c: Certificate, layout: tuple[Step, ...]) -> list[Grid]:
    """Return how much noise each step had, as the certificate states it."""
    if max([c.noise.refinement, *(step.refinement for step in c.steps)]) > MAX_REFINEMENT:
        raise ParameterError(f"refinement must be at most {MAX_REFINEMENT}")
    if len(c.steps) != len(layout):
        raise VerificationError(f"strategy {c.strategy.name} has {len(layout)} steps, the certificate {len(c.steps)}")
    return [Grid(step.sigma, step.grid, step.refinement) for step in c.steps]
