"""``pricdr inspect``: the certificate for people."""

import textwrap
from pathlib import Path
from typing import Annotated

import typer

from pricdr.cli.console import say
from pricdr.cli.options import PublicKeyOption


def inspect(
    folder: Annotated[Path, typer.Argument(help="The release folder.")],
    public_key: PublicKeyOption = None,
) -> None:
    """Print what a release promises, to whom, and at what cost, in plain words."""
    from pricdr.release import verify
    from pricdr.release.statement import statement

    certificate = verify(folder, public_key=public_key).certificate
    for section in statement(certificate):
        say(section.title)
        for line in section.lines:
            say(*textwrap.wrap(line, width=100, initial_indent="  - ", subsequent_indent="    "))
        say("")
    say("verified: files, figures and promise agree")
