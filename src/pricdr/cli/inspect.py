"""``pricdr inspect``: the certificate for people; of two releases, which promises more and what else changed."""

from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from typer import Argument, Option

import pricdr
from pricdr.cli.console import say, say_list
from pricdr.cli.options import JsonOption, PublicKeyOption, release_folders, require_page, write_json
from pricdr.errors import InputError, ParameterError, VerificationError

if TYPE_CHECKING:
    from pricdr.release.inspection import ReleaseChange

_MAX_LINES: Final = 10  # changes within one field, such as the steps, that are shown one by one
_MAX_LENGTH: Final = 80  # characters of a value that is shown on the line of its name


def inspect(
    folders: Annotated[
        list[Path],
        Argument(
            metavar="A [B…]",
            help="The release folder; another to compare with; or a series, or its folder.",
        ),
    ],
    public_key: PublicKeyOption = None,
    json_output: JsonOption = None,
    html: Annotated[Path | None, Option(help="Also write one page to file away, with the curve of detections.")] = None,
) -> int:
    """Print what a release promises, to whom, and at what cost, in plain words.

    Given two, print which of them promises more, to whom and by how much, and then every change: exit 0 if nothing
    differs, 1 if something does, and 2 if one cannot be read or does not verify. Two publications of the same ratings
    always differ: their noise does. Of releases of one series, print what they cost and say together.
    """
    from pricdr.files import write_new
    from pricdr.release.inspection import Inspection, SeriesSummary, difference, render_inspection
    from pricdr.release.series import Series, place, series_id

    folders = release_folders(folders)
    if len(folders) > 1:
        if html is not None:
            raise ParameterError(f"--html {html}: the page shows one release, not several")
        releases = [_verified(folder, public_key) for folder in folders]
        if len({series_id(release) for release in releases}) == 1 and len({*map(place, releases)}) > 1:
            summary = SeriesSummary.of(Series(tuple(releases)))
            say(f"{len(folders)} releases of one series")
            say_list(summary.sentences)
            write_json(json_output, asdict(summary))
            return 0
        if len(folders) > 2:
            raise ParameterError("two releases are compared, or several of one series: these are not of one series")
        found = difference(*releases)
        _say_difference(found, *folders)
        write_json(json_output, {"before": str(folders[0]), "after": str(folders[1]), **found.to_dict()})
        return 0 if found.same else 1
    (folder,) = folders
    require_page(html)
    inspection = Inspection(pricdr.verify(folder, public_key=public_key), key_given=public_key is not None)
    for section in inspection.sections():
        say(section.title)
        say_list(section.lines)
        say("")
    say("verified: files, figures and promise agree")
    write_json(json_output, inspection.to_dict())
    if html is not None:
        write_new(html, render_inspection(inspection).encode())
    return 0


def _verified(folder: Path, public_key: Path | None) -> "pricdr.Release":
    """Return the release; one that fails to verify is trouble (2), not a difference (1)."""
    try:
        return pricdr.verify(folder, public_key=public_key)
    except VerificationError as error:
        raise InputError(f"{folder} does not verify, so there is nothing to compare: {error}") from error


def _say_difference(found: "ReleaseChange", before: Path, after: Path) -> None:
    from pricdr.release.inspection import GROUPS

    if found.same:
        say(f"no difference: {before} and {after} are the same release, byte for byte")
        return
    say(f"A: {before}", f"B: {after}", "")
    say_list(found.sentences)
    say("")
    for group in GROUPS:
        changes = [change for change in found.changes if change.group == group]
        say(group if changes else f"{group}: the same")
        for field, inside in groupby(changes, key=lambda change: change.field.partition(".")[0]):
            entries = list(inside)
            if len(entries) > _MAX_LINES:
                say(f"  {field}: {len(entries)} entries differ (--json has them all)")
                continue
            for change in entries:
                old, new = _shown(field, change.before), _shown(field, change.after)
                if max(len(old), len(new)) <= _MAX_LENGTH:
                    say(f"  {change.field}: {old} -> {new}")
                else:
                    say(f"  {change.field}:")
                    say_list([old, new], indent="    ")
    users = found.users
    order = ", in another order" if users["reordered"] else ""
    say(f"users: {users['kept']:,} in both{order}, {users['added']:,} added, {users['removed']:,} removed")
    say(f"rows: {'the same' if found.same_matrix else 'other numbers'}")


def _shown(field: str, value: Any) -> str:  # noqa: ANN401 - whatever JSON can hold
    if value is None:
        return "none"
    if field == "signed_by":
        from pricdr.signing import fingerprint, public_from_text

        return f"SHA-256 {fingerprint(public_from_text(value))}"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
