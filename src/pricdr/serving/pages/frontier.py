"""The frontier: what users gain at which ε, from a results file of ``pricdr reproduce``.

Results are read and drawn by ``pricdr.report``, which has more dependencies than a server needs. It is imported only if
a frontier is given.
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pricdr.errors import InputError
from pricdr.extras import REPORT, TRAIN
from pricdr.pages import Commands, Content, Section

if TYPE_CHECKING:
    from pricdr.report.folder import ResultsFolder

NO_FRONTIER: Final[Content] = (
    "The frontier shows what users gain at which ε, to help choose a budget before it is spent. It is measured on data "
    "that one party holds completely: public or synthetic ratings. This server was started without one.",
    "These commands measure a frontier and show it here:",
    Commands(
        ["pricdr reproduce specs/frontier.toml --out results", "pricdr serve MODEL --frontier results/NAME.jsonl"],
    ),
)


def read_frontier(path: Path) -> "ResultsFolder":
    """Return the results in a file; other results in its folder are used for what a release has to beat.

    Raises:
        InputError: the file does not contain frontier results.
        MissingExtraError: the packages that read and draw results are not installed.
    """
    REPORT.require()
    TRAIN.require()
    from pricdr.report.folder import LINES, SUFFIX, read_folder
    from pricdr.report.page import FRONTIER

    name = path.name.removesuffix(LINES)
    if not path.name.endswith(LINES) or not path.is_file():
        raise InputError(f"{path} is not a results file, NAME{LINES} (run pricdr reproduce specs/frontier.toml)")
    if not (path.parent / f"{name}{SUFFIX}").is_file():
        raise InputError(f"{path} has no {name}{SUFFIX} next to it, which describes what was measured")
    folder = read_folder(path.parent)
    experiments = tuple(experiment for experiment in folder.experiments if experiment.outline.name == name)
    if not experiments or experiments[0].outline.family != FRONTIER:
        raise InputError(f"{path} contains no frontier results (run pricdr reproduce specs/frontier.toml)")
    return replace(folder, experiments=experiments)


def frontier_blocks(folder: "ResultsFolder") -> tuple[Content, list[Section]]:
    """Return the answer with its chart, and the table of every ε."""
    from pricdr.report.page import every_arm, lead

    titles = ", ".join(experiment.title for experiment in folder.experiments)
    about = (
        f"Measured on {titles}, not on the data of the model served here. Use it as a guide to which ε to ask for, "
        "before a budget is spent."
    )
    tables = [every_arm(experiment, f"arms-{at}") for at, experiment in enumerate(folder.experiments, 1)]
    return [about, *lead(folder)], [Section("The frontier in full", tables, id="frontier")]
