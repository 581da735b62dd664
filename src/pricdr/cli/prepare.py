"""``pricdr prepare``: the paper's preprocessing, for researchers who hold both files."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

import pricdr
from pricdr.cli import ratings as reading
from pricdr.cli.console import progress_bar, say
from pricdr.errors import ParameterError


def prepare(
    source: Annotated[Path, Argument(help=f"Ratings of the source domain: {reading.FILES}.")],
    target: Annotated[Path, Argument(help="Ratings of the target domain, over the same user ids.")],
    out: Annotated[Path, Option(help="The folder to create: source.parquet, target.parquet, users.txt.")],
    threshold: Annotated[str, Option(help="Keep rows rated at least this, or none for all.")] = "3",
    core: Annotated[int | None, Option(help="A joint K-core instead of the paper's five steps.")] = None,
    drop_duplicates: Annotated[bool, Option("--drop-duplicates", help="Drop the source's duplicate items.")] = False,
    columns: reading.ColumnsOption = None,
    config: reading.ConfigOption = None,
) -> None:
    """Filter two rating files as the paper does. Research only: it needs both parties' data.

    Filtering by counts is a computation on private data, so a release of prepared ratings says that they were
    filtered.

    A product listed in both domains has its ratings in both files: what a split hides of the target then still lies in
    the source. Such duplicate items are counted, and --drop-duplicates leaves them out of the source.
    """
    from pricdr.data.pairs import save_pair
    from pricdr.files import new_folder

    how = replace(config or reading.ReadingSettings(), columns=columns)
    reading.require_one_stream(source, target)
    try:
        limit = None if threshold == "none" else float(threshold)
    except ValueError as error:
        raise ParameterError(f"--threshold must be a number or none, got {threshold!r}") from error
    with new_folder(out, private=True) as staging:
        files = [how.read(path) for path in (source, target)]
        for file in files:
            say(*file.summary().split("\n"))
        left, right = (file.ratings for file in files)
        users, others = set(left.users), set(right.users)
        only = f"{len(users - others):,} only in the source, {len(others - users):,} only in the target"
        say(f"users: {len(users & others):,} in both, {only}")
        with progress_bar("filtering"):
            whole = pricdr.prepare(left, right, threshold=limit, core=core)
        pair = whole.without_duplicates() if drop_duplicates else whole
        save_pair(pair, staging)
    say(f"prepared {len(pair.users):,} users: {pair.source.filtered_by}")
    for name, ratings in (("source", pair.source), ("target", pair.target)):
        say(f"  {name}: {len(ratings.items):,} items, {len(ratings):,} ratings")
    if duplicates := whole.duplicate_items():  # also where they were dropped: how many there were matters
        counted = f"{len(duplicates):,} source items with the raters of a target item"
        kept = "left out of the source" if drop_duplicates else "kept: the source shows what a split hides"
        say(f"  duplicate items: {counted}, {len(whole.source.select(items=duplicates)):,} ratings, {kept}")
