"""``pricdr inspect``: the certificate for people; of two releases, which promises more and what else changed."""

import textwrap
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pricdr.cli.console import say
from pricdr.cli.json_output import JsonOption, JsonOutput
from pricdr.cli.options import PublicKeyOption
from pricdr.errors import InputError, ParameterError, VerificationError

if TYPE_CHECKING:
    from pricdr.release import Release
    from pricdr.release.inspection import Change, ReleaseChange

_MAX_LINES = 10
"""Changes within one field, such as the steps, that are shown one by one."""
_LONGEST = 80
_CONTEXT = 20
"""Characters before the first difference that long texts are shown with."""


def inspect(
    folder: Annotated[Path, typer.Argument(metavar="A", help="The release folder.")],
    other: Annotated[Path | None, typer.Argument(metavar="[B]", help="Another, to compare with.")] = None,
    public_key: PublicKeyOption = None,
    json_output: JsonOption = None,
    html: Annotated[
        Path | None, typer.Option(help="Also write one page to file away, with the curve of detections.")
    ] = None,
) -> int:
    """Print what a release promises, to whom, and at what cost, in plain words.

    Given two, print which of them promises more, to whom and by how much, and then every change: exit 0 if nothing
    differs, 1 if something does, and 2 if one cannot be read or does not verify. Two publications of the same ratings
    always differ: their noise does.
    """
    if other is None:
        _inspect(folder, public_key, json_output, html)
        return 0
    if html is not None:
        raise ParameterError(f"--html {html}: the page shows one release, not two")
    return _compare(folder, other, public_key, json_output)


def _inspect(folder: Path, public_key: Path | None, json_output: JsonOutput | None, html: Path | None) -> None:
    from pricdr.files import require_writable, write_new
    from pricdr.release import verify
    from pricdr.release.folder import require_outside_releases
    from pricdr.release.inspection import Inspection, render_inspection

    if html is not None:
        require_writable(html)
        require_outside_releases(html)
    inspection = Inspection.of(verify(folder, public_key=public_key), key_given=public_key is not None)
    for section in inspection.sections():
        say(section.title)
        _say_wrapped(section.lines)
        say("")
    say("verified: files, figures and promise agree")
    if json_output is not None:
        json_output.write(inspection.to_dict())
    if html is not None:
        write_new(html, render_inspection(inspection).encode())


def _say_wrapped(lines: Iterable[str]) -> None:
    for line in lines:
        say(*textwrap.wrap(line, width=100, initial_indent="  - ", subsequent_indent="    "))


def _compare(before: Path, after: Path, public_key: Path | None, json_output: JsonOutput | None) -> int:
    from pricdr.release.inspection import difference

    found = difference(_verified(before, public_key), _verified(after, public_key))
    _say_difference(found, before, after)
    if json_output is not None:
        json_output.write({"before": str(before), "after": str(after), **found.to_dict()})
    return 0 if found.same else 1


def _verified(folder: Path, public_key: Path | None) -> "Release":
    """Return the release; one that fails to verify is trouble (2), not a difference (1)."""
    from pricdr.release import verify

    try:
        return verify(folder, public_key=public_key)
    except VerificationError as error:
        raise InputError(f"{folder} does not verify, so there is nothing to compare: {error}") from error


def _say_difference(found: "ReleaseChange", before: Path, after: Path) -> None:
    from pricdr.release.inspection import GROUPS

    if found.same:
        say(f"no difference: {before} and {after} are the same release, byte for byte")
        return
    say(f"A: {before}", f"B: {after}", "")
    _say_wrapped(found.sentences)
    say("")
    for group in GROUPS:
        changes = [change for change in found.changes if change.group == group]
        say(group if changes else f"{group}: the same")
        for field, inside in groupby(changes, key=lambda change: change.field.partition(".")[0]):
            _say_changes(field, list(inside))
    users = found.users
    order = ", in another order" if users.reordered else ""
    say(f"users: {users.kept:,} in both{order}, {users.added:,} added, {users.removed:,} removed")
    say(f"rows: {'the same' if found.same_matrix else 'other numbers'}")


def _say_changes(field: str, changes: "list[Change]") -> None:
    if len(changes) > _MAX_LINES:
        say(f"  {field}: {len(changes)} entries differ (--json has them all)")
        return
    for change in changes:
        old, new = change.before, change.after
        if field == "signed_by":
            old, new = _fingerprint(old), _fingerprint(new)
        say(f"  {change.field}: {' -> '.join(_shown_apart(old, new))}")


def _fingerprint(key: str | None) -> str | None:
    from pricdr.signing import fingerprint, public_from_text

    return None if key is None else f"SHA-256 {fingerprint(public_from_text(key))}"


def _shown_apart(before: Any, after: Any) -> tuple[str, str]:  # noqa: ANN401 - whatever JSON can hold
    """Return both values as text; of long ones the part in which they differ."""
    old, new = _shown(before), _shown(after)
    if max(len(old), len(new)) > _LONGEST:
        differ = (at for at, (left, right) in enumerate(zip(old, new, strict=False)) if left != right)
        start = next(differ, min(len(old), len(new))) - _CONTEXT
        if start > 0:
            old, new = f"…{old[start:]}", f"…{new[start:]}"
    return _shortened(old), _shortened(new)


def _shown(value: Any) -> str:  # noqa: ANN401 - whatever JSON can hold
    if value is None:
        return "none"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
