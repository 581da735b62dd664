"""The certificate of the model's release, explained: the promise in short, as charts, and in full."""

from pricdr.models.card import ModelCard
from pricdr.models.card.texts import NO_CERTIFICATE, NO_RELEASE, PLAINTEXT, UNVERIFIED
from pricdr.pages import Bullets, Commands, Content, Facts, Note, Section
from pricdr.release.certificate import Certificate
from pricdr.release.drawing import DrawnRelease, release_sections
from pricdr.release.inspection import trade_off_of
from pricdr.release.readme import statement
from pricdr.signing import fingerprint, public_from_text


def certificate_blocks(card: ModelCard) -> tuple[Content, list[Section]]:
    """Return the lead and the sections of the page; without a certificate, why there is none and what to do."""
    info = card.info
    if info.origin.plaintext_source:
        return [Note(PLAINTEXT)], []
    if not info.with_release:
        return [NO_RELEASE], []
    if info.contradiction is not None:
        return [Note(f"Do not rely on the recorded certificate. {info.contradiction}")], []
    certificate = card.certificate
    if certificate is None:
        return [Note(NO_CERTIFICATE), Commands(["pricdr inspect RELEASE"])], []
    full_statement = statement(certificate)
    charts = [] if trade_off_of(certificate) is None else release_sections(DrawnRelease.of_certificate(certificate))
    unverified = [Note(UNVERIFIED)] if info.origin.release_verified is False else []
    sections = [
        *charts,
        *(Section(part.title, [Bullets(part.lines)]) for part in full_statement),
        _checked(card, certificate),
    ]
    return [*unverified, full_statement[0].lines[-1], Facts(_summary(certificate))], sections


def _summary(c: Certificate) -> dict[str, str]:
    return {
        "Promise": c.promise,
        "Release": f"{c.users:,} users x {c.dim:,} numbers, strategy {c.strategy.name}",
        "Issuer (self-declared)": c.issuer or "not declared",
        "Issued": c.issued or "not declared",
    }


def _checked(card: ModelCard, certificate: Certificate) -> Section:
    """Return what was checked, and when: a copy of a certificate is not the release itself."""
    origin = card.info.origin
    signature = "No signature was checked: anyone could have made this release."
    if origin.release_signed_by is not None:
        key = fingerprint(public_from_text(origin.release_signed_by))
        signature = f"Its signature was checked when the model was trained. Fingerprint of the key: {key}."
    lines = [
        "This is the copy in the model folder. Its figures were derived again for this page: the promise follows from "
        "the noise that the certificate states.",
        signature,
        f"The release itself has the SHA-256 {origin.release}. pricdr verify RELEASE checks all of it.",
    ]
    return Section("How this was checked", [Bullets(lines)])
