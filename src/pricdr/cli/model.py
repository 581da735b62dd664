"""``pricdr model``: describe a trained model."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from pricdr.cli.console import progress_bar, say
from pricdr.errors import ParameterError

app = typer.Typer(help="Describe a trained model.")


@app.command("card")
def card(
    folder: Annotated[Path, Argument(metavar="MODEL", help="The model folder.")],
    evaluation: Annotated[Path | None, Option(help="Output of evaluate --json for it, or one trained alike.")] = None,
    out: Annotated[Path | None, Option(help="A new file, .md or .html.  [default: Markdown on the screen]")] = None,
) -> None:
    """Write a model card: method, data, promise, quality with and without the release, limits, how to reproduce it.

    Quality figures come only from --evaluation. If the first model evaluated was trained without the release, the card
    shows who gains from it: warm and cold users, with and without a release row. Anything that was not measured is
    marked as such, with the commands that measure it.

    A card contains no ids and no ratings.
    """
    from pricdr.files import require_writable, write_new
    from pricdr.pages import markdown, render
    from pricdr.report.card import ModelCard

    if out is not None:
        if out.suffix.lower() not in {".html", ".htm", ".md", ".markdown"}:
            raise ParameterError(f"--out {out}: the file name must end in .md or .html")
        require_writable(out)
    with progress_bar(f"reading {folder}"):
        page = ModelCard.of(folder, evaluation).page
    if out is None:
        say(*markdown(page).rstrip("\n").split("\n"))
        return
    write_new(out, (render if out.suffix.lower().startswith(".htm") else markdown)(page).encode())
    say(f"{out}: the card of {folder}")
