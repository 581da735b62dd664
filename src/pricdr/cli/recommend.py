"""``pricdr recommend``: what to show to whom."""

from pathlib import Path
from typing import Annotated

import typer

from pricdr.cli.console import say, warn
from pricdr.errors import ParameterError


def recommend(
    model: Annotated[Path, typer.Argument(help="The model folder.")],
    out: Annotated[Path, typer.Option(help="The file to create: .parquet or .csv.")],
    users: Annotated[Path | None, typer.Option(help="Only these users, one id a line.  [default: all]")] = None,
    k: Annotated[int, typer.Option("-k", help="Items per user.")] = 10,
) -> None:
    """Write the best unseen items of each user: user, item, score, rank, and what they rest on.

    Users the model never met get what is popular, and are counted on screen.
    """
    import io

    import polars as pl

    from pricdr.data.readers import read_ids
    from pricdr.files import require_absent, write_new
    from pricdr.model_files import load_model

    if out.suffix not in {".parquet", ".csv"}:
        raise ParameterError(f"--out must end in .parquet or .csv, got {out.name!r}")
    require_absent(out)
    fitted, _ = load_model(model)
    wanted = fitted.users if users is None else read_ids(users)
    unknown = len(set(wanted) - set(fitted.users))
    found = fitted.recommend(wanted, k)
    frame = pl.DataFrame(
        {
            "user": pl.Series([r.user for r in found], dtype=pl.String),
            "item": pl.Series([r.item for r in found], dtype=pl.String),
            "score": pl.Series([r.score for r in found], dtype=pl.Float64),
            "rank": pl.Series([r.rank for r in found], dtype=pl.Int64),
            "basis": pl.Series([r.basis.value for r in found], dtype=pl.String),
        }
    )
    buffer = io.BytesIO()
    if out.suffix == ".csv":
        frame.write_csv(buffer)
    else:
        frame.write_parquet(buffer)
    write_new(out, buffer.getvalue())
    if unknown:
        warn(f"{unknown:,} of {len(wanted):,} users are unknown to the model: they get what is popular")
    say(f"{len(found):,} recommendations for {len(wanted):,} users written to {out}")
