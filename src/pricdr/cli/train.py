"""``pricdr train``: the target party's command."""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

from typer import Argument, Option

import pricdr
from pricdr.cli import options, ratings as reading
from pricdr.cli.console import progress_bar, say, warn
from pricdr.cli.options import DeviceName, refuse_given
from pricdr.errors import MAX_SEED, InputError, OutputError, ParameterError
from pricdr.files import new_folder, require_absent
from pricdr.models.catalogue import FAST, METHODS, configure, method_of, with_preset

if TYPE_CHECKING:
    from pricdr.data.splits import HeldOut
    from pricdr.models.base import Method
    from pricdr.models.fitted import Chosen
    from pricdr.training.checkpoints import Checkpoints

_CHECKPOINT: Final = "checkpoint"
_NETWORKS: Final = "networks"  # where a model folder keeps the networks that other trainings can start from
_FEW: Final = 0.2  # a release that covers a smaller share of the users may be of ids of another kind
PresetName: TypeAlias = Literal["default", "fast", "paper"]


def train(
    out: Annotated[Path, Option(help="The model folder to create.")],
    data: Annotated[Path | None, Argument(help=f"A split folder, or the target's ratings: {reading.FILES}.")] = None,
    release: Annotated[
        list[Path] | None,
        Option(help="A source's release folder, or a folder of several; may be given again. A series is added up."),
    ] = None,
    source: Annotated[Path | None, Option(help="EXPERIMENTS ONLY: the source's ratings in plaintext.")] = None,
    method: Annotated[
        str | None,
        Option(
            metavar="NAME",
            autocompletion=METHODS.complete,
            help=f"{', '.join(METHODS.own)}; another that is installed (see pricdr list); or one of your own as "
            "module:Class.  [default: hetero, with a release or without]",
        ),
    ] = None,
    base: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="Of hetero: a method of the target alone whose scores are added for users with a history, as far as "
            "validation shows a gain; dmf adds none.  [default: bpr]",
        ),
    ] = None,
    preset: Annotated[
        PresetName | None, Option(help="Settings to start from; fast is for a first look.  [default: default]")
    ] = None,
    like: Annotated[Path | None, Option(help="Of ratings: a measured model, whose settings and trust to take.")] = None,
    start: Annotated[Path | None, Option(help="A model whose network to start from.  [default: beside --out]")] = None,
    config: Annotated[Path | None, Option(help="TOML settings: of the method, and of reading ratings.")] = None,
    epochs: Annotated[int | None, Option(help="The most passes over the data.", max=1_000_000)] = None,
    seed: Annotated[int | None, Option(help="The seed of the training.  [default: 0]", min=0, max=MAX_SEED)] = None,
    device: Annotated[DeviceName | None, Option(help="auto uses a GPU if there is one.  [default: auto]")] = None,
    bf16: Annotated[bool, Option("--bf16", help="Multiply in bfloat16 on a GPU.")] = False,
    resume: Annotated[bool, Option("--resume", help="Continue where a stopped run of the same --out ended.")] = False,
    public_key: options.PublicKeyOption = None,
    revocations: options.RevocationsOption = None,
    allow_unverified: Annotated[bool, Option("--allow-unverified", help="Use a release that fails to verify.")] = False,
    allow_not_private: options.NotPrivateOption = False,
    threshold: Annotated[float | None, Option(help="Of files of ratings: count only rows rated at least this.")] = None,
    columns: reading.ColumnsOption = None,
) -> None:
    """Train a recommender on the target's ratings, with or without a release.

    On a split, validation picks the best epoch and how far the release is trusted, for users with and without history.
    On ratings, some are set aside to pick these first, and then everything is trained on, which takes twice as long.
    --like MODEL takes them over unchanged from a model that was measured on a split instead.
    A network that a model beside --out, or in --start, has finished on the same data and settings is not trained again.

    The model folder holds every rating it was trained on, to leave out what users have rated: protect it like the
    ratings. "pricdr recommend MODEL --export FOLDER" writes one without them.
    """
    with progress_bar("starting"):  # torch is slow to load
        from pricdr._transfer import transfer
        from pricdr.models.folder import write_model
    from pricdr.data.reading.text_files import read_toml
    from pricdr.training.run_log import RunLog

    own = {} if config is None else read_toml(config)
    how = replace(options.read_settings(reading.InputSettings, own, config), columns=columns)
    own = {key: value for key, value in own.items() if key not in options.settings_of(reading.InputSettings)}
    rows = how.require_ratings(data, "DATA")
    reading.require_one_stream(rows, source)
    on_split = isinstance(rows, Path) and (rows / "split.json").is_file()
    if on_split and source is None:
        refuse_given({"--threshold": threshold} | how.given(), "this is for files of ratings, a split had its own")
    used = (bool(release), source is not None)
    carried = {"--method": method, "--base": base, "--preset": preset, "--config": own or None, "--epochs": epochs}
    measured = None if like is None else _measured(like, on_split, carried, used, public_key)
    own |= {} if base is None else {"base": options.name_given(METHODS, base)}
    configured = _configured(method or "hetero", preset, own, config) if measured is None else method_of(measured)
    configured = _with_flags(configured, epochs=epochs, seed=seed, device=device, bf16=bf16 or None)
    require_absent(out)
    received = options.read_releases(release or (), public_key, allow_unverified=allow_unverified)
    looked_up: Sequence[pricdr.Release | None] = received or (None,)
    for each in looked_up:
        options.check_revocations(each, revocations)
    _compare_with_measured(like, measured, received)
    ratings, validation = _data(rows, on_split, how, threshold)
    plaintext = None
    if source is not None:
        warn("the source is read in plaintext: this model is NOT PRIVATE")
        plaintext = how.read_some(source, threshold).ratings.positives()
    if received:
        _say_coverage(ratings, received)
    if start is not None and validation is None and measured is None:
        raise ParameterError("--start on all ratings needs --like: else epochs are chosen anew, for another network")
    trained_on = f"{'a split' if on_split else 'all ratings'} {ratings.fingerprint()[:12]}"
    with _resumable(out, start, configured, trained_on, resume=resume) as (hidden, networks):
        with progress_bar() as progress:
            model = transfer(
                ratings,
                received,
                method=configured,
                plaintext_source=plaintext,
                validation=validation,
                chosen=None if measured is None else measured.chosen,
                allow_not_private=allow_not_private,
                log=RunLog(file=hidden / "log.jsonl", checkpoints=networks, progress=progress),
            )
        with new_folder(out, private=True) as staging:
            write_model(staging, model)
            shutil.copyfile(hidden / "log.jsonl", staging / "log.jsonl")
            if any((hidden / _NETWORKS).iterdir()):
                shutil.copytree(hidden / _NETWORKS, staging / _NETWORKS)
    for file in networks.reused:
        say(f"not trained again: the network of the same data and settings in {file.parent.parent}")
    _say_chosen(model.chosen, "chosen by validation" if measured is None else f"carried over from {like}")
    if validation is not None and received:
        _say_beside_ridge(model, ratings, received, validation)
    elif validation is None and measured is None and model.chosen.facts():
        say("chosen anew, from ratings set aside; --like MODEL would carry them over from a measured model")
    say(f"trained {model!r}", f"to {out}")


