"""``pricdr train``: the target party's command."""

from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pricdr.cli.console import progress_bar, say, warn
from pricdr.cli.options import ColumnsOption, DeviceName, PublicKeyOption, read_some_ratings
from pricdr.cli.unfinished import Unfinished
from pricdr.errors import LARGEST_SEED, InputError, ParameterError
from pricdr.models.catalogue import METHODS, Sees

if TYPE_CHECKING:
    from pricdr.data.ratings import Ratings
    from pricdr.data.splits import HeldOut
    from pricdr.release import Release
    from pricdr.training.loop import Choices

MethodName = StrEnum("MethodName", {name.upper().replace("-", "_"): name for name in METHODS})  # type: ignore[misc]


class PresetName(StrEnum):
    """Whose settings to start from."""

    DEFAULT = "default"
    PAPER = "paper"


def train(
    data: Annotated[Path, typer.Argument(help="A split folder (to measure), or the target's ratings (to recommend).")],
    out: Annotated[Path, typer.Option(help="The model folder to create.")],
    release: Annotated[Path | None, typer.Option(help="A release folder of the source party.")] = None,
    source: Annotated[
        Path | None, typer.Option(help="EXPERIMENTS ONLY: the source's ratings in plaintext, instead of a release.")
    ] = None,
    method: Annotated[
        MethodName | None,
        typer.Option(help="See pricdr methods.  [default: hetero with a release or source, dmf without]"),
    ] = None,
    preset: Annotated[PresetName, typer.Option(help="The settings to start from.")] = PresetName.DEFAULT,
    config: Annotated[Path | None, typer.Option(help="A TOML file of settings that replace the preset's.")] = None,
    epochs: Annotated[int | None, typer.Option(help="At most so many passes over the data.", max=1_000_000)] = None,
    seed: Annotated[
        int | None, typer.Option(help="Another seed, another model.  [default: 0]", min=0, max=LARGEST_SEED)
    ] = None,
    device: Annotated[
        DeviceName | None, typer.Option(help="auto takes a GPU where there is one.  [default: auto]")
    ] = None,
    bf16: Annotated[bool, typer.Option("--bf16", help="Multiply in bfloat16 on a GPU.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where a killed run of the same --out stopped.")
    ] = False,
    public_key: PublicKeyOption = None,
    allow_unverified: Annotated[
        bool, typer.Option("--allow-unverified", help="Use a release that fails pricdr verify.")
    ] = False,
    allow_not_private: Annotated[
        bool, typer.Option("--allow-not-private", help="EXPERIMENTS ONLY: use a release that is not private.")
    ] = False,
    threshold: Annotated[
        float | None, typer.Option(help="Of files of ratings: count only rows rated at least this.")
    ] = None,
    columns: ColumnsOption = None,
) -> None:
    """Train a recommender on the target's ratings, with a release where there is one.

    On a split, validation picks the best epoch and how far the release is trusted, for users with history and without.
    On ratings, some are set aside to pick these first, and then everything is trained on: it takes twice as long.

    The model folder holds every rating it was trained on, to leave out what users have rated: protect it like the
    ratings. "pricdr recommend MODEL --export FOLDER" writes one without them.
    """
    from pricdr._transfer import transfer, transfer_plaintext
    from pricdr.files import new_folder, require_absent
    from pricdr.model_files import About, save_model
    from pricdr.models.base import PlaintextMethod
    from pricdr.training.loop import Choices, Recording

    name = method.value if method else "dmf" if release is None and source is None else "hetero"
    _require_inputs(name, release, source)
    _require_file(data, source, threshold)
    given = {"epochs": epochs, "seed": seed, "device": device and device.value, "bf16": bf16 or None}
    chosen = _configured(name, preset, config, given)
    if source is not None and not isinstance(chosen, PlaintextMethod):
        raise ParameterError(f"preset {preset.value} takes a release, not --source")
    require_absent(out)
    received = None if release is None else _received(release, public_key, allow_unverified=allow_unverified)
    ratings, validation = _data(data, columns, threshold)
    plain = None if source is None else _source(source, columns, threshold)
    choices, unfinished = Choices(), Unfinished(out, f"{name} ({preset.value}) on {_named(ratings, validation)}")
    told: dict[str, Any] = {"method": chosen, "validation": validation}
    with unfinished.begun(resume=resume):
        with progress_bar() as progress:
            log = unfinished.log
            told["recording"] = Recording(checkpoint=unfinished.checkpoint, log=log, progress=progress, choices=choices)
            if plain is not None:
                model = transfer_plaintext(ratings, plain, **told)
            else:
                model = transfer(ratings, received, allow_not_private=allow_not_private, **told)
        used, signed_by = _origin(received, verified=not allow_unverified)
        about = About(
            model.method,
            asdict(chosen),
            ratings.fingerprint(),
            used,
            preset.value,
            plaintext_source=plain is not None,
            release_signed_by=signed_by,
        )
        with new_folder(out) as staging:
            save_model(staging, model, about)
            (staging / "log.jsonl").write_bytes(log.read_bytes() if log.exists() else b"")
    _tell(choices)
    say(f"trained {model!r}", f"to {out}")


