"""``Inspection``: everything that can be told about a verified release, for the screen, for programs and for a page.

The sections of the certificate come from ``statement``. What is added here a certificate cannot say of itself: who
signed it and whether the reader knows that key, the hashes of the files, how much of the published numbers is noise,
and the whole curve of false alarms against detections.
"""

import hashlib
import math
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from pricdr import __version__
from pricdr.privacy.accounting import TradeOff
from pricdr.release.certificate import Certificate, today
from pricdr.release.folder import CERTIFICATE, Release
from pricdr.release.readme import Section, statement
from pricdr.signing import fingerprint, public_from_text

LAYOUT_VERSION: Final = 1
"""Of :meth:`Inspection.to_dict`. Keys may be added; one that is removed or changes its meaning takes a new version."""
FALSE_ALARMS: Final = (0.01, 0.05, 0.1, 0.25, 0.5)
"""Where the curve is written out in figures."""
_ROWS_AT_ONCE: Final = 1 << 14


@dataclass(frozen=True)
class Signer:
    """The key that signed a release."""

    public_key: str
    """Base64 of its 32 bytes, as in the certificate."""
    fingerprint: str
    """SHA-256 of the key in DER (SubjectPublicKeyInfo), hexadecimal: what OpenSSL computes from the PEM file."""
    given: bool
    """Whether the reader asked for this very key."""


@dataclass(frozen=True)
class NoiseAndSignal:
    """How much of the published numbers is noise."""

    sigma: float
    sensitivity: float
    noise_length: float
    """The typical length of the noise in one user's row."""
    mean_square: float
    """Of the published numbers."""
    noise_mean_square: float
    """Of their noise alone, as certified."""
    error: float
    """The standard error of a mean square of noise alone, relative to it."""

    @property
    def noise_share(self) -> float:
        """The share of noise in the mean square; about 1 where nothing but noise can be seen."""
        return self.noise_mean_square / self.mean_square if self.mean_square else 0.0


