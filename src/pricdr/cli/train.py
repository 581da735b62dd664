"""``pricdr train``: the target party's command."""

from dataclasses import replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from pricdr.cli.console import progress_bar, say, warn, working
from pricdr.cli.like import LikeOption, is_split, read_measured, warn_of_another_release
from pricdr.cli.options import DeviceName, PublicKeyOption, name_given, refuse_unused_key
from pricdr.cli.ratings import (
    FILES,
    ColumnsOption,
    DelimiterOption,
    EncodingOption,
    FormatOption,
    FromOption,
    MostBadRowsOption,
    QueryOption,
    RatingsInput,
    ReadingOptions,
    SkipBadRowsOption,
    require_one_stream,
    require_ratings,
)
from pricdr.cli.resumable import ResumableRun
from pricdr.cli.revocations import RevocationsOption, heed_revocations
from pricdr.cli.starting import StartOption, keep_networks, require_known_epochs, say_found, starting_networks
from pricdr.errors import LARGEST_SEED, ParameterError
from pricdr.models.catalogue import METHODS, configure, method_class, with_preset

if TYPE_CHECKING:
    from pricdr.data.ratings import Ratings
    from pricdr.data.splits import HeldOut
    from pricdr.models.base import Method
    from pricdr.models.fitted import Chosen, FittedModel
    from pricdr.release import Release


class PresetName(StrEnum):
    """The presets that settings start from."""

    DEFAULT = "default"
    PAPER = "paper"


SeedOption: TypeAlias = Annotated[
    int | None, typer.Option(help="The seed of the training.  [default: 0]", min=0, max=LARGEST_SEED)
]
TrainingDeviceOption: TypeAlias = Annotated[
    DeviceName | None, typer.Option(help="auto uses a GPU if there is one.  [default: auto]")
]
ResumeOption: TypeAlias = Annotated[
    bool, typer.Option("--resume", help="Continue where a stopped run of the same --out ended.")
]
AllowUnverifiedOption: TypeAlias = Annotated[
    bool, typer.Option("--allow-unverified", help="Use a release that fails pricdr verify.")
]
AllowNotPrivateOption: TypeAlias = Annotated[
    bool, typer.Option("--allow-not-private", help="EXPERIMENTS ONLY: use a release that is not private.")
]


