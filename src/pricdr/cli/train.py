"""``pricdr train``: the target party's command."""

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pricdr.cli.console import progress_bar, say
from pricdr.cli.options import ColumnsOption, read_ratings
from pricdr.errors import ParameterError

if TYPE_CHECKING:
    from pricdr.data.ratings import Ratings
    from pricdr.data.splits import HeldOut


class MethodName(StrEnum):
    """What to train."""

    HETERO = "hetero"
    DMF = "dmf"
    POPULARITY = "popularity"


class DeviceName(StrEnum):
    """Where to train."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


def train(
    data: Annotated[Path, typer.Argument(help="A split folder (to measure), or the target's ratings (to recommend).")],
    out: Annotated[Path, typer.Option(help="The model folder to create.")],
    release: Annotated[Path | None, typer.Option(help="A release folder of the source party.")] = None,
    method: Annotated[
        MethodName | None, typer.Option(help="[default: hetero with a release, dmf without]", show_default=False)
    ] = None,
    epochs: Annotated[int, typer.Option(help="At most so many passes over the users.")] = 200,
    seed: Annotated[int, typer.Option(help="Another seed, another model.")] = 0,
    device: Annotated[DeviceName, typer.Option(help="auto takes a GPU where there is one.")] = DeviceName.AUTO,
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

    On a split, validation picks the best epoch and how far the release is trusted for users without history.
    """
    from pricdr.data.split_files import fingerprint
    from pricdr.files import new_folder, require_absent
    from pricdr.model_files import About, save_model
    from pricdr.models.hetero import HeteroCDR
    from pricdr.models.popularity import Popularity
    from pricdr.release import Release
    from pricdr.training.loop import TrainingOptions
    from pricdr.transfer import transfer

    chosen = method or (MethodName.DMF if release is None else MethodName.HETERO)
    if (chosen is MethodName.HETERO) != (release is not None):
        raise ParameterError(f"--method {chosen} {'needs' if release is None else 'takes no'} --release")
    require_absent(out)
    ratings, validation = _data(data, columns)
    received = None if release is None else Release.load(release, allow_unverified=allow_unverified)
    network = HeteroCDR(options=TrainingOptions(epochs=epochs, seed=seed, device=device.value))
    checkpoint, log = (out.with_name(f".{out.name}.{name}") for name in ("checkpoint", "log.jsonl"))
    if not resume:
        checkpoint.unlink(missing_ok=True)
        log.unlink(missing_ok=True)
    if chosen is MethodName.POPULARITY:
        model, config = Popularity().fit(ratings), {}
    else:
        with progress_bar() as progress:
            model = transfer(
                ratings,
                received,
                method=network,
                validation=validation,
                checkpoint=checkpoint,
                log=log,
                allow_not_private=allow_not_private,
                progress=progress,
            )
        config = asdict(network)
    used = None if received is None else str(received.certificate.files.get("release.parquet"))
    with new_folder(out) as staging:
        save_model(staging, model, About(model.method, config, fingerprint(ratings), used))
        (staging / "log.jsonl").write_bytes(log.read_bytes() if log.exists() else b"")
    checkpoint.unlink(missing_ok=True)
    log.unlink(missing_ok=True)
    say(f"trained {model!r}")
    say(f"to {out}")


def _data(path: Path, columns: str | None) -> "tuple[Ratings, HeldOut | None]":
    """What to train on: a split with its validation items, or all of a file."""
    from pricdr.data.split_files import load_split

    if path.is_dir():
        split = load_split(path)
        return split.train, split.validation
    reading = read_ratings(path, columns)
    say(reading.summary())
    return reading.ratings.positives(), None
