"""A release on a page: an inspection to file away, and the sections that any other page shows of a release.

A page loads nothing, and whatever a certificate holds is text in it.
"""

import math
from collections.abc import Iterator

from pricdr import __version__
from pricdr.pages import Block, Bullets, Facts, Figure, Page, Section, render, table
from pricdr.pages.charts import WIDTH, chart_figure, undrawn
from pricdr.privacy.accounting import TradeOff
from pricdr.release.certificate import Certificate, rounded_up
from pricdr.release.inspection import FALSE_ALARMS, Inspection, noise_length, percent_up, trade_off_of


def render_inspection(inspection: Inspection) -> str:
    """Return the whole page: the release in short, drawn, and in all the words of its certificate."""
    words = inspection.sections()
    drawn = inspection_sections(inspection) if inspection.trade_off else []
    return render(
        Page(
            "A pricdr release, inspected",
            lead=[words[0].lines[-1], Facts(_in_short(inspection))],
            sections=[*drawn, *(Section(part.title, [Bullets(part.lines)]) for part in words)],
            footer=[f"Verified and inspected on {inspection.inspected} (UTC) with pricdr {__version__}."],
        )
    )


def inspection_sections(inspection: Inspection) -> list[Section]:
    """Return the sections that show a release which is at hand."""
    c = inspection.certificate
    return release_sections(c, row_length=math.sqrt(inspection.noise.mean_square * c.dim))


def release_sections(c: Certificate, *, row_length: float | None = None) -> list[Section]:
    """Return the sections that show what an attacker could learn, noise against signal, and budget spent.

    ``row_length``: the root mean square length of the published rows, where they are at hand.
    """
    return [
        Section("What an attacker could learn", list(_learnt(c)), "release-attack"),
        Section("Noise against signal", list(_noise(c, row_length)), "release-noise"),
        Section("Budget spent", [_budget(c)], "release-budget"),
    ]


def _in_short(inspection: Inspection) -> dict[str, str]:
    c, signer = inspection.certificate, inspection.signer
    signature = "not signed: anybody can have made this release"
    if signer is not None:
        signature = f"Ed25519, by {signer.known_by}; fingerprint {signer.fingerprint}"
    return {
        "Promise": c.promise,
        "Release": f"{c.users:,} users x {c.dim:,} numbers, strategy {c.strategy.name}",
        "User list": c.input.user_list if c.input.alignment is None else "found by align, by the source's own account",
        "Issuer, by its own account": c.issuer or "not declared",
        "Issued": c.issued or "not declared",
        "Recorded in a ledger": (c.ledger.recorded if c.ledger else None) or "not stated",
        "Signature": signature,
    }


def _learnt(c: Certificate) -> Iterator[Block | str]:
    curve = trade_off_of(c)
    if curve is None:
        yield "Everything: nothing is promised, and no curve can be drawn."
        return
    yield (
        f"Somebody who knows everything except one {c.unit} looks at this release and says whether it is there. Of 100 "
        f"releases without it, let 5 be called suspicious by mistake; then of 100 releases with it, at most "
        f"{percent_up(curve.detections(0.05)).removesuffix(' %')} are found. Blind guessing finds 5."
    )
    rows = [
        (percent_up(alpha), percent_up(curve.detections(alpha)), percent_up(curve.detections_by_guarantee(alpha)))
        for alpha in FALSE_ALARMS
    ]
    yield _curve(curve, c.unit)
    header = ["false alarms", "detections, at most", "by (ε, δ) alone"]
    yield table("release-rates", "False alarms against detections, in figures", header, rows, names=0)


def _curve(curve: TradeOff, unit: str) -> Figure:
    """Draw the exact curve, the bound by (ε, δ) alone, and the points at a few rates of false alarms."""
    id, caption = "release-curve", "False alarms against detections"
    note = (
        "Solid: the exact limit, from the accounting of this release's noise. Dashed: what (ε, δ) alone would allow. "
        "Dotted: blind guessing."
    )
    points = ((percent_up(alpha), percent_up(curve.detections(alpha))) for alpha in FALSE_ALARMS)
    in_words = (
        f"The best test for one {unit}. "
        + "; ".join(f"{alarms} false alarms, at most {found} detections" for alarms, found in points)
        + ". Blind guessing detects as often as it raises false alarms."
    )
    if missing := undrawn(id, caption, in_words, note):
        return missing
    import altair as alt

    axis = alt.Axis(format="%", tickCount=5)
    x = alt.X("x:Q", title="false alarms", scale=alt.Scale(domain=[0, 1]), axis=axis)
    y = alt.Y("y:Q", title="detections, at most", scale=alt.Scale(domain=[0, 1]), axis=axis)

    def line(points: list[tuple[float, float]], dash: list[int], opacity: float) -> alt.Chart:
        values = [{"x": alarms, "y": found, "at": at} for at, (alarms, found) in enumerate(points)]
        drawn: alt.Chart = alt.Chart(alt.InlineData(values=values)).mark_line(strokeDash=dash, opacity=opacity)
        return drawn.encode(x=x, y=y, order="at:Q")

    marks = [{"x": alpha, "y": curve.detections(alpha)} for alpha in FALSE_ALARMS]
    layers = [
        line([(0.0, 0.0), (1.0, 1.0)], [2, 4], 0.5),
        line(curve.guarantee_corners(), [7, 4], 0.6),
        line(curve.curve(), [1, 0], 1.0),
        alt.Chart(alt.InlineData(values=marks)).mark_point().encode(x=x, y=y),
    ]
    chart = alt.layer(*layers).properties(width=WIDTH, height=WIDTH)
    return chart_figure(id, caption, chart, in_words=in_words, note=note)


def _noise(c: Certificate, row_length: float | None) -> Iterator[Block | str]:
    if not c.sigma:
        yield "There is no noise: whatever the ratings say, this release says too."
        return
    yield (
        f"The noise in every number has a standard deviation of σ = {c.sigma:.4g}; one {c.unit} moves what is "
        f"published by at most {c.sensitivity:.4g}. So the noise is {c.sigma / c.sensitivity:.3g} times what one "
        f"{c.unit} contributes."
    )
    lengths = {
        f"one {c.unit}, at most": c.sensitivity,
        "the noise in one number: σ": c.sigma,
        "the noise in a whole row, typically": noise_length(c),
        "a published row, noise included (root mean square)": row_length,
    }
    rows = [(label, f"{length:.4g}") for label, length in lengths.items() if length is not None]
    yield table("release-lengths", "Lengths in one user's row", ["what", "length"], rows)


def _budget(c: Certificate) -> str:
    if c.ledger is None:
        return (
            "No ledger is stated, so nobody can say what share of a budget this is: other releases of the same ratings "
            "add to the cost and are not counted here."
        )
    # Rounded up: a promise must not look better than it is.
    spent, total = (f"{rounded_up(value, 4):g}" for value in (c.ledger.epsilon_total, c.ledger.budget_epsilon))
    return (
        f"The source declared a budget of ε = {total} for all its releases together. After this one, ε = {spent} of it "
        "is spent, had all of them been fixed in advance; the promise is the budget."
    )
