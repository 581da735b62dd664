"""``pricdr split``: hold something out, to measure by."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pricdr.cli.console import say, warn
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
    files_or_query,
    require_one_stream,
)
from pricdr.errors import InputError, ParameterError

if TYPE_CHECKING:
    from pricdr.data.csr import Float64Array
    from pricdr.data.reading.read import MemoryReading
    from pricdr.data.splits import Split


class OrderName(StrEnum):
    """Which ratings of a user are held out."""

    RANDOM = "random"
    TIME = "time"


def split(
    out: Annotated[Path, typer.Option(help="The split folder to create.")],
    target: Annotated[Path | None, typer.Argument(help=f"The target's ratings: {FILES}.")] = None,
    seed: Annotated[int | None, typer.Option(help="Another seed, another split.  [default: 0]")] = None,
    threshold: Annotated[float | None, typer.Option(help="Count only rows rated at least this.")] = None,
    by: Annotated[
        OrderName | None, typer.Option(help="Hold out ratings at random, or each user's latest.  [default: random]")
    ] = None,
    test_items: Annotated[int | None, typer.Option(help="Test items per user.  [default: 1]")] = None,
    ratio: Annotated[float | None, typer.Option(help="Instead: test by this share of each user's ratings.")] = None,
    cold: Annotated[float | None, typer.Option(help="Hide the whole history of this share of the users.")] = None,
    train: Annotated[Path | None, typer.Option(help="Your own split: the ratings to train on.")] = None,
    test: Annotated[Path | None, typer.Option(help="Your own split: the ratings to test by.")] = None,
    validation: Annotated[
        Path | None, typer.Option(help="Your own split: the ratings to validate by.  [default: some of --train]")
    ] = None,
    official: Annotated[
        Path | None, typer.Option(help="Import a split: user, valid_item, test_item, negatives_99.")
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
    """Hold out one item per user for testing and one for validation, each with 99 unrated items to rank among.

    Users with too few ratings (fewer than 3, or --test-items and 2) are trained on, not evaluated. With --cold some
    users lose all other ratings too: that is what a newcomer looks like, and where a release helps most.

    --by time tests by the latest ratings of each user and validates by the one before them; ratings of the same time
    come in random order. --ratio rounds each user's share, to at least one and at most all but two.

    --train and --test take files that you divided yourself. Test ratings that are also to be trained on are dropped and
    counted. Without --validation one rating of every user with two or more in --train is set aside.
    """
    from pricdr.data.splits import read_official, save_split
    from pricdr.data.splits import split as split_ratings
    from pricdr.files import new_folder

    reading = ReadingOptions(columns, delimiter, encoding, format, skip_bad_rows, most_bad_rows)
    ratings = files_or_query(target, source_address, query, "TARGET")
    parts = {"--train": train, "--test": test, "--validation": validation}
    rules = {"--by": by, "--test-items": test_items, "--ratio": ratio}
    _require_one_way(ratings, parts, official, {**rules, "--cold": cold, "--seed": seed})
    require_one_stream(*parts.values())
    each = 1 if test_items is None else test_items
    with new_folder(out, private=True) as staging:
        if ratings is None:
            given = [path for path in parts.values() if path is not None]
            made = _divided([reading.read_some(path, threshold) for path in given], cold or 0.0, seed or 0)
            reason = "without a test rating"
        elif official is not None:
            made = read_official(official, reading.read_some(ratings, threshold).ratings.positives().rated())
            reason = "whom the official split does not name"
        else:
            file = reading.read_some(ratings, threshold, with_times=by is OrderName.TIME)
            made = split_ratings(
                file.ratings,
                cold=cold or 0.0,
                seed=seed or 0,
                test_items=each,
                ratio=ratio,
                times=_require_times(file) if by is OrderName.TIME else None,
            )
            reason = f"with fewer than {each + 2} ratings"
        save_split(made, staging)
    _say_sizes(made, reason)
    say(f"split written to {out}")


def _require_one_way(
    target: RatingsInput | None,
    parts: Mapping[str, Path | None],
    official: Path | None,
    options: Mapping[str, object],
) -> None:
    """Refuse options that contradict each other, or would be ignored."""
    given = [name for name, value in options.items() if value is not None]
    divided = [name for name, path in parts.items() if path is not None]
    if target is not None and divided:
        raise ParameterError(f"give the ratings to split, {target}, or {' and '.join(divided)}, not both")
    if target is None and (parts["--train"] is None or parts["--test"] is None):
        raise ParameterError("give the ratings to split, or --train and --test")
    if official is not None and (target is None or given):
        rule = "an official split is taken as it is, of the ratings it was made of"
        raise ParameterError(f"--official and {' and '.join(given or divided)} exclude each other: {rule}")
    choosing = [name for name in given if name not in ("--cold", "--seed")]
    if divided and choosing:
        raise ParameterError(
            f"{' and '.join(choosing)} would divide ratings that {' and '.join(divided)} divide already"
        )
    if {"--test-items", "--ratio"} <= set(given):
        raise ParameterError("--test-items and --ratio exclude each other: both say how much is held out")


def _require_times(file: "MemoryReading") -> "Float64Array":
    """Return when each rating was made; refuse a file that does not say so of every one."""
    import numpy as np

    if file.times is None:
        raise InputError(f"{file.name}: --by time needs a time column; say which with --columns user=…,item=…,time=…")
    unknown = int(np.isnan(file.times).sum())
    if unknown:
        raise InputError(f"{file.name}: --by time needs the time of every rating, and {unknown:,} have none to read")
    return file.times


def _divided(files: "Sequence[MemoryReading]", cold: float, seed: int) -> "Split":
    """Return the split of files to train on, to test and perhaps to validate by; warn of what they repeat."""
    from pricdr.data.splits import Split

    train, test, *validation = (file.ratings for file in files)
    made = Split.of(train, test, *validation, cold=cold, seed=seed)
    if repeated := len(test) - len(made.test):
        warn(f"{files[1].name}: {repeated:,} ratings are also in {files[0].name}: they are not tested by")
    if validation and (repeated := len(validation[0]) - len(made.validation)):
        warn(f"{files[2].name}: {repeated:,} ratings are also in the other files: they are not validated by")
    return made


def _say_sizes(made: "Split", reason: str) -> None:
    users = {name: int(keep.sum()) for name, keep in made.strata().items()}
    say(f"tested by: {made.protocol}")
    say(f"evaluated: {users['warm']:,} warm ({users['few']:,} with 1 to 3 ratings) and {users['cold']:,} cold users")
    if len(made.test) > users["all"]:
        say(f"test items: {len(made.test):,}, {len(made.test) / users['all']:.1f} per user")
    say(f"ratings to train on: {len(made.train):,}")
    if made.not_evaluated:
        say(f"not evaluated: {made.not_evaluated:,} users {reason}, who are trained on")
