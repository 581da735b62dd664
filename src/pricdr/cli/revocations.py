"""``--revocations DIR``: notices that take releases back, for every command that reads one."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from pricdr.cli.console import warn
from pricdr.errors import ParameterError

if TYPE_CHECKING:
    from pricdr.release import Release

RevocationsOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="Refuse a release that a notice in this folder revokes, signed by the release's own key."),
]
_MAX_WARNINGS = 5


def check_revocations(release: "Release | None", folder: Path | None) -> str | None:
    """Refuse a release that was revoked and warn of notices that do not count; return what was looked at, in words."""
    if folder is None:
        return None
    if release is None or not release.verified:
        raise ParameterError("--revocations takes back releases that verify: there is none here to look up")
    from pricdr.release.revocation import require_not_revoked

    read = require_not_revoked(release, folder)
    for remark in read.remarks[:_MAX_WARNINGS]:
        warn(f"{folder}: {remark}")
    if len(read.remarks) > _MAX_WARNINGS:
        warn(f"{folder}: {len(read.remarks) - _MAX_WARNINGS:,} more were ignored")
    if release.certificate.signed_by is None:
        warn("the release is not signed: no notice can revoke it")
    return f"no notice in {folder} revokes it ({read.count:,} read)"