def train(
    out: Annotated[Path, typer.Option(help="The model folder to create.")],
    data: Annotated[
        Path | None,
        typer.Argument(help=f"A split folder (to measure), or the target's ratings (to recommend): {FILES}."),
    ] = None,
    release: Annotated[Path | None, typer.Option(help="A release folder of the source party.")] = None,
    source: Annotated[
        Path | None, typer.Option(help="EXPERIMENTS ONLY: the source's ratings in plaintext, instead of a release.")
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            autocompletion=METHODS.complete,
            help=f"{', '.join(METHODS.own)}; another that is installed (see pricdr list); or one of your own as "
            "module:Class.  [default: hetero with a release or source, dmf without]",
        ),
    ] = None,
    preset: Annotated[PresetName | None, typer.Option(help="Settings to start from.  [default: default]")] = None,
    like: LikeOption = None,
    start: StartOption = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file of settings that replace the preset's.")] = None,
    epochs: Annotated[int | None, typer.Option(help="The most passes over the data.", max=1_000_000)] = None,
    seed: SeedOption = None,
    device: TrainingDeviceOption = None,
    bf16: Annotated[bool, typer.Option("--bf16", help="Multiply in bfloat16 on a GPU.")] = False,
    resume: ResumeOption = False,
    public_key: PublicKeyOption = None,
    revocations: RevocationsOption = None,
    allow_unverified: AllowUnverifiedOption = False,
    allow_not_private: AllowNotPrivateOption = False,
    threshold: Annotated[
        float | None, typer.Option(help="For files of ratings: count only rows rated at least this.")
    ] = None,
    source_address: FromOption = None,
    query: QueryOption = None,
    columns: ColumnsOption = None,
    delimiter: DelimiterOption = None,
    encoding: EncodingOption = None,
    format: FormatOption = None,
    skip_bad_rows: SkipBadRowsOption = False,
    most_bad_rows: MostBadRowsOption = None,
) -> None:
    """Train a recommender on the target's ratings, with or without a release.

    On a split, validation picks the best epoch and how far the release is trusted, for users with and without history.
    On ratings, some are set aside to pick these first, and then everything is trained on, which takes twice as long.
    --like MODEL takes them over unchanged from a model that was measured on a split instead.
    A network that a model beside --out, or in --start, has finished on the same data and settings is not trained again.

    The model folder holds every rating it was trained on, to leave out what users have rated: protect it like the
    ratings. "pricdr recommend MODEL --export FOLDER" writes one without them.
    """
    with working("starting"):  # torch is slow to load
        from pricdr._transfer import transfer
    from pricdr.files import require_absent
    from pricdr.training.run_log import RunLog

    reading = ReadingOptions(columns, delimiter, encoding, format, skip_bad_rows, most_bad_rows)
    rows = require_ratings(data, source_address, query, "DATA")
    given = {"--method": method, "--preset": preset, "--config": config, "--epochs": epochs}
    measured = None if like is None else read_measured(like, is_split(rows), given, release, source, public_key)
    _require_file(rows, source, threshold, reading)
    flags = {"epochs": epochs, "seed": seed, "device": device and device.value, "bf16": bf16 or None}
    own = _configured(method, preset, config, release, source) if measured is None else measured.method
    configured = _with_flags(own, flags)
    require_absent(out)
    received = _received(release, public_key, allow_unverified=allow_unverified)
    heed_revocations(received, revocations)
    warn_of_another_release(measured, received)
    ratings, validation = _data(rows, reading, threshold)
    plaintext = None if source is None else _source(source, reading, threshold)
    if received is not None:
        _say_coverage(ratings, received)
    require_known_epochs(start, chooses_anew=validation is None and measured is None)
    fit = partial(
        transfer,
        ratings,
        received,
        method=configured,
        plaintext_source=plaintext,
        validation=validation,
        chosen=None if measured is None else measured.chosen,
        allow_not_private=allow_not_private,
    )
    resumable = ResumableRun(out, f"{configured.name} on {_described(ratings, validation)}")
    networks = starting_networks(start, resumable, configured)
    with resumable.begun(resume=resume):
        with progress_bar() as progress:
            model = fit(log=RunLog(file=resumable.log, checkpoints=networks, progress=progress))
        _write(model, out, resumable)
    say_found(networks)
    _say_chosen(model.chosen, "chosen by validation" if measured is None else f"carried over from {like}")
    _say_chosen_anew(model.chosen, ratings, configured, anew=measured is None and validation is None)
    say(f"trained {model!r}", f"to {out}")


def _write(model: "FittedModel", out: Path, resumable: ResumableRun) -> None:
    """Write the model folder, with the log and the networks that other trainings can start from."""
    from pricdr.files import new_folder
    from pricdr.models.folder import write_model

    with new_folder(out, private=True) as staging:
        write_model(staging, model)
        resumable.copy_log(staging / "log.jsonl")
        keep_networks(resumable, staging)


def _described(ratings: "Ratings", validation: "HeldOut | None") -> str:
    """Describe the training data, so that a training is never resumed on other data."""
    return f"{'all ratings' if validation is None else 'a split'} {ratings.fingerprint()[:12]}"


def _say_chosen(chosen: "Chosen", how: str) -> None:
    """Say what was chosen and how, or why nothing was."""
    if chosen.not_chosen:
        warn(f"no ratings were set aside to choose by, so defaults apply (every epoch is trained): {chosen.not_chosen}")
    if chosen.epochs:
        say(f"epochs {how}: " + ", ".join(f"{network} {epoch}" for network, epoch in chosen.epochs.items()))
    if chosen.settings:
        say(f"settings {how}: " + ", ".join(f"{name} {value:g}" for name, value in chosen.settings.items()))
    if chosen.trust is not None:
        say(f"trust {how}: {chosen.trust.warm:.0%} for warm users and {chosen.trust.cold:.0%} for cold ones")


def _say_chosen_anew(chosen: "Chosen", ratings: "Ratings", method: "Method", *, anew: bool) -> None:
    """Say what a training on all ratings chose by: a measured model may have been trained differently."""
    from pricdr.models.base import ratings_to_choose_by

    if not anew or chosen.not_chosen or not (chosen.epochs or chosen.settings or chosen.trust is not None):
        return
    seed = 0 if method.options is None else method.options.seed
    say(
        f"chosen anew from {ratings_to_choose_by(ratings):,} ratings set aside, seed {seed}; "
        "--like MODEL would carry them over from a measured model"
    )


