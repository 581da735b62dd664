"""``pricdr demo``: both parties on a built-in synthetic pair, each in a folder of its own."""

from pathlib import Path
from typing import Annotated

import typer

from pricdr.cli.console import progress_bar, say


def demo(
    out: Annotated[Path, typer.Option(help="The folder to create, one folder inside for each party.")] = Path(
        "pricdr-demo"
    ),
) -> None:
    """Show the whole path on synthetic data: two companies, one release folder each way.

    The target publishes its ratings first, as a guide to what it can use. The source publishes its own along that
    guide. Each has a budget and signs its release; each verifies what it receives. The target trains with the source's
    release and without, and measures what it gained. Ends with a table and a page, report.html.
    """
    from pricdr.demo.story import Screen, play

    play(out, Screen(say, progress_bar))
