"""What the curves of one of the paper's figures come to, in sentences that are computed from them."""

from collections.abc import Sequence

from pricdr.evaluation.verdict import Verdict
from pricdr.report.curves import CurveStudy, Trend, Variant
from pricdr.report.folder import STRATA
from pricdr.report.measurements import number

_BEGINNINGS = {
    Variant.UNGATED: "With gates off",
    Variant.GATED: "With gates on",
    Variant.CLEAR: "Without noise (NOT PRIVATE)",
}


def sentences(study: CurveStudy) -> tuple[str, ...]:
    """Return the paper's claim beside what was measured; nothing where no curve has an interval."""
    told = []
    for variant in Variant:
        trends = [one for one in study.trends if one.variant is variant and one.contrast.interval is not None]
        if trends:
            told.append(f"{_BEGINNINGS[variant]}, ours {_agreement(trends)}")
    if not told:
        return ()
    found = [f"The paper: {study.question.claim}.", *told, _refusals(study.trends), _stability(study)]
    return tuple(sentence for sentence in found if sentence)


def _agreement(trends: Sequence[Trend]) -> str:
    counts = {verdict: sum(trend.verdict is verdict for trend in trends) for verdict in Verdict}
    shape = counts[Verdict.HELPS]
    agrees = "agrees in shape" if 2 * shape > len(trends) else "agrees only in part" if shape else "does not agree"
    largest = max(trends, key=lambda trend: trend.contrast.value)
    return (
        f"{agrees}: of {len(trends)} curves, {shape} {'is' if shape == 1 else 'are'} as in the paper, "
        f"{counts[Verdict.UNCLEAR]} flat within error, {counts[Verdict.HURTS]} the other way. The largest effect is "
        f"{largest.contrast.interval_in_words()} ({largest.curve}, {STRATA[largest.stratum]}, {largest.task}); "
        f"{_would_have_shown(trends)}."
    )


def _would_have_shown(trends: Sequence[Trend]) -> str:
    """Return how large an effect would have had to be: the median half of an interval."""
    halves = sorted((d.high - d.low) / 2 for trend in trends if (d := trend.contrast.interval) is not None)
    return f"{number(halves[len(halves) // 2])} would have shown on half of the curves"


def _refusals(trends: Sequence[Trend]) -> str:
    told = []
    gated = [trend for trend in trends if trend.variant is Variant.GATED]
    for stratum in dict.fromkeys(trend.stratum for trend in gated):
        of_stratum = [trend for trend in gated if trend.stratum == stratum]
        runs = sum(trend.runs for trend in of_stratum)
        if runs:
            told.append(f"{sum(trend.refused for trend in of_stratum)} of {runs} runs for {STRATA[stratum]}")
    if not told:
        return ""
    return f"With gates on, the release was refused in {' and in '.join(told)}: what is left is the target-only model."


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
