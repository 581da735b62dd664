"""Revocation: a signed notice, beside a release folder and never inside it, that the release must no longer be used.

A notice is one file::

    pricdr revocation notice 1          which format this is, and nothing else that a key of ours signs
    {"release": …, "reason": …}         what is revoked, why and when, and by which key
    base64                              the key's Ed25519 signature of every byte before this line

It names a release by the SHA-256 of its ``release.safetensors``: the same matrix under another certificate is the same
release. Only a notice by the key that signed the release counts, whatever its file is called: anybody can write one. A
signed certificate begins with a brace and a notice with its first line, so that no signature is ever one of both.
"""

import json
import os
from functools import partial
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import AfterValidator, BaseModel, ConfigDict

from pricdr.errors import InputError, OutputError, VerificationError, printable
from pricdr.files import write_new
from pricdr.release.certificate import Day, PublicKey, Sha256, require_words, today
from pricdr.release.folder import Release, require_outside_releases, verify
from pricdr.signing import fingerprint, is_signed_by, public_from_text, public_text, read_private_key, sign
from pricdr.untrusted import Folder

ENDING: Final = ".revocation"
FIRST_LINE: Final = b"pricdr revocation notice 1\n"
MAX_NOTICE: Final = 8192
MAX_ENTRIES: Final = 10_000  # in a folder of notices; more is a refusal: the one that matters might be the next

require_reason: Final = partial(require_words, "reason", 400)
Reason: TypeAlias = Annotated[str, AfterValidator(require_reason)]


class Notice(BaseModel):
    """What is revoked, why, when, and by which key. It claims nothing until its signature was checked."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    notice_version: Literal[1] = 1
    release: Sha256
    reason: Reason
    revoked: Day
    signed_by: PublicKey

    def message(self) -> bytes:
        """Return the bytes that are signed: one spelling for one content."""
        return FIRST_LINE + json.dumps(self.model_dump(mode="json"), indent=2, ensure_ascii=False).encode() + b"\n"

    def signed(self, key: Ed25519PrivateKey) -> bytes:
        """Return the whole file."""
        return self.message() + sign(key, self.message())

    @classmethod
    def from_bytes(cls, raw: bytes) -> "Notice":
        """Return the notice that has this spelling, its signature checked."""
        body, _, signature = raw[:-1].rpartition(b"\n")
        message = body + b"\n"
        try:
            notice = cls.model_validate(json.loads(message.removeprefix(FIRST_LINE)))
        except (ValueError, RecursionError) as error:
            raise VerificationError("it holds not what a notice holds") from error
        if notice.message() + signature + b"\n" != raw:
            raise VerificationError("it is not written as a notice is")
        if not is_signed_by(public_from_text(notice.signed_by), message, signature + b"\n"):
            raise VerificationError("its signature is not by the key that it names")
        return notice


def revoke(
    folder: str | os.PathLike[str], *, key: str | os.PathLike[str], reason: str, out: str | os.PathLike[str]
) -> Path:
    """Write a notice that the release in ``folder`` is revoked into the folder ``out``, and return its file.

    ``key`` is the PEM file of the key that signed the release: a notice by any other would not count.
    """
    require_reason(reason)
    private = read_private_key(key)
    release = verify(folder)
    named = release.certificate.signed_by
    if named is None:
        raise InputError(f"{folder} is not signed: nothing could show that a notice comes from whoever made it")
    if named != public_text(private.public_key()):
        other = fingerprint(public_from_text(named))
        raise InputError(f"{key} did not sign {folder}: the key that did has the fingerprint {other}")
    place = Path(out)
    require_outside_releases(place)
    notice = Notice(release=release.sha256(), reason=reason, revoked=today(), signed_by=named)
    file = place / f"{notice.release}{ENDING}"
    if os.path.lexists(file):
        raise OutputError(f"{file} exists already: the release was revoked before, and once is enough")
    write_new(file, notice.signed(private))
    return file


def require_not_revoked(release: Release, notices: str | os.PathLike[str]) -> tuple[int, list[str]]:
    """Refuse a release that the key which signed it has revoked.

    What is malformed, a link or signed by another key revokes nothing. A file that cannot be read is a refusal: it
    might. Return how many notices were read, whatever they are about, and a line for each file that was ignored.
    """
    count, remarks = 0, []
    with Folder.opened(Path(notices), "a folder of revocation notices", error=VerificationError) as opened:
        for name in opened.names(ending=ENDING, limit=MAX_ENTRIES):
            shown = printable(name[:80])
            try:
                notice = Notice.from_bytes(opened.read(name, limit=MAX_NOTICE))
            except VerificationError as error:
                if isinstance(error.__cause__, OSError) and not opened.is_link(name):
                    raise VerificationError(f"{error}, and it may be the notice that revokes the release") from error
                remarks.append(f"{shown} is no notice and was ignored: {error}")
                continue
            count += 1
            if notice.release != release.sha256():
                continue
            if notice.signed_by == release.certificate.signed_by:
                by = f"on {notice.revoked} by the key that signed it"
                raise VerificationError(f'the release was revoked {by}, for this reason: "{notice.reason}"')
            remarks.append(f"{shown} names this release and was ignored: another key signed it")
    return count, remarks
