"""Options that several commands share."""

import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias, TypeVar

import typer

from pricdr.cli.console import warn
from pricdr.errors import ParameterError
from pricdr.extensions import Registry

if TYPE_CHECKING:
    from pricdr.release import Release

T = TypeVar("T")
_PINNED = "PRICDR_PUBLIC_KEY"
_MAX_WARNINGS = 5


def _require_pinned(given: Path | None) -> Path | None:
    """Refuse an empty variable: a script that lost its key's name would go on without asking for a signature."""
    if given is None and os.environ.get(_PINNED) == "":
        raise ParameterError(f"{_PINNED} is set and empty: let it name a public key (a PEM file), or unset it")
    return given


PublicKeyOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(envvar=_PINNED, callback=_require_pinned, help="Require a signature by this key (a PEM file)."),
]
RevocationsOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="Refuse a release that a notice in this folder revokes, signed by the release's own key."),
]


def refuse_given(options: Mapping[str, object], rule: str) -> None:
    """Refuse those of these options that were given, for they would be ignored."""
    if given := [name for name, value in options.items() if value is not None and value is not False and value != []]:
        raise ParameterError(f"{' and '.join(given)}: {rule}")


def refuse_unused_key(given: Path | None, why: str) -> None:
    """Refuse --public-key where there is nothing that it could check; a pinned variable is for other commands too."""
    if given is not None and str(given) != os.environ.get(_PINNED):
        raise ParameterError(f"--public-key {given} has nothing to check here: {why}")


def pinned_key() -> Path | None:
    """Return the public key that the environment pins, for a command without the option."""
    given = _require_pinned(None) or os.environ.get(_PINNED)
    return None if given is None else Path(given)


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


class DeviceName(StrEnum):
    """Where to train."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


DeviceOption: TypeAlias = Annotated[DeviceName, typer.Option(help="auto uses a GPU if there is one.")]
UnitName: TypeAlias = Literal["rating", "user"]
DEFAULT_UNIT: Final = "rating"
"""What is protected where nobody says, in every command: the unit of the paper."""
UnitOption: TypeAlias = Annotated[UnitName, typer.Option(help="Protect one rating, or all ratings of one user.")]
DimOption: TypeAlias = Annotated[
    int | None, typer.Option(help="Numbers per user.  [default: 8, or 4 below epsilon 4; jlt, sjlt: 200]")
]


def name_given(registry: Registry[T], text: str) -> str:
    """Return the name of what --method or --strategy asks for, by name or as module:Class, once it is found."""
    try:
        name = registry.resolve_reference(text)
        registry.find(name)
    except ParameterError as error:
        raise ParameterError(f"--{registry.kind}: {error}") from error
    return name


def whole_numbers(option: str, text: str, example: str) -> tuple[int, ...]:
    """Return the numbers in a text such as ``5,10,20``."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise ParameterError(
            f"{option} takes whole numbers with commas between them, such as {example}, got {text!r:.80}"
        )
    return tuple(map(int, parts))
