"""Verified releases for people and programs: everything that can be told about one, and what differs between two.

The sections of a certificate come from ``readme``. Added is what a certificate cannot say of itself: who signed it, the
hashes of the files, how much of the published numbers is noise, and the curve of false alarms against detections.
"""

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pricdr import __version__
from pricdr.pages import Block, Bullets, Facts, Figure, Page, Section, render, table
from pricdr.pages.charts import WIDTH, chart_figure
from pricdr.privacy.accounting import TradeOff, composed_epsilon, composed_mu, is_private
from pricdr.privacy.strategies import BY_NAME
from pricdr.privacy.strategies.continued import added_up
from pricdr.release.certificate import Certificate, alike, leaves, rounded_up, today
from pricdr.release.folder import CERTIFICATE, MATRIX, Release, row_chunks
from pricdr.release.readme import ReadmeSection, best_guess, in_short, of_100, percent_up, statement, trade_off_of
from pricdr.release.series import Series, place, places_said
from pricdr.signing import fingerprint, public_from_text

if TYPE_CHECKING:
    import altair as alt

INSPECTION_LAYOUT, DIFFERENCE_LAYOUT = 1, 2  # a key that goes, or means something else, needs a new version
FALSE_ALARMS: Final = (0.01, 0.05, 0.1, 0.25, 0.5)  # where the curve is written out in figures

NO_LIMIT: Final = "without limit"  # in place of a figure: no promise bounds it, or none that can be certified
COVERED: Final = "covered by the unit itself"  # in place of what all ratings of a user cost, which the promise is about
_LIMITS: Final = frozenset({"epsilon", "mu", "removed_at_worst", "replaced_at_worst"})
"""Figures that a certificate leaves out where they have no limit. ``removed_typically`` is one where rows cancel."""
_COMPARED_AT: Final = 0.05  # false alarms of the test that the sentences on two releases speak of
_RATINGS: Final = 20  # of the user whose whole profile they speak of
_SENTENCES: Final = ("not_protected", "warnings")  # lists of sentences: one may be anywhere in the list
GROUPS: Final = {
    "promise": (
        *("private", "epsilon", "nominal_epsilon", "delta", "unit", "window", "neighbours", "epsilon_at_delta"),
        *("whole_user", "replacement", *_SENTENCES),
    ),
    "mechanism": (
        *("strategy", "dim", "calibration", "bounds", "sigma", "sensitivity", "mu", "grid", "noise"),
        *("steps", "guide", "series"),
    ),
    "users and items": ("users", "items", "input"),
    "budget": ("ledger",),
    "origin": ("issuer", "issued", "signed_by", "software", "schema_version"),
    "files": ("files",),
}
"""Every field of a certificate, in the order in which somebody who compares asks for them."""


