"""``pricdr ledger``: a budget over all releases of one source."""

from pathlib import Path
from typing import Annotated

import typer

from pricdr.cli.console import say
from pricdr.cli.options import PublicKeyOption, UnitName, refuse_unused_key
from pricdr.errors import ParameterError

app = typer.Typer(help="Keep one budget over every release of the same ratings.")


@app.callback(invoke_without_command=True)
def options(context: typer.Context) -> None:
    """Keep one budget over every release of the same ratings."""
    if context.invoked_subcommand is None:
        say(*context.get_help().split("\n"))


@app.command("init")
def init(
    file: Annotated[Path, typer.Argument(help="The ledger file to create.")],
    epsilon: Annotated[float, typer.Option(help="The most that all releases together may cost.")],
    delta: Annotated[float, typer.Option(help="The delta at which epsilon is counted.")],
    unit: Annotated[UnitName, typer.Option(help="What is protected; one ledger counts one unit.")],
) -> None:
    """Create a ledger. Its budget and unit can never be changed."""
    from pricdr.privacy.guarantee import Guarantee, Unit
    from pricdr.privacy.ledger import Ledger

    budget = Guarantee(epsilon=epsilon, delta=delta, unit=Unit(unit.value))
    Ledger.create(file, budget)
    say(f"created {file}: {budget}, over all releases together")


@app.command("show")
def show(file: Annotated[Path, typer.Argument(help="The ledger file.")]) -> None:
    """Show what was spent and what is left."""
    from pricdr.privacy.ledger import Ledger

    balance = Ledger(file).read()
    say(f"budget: {balance.budget}, however each release is chosen")
    for number, spend in enumerate(balance.spends, 1):
        say(f"{number:>4}  {spend.recorded}  {spend.strategy:<10} mu {spend.mu:.6g}  {spend.promise}")
    spent = f"spent: epsilon {balance.epsilon:.6g} (mu {balance.mu:.6g}) in {len(balance.spends)} releases"
    say(f"{spent}; room for one more release of epsilon {balance.room:.6g} at this delta")
    say("spent is what these releases would cost had all been fixed in advance; the promise is the budget")


@app.command("verify")
def verify(
    file: Annotated[Path, typer.Argument(help="The ledger file.")],
    releases: Annotated[list[Path] | None, typer.Argument(help="Release folders that it paid for.")] = None,
    public_key: PublicKeyOption = None,
) -> None:
    """Check that no line of a ledger was changed and that it holds these releases: exit 0, or 1 with the reason.

    A release that the ledger does not hold means that the ledger was rolled back or replaced. What no check can see: a
    ledger forged together with all its releases, or rolled back past releases that are not given here.
    """
    from pricdr.privacy.ledger import Ledger
    from pricdr.release.ledger_check import check_ledger

    folders = releases or []
    if not folders:
        refuse_unused_key(public_key, "there is no release")
    balance = check_ledger(Ledger(file), folders, public_key=public_key)
    old = sum(spend.hash is None for spend in balance.spends)
    say(f"ok: {file}: {balance.budget}, {len(balance.spends)} releases")
    if old:
        say(f"    {old} releases have lines without a hash: they were recorded before version 0.3.0")
    if folders:
        say(f"    it holds every release given ({len(folders)})")
    else:
        say("    give the releases made from it to see whether it was rolled back or replaced")


@app.command("repair")
def repair(
    file: Annotated[Path, typer.Argument(help="The ledger file.")],
    release: Annotated[Path | None, typer.Argument(help="The release whose line was cut off.")] = None,
    forfeit: Annotated[bool, typer.Option("--forfeit", help="Without the release: give up all that was left.")] = False,
    public_key: PublicKeyOption = None,
) -> None:
    """Repair a ledger whose last line was cut off. Nothing is ever refunded.

    Given the release that the line paid for, the line is rebuilt from its certificate and must have the hash stated
    there. Without that release nobody knows what the line cost: --forfeit charges everything that was left.
    """
    from pricdr.privacy.ledger import Ledger
    from pricdr.release import verify as verify_release
    from pricdr.release.ledger_check import lost_line

    if (release is None) != forfeit:
        raise ParameterError(
            f"{file}: give the release whose line was cut off, or --forfeit, which charges everything that was left"
        )
    ledger = Ledger(file)
    if release is None:
        refuse_unused_key(public_key, "there is no release")
        balance = ledger.forfeit()
    else:
        balance = ledger.rebuild(lost_line(verify_release(release, public_key=public_key).certificate))
    say(f"repaired {file}: release {len(balance.spends)}, mu {balance.spends[-1].mu:.6g}")
    say("lines after it, if there were any, are lost: run pricdr ledger verify with every release made from it")
