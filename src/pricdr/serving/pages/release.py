"""The certificate of the model's release, explained: the promise in short, drawn, and in all its words."""

from pricdr.models.card import ModelCard
from pricdr.models.card.words import NO_CERTIFICATE, NO_RELEASE, PLAINTEXT, UNVERIFIED
from pricdr.pages import Bullets, Commands, Content, Facts, Note, Section
from pricdr.release.certificate import Certificate, rounded_up
from pricdr.release.drawing import DrawnRelease, release_sections
from pricdr.release.inspection import trade_off_of
from pricdr.release.signing import fingerprint, public_from_text
from pricdr.release.statement import statement


def certificate_blocks(card: ModelCard) -> tuple[Content, list[Section]]:
    """Return what comes first and the sections below; where there is no certificate, why not and what to do."""
    known = card.known
    if known.origin.plaintext_source:
        return [Note(PLAINTEXT)], []
    if not known.with_release:
        return [NO_RELEASE], []
    if known.contradiction is not None:
        return [Note(f"Do not rely on the recorded certificate. {known.contradiction}")], []
    certificate = card.certificate
    if certificate is None:
        return [Note(NO_CERTIFICATE), Commands(["pricdr inspect RELEASE"])], []
    words = statement(certificate)
    drawn = [] if trade_off_of(certificate) is None else release_sections(DrawnRelease.of_certificate(certificate))
    unverified = [Note(UNVERIFIED)] if known.origin.release_verified is False else []
    sections = [*drawn, *(Section(part.title, [Bullets(part.lines)]) for part in words), _checked(card, certificate)]
    return [*unverified, words[0].lines[-1], Facts(_in_short(certificate))], sections


def _in_short(c: Certificate) -> dict[str, str]:
    promise = "none: NOT PRIVATE"
    if c.private and c.epsilon is not None:
        epsilon, delta = (f"{rounded_up(value, 4):g}" for value in (c.epsilon, c.delta))
        promise = f"ε = {epsilon}, δ = {delta}, for one {c.unit}"
    return {
        "Promise": promise,
        "Release": f"{c.users:,} users x {c.dim:,} numbers, strategy {c.strategy.name}",
        "Issuer, by its own account": c.issuer or "not declared",
        "Issued": c.issued or "not declared",
    }


def _checked(card: ModelCard, certificate: Certificate) -> Section:
    """Return what was checked, by whom and when: a copy of a certificate is not the release."""
    origin = card.known.origin
    signature = "No signature was checked: anybody can have made this release."
    if origin.release_signed_by is not None:
        key = fingerprint(public_from_text(origin.release_signed_by))
        signature = f"Its signature was checked when the model was trained. Fingerprint of the key: {key}."
    lines = [
        "This is the copy that the model folder keeps. Its figures were derived again for this page: what it promises "
        "follows from the noise that it states.",
        signature,
        f"The release itself has the SHA-256 {origin.release}. pricdr verify RELEASE checks it whole.",
    ]
    return Section("How this was checked", [Bullets(lines)])
