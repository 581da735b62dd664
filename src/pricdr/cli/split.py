"""``pricdr split``: hold something out, to measure by."""

from pathlib import Path
from typing import Annotated

import typer

from pricdr.cli.console import say
from pricdr.cli.reading_options import DEFAULT_READING, ReadingOptions, reads_ratings
from pricdr.errors import ParameterError


@reads_ratings
def split(
    target: Annotated[Path, typer.Argument(help="The target's ratings.")],
    out: Annotated[Path, typer.Option(help="The split folder to create.")],
    seed: Annotated[int, typer.Option(help="Another seed, another split.")] = 0,
    threshold: Annotated[float | None, typer.Option(help="Count only rows rated at least this.")] = None,
    official: Annotated[
        Path | None, typer.Option(help="Import a split: user, valid_item, test_item, negatives_99.")
    ] = None,
    cold: Annotated[float | None, typer.Option(help="Hide the whole history of this share of the users.")] = None,
    reading: ReadingOptions = DEFAULT_READING,
) -> None:
    """Hold out one item per user for testing and one for validation, each with 99 unrated items to rank among.

    Users with fewer than 3 ratings are trained on, not evaluated. With --cold some users lose all other ratings too:
    that is what a newcomer looks like, and where a release helps most.
    """
    from pricdr.data.split_files import read_official, save_split
    from pricdr.data.splits import split as split_ratings
    from pricdr.files import new_folder

    if official is not None and cold is not None:
        raise ParameterError("--official and --cold exclude each other: an official split is taken as it is")
    with new_folder(out, private=True) as staging:
        ratings_file = reading.read_some(target, threshold)
        made = (
            split_ratings(ratings_file.ratings, seed=seed, cold=cold or 0.0)
            if official is None
            else read_official(official, ratings_file.ratings.positives().rated())
        )
        save_split(made, staging)
    users = {name: int(keep.sum()) for name, keep in made.strata().items()}
    say(f"evaluated: {users['warm']:,} warm ({users['few']:,} with 1 to 3 ratings) and {users['cold']:,} cold users")
    say(f"ratings to train on: {len(made.train):,}")
    if made.not_evaluated:
        say(f"not evaluated: {made.not_evaluated:,} users with fewer than 3 ratings, who are trained on")
    say(f"split written to {out}")