def _data(
    rows: reading.RatingsInput, on_split: bool, how: reading.ReadingSettings, threshold: float | None
) -> "tuple[pricdr.Ratings, HeldOut | None]":
    from pricdr.data.splits import load_split

    if not on_split:
        # Without unrated items, as in a split: a deployed model has the same catalogue as a measured one.
        return how.read_some(rows, threshold).ratings.positives().rated(), None
    with progress_bar(f"reading {rows}"):
        split = load_split(Path(str(rows)))
    return split.train, split.validation


def _configured(method: str, preset: PresetName | None, own: Mapping[str, Any], config: Path | None) -> "Method":
    """Return the method with the settings of the preset, and its ``own`` of the configuration file before them."""
    named, first = options.name_given(METHODS, method), FAST if preset == "fast" else {}
    try:
        return configure(with_preset(named, "default" if first else preset or "default"), {**first, **own})
    except ParameterError as error:
        raise ParameterError(f"{config}: {error}" if own else str(error)) from error


def _with_flags(method: "Method", **flags: Any) -> "Method":  # noqa: ANN401 - training options
    """Return the method with the training options of the command line; a closed form has no seed and no device."""
    if method.options is None:
        if flags["epochs"] is not None:
            raise ParameterError(f"--method {method.name} is not trained in epochs")
        return method
    given = {name: value for name, value in flags.items() if value is not None}
    return replace(method, options=replace(method.options, **given))


def _measured(
    folder: Path, on_split: bool, carried: Mapping[str, object], given: tuple[bool, bool], public_key: Path | None
) -> "pricdr.FittedModel":
    """Return the model that --like names, if it saw what is ``given``, a release and a source or not."""
    from pricdr.models.base import ReleaseMethod
    from pricdr.models.fitted import NOTHING_CHOSEN

    refuse_given(carried, "--like carries the method and its settings over")
    if on_split:
        raise ParameterError("--like is for training on all ratings: on a split, validation chooses")
    model = pricdr.FittedModel.load(folder, public_key=public_key)
    assert model.origin is not None  # a folder always says
    used = (bool(model.origin.releases), model.origin.plaintext_source)
    if used != given:
        what = "with a release" if used[0] else "with the source's ratings" if used[1] else "on target ratings alone"
        raise ParameterError(f"{folder} was trained {what}: --like is for training on the same kinds of data")
    method = method_of(model)
    if model.chosen == NOTHING_CHOSEN and (method.options is not None or isinstance(method, ReleaseMethod)):
        raise InputError(f"{folder} does not record what was chosen when it was trained: train and measure it again")
    return model


