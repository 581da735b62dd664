"""The report of a results folder: one page of everything in it."""

from collections.abc import Callable

from pricdr import __version__
from pricdr.pages import Page, Section, render
from pricdr.progress import Progress, silent
from pricdr.release.inspection import Inspection
from pricdr.report import ablation, answer, curves, table2
from pricdr.report.folder import ResultsFolder
from pricdr.report.sections import ablation as ablation_section
from pricdr.report.sections import certificate as certificate_section
from pricdr.report.sections import curves as curve_sections
from pricdr.report.sections import frontier as frontier_section
from pricdr.report.sections import others
from pricdr.report.sections import table2 as table2_section
from pricdr.report.sections import table3 as table3_section
from pricdr.report.sections.lead import lead

SHOWN = {
    table2.FAMILY,
    ablation.FAMILY,
    answer.FAMILY,
    *(name for question in curves.QUESTIONS for name in (question.family, question.also)),
}
"""Families with a section of their own."""


def report(folder: ResultsFolder, *, inspection: Inspection | None = None, progress: Progress = silent) -> str:
    """Return the page as HTML.

    Args:
        folder: what to show.
        inspection: a verified release to draw; an example where there is none.
        progress: is told how many sections are done.
    """
    makers: list[tuple[str, Callable[[], list[Section | None]]]] = [
        ("Table 2", lambda: [table2_section.section(folder)]),
        ("Table 3", lambda: [table3_section.section(folder)]),
        ("RQ3", lambda: [ablation_section.section(folder)]),
        ("RQ4 and RQ5", lambda: [*curve_sections.sections(folder)]),
        ("the frontier", lambda: [frontier_section.section(folder)]),
        ("other experiments", lambda: [others.other_section(folder, SHOWN)]),
        ("searches", lambda: [others.search_section(folder)]),
        ("cost", lambda: [others.cost_section(folder)]),
        ("a release", lambda: [certificate_section.section(folder, inspection)]),
        ("what was run", lambda: [others.provenance_section(folder)]),
    ]
    progress("drawing", 0, len(makers) + 1, "the answer")
    first = lead(folder)
    sections: list[Section] = []
    for at, (name, make) in enumerate(makers, 1):
        progress("drawing", at, len(makers) + 1, name)
        sections += [section for section in make() if section is not None]
    return render(
        Page(
            "What crosses between two companies' ratings, at which ε",
            sections,
            first,
            contents=True,
            footer=[f"Made by pricdr {__version__} from a results folder. This page loads nothing."],
        )
    )
