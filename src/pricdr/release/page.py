"""An inspection as one page to file away. It loads nothing, and whatever a certificate holds is text in it."""

from pricdr import __version__
from pricdr.pages import Bullets, Facts, Page, Section, render
from pricdr.release.drawing import DrawnRelease, release_sections
from pricdr.release.inspection import Inspection


def render_inspection(inspection: Inspection) -> str:
    """Return the whole page: the release in short, drawn, and in all the words of its certificate."""
    words = inspection.sections()
    drawn = release_sections(DrawnRelease.of(inspection)) if inspection.trade_off else []
    return render(
        Page(
            "A pricdr release, inspected",
            lead=[words[0].lines[-1], Facts(_in_short(inspection))],
            sections=[*drawn, *(Section(part.title, [Bullets(part.lines)]) for part in words)],
            footer=[f"Verified and inspected on {inspection.inspected} (UTC) with pricdr {__version__}."],
        )
    )


def _in_short(inspection: Inspection) -> dict[str, str]:
    c, signer = inspection.certificate, inspection.signer
    signature = "not signed: anybody can have made this release"
    if signer is not None:
        whose = "the public key that was given" if signer.given else "a key that nobody vouched for here"
        signature = f"Ed25519, by {whose}; fingerprint {signer.fingerprint}"
    return {
        "Promise": c.promise,
        "Release": f"{c.users:,} users x {c.dim:,} numbers, strategy {c.strategy.name}",
        "User list": c.input.user_list if c.input.alignment is None else "found by align, by the source's own account",
        "Issuer, by its own account": c.issuer or "not declared",
        "Issued": c.issued or "not declared",
        "Recorded in a ledger": (c.ledger.recorded if c.ledger else None) or "not stated",
        "Signature": signature,
    }
