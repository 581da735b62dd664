"""``pricdr train --start``: networks that an earlier training finished are not trained again."""

import os
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from pricdr.cli.console import say
from pricdr.errors import ParameterError
from pricdr.files import take_mode

if TYPE_CHECKING:
    from pricdr.cli.resumable import ResumableRun
    from pricdr.models.base import Method
    from pricdr.training.checkpoints import StartingNetworks

StartOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        help="A model of the same data and settings, whose network is used again.  [default: one beside --out]"
    ),
]
_NETWORKS: Final = "networks"
"""Where a model folder keeps what other trainings can start from."""
_MOST_FOLDERS: Final = 1000
"""Folders beside the new model that are looked into."""


def require_known_epochs(start: Path | None, *, chooses_anew: bool) -> None:
    """Refuse --start where the epochs are still to be chosen: then it would be another network in the end."""
    if start is not None and chooses_anew:
        raise ParameterError("--start on all ratings needs --like: else epochs are chosen anew, for another network")


def starting_networks(start: Path | None, run: "ResumableRun", method: "Method") -> "StartingNetworks":
    """Return the checkpoints of a run that starts from the networks in ``start``, or in any folder beside the model."""
    from pricdr.training.checkpoints import FinishedNetworks, StartingNetworks

    if start is not None and not method.starts_others:
        raise ParameterError(f"--start is for networks that others share: method {method.name} has none")
    folders = _beside(run.out) if start is None else [start]
    return StartingNetworks(
        checkpoints=run.checkpoints,
        names=method.starts_others,
        earlier=[FinishedNetworks(folder / _NETWORKS) for folder in folders],
        kept=FinishedNetworks(run.folder),
        required=None if start is None else str(start),
    )


def keep_networks(run: "ResumableRun", model: Path) -> None:
    """Copy the finished networks of the run into its model folder."""
    finished = sorted(run.folder.glob("*.safetensors"))
    if finished:
        (model / _NETWORKS).mkdir(mode=0o700)  # learnt from the ratings, like the model itself
    for file in finished:
        take_mode(shutil.copyfile(file, model / _NETWORKS / file.name))


def say_found(networks: "StartingNetworks") -> None:
    """Say which networks were not trained again."""
    for file in networks.reused:
        say(f"not trained again: the network of the same data and settings in {file.parent.parent}")


def _beside(out: Path) -> list[Path]:
    """Return the folders beside ``out`` that hold networks, and that nobody else could have put there."""
    try:
        folders = sorted(out.parent.iterdir())[:_MOST_FOLDERS]
    except OSError:  # not there yet, or not for us to look into: then nothing is found
        return []
    return [folder for folder in folders if _is_own(folder / _NETWORKS)]


def _is_own(folder: Path) -> bool:
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
