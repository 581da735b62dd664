"""What the curves of one of the paper's figures come to, in sentences that are computed from them."""

from collections import Counter
from collections.abc import Sequence

from pricdr.evaluation.verdict import Verdict
from pricdr.report.curves import CurveStudy, Trend, Variant
from pricdr.report.folder import STRATA
from pricdr.report.measurements import number


def sentences(study: CurveStudy) -> tuple[str, ...]:
    """Return the paper's claim beside what was measured; nothing where no curve has an interval."""
    told = [_agreement(name, trends) for name, trends in _groups(study.trends) if trends]
    if not told:
        return ()
    found = [f"The paper: {study.question.claim}.", *told, _controls(study.trends)]
    found += [_refusals(study.trends), _scales(study), _stability(study)]
    return tuple(sentence for sentence in found if sentence)


def _groups(trends: Sequence[Trend]) -> list[tuple[str, list[Trend]]]:
    """Return the curves that are spoken of together: those with an interval, by gates and by whose noise they have."""
    told = [trend for trend in trends if trend.effect.interval is not None and not trend.control]
    ungated = [trend for trend in told if trend.variant is Variant.UNGATED]
    paper = [trend for trend in ungated if trend.nominal]
    return [
        ("With gates off" + (" and exact noise" if paper else ""), [one for one in ungated if not one.nominal]),
        ("With gates off and the paper's noise", paper),
        ("With gates on", [trend for trend in told if trend.variant is Variant.GATED]),
        ("Without noise (NOT PRIVATE)", [trend for trend in told if trend.variant is Variant.CLEAR]),
    ]


def _agreement(name: str, trends: Sequence[Trend]) -> str:
    counts = {verdict: sum(trend.verdict is verdict for trend in trends) for verdict in Verdict}
    shape, flat, other = (counts[verdict] for verdict in (Verdict.HELPS, Verdict.UNCLEAR, Verdict.HURTS))
    total = f"{len(trends)} curve{'s' if len(trends) > 1 else ''}"
    if not shape:
        agrees = f"does not agree in shape on any of {total}"
    else:
        agrees = f"agrees in shape on {shape} of {total}{'' if 2 * shape > len(trends) else ' only'}"
    nearest = max(trends, key=lambda trend: trend.effect.value)
    return (
        f"{name}, ours {agrees}: {flat} flat within error, {other} {trends[0].shape.otherwise}. What comes nearest to "
        f"it is {nearest.effect.interval_in_words()} ({nearest.curve}, {STRATA[nearest.stratum]}, {nearest.task})"
        f"{_resolution(trends)}."
    )


def _resolution(trends: Sequence[Trend]) -> str:
    """Return how closely effects were measured: the median half of an interval that has a width."""
    intervals = [trend.effect.interval for trend in trends]
    halves = sorted((d.high - d.low) / 2 for d in intervals if d is not None and d.high > d.low)
    return f"; half of the intervals are ± {number(halves[len(halves) // 2])} or narrower" if halves else ""


def _controls(trends: Sequence[Trend]) -> str:
    """Return what curves do whose releases are worth nothing."""
    controls = [trend for trend in trends if trend.control and trend.effect.interval is not None]
    if not controls:
        return ""
    counts = Counter(trend.in_words for trend in controls)
    told = ", ".join(f"{count} {words}" for words, count in counts.most_common())
    return (
        f"Of {len(controls)} curves of releases that are worth nothing (controls): {told}. What a curve has in common "
        f"with those is no sign of information."
    )


def _refusals(trends: Sequence[Trend]) -> str:
    told = []
    gated = [trend for trend in trends if trend.variant is Variant.GATED and not trend.control]
    for stratum in dict.fromkeys(trend.stratum for trend in gated):
        of_stratum = [trend for trend in gated if trend.stratum == stratum]
        runs = sum(trend.runs for trend in of_stratum)
        if runs:
            told.append(f"{sum(trend.refused for trend in of_stratum)} of {runs} runs for {STRATA[stratum]}")
    if not told:
        return ""
    return f"With gates on, the release was refused in {' and in '.join(told)}: what is left is the target-only model."


def _scales(study: CurveStudy) -> str:
    """Return what the paper's nominal ε is exactly."""
    known = sorted((point.at, point.exact) for point in study.points if point.nominal and point.exact is not None)
    if not known:
        return ""
    (first, least), (last, most) = known[0], known[-1]
    said = f"What the paper calls ε = {first:g} to {last:g} is an exact ε of {least:.2g} to {most:.2g}"
    return f"{said}: its curves are about far less information than their axis says." if 2 * most < last else f"{said}."


def _stability(study: CurveStudy) -> str:
    """Return whether sjlt loses less than jlt as the source grows sparser: the second half of RQ5's claim."""
    if study.question.axis != "source_share":
        return ""
    by_curve = {(trend.task, trend.stratum, trend.curve): trend for trend in study.trends}
    differences = []
    for (task, stratum, curve), jlt in by_curve.items():
        # A curve of sjlt differs from its partner in that word alone.
        sjlt = by_curve.get((task, stratum, f"s{curve}")) if curve.startswith("jlt") else None
        if sjlt is not None and (difference := jlt.effect - sjlt.effect).interval is not None:
            differences.append(difference)
    if not differences:
        return ""
    counts = {verdict: sum(one.verdict is verdict for one in differences) for verdict in Verdict}
    return (
        f"Of {len(differences)} pairs of curves, sjlt loses less than jlt as the source grows sparser in "
        f"{counts[Verdict.HELPS]}, more in {counts[Verdict.HURTS]}; it cannot be told in {counts[Verdict.UNCLEAR]}."
    )
