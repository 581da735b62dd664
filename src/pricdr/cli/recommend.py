"""``pricdr recommend``: write recommendations to a file."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

import pricdr
from pricdr.cli import ratings as reading
from pricdr.cli.console import progress_bar, say, warn
from pricdr.cli.options import PublicKeyOption, read_releases, refuse_given
from pricdr.errors import BusyError, InputError, ParameterError


def recommend(
    model: Annotated[Path, Argument(help="The model folder.")],
    out: Annotated[Path | None, Option(help="The file to create: .parquet or .csv.")] = None,
    export: Annotated[Path | None, Option(help="Instead of --out: a model folder to create, without ratings.")] = None,
    users: Annotated[Path | None, Option(help="Only these users, one id a line.  [default: all]")] = None,
    k: Annotated[int, Option("-k", help="Items per user.")] = 10,
    release: Annotated[
        list[Path] | None,
        Option(help="A newer release of the same source, or all of its series: folded in, without training again."),
    ] = None,
    seen: Annotated[Path | None, Option(help="Ratings whose items are left out, user by user.")] = None,
    threshold: Annotated[float | None, Option(help="With --seen: only rows rated at least this.")] = None,
    resume: Annotated[bool, Option("--resume", help="Continue where a stopped run ended.")] = False,
    public_key: PublicKeyOption = None,
    columns: reading.ColumnsOption = None,
    config: reading.ConfigOption = None,
) -> None:
    """Write the best unseen items of each user: user, item, score, rank, and what they are based on.

    Users the model does not know get popular items, and are counted on screen. With --release, users who joined the
    source after the training are served too, and the rows of the others get sharper.

    Parts of about 260,000 recommendations are kept beside --out until the file is complete. --resume continues a
    stopped run, and ends with the same bytes; it refuses if the model, users, --seen, -k or the software has changed.

    A model folder holds the ratings it was trained on. --export writes one without them: recommending from it needs
    --seen to leave out what users have rated. It is neither anonymous nor differentially private.

    --public-key refuses a model unless its folder records that this key signed the release it was trained on.
    """
    from pricdr.files import require_absent
    from pricdr.models.recommendation_files import kept_parts, parts_folder

    how = replace(config or reading.ReadingSettings(), columns=columns)
    if (out is None) == (export is None):
        raise ParameterError("give either --out or --export")
    if export is not None:
        belongs_to_out = {"--users": users, "--release": release, "--seen": seen, "--resume": resume}
        refuse_given(belongs_to_out, "an export covers every user, and holds no histories")
    if seen is None:
        refuse_given({"--threshold": threshold} | how.given(), "this is about --seen, give it too")
    created = out or export
    assert created is not None
    require_absent(created)  # before the model is loaded, which takes a while
    with progress_bar(f"reading {model}"):
        fitted = pricdr.FittedModel.load(model, public_key=public_key)
    if out is None:
        fitted.without_histories().save(created)
        say(f"{fitted!r} without its training ratings written to {created}")
        return
    if release is not None:
        known = len(fitted.users)
        newer = read_releases(release, public_key)
        with progress_bar("folding in"):
            fitted = fitted.with_release(newer)
        say(f"folded in {', '.join(map(str, release))}: {len(fitted.users) - known:,} users are new to the model")
    histories = None if seen is None else how.read(seen, threshold).ratings
    ids = fitted.users if users is None else pricdr.read_ids(users)
    if resume and not kept_parts(out):
        warn("there is nothing to resume: recommending starts afresh")
    try:
        with progress_bar(f"recommending for {len(ids):,} users") as progress:
            written = fitted.recommend_to(out, ids, k, seen=histories, resume=resume, progress=progress)
    except (InputError, BusyError):  # the parts do not belong to this run, or another run is using them
        raise
    except BaseException:
        if kept := kept_parts(out):
            warn(f"{kept:,} parts are kept in {parts_folder(out)}: continue with --resume")
        raise
    if unknown := written.unknown_users:
        warn(f"{unknown:,} of {len(ids):,} users are unknown to the model: they get popular items")
    if histories is not None and not set(ids) & set(histories.users):
        warn(f"none of the {len(ids):,} users is in --seen: no item was left out")
    say(f"{written.rows:,} recommendations for {len(ids):,} users written to {out}")
    if fitted.summary is not None and histories is None:
        warn("the model was exported without histories: it may recommend items that users have rated (give --seen)")
