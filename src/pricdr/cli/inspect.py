"""``pricdr inspect``: the certificate for people."""

import textwrap
from pathlib import Path
from typing import Annotated

import typer

from pricdr.cli.console import say
from pricdr.cli.json_output import JsonOption
from pricdr.cli.options import PublicKeyOption


def inspect(
    folder: Annotated[Path, typer.Argument(help="The release folder.")],
    public_key: PublicKeyOption = None,
    json_output: JsonOption = None,
    html: Annotated[
        Path | None, typer.Option(help="Also write one page to file away, with the curve of detections.")
    ] = None,
) -> None:
    """Print what a release promises, to whom, and at what cost, in plain words."""
    from pricdr.files import require_writable, write_new
    from pricdr.release import verify
    from pricdr.release.folder import require_outside_releases
    from pricdr.release.inspection import Inspection

    if html is not None:
        require_writable(html)
        require_outside_releases(html)
    inspection = Inspection.of(verify(folder, public_key=public_key), key_given=public_key is not None)
    for section in inspection.sections():
        say(section.title)
        for line in section.lines:
            say(*textwrap.wrap(line, width=100, initial_indent="  - ", subsequent_indent="    "))
        say("")
    say("verified: files, figures and promise agree")
    if json_output is not None:
        json_output.write(inspection.to_dict())
    if html is not None:
        from pricdr.release.page import render_inspection

        write_new(html, render_inspection(inspection).encode())