def _compare_with_measured(
    like: Path | None, measured: "pricdr.FittedModel | None", received: "Sequence[pricdr.Release]"
) -> None:
    """Refuse another number of sources than the measured model had, and warn of other releases."""
    if measured is None or measured.origin is None:
        return
    from pricdr.release.series import by_series

    before = [each.sha256 for each in measured.origin.releases]
    had, given = len({each.source for each in measured.origin.releases}), by_series(received)
    if had != len(given):
        raise ParameterError(f"{like} was measured with releases of {had} sources, got {len(given)}: give as many")
    # In the order of their places, as the model has them: names of folders may be in another.
    if before != [each.sha256() for source in given for each in source.members]:
        warn(f"these are not the releases that {like} was measured with: its trust is carried over anyway")


@contextmanager
def _resumable(
    out: Path, start: Path | None, method: "Method", trained_on: str, *, resume: bool
) -> "Iterator[tuple[Path, Checkpoints]]":
    """Keep a hidden folder for checkpoints and the log while training; afterwards only if it can be resumed.

    It says what it is of, or another training would lose it. Networks in ``start``, or beside the model, are reused.
    """
    from pricdr.training.checkpoints import Checkpoints

    if start is not None and not method.starts_others:
        raise ParameterError(f"--start is for networks that others share: method {method.name} has none")
    beside = sorted(out.parent.glob(f"*/{_NETWORKS}"))
    ours = [found for found in beside if not found.is_symlink() and found.stat().st_uid == os.geteuid()]
    hidden, described = out.with_name(f".{out.name}.training"), f"{method.name} on {trained_on}"
    resumes = resume and any(hidden.glob(f"{_CHECKPOINT}*"))
    if resume and not resumes:
        warn("there is nothing to resume: training starts from the beginning")
    try:
        if not resumes:
            shutil.rmtree(hidden, ignore_errors=True)
            for folder in (hidden, hidden / _NETWORKS):  # what is learnt from ratings is for their owner alone
                folder.mkdir(parents=True, mode=0o700)
            (hidden / "log.jsonl").touch()
            (hidden / "run.txt").write_text(described, encoding="utf-8")
        for path in (hidden, *hidden.rglob("*")):
            # The log is appended to and copied into the model, and a link could lead anywhere.
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                raise InputError(f"{path} is not a plain file: train without --resume")
        if (previous := (hidden / "run.txt").read_text(encoding="utf-8", errors="replace")) != described:
            raise InputError(f"{hidden} was left by {previous:.1000}, not by {described}: train without --resume")
    except OSError as error:
        raise OutputError(f"cannot use {hidden}: {error.strerror or error}") from error
    kept = False
    try:
        yield (
            hidden,
            Checkpoints(
                running=hidden / _CHECKPOINT,
                finished=hidden / _NETWORKS,
                shared=method.starts_others,
                earlier=ours if start is None else [start / _NETWORKS],
                required=None if start is None else str(start),
            ),
        )
    except BaseException:
        if kept := any(hidden.glob(f"{_CHECKPOINT}*")):
            warn(f"the epochs so far are kept in {hidden}: continue with --resume")
        raise
    finally:
        if not kept:
            shutil.rmtree(hidden, ignore_errors=True)


def _say_coverage(ratings: "pricdr.Ratings", received: "Sequence[pricdr.Release]") -> None:
    """Say how many users each release covers, or the sum of each series, before training starts."""
    from pricdr.models.training_data import unshared_ids
    from pricdr.release.series import by_series

    for source in by_series(received):
        covered, users, members = len(set(ratings.users) & set(source.users)), len(ratings.users), len(source.members)
        what = "the release covers" if members == 1 else f"the {members} releases of the series, added up, cover"
        say(f"{what} {covered:,} of {users:,} users")
        options.warn_of_missing(source)
        if 0 < covered < _FEW * users:  # none at all is refused
            warn(f"that is few: {unshared_ids(ratings.users, source.users)}")


def _say_chosen(chosen: "Chosen", how: str) -> None:
    if chosen.not_chosen:
        warn(f"no ratings were set aside to choose by, so defaults apply (every epoch is trained): {chosen.not_chosen}")
    for name, value in chosen.facts().items():
        say(f"{name} {how}: {value}")


def _say_beside_ridge(
    model: "pricdr.FittedModel", target: "pricdr.Ratings", releases: "Sequence[pricdr.Release]", validation: "HeldOut"
) -> None:
    """Say what a linear decoder makes of the same releases: a badly trained network can hide what a release holds."""
    from pricdr.evaluation.verdict import Verdict
    from pricdr.models import compare_with_ridge

    if model.method == "ridge-release":
        return
    with progress_bar("comparing with ridge-release"):
        compared = compare_with_ridge(model, target, releases, validation)
    for one in compared:
        figures = f"NDCG@10 {one.model:.4f} on validation for {one.stratum} users, ridge-release {one.ridge:.4f}"
        if one.ridge_helps is Verdict.HELPS:
            warn(f"{figures}: the release holds more than {model.method} made of it; tune it, or use ridge-release")
        else:
            say(figures)
