"""``pricdr train --like``: train on everything as a measured model was trained."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from pricdr.cli.console import warn
from pricdr.cli.ratings import RatingsInput
from pricdr.errors import InputError, ParameterError

if TYPE_CHECKING:
    from pricdr.models.base import Method
    from pricdr.models.fitted import Chosen, Origin
    from pricdr.release import Release

LikeOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="Of ratings: a measured model, whose method, settings, epochs and trust are carried over."),
]


@dataclass(frozen=True)
class Measured:
    """What is carried over from a measured model."""

    folder: Path
    method: "Method"
    chosen: "Chosen"
    release: str | None
    """SHA-256 of the release it was measured with."""


def warn_of_another_release(measured: Measured | None, release: "Release | None") -> None:
    """Say so where the release is not the one that the model was measured with."""
    if measured is not None and release is not None and release.sha256() != measured.release:
        warn(f"this is not the release that {measured.folder} was measured with: its trust is carried over anyway")


def is_split(data: RatingsInput) -> bool:
    """Return whether what is to be trained on is a split, and not a folder of ratings, which has no split.json."""
    return isinstance(data, Path) and (data / "split.json").is_file()


def read_measured(
    folder: Path,
    on_split: bool,
    given: Mapping[str, object],
    release: Path | None,
    source: Path | None,
    public_key: Path | None,
) -> Measured:
    """Return what to carry over from the model in ``folder``, which must have seen the same kinds of data.

    Args:
        folder: the measured model.
        on_split: whether a split is to be trained on.
        given: options that say what is carried over, by name; none may have a value.
        release: the release to train with.
        source: the source's ratings to train with.
        public_key: the key that must have signed the model's release.
    """
    from pricdr.models.base import ReleaseMethod
    from pricdr.models.catalogue import method_of
    from pricdr.models.fitted import NOTHING_CHOSEN, FittedModel

    if on_split:
        raise ParameterError("--like is for training on all ratings: on a split, validation chooses")
    contradicting = [option for option, value in given.items() if value is not None]
    if contradicting:
        raise ParameterError(f"--like carries the method and its settings over: remove {', '.join(contradicting)}")
    model = FittedModel.load(folder, public_key=public_key)
    assert model.origin is not None  # a folder always says
    _require_same_data(folder, model.origin, release, source)
    try:
        method = method_of(model)
    except ParameterError as error:
        raise InputError(f"{folder}: {error}") from error
    if model.chosen == NOTHING_CHOSEN and (method.options is not None or isinstance(method, ReleaseMethod)):
        raise InputError(f"{folder} does not record what was chosen when it was trained: train and measure it again")
    return Measured(folder, method, model.chosen, model.origin.release)


def _require_same_data(folder: Path, origin: "Origin", release: Path | None, source: Path | None) -> None:
    """Refuse data that the model was not measured with: nothing was chosen for it."""
    for option, data, used, given in (
        ("--release", "a release", origin.release is not None, release),
        ("--source", "the source's ratings", origin.plaintext_source, source),
    ):
        if used and given is None:
            raise ParameterError(f"{folder} was trained with {data}: give {option} too")
        if given is not None and not used:
            raise ParameterError(f"{folder} was trained without {data}: remove {option}, or measure a model with it")
