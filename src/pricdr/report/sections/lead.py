"""What the page opens with: three sentences and one chart."""

from pricdr.pages import Columns, Content, Figure, Note, Palette, Paragraph, Strong
from pricdr.report.answer import CONTROLS, FAMILY, Answer, answer, has_ceiling
from pricdr.report.charts import share_panels
from pricdr.report.folder import ResultsFolder

CURVES = ("guided", "spectral", "guide in the clear", "jlt", CONTROLS)
"""The strategies of the first chart, in the order of its legend; the frontier's section has all of them."""


def lead(folder: ResultsFolder) -> Content:
    """Return the answer, or what is missing to give one."""
    found = answer(folder)
    if not found.points and not found.sentences:
        return [Note("There are no results of the frontier (specs/frontier.toml) yet, so what crosses cannot be told.")]
    return [
        *(Paragraph([Strong(f"{sentence.about}. "), sentence.text]) for sentence in found.sentences),
        *frontier_figures(folder, found),
        "How to read it: ± is one standard error over seeds, [ , ] a 95 % interval over seeds. A seed has a split, a "
        "release and a network of its own, but all draw on the same users and ratings. Cold users have no history at "
        "the target, warm users have one. NDCG@10 ranks one hidden item among 99 that the user has not rated. The "
        "best release is the best on test of those tried, so it is a little lucky; the error of a share leaves out "
        "that of the plaintext gain it is a share of.",
    ]


def frontier_figures(folder: ResultsFolder, found: Answer) -> list[Columns]:
    """Return the chart of shares against ε, one panel per pair."""
    known = [curve for curve in CURVES if any(point.curve == curve for point in found.points)]
    curves = known or list(dict.fromkeys(point.curve for point in found.points))[: len(CURVES)]
    points = [point for point in found.points if point.curve in curves]
    if not points:
        return []
    panels: list[Figure] = share_panels(points, Palette(curves), id="crossing", notes=_notes(folder))
    return [Columns(panels)]


def _notes(folder: ResultsFolder) -> dict[str, str]:
    """Return what to say of pairs on which plaintext gains nothing for certain."""
    notes = {}
    for pair in folder.family(FAMILY):
        ceiling = pair.arms.get(pair.outline.ceiling or "")
        if ceiling is not None and not has_ceiling(pair) and pair.gain(ceiling, "cold"):
            gain = pair.gain(ceiling, "cold").interval_in_words()
            notes[pair.title] = (
                f"Even {ceiling.name} gains nothing for certain here ({gain}), so shares of that gain mean little."
            )
    return notes
