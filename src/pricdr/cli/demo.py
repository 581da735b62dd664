"""``pricdr demo``: both parties on a built-in synthetic pair, each in a folder of its own."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from pricdr.cli.console import progress_bar, say
from pricdr.extras import SERVE


def demo(
    out: Annotated[Path, typer.Option(help="The folder to create, one folder inside for each party.")] = Path(
        "pricdr-demo"
    ),
    serve: Annotated[
        bool, typer.Option("--serve", help="Then serve the model and a page to look at, until Ctrl-C.")
    ] = False,
    port: Annotated[int, typer.Option(help="serve: the port; 0 takes any that is free.")] = 8000,
) -> None:
    """Show the whole path on synthetic data: two companies, one release folder each way.

    The target publishes its ratings first, as a guide to what it can use. The source publishes its own along that
    guide. Each has a budget and signs its release; each verifies what it receives. The target trains with the source's
    release and without, and measures what it gained. Ends with a table and a page, report.html.
    """
    from pricdr.cli.serve import serve as serve_model
    from pricdr.demo.story import Screen, play, served

    if serve:
        SERVE.require()  # before a minute of training
    play(out, Screen(say, progress_bar))
    model, other, evaluation = served(out)
    if serve:
        serve_model(model, compare=other, evaluation=evaluation, port=port, log_requests=False)
    else:
        words = ("pricdr", "serve", model, "--compare", other, "--evaluation", evaluation)
        say(f"Look at its recommendations in a browser, http://127.0.0.1:8000/page: {shlex.join(map(str, words))}")
