"""``pricdr verify``: anyone's check of a release folder."""

from pathlib import Path
from typing import Annotated

from typer import Argument

import pricdr
from pricdr.cli.console import say, warn
from pricdr.cli.options import PublicKeyOption, RevocationsOption, check_revocations, release_folders, warn_of_missing
from pricdr.errors import InputError, VerificationError


def verify(
    folders: Annotated[
        list[Path], Argument(metavar="FOLDER…", help="The release folder; several, or a folder of them.")
    ],
    public_key: PublicKeyOption = None,
    revocations: RevocationsOption = None,
) -> None:
    """Check a release folder: exit 0, or 1 with the reason.

    Recomputes every hash, the signature, and the epsilon that sigma and the sensitivity really give. Given several,
    also that those of one series follow each other.
    """
    from pricdr.release.series import by_series

    releases = [_check(folder, public_key, revocations) for folder in release_folders(folders)]
    try:
        found = by_series(releases)
    except InputError as error:
        raise VerificationError(str(error)) from error
    for series in found:
        if len(series.members) > 1:
            say(f"ok: {len(series.members)} releases of a series, which follow each other")
            warn_of_missing(series)


def _check(folder: Path, public_key: Path | None, revocations: Path | None) -> "pricdr.Release":
    """Check one folder, and say what was found."""
    from pricdr.release.readme import weakness
    from pricdr.signing import fingerprint, public_from_text

    release = pricdr.verify(folder, public_key=public_key)
    try:
        notices = check_revocations(release, revocations)
    except VerificationError as error:
        raise VerificationError(f"{folder}: {error}") from error
    signed = release.certificate.signed_by
    if public_key is not None:
        origin = "signed by the given key"
    elif signed is not None:
        origin = f"signed by {signed}, a key nobody vouched for here (give --public-key)"
    else:
        origin = "not signed"
    say(f"ok: {release!r}")
    say(f"    files, figures and promise agree; {origin}")
    if signed is not None:
        say(f"    fingerprint of the key: {fingerprint(public_from_text(signed))}")
    if notices is not None:
        say(f"    {notices}")
    for text in weakness(release.certificate):
        warn(text)
    return release
