"""What the curves of one of the paper's figures come to, in sentences that are computed from them."""

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
    told = [trend for trend in trends if trend.contrast.interval is not None and not trend.control]
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
    largest = max(trends, key=lambda trend: trend.contrast.value)
    return (
        f"{name}, ours {agrees}: {flat} flat within error, {other} the other way. The largest effect is "
        f"{largest.contrast.interval_in_words()} ({largest.curve}, {STRATA[largest.stratum]}, {largest.task})"
        f"{_would_have_shown(trends)}."
    )


def _would_have_shown(trends: Sequence[Trend]) -> str:
    """Return how large an effect would have had to be: the median half of an interval that has a width."""
    intervals = [trend.contrast.interval for trend in trends]
    halves = sorted((d.high - d.low) / 2 for d in intervals if d is not None and d.high > d.low)
    return f"; {number(halves[len(halves) // 2])} would have shown on half of the curves" if halves else ""


def _controls(trends: Sequence[Trend]) -> str:
    """Return how often a release that is worth nothing has the paper's shape."""
    controls = [trend for trend in trends if trend.control and trend.contrast.interval is not None]
    if not controls:
        return ""
    shaped = [trend for trend in controls if trend.verdict is Verdict.HELPS]
    total = f"{len(controls)} curve{'s' if len(controls) > 1 else ''}"
    if not shaped:
        return f"Releases that are worth nothing (controls) have this shape on none of {total}."
    largest = max(shaped, key=lambda trend: trend.contrast.value)
    return (
        f"Releases that are worth nothing (controls) have this shape too on {len(shaped)} of {total}, up to "
        f"{largest.contrast.interval_in_words()} ({largest.curve}, {STRATA[largest.stratum]}, {largest.task}): an "
        "effect of that size is no sign of information."
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
        if sjlt is not None and (difference := jlt.contrast - sjlt.contrast).interval is not None:
            differences.append(difference)
    if not differences:
        return ""
    counts = {verdict: sum(one.verdict is verdict for one in differences) for verdict in Verdict}
    return (
        f"Of {len(differences)} pairs of curves, sjlt loses less than jlt as the source grows sparser in "
        f"{counts[Verdict.HELPS]}, more in {counts[Verdict.HURTS]}; it cannot be told in {counts[Verdict.UNCLEAR]}."
    )
