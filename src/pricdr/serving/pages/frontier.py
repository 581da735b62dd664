"""The frontier: what users gain at which ε, from a file of results of ``pricdr reproduce``.

Results are read and drawn by ``pricdr.report``, which needs more than a server does: it is imported where a frontier
was given, and only there.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pricdr.errors import InputError
from pricdr.extras import REPORT, TRAIN
from pricdr.pages import Commands, Content, Section

if TYPE_CHECKING:
    from pricdr.report.folder import ResultsFolder

NONE_GIVEN: Final[Content] = (
    "The frontier shows what users gain at which ε, so that a budget can be chosen before it is spent. It is measured "
    "on data that one party holds whole: public ratings, or made-up ones. None was given to this server.",
    "These commands measure one and show it here:",
    Commands(
        ["pricdr reproduce specs/frontier.toml --out results", "pricdr serve MODEL --frontier results/NAME.jsonl"],
    ),
)


@dataclass(frozen=True)
class Frontier:
    """The results of one pair."""

    folder: "ResultsFolder"

    @classmethod
    def read(cls, path: Path) -> "Frontier":
        """Return the results in a file; other results in its folder count for what a release has to beat.

        Raises:
            InputError: it holds no results of a frontier.
            MissingExtraError: what reads and draws results is not installed.
        """
        REPORT.require()
        TRAIN.require()
        from pricdr.report.answer import FAMILY
        from pricdr.report.folder import LINES, SUFFIX, read_folder

        name = path.name.removesuffix(LINES)
        if not path.name.endswith(LINES) or not path.is_file():
            raise InputError(f"{path} is not a file of results, NAME{LINES} (pricdr reproduce specs/frontier.toml)")
        if not (path.parent / f"{name}{SUFFIX}").is_file():
            raise InputError(f"{path} has no {name}{SUFFIX} beside it, which says what was measured")
        folder = read_folder(path.parent)
        chosen = tuple(one for one in folder.experiments if one.outline.name == name)
        if not chosen or chosen[0].outline.family != FAMILY:
            raise InputError(f"{path} holds no results of a frontier (pricdr reproduce specs/frontier.toml)")
        return cls(replace(folder, experiments=chosen))

    @cached_property
    def blocks(self) -> tuple[Content, list[Section]]:
        """The answer with its chart, and the table of every ε; drawn once."""
        from pricdr.report.sections import frontier
        from pricdr.report.sections.lead import lead

        titles = ", ".join(one.title for one in self.folder.experiments)
        about = (
            f"Measured on {titles}, not on the data of the model that is served here: a guide to which ε to ask for, "
            "before a budget is spent."
        )
        # Not the made-up pairs, which lie in the same folder: they are another experiment.
        pairs = frontier.pair_sections(self.folder)
        return [about, *lead(self.folder)], [Section("The frontier in full", pairs, id="frontier", hides="arms")]
