"""``pricdr audit``: an empirical lower bound on epsilon."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

import pricdr
from pricdr.cli import options
from pricdr.cli.console import fail, progress_bar, say, warn
from pricdr.cli.options import UnitName
from pricdr.cli.publish_settings import DEFAULT_STRATEGY, make_strategy
from pricdr.errors import ParameterError, require_count
from pricdr.privacy.strategies import BY_NAME

if TYPE_CHECKING:
    from pricdr.privacy.audit import Subject


def audit(
    folder: Annotated[Path | None, Argument(help="A release folder whose parameters to audit.")] = None,
    strategy: Annotated[
        str | None,
        Option(metavar="NAME", autocompletion=BY_NAME.complete, help="Without a folder: which.  [default: spectral]"),
    ] = None,
    epsilon: Annotated[float | None, Option(help="Without a folder: the claim to audit.")] = None,
    delta: Annotated[float | None, Option(help="Without a folder: the claim's delta.")] = None,
    dim: options.DimOption = None,
    users: Annotated[int | None, Option(help="Without a folder: how many users are listed.  [default: 1000]")] = None,
    density: Annotated[float | None, Option(help="sjlt: share of non-zeros in P.  [default: 0.5]")] = None,
    unit: Annotated[UnitName | None, Option(help="Without a folder: what to protect.  [default: rating]")] = None,
    clip: Annotated[float | None, Option(help="unit user: as in publish.")] = None,
    period: options.PeriodOption = None,
    public_key: options.PublicKeyOption = None,
    draws: Annotated[int, Option(help="Runs of the mechanism in the likelihood-ratio audit.")] = 2_000_000,
    canaries: Annotated[int, Option(help="Canaries in the one-run audit.")] = 100_000,
    confidence: Annotated[float, Option(help="Of each lower bound.")] = 0.95,
    json_output: options.JsonOption = None,
) -> int:
    """Attack the mechanism as well as anyone can, and report how much of epsilon that finds.

    Runs the real code on a worst-case pair of neighbours with fresh noise, for the parameters of a release folder or
    for those given. Exit 1 if a bound exceeds the claim: then the claim is wrong. The release itself is not touched.
    """
    from pricdr.data.periods import Window
    from pricdr.privacy.audit import Subject, audit_likelihood_ratio, audit_one_run
    from pricdr.privacy.strategies.base import default_dim

    if folder is not None:
        # Options beside a folder would be ignored, and the audit believed to be about them.
        if any(option is not None for option in (strategy, epsilon, delta, dim, users, density, unit, clip, period)):
            raise ParameterError("a release folder states its own parameters: give it alone, or none")
        subject = _from_release(folder, public_key)
    elif epsilon is None or delta is None:
        raise ParameterError("give either a release folder, or --epsilon and --delta")
    else:
        options.refuse_unused_key(public_key, "there is no release folder")
        users = 1000 if users is None else users
        require_count(users=users)
        window = None if period is None else Window.of_periods(period)
        counted = pricdr.Unit(unit or options.DEFAULT_UNIT)
        guarantee = pricdr.Guarantee(epsilon=epsilon, delta=delta, unit=counted, window=window)
        chosen = make_strategy(strategy or DEFAULT_STRATEGY, guarantee, dim=dim, density=density)
        if chosen.dim is None:  # a table of items would say how many columns there are
            chosen = chosen.with_dim(default_dim(guarantee))
        subject = Subject.of(guarantee, chosen, pricdr.Bounds(clip=clip), users=users)
    with progress_bar() as progress:
        thorough = audit_likelihood_ratio(subject, draws=draws, confidence=confidence, progress=progress)
        one_run = audit_one_run(subject, canaries=canaries, confidence=confidence, progress=progress)
    name, dim, protected = subject.strategy.name, subject.strategy.dim, subject.declared.unit.value
    about = {"strategy": name, "dim": dim, "unit": protected, "delta": subject.delta}
    say(f"{name}, dim {dim}, unit {protected}, delta {subject.delta:g}")
    if len(subject.calibrated) > 1:
        say(f"{len(subject.calibrated)} steps; the adversary is shown what each of them gave, more than ever leaves")
    say(f"{'audit':<18}{'claimed':>10}{'at least':>10}{'reached':>9}{'confidence':>12}{'draws':>12}")
    for kind, finding in (("likelihood ratio", thorough), ("one run", one_run)):
        say(
            f"{kind:<18}{finding.claimed_epsilon:>10.4g}{finding.lower_bound:>10.4g}{finding.share:>9.0%}"
            f"{finding.confidence:>12g}{finding.draws:>12,}"
        )
    options.write_json(json_output, {**about, **asdict(thorough), "one_run": asdict(one_run)})
    if thorough.refutes or one_run.refutes:
        return fail("a lower bound exceeds the claimed epsilon: the claim is wrong", 1)
    return 0


def _from_release(folder: Path, public_key: Path | None) -> "Subject":
    from pricdr.privacy.audit import Subject
    from pricdr.release.certify import calibrated_by, declared_by, described

    certificate = pricdr.verify(folder, public_key=public_key).certificate
    if certificate.epsilon is None or certificate.mu is None:
        raise ParameterError(f"{folder} has no noise: there is no claim to audit")
    if not certificate.promises:
        warn(f"{folder} is NOT PRIVATE: what is audited is the same mechanism with secret noise")
    return Subject(
        strategy=described(certificate),
        declared=declared_by(certificate),
        calibrated=calibrated_by(certificate),
        delta=certificate.delta,
        claimed_epsilon=certificate.epsilon,
        claimed_mu=certificate.mu,
    )
