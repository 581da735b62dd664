"""``pricdr demo``: both parties on a built-in synthetic pair, each in a folder of its own."""

import shlex
from pathlib import Path
from typing import Annotated

from typer import Option

from pricdr.cli.console import progress_bar, say


def demo(
    out: Annotated[Path, Option(help="The folder to create, one folder inside for each party.")] = Path("pricdr-demo"),
    serve: Annotated[bool, Option("--serve", help="Then serve the model and its page until Ctrl-C.")] = False,
    port: Annotated[int, Option(help="The port for --serve; 0 chooses a free one.", min=0, max=65535)] = 8000,
) -> None:
    """Show the whole path on synthetic data: two companies, one release folder each way.

    The target publishes its ratings first, as a guide to what it can use. The source publishes its own along that
    guide. Each has a budget and signs its release; each verifies what it receives. The target trains with the source's
    release and without, and measures what it gained. Ends with a table and a page, report.html.
    """
    from pricdr.extras import SERVE, TRAIN

    TRAIN.require()  # before anything that needs it is imported
    from pricdr.cli.serve import serve as serve_model
    from pricdr.demo import play, serving_inputs

    if serve:  # refuse a missing extra before a minute of training
        SERVE.require()
    play(out, say, progress_bar)
    model, compare, evaluation = serving_inputs(out)
    command = shlex.join(map(str, ("pricdr", "serve", model, "--compare", compare, "--evaluation", evaluation)))
    if serve:
        say(f"To serve it again: {command}")  # first, since it could not be shown after Ctrl-C or if the port is in use
        serve_model(model, compare=compare, evaluation=evaluation, port=port, log_requests=False)
    else:
        say(f"To see its recommendations in a browser, at http://127.0.0.1:8000/page: {command}")
