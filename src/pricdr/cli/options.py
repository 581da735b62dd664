"""Options that several commands share."""

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from pricdr.errors import ParameterError

_PINNED = "PRICDR_PUBLIC_KEY"


def _require_pinned(given: Path | None) -> Path | None:
    """Refuse an empty variable: a script that lost its key's name would go on without asking for a signature."""
    if given is None and os.environ.get(_PINNED) == "":
        raise ParameterError(f"{_PINNED} is set and empty: let it name a public key (a PEM file), or unset it")
    return given


PublicKeyOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(envvar=_PINNED, callback=_require_pinned, help="Require a signature by this key (a PEM file)."),
]


class DeviceName(StrEnum):
    """Where to train."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


DeviceOption: TypeAlias = Annotated[DeviceName, typer.Option(help="auto takes a GPU where there is one.")]


class UnitName(StrEnum):
    """What is protected."""

    RATING = "rating"
    USER = "user"