def _require_inputs(name: str, release: Path | None, source: Path | None) -> None:
    """Refuse inputs that a method does not take, before anything is read."""
    from pricdr.models.base import DataAccess

    if release is not None and source is not None:
        raise ParameterError("give --release or --source, not both")
    given = DataAccess.RELEASE if release else DataAccess.PLAINTEXT if source else DataAccess.TARGET
    accepted = method_class(name).data_access()
    if given not in accepted:
        flags = {
            DataAccess.TARGET: "neither --release nor --source",
            DataAccess.RELEASE: "--release",
            DataAccess.PLAINTEXT: "--source",
        }
        raise ParameterError(f"--method {name} takes {' or '.join(flags[access] for access in accepted)}")


def _require_file(data: RatingsInput, source: Path | None, threshold: float | None, reading: ReadingOptions) -> None:
    require_one_stream(data, source)
    if is_split(data) and source is None:
        if threshold is not None:
            raise ParameterError("--threshold is for files: what a split counts was settled when it was made")
        if given := reading.given():
            raise ParameterError(f"{given[0]} is for files of ratings: a split has its own")


def _configured(
    method: str | None, preset: PresetName | None, config: Path | None, release: Path | None, source: Path | None
) -> "Method":
    """Return the method with its defaults and the settings of the configuration file."""
    from pricdr.data.toml_files import read_toml

    default = "dmf" if release is None and source is None else "hetero"
    name = with_preset(name_given(METHODS, method) if method else default, preset or PresetName.DEFAULT)
    _require_inputs(name, release, source)
    settings = {} if config is None else read_toml(config)
    try:
        return configure(name, settings)
    except ParameterError as error:
        raise ParameterError(f"{config}: {error}" if settings else str(error)) from error


def _with_flags(method: "Method", flags: dict[str, int | str | bool | None]) -> "Method":
    """Return the method with the options that were given on the command line."""
    given: dict[str, Any] = {key: value for key, value in flags.items() if value is not None}
    if method.options is not None:
        return replace(method, options=replace(method.options, **given))
    if "epochs" in given:
        raise ParameterError(f"--method {method.name} is not trained in epochs")
    return method  # a closed form has no seed and no device


def _received(folder: Path | None, public_key: Path | None, *, allow_unverified: bool) -> "Release | None":
    """Return the release, if any, verified unless that is switched off; a pinned key requires verification."""
    from pricdr.release import Release

    if folder is None:
        refuse_unused_key(public_key, "there is no --release")
        return None
    if public_key is not None and allow_unverified:
        raise ParameterError(
            "--allow-unverified checks no signature, and a public key is pinned (--public-key or PRICDR_PUBLIC_KEY): "
            "remove one of the two"
        )
    with working(f"reading {folder}"):
        return Release.load(folder, public_key=public_key, allow_unverified=allow_unverified)


def _say_coverage(ratings: "Ratings", release: "Release") -> None:
    """Say how many users the release covers, before training starts."""
    from pricdr.models.training_data import Coverage

    coverage = Coverage.of(ratings.users, release.users)
    say(coverage.sentence())
    if coverage.covered and coverage.is_low:  # none at all is refused
        warn(f"that is few: {coverage.examples()}")


def _data(path: RatingsInput, reading: ReadingOptions, threshold: float | None) -> "tuple[Ratings, HeldOut | None]":
    """Return what to train on: a split with its validation items, or all ratings."""
    from pricdr.data.splits import load_split

    if isinstance(path, Path) and is_split(path):
        with working(f"reading {path}"):
            split = load_split(path)
        return split.train, split.validation
    # Without unrated items, as in a split: a deployed model has the same catalogue as a measured one.
    return reading.read_some(path, threshold).ratings.positives().rated(), None


def _source(path: Path, reading: ReadingOptions, threshold: float | None) -> "Ratings":
    """Return the source's ratings in plaintext, which is NOT PRIVATE."""
    warn("the source is read in plaintext: this model is NOT PRIVATE")
    return reading.read_some(path, threshold).ratings.positives()
