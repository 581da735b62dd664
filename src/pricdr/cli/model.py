"""``pricdr model``: what there is to say about a trained model."""

from pathlib import Path
from typing import Annotated, Final

import typer

from pricdr.cli.console import say, working
from pricdr.errors import ParameterError

_HTML: Final = (".html", ".htm")
_MARKDOWN: Final = (".md", ".markdown")
app = typer.Typer(help="Tell what a trained model is.")


@app.callback(invoke_without_command=True)
def options(context: typer.Context) -> None:
    """Tell what a trained model is."""
    if context.invoked_subcommand is None:
        say(*context.get_help().split("\n"))


@app.command("card")
def card(
    folder: Annotated[Path, typer.Argument(metavar="MODEL", help="The model folder.")],
    evaluation: Annotated[
        Path | None,
        typer.Option(help='What "pricdr evaluate --json" wrote about it, or about a model trained alike on a split.'),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="A new file, .md or .html.  [default: Markdown on the screen]")
    ] = None,
) -> None:
    """Write the card of a model: method, data, promise, quality with the release and without, limits, how to repeat it.

    Figures of quality come from --evaluation alone. Name a model without the release first when you evaluate, and the
    card says who gains by it: warm users, cold users, with and without a release row. What was not measured is said to
    be, with the commands that measure it.

    No id and no rating is in a card.
    """
    from pricdr.files import require_writable, write_new
    from pricdr.models.card import ModelCard

    if out is not None:
        if out.suffix.lower() not in _HTML + _MARKDOWN:
            raise ParameterError(f"--out {out}: its name must end in .md or .html")
        require_writable(out)
    with working(f"reading {folder}"):
        about = ModelCard.of(folder, evaluation)
    if out is None:
        say(*about.markdown().rstrip("\n").split("\n"))
        return
    as_html = out.suffix.lower() in _HTML
    write_new(out, (about.html() if as_html else about.markdown()).encode())
    say(f"{out}: the card of {folder}")
