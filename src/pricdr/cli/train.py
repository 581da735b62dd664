"""``pricdr train``: the target party's command."""

import glob
import tomllib
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pricdr.cli.console import progress_bar, say, warn
from pricdr.cli.options import ColumnsOption, DeviceName, DeviceOption, read_ratings
from pricdr.errors import InputError, ParameterError
from pricdr.models.catalogue import METHODS, Sees

if TYPE_CHECKING:
    from pricdr.data.ratings import Ratings
    from pricdr.data.splits import HeldOut
    from pricdr.models.factors import Factors
    from pricdr.training.loop import Recording

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
    epochs: Annotated[int | None, typer.Option(help="At most so many passes over the data.")] = None,
    seed: Annotated[int, typer.Option(help="Another seed, another model.")] = 0,
    device: DeviceOption = DeviceName.AUTO,
    bf16: Annotated[bool, typer.Option("--bf16", help="Multiply in bfloat16 on a GPU.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where a killed run of the same --out stopped.")
    ] = False,
    allow_unverified: Annotated[
        bool, typer.Option("--allow-unverified", help="Use a release that fails pricdr verify.")
    ] = False,
    allow_not_private: Annotated[
        bool, typer.Option("--allow-not-private", help="EXPERIMENTS ONLY: use a release that is not private.")
    ] = False,
    columns: ColumnsOption = None,
) -> None:
    """Train a recommender on the target's ratings, with a release where there is one.

    On a split, validation picks the best epoch and how far the release is trusted, for users with history and without.
    """
    from pricdr.data.split_files import fingerprint
    from pricdr.files import new_folder, require_absent
    from pricdr.model_files import About, save_model
    from pricdr.training.loop import Recording

    if release is not None and source is not None:
        raise ParameterError("give --release or --source, not both")
    name = method.value if method else "dmf" if release is None and source is None else "hetero"
    _require_inputs(name, release, source)
    chosen = _configured(name, preset, _settings(config, epochs, bf16), seed, device)
    require_absent(out)
    ratings, validation = _data(data, columns)
    checkpoint, log = (out.with_name(f".{out.name}.{kind}") for kind in ("checkpoint", "log.jsonl"))
    if not resume:
        _forget(checkpoint, log)
    with progress_bar() as progress:
        recording = Recording(checkpoint=checkpoint, log=log, progress=progress)
        if source is not None:
            warn("the source is read in plaintext: this model is NOT PRIVATE")
            model, used = _plaintext(chosen, ratings, source, columns, validation, recording), None
        else:
            flags = (allow_unverified, allow_not_private)
            model, used = _from_release(chosen, ratings, release, flags, validation, recording)
    with new_folder(out) as staging:
        about = About(model.method, asdict(chosen), fingerprint(ratings), used, plaintext_source=source is not None)
        save_model(staging, model, about)
        (staging / "log.jsonl").write_bytes(log.read_bytes() if log.exists() else b"")
    _forget(checkpoint, log)
    say(f"trained {model!r}")
    say(f"to {out}")


def _forget(checkpoint: Path, log: Path) -> None:
    """Remove what a run leaves beside its model while it goes on; a training in parts has a checkpoint for each."""
    for path in (log, checkpoint, *checkpoint.parent.glob(f"{glob.escape(checkpoint.name)}.*")):
        path.unlink(missing_ok=True)


def _require_inputs(name: str, release: Path | None, source: Path | None) -> None:
    """Refuse what a method does not take before anything is read."""
    given = Sees.RELEASE if release is not None else Sees.PLAINTEXT if source is not None else Sees.NOTHING
    sees = METHODS[name].sees
    if given in sees:
        return
    takes = {Sees.NOTHING: "neither --release nor --source", Sees.RELEASE: "--release", Sees.PLAINTEXT: "--source"}
    raise ParameterError(f"--method {name} takes {' or '.join(takes[kind] for kind in sees)}")


def _settings(config: Path | None, epochs: int | None, bf16: bool) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    if config is not None:
        try:
            settings = tomllib.loads(config.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{config} is not TOML: {error}") from error
    return settings | ({} if epochs is None else {"epochs": epochs}) | ({"bf16": True} if bf16 else {})


def _configured(name: str, preset: PresetName, settings: dict[str, Any], seed: int, device: DeviceName) -> Any:  # noqa: ANN401
    method = METHODS[name].configure(settings, preset=preset.value)
    if not hasattr(method, "options"):  # a closed form: nothing to seed, no device to choose
        return method
    return replace(method, options=replace(method.options, seed=seed, device=device.value))


def _data(path: Path, columns: str | None) -> "tuple[Ratings, HeldOut | None]":
    """What to train on: a split with its validation items, or all of a file."""
    from pricdr.data.split_files import load_split

    if path.is_dir():
        split = load_split(path)
        return split.train, split.validation
    reading = read_ratings(path, columns)
    say(reading.summary())
    return reading.ratings.positives(), None


def _from_release(
    method: Any,  # noqa: ANN401
    ratings: "Ratings",
    folder: Path | None,
    allowed: tuple[bool, bool],
    validation: "HeldOut | None",
    recording: "Recording",
) -> "tuple[Factors, str | None]":
    """The model, and the SHA-256 of the release's matrix."""
    from pricdr.release import Release
    from pricdr.transfer import transfer

    unverified, not_private = allowed
    release = None if folder is None else Release.load(folder, allow_unverified=unverified)
    told: dict[str, Any] = {"validation": validation, "recording": recording, "allow_not_private": not_private}
    model = transfer(ratings, release, method=method, **told)
    return model, None if release is None else str(release.certificate.files.get("release.parquet"))


def _plaintext(
    method: Any,  # noqa: ANN401
    ratings: "Ratings",
    source: Path,
    columns: str | None,
    validation: "HeldOut | None",
    recording: "Recording",
) -> "Factors":
    from pricdr.models.base import PlaintextMethod
    from pricdr.transfer import transfer_plaintext

    if not isinstance(method, PlaintextMethod):
        raise ParameterError("this preset takes a release, not --source")
    plain = read_ratings(source, columns)
    say(plain.summary())
    return transfer_plaintext(
        ratings, plain.ratings.positives(), method=method, validation=validation, recording=recording
    )