@dataclass(frozen=True)
class Inspection:
    """What an auditor sees of one verified release."""

    release: Release
    key_given: bool  # whether it was verified against a public key that the auditor has

    def __post_init__(self) -> None:
        assert self.release.verified, "a report on a release that was not checked would vouch for it"

    @property
    def certificate(self) -> Certificate:
        """Its promise."""
        return self.release.certificate

    @property
    def fingerprint(self) -> str | None:
        """Of the signer's key."""
        key = self.certificate.signed_by
        return None if key is None else fingerprint(public_from_text(key))

    @property
    def signature(self) -> list[str]:
        """Who signed it, in words."""
        if self.fingerprint is None:
            return ["Not signed: anybody can have made this release."]
        by = "the public key that was given" if self.key_given else "a key that nobody vouched for here"
        return [f"Signed (Ed25519) by {by}.", f"Its fingerprint, the SHA-256 of the key in DER: {self.fingerprint}."]

    @property
    def hashes(self) -> dict[str, str]:
        """Of every file but the signature, by name."""
        return {CERTIFICATE: hashlib.sha256(self.certificate.to_bytes()).hexdigest(), **self.certificate.files}

    @cached_property
    def noise(self) -> dict[str, float]:
        """How much of the published numbers is noise: both are public, so this costs nobody anything.

        ``noise_length`` is the typical length of the noise in one user's row; ``noise_share``, its share in the mean
        square of the numbers; ``error``, the relative standard error of a mean square of noise alone.
        """
        c, matrix = self.certificate, self.release.matrix
        total = math.fsum(float(np.square(rows, dtype=np.float64).sum()) for rows in row_chunks(matrix))
        published = [step for step in c.steps if step.published]
        row_noise = math.fsum(step.numbers * step.sigma**2 for step in published)
        fourth = math.fsum(step.numbers * step.sigma**4 for step in published)
        mean_square = total / matrix.size
        return {
            "sigma": c.sigma,
            "sensitivity": c.sensitivity,
            "noise_length": math.sqrt(row_noise),
            "mean_square": mean_square,
            "noise_mean_square": row_noise / c.dim,
            # The square of a centred normal has variance 2σ⁴.
            "error": math.sqrt(2 * fourth / len(matrix)) / row_noise if row_noise else 0.0,
            "noise_share": row_noise / c.dim / mean_square if mean_square else 0.0,
        }

    def sections(self) -> list[ReadmeSection]:
        """Return all of it in words: what README.md says, and what it cannot say."""
        added = {
            "False alarms and detections": self._trade_off_lines(),
            "Noise and signal": self._noise_lines(),
            "Signature": self.signature,
            "Files, by SHA-256": [f"{name}: {value}" for name, value in self.hashes.items()],
        }
        return [*statement(self.certificate), *(ReadmeSection(title, tuple(lines)) for title, lines in added.items())]

    def to_dict(self) -> dict[str, Any]:
        """Return all of it for programs; ``docs/privacy-officer.md`` documents the layout."""
        c, curve = self.certificate, trade_off_of(self.certificate)
        signer = {"public_key": c.signed_by, "fingerprint": self.fingerprint, "given": self.key_given}
        trade_off = None
        if curve is not None:
            names = ("false_alarms", "detections", "detections_by_epsilon_delta")
            points = [dict(zip(names, point, strict=True)) for point in _points(curve)]
            trade_off = {"law": "gaussian", **asdict(curve), "points": points, "curve": curve.curve()}
        return {
            "layout_version": INSPECTION_LAYOUT,
            "software": f"pricdr {__version__}",
            "inspected": today(),
            "verified": True,
            "issuer": c.issuer,
            "issued": c.issued,
            "recorded": None if c.ledger is None else c.ledger.recorded,
            "signature": None if c.signed_by is None else signer,
            "sha256": self.hashes,
            "noise_and_signal": self.noise,
            "trade_off": trade_off,
            "sections": [asdict(section) for section in self.sections()],
            "certificate": c.model_dump(mode="json"),
        }

    def _trade_off_lines(self) -> list[str]:
        if (curve := trade_off_of(self.certificate)) is None:
            return ["No curve: without noise that stays secret, nothing is kept from anybody."]
        return [
            f"The best test that anybody can make of one {self.certificate.unit}, at most: {_rates(curve)}.",
            f"This limit is exact for the noise that was added: the curve of a Gaussian mechanism at mu "
            f"{curve.mu:.6g}. It allows less than epsilon and delta alone would.",
        ]

    def _noise_lines(self) -> list[str]:
        noise = self.noise
        if not noise["sigma"]:
            return ["There is no noise."]
        seen = noise["mean_square"] / noise["noise_mean_square"] - 1
        share = (
            "nothing in their size tells them from noise alone"
            if seen < 3 * noise["error"]
            else f"noise is {min(1.0, noise['noise_share']):.1%} of their mean square"
        )
        row = math.sqrt(noise["mean_square"] * self.certificate.dim)
        return [
            f"One {self.certificate.unit} moves what is published by at most {noise['sensitivity']:.4g}, measured in "
            f"the last step; the noise in one user's row has a typical length of {noise['noise_length']:.4g}, and a "
            f"published row, noise included, of {row:.4g} (root mean square).",
            f"Over all published numbers, {share}.",
        ]


def render_inspection(inspection: Inspection) -> str:
    """Return the whole page: the release in short, drawn, and in all the words of its certificate."""
    c, words = inspection.certificate, inspection.sections()
    facts = {**in_short(c), "Signature": " ".join(inspection.signature)}
    return render(
        Page(
            "A pricdr release, inspected",
            lead=[words[0].lines[-1], Facts(facts)],
            sections=[attack_section(c), *(Section(part.title, [Bullets(part.lines)]) for part in words)],
            footer=[f"Verified and inspected on {today()} (UTC) with pricdr {__version__}."],
        )
    )