@dataclass(frozen=True)
class Inspection:
    """What an auditor sees of one release."""

    certificate: Certificate
    inspected: str
    """The day, in UTC."""
    signer: Signer | None
    hashes: dict[str, str]
    noise: NoiseAndSignal
    trade_off: TradeOff | None
    """None where nothing is promised."""

    @classmethod
    def of(cls, release: Release, *, key_given: bool) -> "Inspection":
        """Return what can be told about a verified release; ``key_given``: it was verified against a public key."""
        assert release.verified, "a report on a release that was not checked would vouch for it"
        c = release.certificate
        return cls(
            certificate=c,
            inspected=today(),
            signer=_signer(c, key_given),
            hashes={CERTIFICATE: hashlib.sha256(c.to_bytes()).hexdigest(), **c.files},
            noise=_noise_and_signal(release),
            trade_off=trade_off_of(c),
        )

    def sections(self) -> list[Section]:
        """Return all of it in words: what README.md says, and what it cannot say."""
        return [
            *statement(self.certificate),
            Section("False alarms and detections", tuple(self._trade_off_lines())),
            Section("Noise and signal", tuple(self._noise_lines())),
            Section("Signature", tuple(self._signature_lines())),
            Section("Files, by SHA-256", tuple(f"{name}: {value}" for name, value in self.hashes.items())),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return all of it for programs; ``docs/privacy-officer.md`` documents the layout."""
        c = self.certificate
        return {
            "layout_version": LAYOUT_VERSION,
            "software": f"pricdr {__version__}",
            "inspected": self.inspected,
            "verified": True,
            "issuer": c.issuer,
            "issued": c.issued,
            "recorded": None if c.ledger is None else c.ledger.recorded,
            "signature": None if self.signer is None else asdict(self.signer),
            "sha256": self.hashes,
            "noise_and_signal": {**asdict(self.noise), "noise_share": self.noise.noise_share},
            "trade_off": None if self.trade_off is None else _trade_off_content(self.trade_off),
            "sections": [asdict(section) for section in self.sections()],
            "certificate": c.model_dump(mode="json"),
        }

    def _trade_off_lines(self) -> list[str]:
        if self.trade_off is None:
            return ["No curve: without noise that stays secret, nothing is kept from anybody."]
        rates = "; ".join(
            f"{percent_up(alpha)} false alarms, {percent_up(self.trade_off.detections(alpha))} detections"
            for alpha in FALSE_ALARMS
        )
        return [
            f"The best test that anybody can make of one {self.certificate.unit}, at most: {rates}.",
            f"This limit is exact for the noise that was added: the curve of a Gaussian mechanism at mu "
            f"{self.trade_off.mu:.6g}. It allows less than epsilon and delta alone would.",
        ]

    def _noise_lines(self) -> list[str]:
        noise = self.noise
        if not noise.sigma:
            return ["There is no noise."]
        seen = noise.mean_square / noise.noise_mean_square - 1
        share = (
            "nothing in their size tells them from noise alone"
            if seen < 3 * noise.error
            else f"noise is {min(1.0, noise.noise_share):.1%} of their mean square"
        )
        return [
            f"One {self.certificate.unit} moves what is published by at most {noise.sensitivity:.4g}, measured in the "
            f"last step; the noise in one user's row has a typical length of {noise.noise_length:.4g}.",
            f"Over all published numbers, {share}.",
        ]

    def _signature_lines(self) -> list[str]:
        signer = self.signer
        if signer is None:
            return ["Not signed: anybody can have made this release."]
        whose = "the public key that was given" if signer.given else "a key that nobody vouched for here"
        return [
            f"Signed (Ed25519) by {whose}.",
            f"Its fingerprint, the SHA-256 of the key in DER: {signer.fingerprint}.",
        ]


def percent_up(rate: float) -> str:
    """Return a rate as a percentage that never understates.

    >>> percent_up(0.2541), percent_up(0.25), percent_up(0.99999)
    ('26 %', '25 %', '100 %')
    """
    return f"{math.ceil(100 * rate - 1e-7)} %"


def trade_off_of(c: Certificate) -> TradeOff | None:
    """Return the curve of false alarms against detections that a certificate gives; None where nothing is promised."""
    if not c.promises or c.mu is None or c.epsilon is None:
        return None
    return TradeOff(c.mu, c.epsilon, c.delta)


def _signer(c: Certificate, key_given: bool) -> Signer | None:
    if c.signed_by is None:
        return None
    return Signer(c.signed_by, fingerprint(public_from_text(c.signed_by)), key_given)


def noise_length(c: Certificate) -> float:
    """Return the typical length of the noise in one user's row."""
    return math.sqrt(math.fsum(width * sigma * sigma for width, sigma in _published(c)))


def _published(c: Certificate) -> list[tuple[int, float]]:
    """Return how many numbers of a row each published step made, and the σ of their noise."""
    return [(step.numbers, step.sigma) for step in c.steps if step.published]


def _noise_and_signal(release: Release) -> NoiseAndSignal:
    """Compare the published numbers with their noise: both are public, so this costs nobody anything."""
    c = release.certificate
    published = _published(c)
    row_noise = noise_length(c) ** 2
    total = 0.0
    for start in range(0, len(release.matrix), _ROWS_AT_ONCE):
        rows = release.matrix[start : start + _ROWS_AT_ONCE].astype(np.float64)
        total += float(np.vdot(rows, rows))
    fourth = math.fsum(width * sigma**4 for width, sigma in published)
    return NoiseAndSignal(
        sigma=c.sigma,
        sensitivity=c.sensitivity,
        noise_length=noise_length(c),
        mean_square=total / release.matrix.size,
        noise_mean_square=row_noise / c.dim,
        # The square of a centred normal has variance 2σ⁴.
        error=math.sqrt(2 * fourth / len(release.users)) / row_noise if row_noise else 0.0,
    )


def _trade_off_content(curve: TradeOff) -> dict[str, Any]:
    return {
        "law": "gaussian",
        **asdict(curve),
        "points": [
            {
                "false_alarms": alpha,
                "detections": curve.detections(alpha),
                "detections_by_epsilon_delta": curve.detections_by_guarantee(alpha),
            }
            for alpha in FALSE_ALARMS
        ],
        "curve": [list(point) for point in curve.curve()],
    }
