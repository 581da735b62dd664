"""The certificate of a release, drawn for people."""

from pricdr.pages import Note, Section
from pricdr.release.drawing import DrawnRelease, release_sections
from pricdr.release.inspection import Inspection
from pricdr.report.example import example
from pricdr.report.folder import ResultsFolder


def section(folder: ResultsFolder, inspection: Inspection | None) -> Section:
    """Return the release that was given, or an example of one."""
    if inspection is None:
        shown = example(folder)
        words, drawn = shown.words, shown.drawn
    else:
        c = inspection.certificate
        size = f"{c.users:,} users x {c.dim:,} numbers"
        words = f"A verified release: {size} by {c.strategy.name}; promise {c.promise}."
        drawn = DrawnRelease.of(inspection)
    return Section("A release, drawn for people", [Note(words), *release_sections(drawn)], id="certificate")
