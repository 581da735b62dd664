"""``pricdr publish --dry-run``: show the source what a release would be, and what it would take."""

import json
import resource
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pricdr.cli.console import say, warn
from pricdr.cli.source_screen import say_nominal, warn_of
from pricdr.memory import format_bytes, memory_limit

if TYPE_CHECKING:
    from pricdr._publish import DryRun
    from pricdr.memory import Need
    from pricdr.privacy.accounting import Guarantee
    from pricdr.privacy.ledger import Balance
    from pricdr.release.certificate import Certificate


def say_dry_run(
    foreseen: "DryRun",
    guarantee: "Guarantee",
    ledger: Path | None,
    reading_seconds: float,
    on_disk: "Need | None" = None,
) -> None:
    """Show noise, cost, remaining budget, memory and time, and then the text of the certificate.

    Args:
        foreseen: the release as it would be.
        guarantee: the guarantee that was asked for.
        ledger: the ledger that would count it.
        reading_seconds: the time that reading took.
        on_disk: the memory it takes, if ratings are kept on disk.
    """
    noise = f"sigma {foreseen.sigma:.6g} in the published numbers" if foreseen.mu is not None else "none"
    say(f"noise: {noise}" + ("" if foreseen.mu is None else f"; mu {foreseen.mu:.6g} in all"))
    say(f"cost: {guarantee}" if foreseen.mu is not None else "cost: it is NOT PRIVATE, and no ledger counts it")
    say_nominal(foreseen.certificate)
    if foreseen.balance is not None:
        _say_balance(foreseen.balance, ledger)
    need, limit = _memory(foreseen, on_disk), memory_limit()
    if on_disk is not None:
        say(f"out of core: {on_disk.sentence()}")
    seconds = foreseen.work.seconds + reading_seconds
    say(
        f"memory: about {format_bytes(need)}; time: about {_time(seconds)}, reading included "
        "(estimates from the size of your data, for this screen alone)"
    )
    if need > limit:
        warn(f"that is more than {format_bytes(limit)}, the limit for one computation on this machine")
    _say_certificate(foreseen.certificate)
    warn_of(foreseen.certificate)
    say("dry run: nothing was spent or drawn, and no release was written")


def dry_run_json(
    foreseen: "DryRun", out: Path, reading_seconds: float, on_disk: "Need | None" = None
) -> dict[str, Any]:
    """Return the same for programs. What depends on the size of the data is kept apart: it is for the source alone."""
    balance = foreseen.balance
    return {
        "dry_run": True,
        "release": str(out),
        "sigma": foreseen.sigma,
        "mu": foreseen.mu,
        "ledger": None
        if balance is None
        else {
            "budget": {"epsilon": balance.budget.epsilon, "delta": balance.budget.delta},
            "spent_before": balance.until(len(balance.spends) - 1).epsilon,
            "spent_after": balance.epsilon,
            "room_after": balance.room,
        },
        "certificate": _foreseen(foreseen.certificate),
        "for_the_source_alone": {
            "memory_bytes": _memory(foreseen, on_disk),
            "seconds": foreseen.work.seconds + reading_seconds,
        },
    }


def _foreseen(certificate: "Certificate") -> dict[str, Any]:
    """Return the content of the certificate, without what depends on the files or the signing key."""
    content: dict[str, Any] = json.loads(certificate.to_bytes())
    return {name: value for name, value in content.items() if name not in {"files", "digest", "signed_by"}}


def _say_balance(balance: "Balance", ledger: Path | None) -> None:
    before = balance.until(len(balance.spends) - 1).epsilon
    say(
        f"budget: of {balance.budget.epsilon:g} in {ledger}, epsilon {before:.6g} is spent, and {balance.epsilon:.6g} "
        f"after this release; that leaves room for one more of epsilon {balance.room:.6g}"
    )


def _say_certificate(certificate: "Certificate") -> None:
    from pricdr.release.readme import statement

    say("the certificate will say, besides the hashes of files and of the ledger's line:", "")
    for section in statement(certificate):
        say(f"  {section.title}")
        for line in section.lines:
            say(*textwrap.wrap(line, width=100, initial_indent="    - ", subsequent_indent="      "))
        say("")


def _memory(foreseen: "DryRun", on_disk: "Need | None") -> int:
    """Return bytes: the peak of this process so far, with the ratings, and what the release takes on top."""
    if on_disk is not None:
        return on_disk.total
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024) + foreseen.work.memory


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