def attack_section(c: Certificate, *lead: str) -> Section:
    """Return the section of a page that shows what an attacker could learn, drawn and in figures."""
    title, id = "What an attacker could learn", "release-attack"
    if (curve := trade_off_of(c)) is None:
        return Section(title, [*lead, "Everything: nothing is promised, and no curve can be drawn."], id)
    header = ["false alarms", "detections, at most", "by (ε, δ) alone"]
    rows = [list(map(percent_up, point)) for point in _points(curve)]
    learnt: list[Block | str] = [
        f"Somebody who knows everything except one {c.unit} looks at this release and says whether it is there. Of 100 "
        f"releases without it, let 5 be called suspicious by mistake; then of 100 releases with it, at most "
        f"{of_100(curve.detections(0.05))} are found. Blind guessing finds 5.",
        f"{best_guess(curve, c.unit)} That is μ = {rounded_up(curve.mu, 4):g} in words.",
        _drawn(curve, c.unit),
        table("release-rates", "False alarms against detections, in figures", header, rows, names=0),
    ]
    return Section(title, [*lead, *learnt], id)


def _points(curve: TradeOff) -> list[tuple[float, float, float]]:
    return [(alpha, curve.detections(alpha), curve.detections_by_guarantee(alpha)) for alpha in FALSE_ALARMS]


def _rates(curve: TradeOff) -> str:
    return "; ".join(f"{percent_up(x)} false alarms, {percent_up(y)} detections" for x, y, _ in _points(curve))


def _drawn(curve: TradeOff, unit: str) -> Figure:
    """Draw the exact curve, the bound by (ε, δ) alone, and points at a few rates of false alarms."""
    id, caption = "release-curve", "False alarms against detections"
    exact = "Solid: the exact limit, from the accounting of this release's noise."
    note = f"{exact} Dashed: what (ε, δ) alone would allow. Dotted: blind guessing."
    in_words = f"The best test for one {unit}, at most: {_rates(curve)}. Blind guessing detects as often as it errs."
    return chart_figure(id, caption, partial(_chart, curve), in_words=in_words, note=note)


def _chart(curve: TradeOff) -> "alt.TopLevelMixin":
    import altair as alt

    axis, scale = alt.Axis(format="%", tickCount=5), alt.Scale(domain=[0, 1])
    x = alt.X("x:Q", title="false alarms", scale=scale, axis=axis)
    y = alt.Y("y:Q", title="detections, at most", scale=scale, axis=axis)
    layers = []
    for corners, dash, opacity in (
        ([(0.0, 0.0), (1.0, 1.0)], [2, 4], 0.5),
        (curve.guarantee_corners(), [7, 4], 0.6),
        (curve.curve(), [1, 0], 1.0),
    ):
        line = alt.Chart(alt.InlineData(values=[{"x": a, "y": b, "at": at} for at, (a, b) in enumerate(corners)]))
        layers.append(line.mark_line(strokeDash=dash, opacity=opacity).encode(x=x, y=y, order="at:Q"))
    marks = alt.Chart(alt.InlineData(values=[{"x": a, "y": b} for a, b, _ in _points(curve)]))
    return alt.layer(*layers, marks.mark_point().encode(x=x, y=y)).properties(width=WIDTH, height=WIDTH)


@dataclass(frozen=True)
class Change:
    """A figure, a sentence or a name that is not the same in two certificates."""

    group: str
    field: str
    """Its path in the certificate, as in ``steps.0.sigma``, or ``whole_user.20.removed_at_worst`` for 20 ratings."""
    before: Any
    after: Any  # what the certificate says, :data:`NO_LIMIT` or :data:`COVERED`; None where it says nothing of this


