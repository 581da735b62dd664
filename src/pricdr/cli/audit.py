"""``pricdr audit``: an empirical lower bound on epsilon."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pricdr.cli.console import fail, progress_bar, say, warn
from pricdr.cli.options import StrategyName, UnitName, parse_strategy
from pricdr.errors import ParameterError

if TYPE_CHECKING:
    from pricdr.privacy.audit import Finding, Subject
    from pricdr.privacy.strategies import Strategy


def audit(
    folder: Annotated[Path | None, typer.Argument(help="A release folder whose parameters to audit.")] = None,
    strategy: Annotated[StrategyName | None, typer.Option(help="Without a folder: how item rows are built.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Without a folder: the claim to audit.")] = None,
    delta: Annotated[float | None, typer.Option(help="Without a folder: the claim's delta.")] = None,
    dim: Annotated[str | None, typer.Option(help="Without a folder: numbers per user.  [default: 200]")] = None,
    density: Annotated[float | None, typer.Option(help="sjlt: share of non-zeros in P.  [default: 0.5]")] = None,
    unit: Annotated[UnitName | None, typer.Option(help="Without a folder: what to protect.  [default: rating]")] = None,
    clip: Annotated[float | None, typer.Option(help="unit user: largest norm of a user's projected profile.")] = None,
    draws: Annotated[int, typer.Option(help="Runs of the mechanism in the likelihood-ratio audit.")] = 2_000_000,
    canaries: Annotated[int, typer.Option(help="Canaries in the one-run audit.")] = 100_000,
    confidence: Annotated[float, typer.Option(help="Of each lower bound.")] = 0.95,
    json_file: Annotated[Path | None, typer.Option("--json", help="Also write the findings here.")] = None,
) -> int:
    """Attack the mechanism as well as anyone can, and report how much of epsilon that finds.

    Runs the real code on a worst-case pair of neighbours with fresh noise, for the parameters of a release folder or
    for those given. Exit 1 if a bound exceeds the claim: then the claim is wrong. The release itself is not touched.
    """
    from pricdr.files import replace_file
    from pricdr.privacy.audit import audit_likelihood_ratio, audit_one_run

    given = [option for option in (strategy, epsilon, delta, dim, density, unit, clip) if option is not None]
    if folder is not None:
        if given:
            raise ParameterError("a release folder states its own parameters: give it alone, or none")
        subject = _from_release(folder)
    elif strategy is None or epsilon is None or delta is None:
        raise ParameterError("give either a release folder, or --strategy, --epsilon and --delta")
    else:
        plan = parse_strategy(strategy, dim or "200", density)
        subject = _from_options(plan, epsilon, delta, unit or UnitName.RATING, clip)
    with progress_bar() as progress:
        thorough = audit_likelihood_ratio(subject, draws=draws, confidence=confidence, progress=progress)
        one_run = audit_one_run(subject, canaries=canaries, confidence=confidence, progress=progress)
    _say_table(subject, thorough, one_run)
    if json_file is not None:
        content = {**_plain(subject), **asdict(thorough), "one_run": asdict(one_run)}
        replace_file(json_file, (json.dumps(content, indent=2) + "\n").encode())
    if thorough.refutes or one_run.refutes:
        return fail("a lower bound exceeds the claimed epsilon: the claim is wrong", 1)
    return 0


def _from_release(folder: Path) -> "Subject":
    from pricdr.issuing import Terms
    from pricdr.privacy.audit import Subject
    from pricdr.privacy.strategies import BY_NAME
    from pricdr.release import verify

    certificate = verify(folder).certificate
    if certificate.epsilon is None or certificate.mu is None:
        raise ParameterError(f"{folder} has no noise: there is no claim to audit")
    if not certificate.private:
        warn(f"{folder} is NOT PRIVATE: what is audited is the same mechanism with secret noise")
    terms = Terms.of(certificate)
    return Subject(
        strategy=BY_NAME[terms.strategy.name](dim=terms.dim, **terms.strategy.parameters),
        bounds=terms.bounds,
        unit=terms.unit,
        grid=terms.grid,
        delta=terms.delta,
        claimed_epsilon=certificate.epsilon,
        claimed_mu=terms.sensitivity / terms.grid.sigma,
    )


def _from_options(strategy: "Strategy", epsilon: float, delta: float, unit: UnitName, clip: float | None) -> "Subject":
    from pricdr.privacy.audit import Subject
    from pricdr.privacy.bounds import Bounds
    from pricdr.privacy.guarantee import Guarantee, Unit

    guarantee = Guarantee(epsilon=epsilon, delta=delta, unit=Unit(unit.value))
    return Subject.of(guarantee, strategy, Bounds(clip=clip))


def _say_table(subject: "Subject", thorough: "Finding", one_run: "Finding") -> None:
    say(f"{subject.strategy.name}, dim {subject.strategy.dim}, unit {subject.unit.value}, delta {subject.delta:g}")
    say(f"{'audit':<18}{'claimed':>10}{'at least':>10}{'reached':>9}{'confidence':>12}{'draws':>12}")
    for name, found in (("likelihood ratio", thorough), ("one run", one_run)):
        say(
            f"{name:<18}{found.claimed_epsilon:>10.4g}{found.lower_bound:>10.4g}{found.share:>9.0%}"
            f"{found.confidence:>12g}{found.draws:>12,}"
        )


def _plain(subject: "Subject") -> dict[str, Any]:
    return {
        "strategy": subject.strategy.name,
        "dim": subject.strategy.dim,
        "unit": subject.unit.value,
        "delta": subject.delta,
    }
