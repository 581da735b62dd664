"""``pricdr report``: one page of everything in a results folder."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

import pricdr
from pricdr.cli.console import progress_bar, say
from pricdr.cli.options import PublicKeyOption, require_page


def report(
    results: Annotated[Path, Argument(help="A results folder, as pricdr reproduce writes it.")],
    out: Annotated[Path, Option(help="The page to write.")],
    release: Annotated[Path | None, Option(help="A release folder to draw as well, verified first.")] = None,
    public_key: PublicKeyOption = None,
) -> None:
    """Write one self-contained page of all results, which opens with what crosses at which epsilon, and for whom.

    Three sentences, one picture and one table; below them, folded, every arm of every experiment, the paper's tables
    beside ours, searches, and what was run, from which commit and on what machine. What is missing is said to be.

    The page loads nothing. Tables sort, filter and copy, and tell exact values and seeds; charts can be saved.
    """
    from pricdr.extras import REPORT
    from pricdr.files import write_new
    from pricdr.release.inspection import Inspection
    from pricdr.report.folder import read_folder
    from pricdr.report.page import report as page

    REPORT.require()
    require_page(out)
    with progress_bar("reading results") as progress:
        folder = read_folder(results, progress=progress)
        inspection = None
        if release is not None:
            inspection = Inspection(pricdr.verify(release, public_key=public_key), key_given=public_key is not None)
        text = page(folder, inspection=inspection, progress=progress)
    write_new(out, text.encode())
    runs = sum(len(experiment.runs) for experiment in folder.experiments)
    missing = sum(len(seeds) for experiment in folder.experiments for seeds in experiment.missing.values())
    say(f"{out}: {runs:,} runs of {len(folder.experiments)} experiments, {missing:,} missing, {len(text) / 1e6:.1f} MB")
