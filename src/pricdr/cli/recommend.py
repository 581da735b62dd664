"""``pricdr recommend``: what to show to whom."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pricdr.cli.console import say, warn, working
from pricdr.cli.options import PublicKeyOption
from pricdr.cli.reading_options import DEFAULT_READING, ReadingOptions, reads_ratings
from pricdr.errors import ParameterError

if TYPE_CHECKING:
    from pricdr.models.fitted import Recommendations


@reads_ratings
def recommend(
    model: Annotated[Path, typer.Argument(help="The model folder.")],
    out: Annotated[Path | None, typer.Option(help="The file to create: .parquet or .csv.")] = None,
    export: Annotated[
        Path | None, typer.Option(help="Instead of --out: a model folder to create, without ratings.")
    ] = None,
    users: Annotated[Path | None, typer.Option(help="Only these users, one id a line.  [default: all]")] = None,
    k: Annotated[int, typer.Option("-k", help="Items per user.")] = 10,
    seen: Annotated[Path | None, typer.Option(help="Ratings whose items are left out, user by user.")] = None,
    threshold: Annotated[float | None, typer.Option(help="With --seen: only rows rated at least this.")] = None,
    public_key: PublicKeyOption = None,
    reading: ReadingOptions = DEFAULT_READING,
) -> None:
    """Write the best unseen items of each user: user, item, score, rank, and what they rest on.

    Users the model never met get what is popular, and are counted on screen.

    A model folder holds the ratings it was trained on. --export writes one without them, to serve recommendations
    elsewhere; recommending from it needs --seen to leave out what users have rated. Its numbers were still learnt from
    the ratings: an exported model is neither anonymous nor differentially private.

    --public-key refuses a model unless its folder records that this key signed the release it was trained on.
    """
    from pricdr.data.reading.readers import read_ids
    from pricdr.files import require_absent
    from pricdr.models.fitted import FittedModel

    if (out is None) == (export is None):
        raise ParameterError("give either --out or --export")
    if out is not None and out.suffix not in {".parquet", ".csv"}:
        raise ParameterError(f"--out must end in .parquet or .csv, got {out.name!r}")
    if export is not None and (users is not None or seen is not None):
        raise ParameterError("--users and --seen belong to --out: an export covers every user, and holds no histories")
    about_seen = [*(() if threshold is None else ("--threshold",)), *reading.given()]
    if seen is None and about_seen:
        raise ParameterError(f"{' and '.join(about_seen)} are about --seen: give it too")
    # Before the model is loaded: that takes a while.
    for created in (out, export):
        if created is not None:
            require_absent(created)
    with working(f"reading {model}"):
        fitted = FittedModel.load(model, public_key=public_key)
    if export is not None:
        fitted.without_histories().save(export)
        say(f"{fitted!r} without its training ratings written to {export}")
        return
    assert out is not None
    wanted = fitted.users if users is None else read_ids(users)
    histories = None if seen is None else reading.read(seen, threshold).ratings
    with working(f"recommending for {len(wanted):,} users"):
        recommended = fitted.recommend(wanted, k, seen=histories)
    _write(out, recommended)
    if unknown := recommended.unknown_users:
        warn(f"{len(unknown):,} of {len(wanted):,} users are unknown to the model: they get what is popular")
    if histories is not None and not set(wanted) & set(histories.users):
        warn(f"none of the {len(wanted):,} users is in {seen}: nothing was left out by it")
    if fitted.summary is not None and histories is None:
        warn("the model was exported without histories: items that users have rated may come back (give --seen)")
    say(f"{len(recommended):,} recommendations for {len(wanted):,} users written to {out}")


def _write(out: Path, recommended: "Recommendations") -> None:
    import io

    from pricdr.files import write_new

    frame = recommended.to_polars()
    buffer = io.BytesIO()
    if out.suffix == ".csv":
        frame.write_csv(buffer)
    else:
        frame.write_parquet(buffer)
    write_new(out, buffer.getvalue())
