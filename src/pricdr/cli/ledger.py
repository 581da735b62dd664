"""``pricdr ledger``: a budget over all releases of one source."""

from pathlib import Path
from typing import Annotated

import typer

from pricdr.cli.console import say
from pricdr.cli.options import UnitName

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
    say(f"budget: {balance.budget}")
    for number, spend in enumerate(balance.spends, 1):
        say(f"{number:>4}  {spend.recorded}  {spend.strategy:<10} mu {spend.mu:.6g}  {spend.promise}")
    spent = f"spent: epsilon {balance.epsilon:.6g} (mu {balance.mu:.6g}) in {len(balance.spends)} releases"
    say(f"{spent}; room for one more release of epsilon {balance.room:.6g} at this delta")