@dataclass(frozen=True)
class ReleaseChange:
    """What changed from one release to another; empty where both are the same."""

    same: bool  # whether their certificates are equal, byte for byte, and with them every hash of their files
    same_matrix: bool  # whether their ``release.safetensors`` are
    sentences: tuple[str, str, str]
    """Which one promises more and to whom, and by how much: for one rating, and for all ratings of one user."""
    users: dict[str, int]
    """How many are listed in both, or in one alone; and whether those in both are in another order."""
    changes: tuple[Change, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return all of it for programs; ``docs/privacy-officer.md`` documents the layout."""
        return {"layout_version": DIFFERENCE_LAYOUT, **asdict(self)}


def composed(certificates: Sequence["Certificate"]) -> tuple[float, float] | None:
    """Return μ and ε, at the δ of the last, of whatever pays in most of these releases; None without noise.

    A rating pays in the releases that count its day, and in no other: of windows apart, the costlier one counts.
    """
    if not all(c.promises for c in certificates):
        return None
    days = {c.window.begin for c in certificates if c.window is not None}
    found = [_composed_on(day, certificates) for day in days or ("",)]
    mu, epsilon = max(mu for mu, _ in found), max(epsilon for _, epsilon in found)
    return (mu, epsilon) if math.isfinite(epsilon) else None


def _composed_on(day: str, certificates: Sequence["Certificate"]) -> tuple[float, float]:
    """Return μ and ε of what these releases read of one day; a release without a window reads every day."""
    about = [c for c in certificates if c.window is None or c.window.begin <= day < c.window.until]
    costs = [(c.mu or 0.0, sum(step.moved for step in c.steps)) for c in about]
    return composed_mu(mu for mu, _ in costs), composed_epsilon(costs, certificates[-1].delta)


@dataclass(frozen=True, kw_only=True)
class SeriesSummary:
    """What the releases of a series cost and say together."""

    places: tuple[int, ...]
    missing: tuple[int, ...]
    users: int  # who have a row in any of them
    unit: str
    mu: float | None  # for what is in all releases about its days; None where one is without a promise
    epsilon: float | None
    delta: float
    noise_in_newest: float  # the part of the variance of its numbers that is noise
    noise_in_sum: float

    @classmethod
    def of(cls, series: Series) -> "SeriesSummary":
        """Return it; the noise in published numbers is known, so this costs nobody anything."""
        cost = composed([one.certificate for one in series.members])
        return cls(
            places=tuple(map(place, series.members)),
            missing=tuple(series.missing),
            users=len(series.users),
            unit=series.newest.certificate.unit,
            mu=None if cost is None else cost[0],
            epsilon=None if cost is None else cost[1],
            delta=series.newest.certificate.delta,
            noise_in_newest=added_up([series.newest], series.newest.users).noise_share,
            noise_in_sum=series.sum.noise_share,
        )

    @property
    def sentences(self) -> list[str]:
        """The same in words."""
        missing = f"; nothing at {places_said(self.missing)}" if self.missing else ""
        promise = (
            "nothing is promised of all of them together"
            if self.mu is None or self.epsilon is None
            else f"one {self.unit} is protected by epsilon = {rounded_up(self.epsilon, 4):g} at delta = "
            f"{rounded_up(self.delta):g} (mu = {rounded_up(self.mu, 4):g}) or better, had all been fixed in advance"
            + ("" if is_private(self.epsilon) else ": NOT PRIVATE")
        )
        return [
            f"At places {', '.join(map(str, self.places))}{missing}; {self.users:,} users have a row.",
            f"Together: {promise}; the source's ledger counts those that are not here.",
            f"Of the variance of the numbers, {self.noise_in_newest:.0%} is noise in the newest release alone, and "
            f"{self.noise_in_sum:.0%} in the sum of all.",
        ]


def difference(before: Release, after: Release) -> ReleaseChange:
    """Return what changed from ``before`` to ``after``."""
    assert before.verified and after.verified, "fields of an unverified certificate mean nothing"  # noqa: PT018
    a, b = before.certificate, after.certificate
    old, new = set(before.users), set(after.users)
    reordered = [user for user in before.users if user in new] != [user for user in after.users if user in old]
    one, whole = (f"{_detected(a, ratings)} with A, {_detected(b, ratings)} with B" for ratings in (1, _RATINGS))
    return ReleaseChange(
        same=a.to_bytes() == b.to_bytes(),
        same_matrix=a.files[MATRIX] == b.files[MATRIX],
        sentences=(
            _verdict(a, b),
            f"One rating: a test with {percent_up(_COMPARED_AT)} false alarms detects it in at most {one}.",
            f"All {_RATINGS} ratings of one user, taken out together: in at most {whole}.",
        ),
        users={"kept": len(old & new), "added": len(new - old), "removed": len(old - new), "reordered": reordered},
        changes=tuple(_changes(a, b)),
    )


def _verdict(a: Certificate, b: Certificate) -> str:
    if a.window != b.window:
        return "A and B are about different days or periods: their promises cannot be compared."
    losses = [(_loss(a, ratings), _loss(b, ratings)) for ratings in (1, math.inf)]
    if all(alike(*pair) for pair in losses):
        return "A and B promise the same." if losses[0][0] < math.inf else "Neither A nor B promises anything."
    if all(left >= right for left, right in losses):
        return "B promises more than A, to everybody."
    if all(left <= right for left, right in losses):
        return "A promises more than B, to everybody."
    # One protects a rating better, and the other, whose unit is the user, protects users with many of them.
    (rating, other), (user, name) = sorted([(a, "A"), (b, "B")], key=lambda pair: -_loss(pair[0], math.inf))
    enough = math.ceil(_loss(user, math.inf) / _loss(rating, 1))
    return f"{name} promises more than {other} to users with at least {enough:,} ratings, and less to those with fewer."


def _loss(c: Certificate, ratings: float) -> float:
    """Return μ of a change of so many ratings of one user, at worst."""
    if c.mu is None or not c.promises:
        return math.inf
    # Each in a period of its own, at worst.
    most = {"rating": math.inf, "user": 1, "user-period": 1 if c.window is None else c.window.window().periods}[c.unit]
    return c.mu * min(ratings, most)


def _detected(c: Certificate, ratings: int) -> str:
    """Return how often a change of so many ratings is detected, and the ε behind it."""
    mu, epsilon = _loss(c, ratings), c.epsilon
    if mu == math.inf or epsilon is None:
        return f"100 % of cases ({NO_LIMIT})"
    detections = TradeOff(mu, epsilon, c.delta).detections(_COMPARED_AT)
    if c.unit == "rating" and ratings > 1:
        epsilon = next(one.removed_at_worst for one in c.whole_user if one.ratings == ratings)
    elif c.unit == "user-period" and ratings > 1:
        composed = composed_epsilon([(mu, sum(step.moved for step in c.steps))], c.delta)
        epsilon = rounded_up(composed) if math.isfinite(composed) else None
    figure = f"epsilon {NO_LIMIT}" if epsilon is None else f"epsilon {epsilon:.6g} at delta {c.delta:g}"
    however = f"; {COVERED}, however many" if c.unit == "user" and ratings > 1 else ""
    return f"{percent_up(detections)} of cases ({figure}{however})"


def _changes(before: Certificate, after: Certificate) -> Iterator[Change]:
    left, right = _content(before), _content(after)
    for group, names in GROUPS.items():
        for name in names:
            old, new = dict(leaves(left[name], name)), dict(leaves(right[name], name))
            if name in _SENTENCES:  # one that goes must not make all after it look new
                yield from (Change(group, name, text, None) for text in old.values() if text not in new.values())
                yield from (Change(group, name, None, text) for text in new.values() if text not in old.values())
                continue
            for field in dict.fromkeys((*old, *new)):
                was, now = _said(before, field, old), _said(after, field, new)
                if not alike(was, now):
                    yield Change(group, field, was, now)


def _content(c: Certificate) -> dict[str, Any]:
    """Return a certificate's fields, with what a whole user costs by the number of its ratings."""
    figures = {str(figure.ratings): figure.model_dump(exclude={"ratings"}) for figure in c.whole_user}
    return {**c.model_dump(mode="json"), "whole_user": figures}


def _said(c: Certificate, field: str, values: dict[str, Any]) -> Any:  # noqa: ANN401 - whatever JSON can hold
    """Return what a certificate says in a field; where that is nothing, why."""
    if values.get(field) is not None:
        return values[field]
    name, missing = field.rpartition(".")[2], field not in values
    if missing and field.startswith("whole_user.") and c.unit == "user" and c.mu is not None:
        return COVERED
    limited = name in _LIMITS or (name == "removed_typically" and BY_NAME[c.strategy.name].rows_cancel)
    listed = field.startswith(("whole_user.", "epsilon_at_delta."))
    return NO_LIMIT if limited and (listed or not missing) else None