def _named(ratings: "Ratings", validation: "HeldOut | None") -> str:
    """What is trained on, so that a training is never resumed on something else."""
    return f"{'all ratings' if validation is None else 'a split'} {ratings.fingerprint()[:12]}"


def _origin(release: "Release | None", *, verified: bool) -> tuple[str | None, str | None]:
    """Return the hash of the release and who signed it; nobody, where the signature was not checked."""
    if release is None:
        return None, None
    return release.sha256(), release.certificate.signed_by if verified else None


def _tell(choices: "Choices") -> None:
    """Say what validation chose, or why it could not."""
    if choices.not_made:
        warn(f"nothing was set aside to choose by, so every epoch was trained: {choices.not_made}")
    if choices.epochs:
        say("epochs chosen by validation: " + ", ".join(f"{part} {epoch}" for part, epoch in choices.epochs.items()))
    if choices.gates is not None:
        say("the source is trusted by {:.0%} for warm users and {:.0%} for cold ones".format(*choices.gates))


def _require_inputs(name: str, release: Path | None, source: Path | None) -> None:
    """Refuse what a method does not take before anything is read."""
    if release is not None and source is not None:
        raise ParameterError("give --release or --source, not both")
    given = Sees.RELEASE if release is not None else Sees.PLAINTEXT if source is not None else Sees.NOTHING
    sees = METHODS[name].sees
    if given in sees:
        return
    takes = {Sees.NOTHING: "neither --release nor --source", Sees.RELEASE: "--release", Sees.PLAINTEXT: "--source"}
    raise ParameterError(f"--method {name} takes {' or '.join(takes[kind] for kind in sees)}")


def _require_file(data: Path, source: Path | None, threshold: float | None) -> None:
    if threshold is not None and data.is_dir() and source is None:
        raise ParameterError("--threshold is for files: what a split counts was settled when it was made")


def _configured(name: str, preset: PresetName, config: Path | None, given: dict[str, Any]) -> Any:  # noqa: ANN401
    """The preset's settings, replaced by the file's, replaced by what was given on the command line."""
    from pricdr.data.toml_files import read_toml

    settings = {} if config is None else read_toml(config)
    try:
        method = METHODS[name].configure(settings, preset=preset.value)
    except ParameterError as error:
        raise ParameterError(f"{config}: {error}" if settings else str(error)) from error
    flags = {key: value for key, value in given.items() if value is not None}
    if hasattr(method, "options"):
        return replace(method, options=replace(method.options, **flags))
    if "epochs" in flags:
        raise ParameterError(f"--method {name} is not trained in epochs")
    return method  # a closed form: nothing to seed, no device to choose


def _received(folder: Path, public_key: Path | None, *, allow_unverified: bool) -> "Release":
    """Return the release, verified unless that is switched off, which a pinned key does not allow."""
    from pricdr.release import Release

    if public_key is not None and allow_unverified:
        raise ParameterError(
            "--allow-unverified checks no signature, and a public key is pinned (--public-key or PRICDR_PUBLIC_KEY): "
            "remove one of the two"
        )
    return Release.load(folder, public_key=public_key, allow_unverified=allow_unverified)


def _data(path: Path, columns: str | None, threshold: float | None) -> "tuple[Ratings, HeldOut | None]":
    """What to train on: a split with its validation items, or all of a file."""
    from pricdr.data.split_files import load_split

    if not path.exists():
        raise InputError(f"there is no {path}: give a split folder or a file of ratings")
    if path.is_dir():
        split = load_split(path)
        return split.train, split.validation
    reading = read_some_ratings(path, columns, threshold)
    say(*reading.summary().split("\n"))
    return reading.ratings.positives(), None


def _source(path: Path, columns: str | None, threshold: float | None) -> "Ratings":
    """NOT PRIVATE: the source's ratings."""
    warn("the source is read in plaintext: this model is NOT PRIVATE")
    plain = read_some_ratings(path, columns, threshold)
    say(*plain.summary().split("\n"))
    return plain.ratings.positives()
