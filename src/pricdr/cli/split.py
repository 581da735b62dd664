"""``pricdr split``: hold something out, to measure by."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

import pricdr
from pricdr.cli import ratings as reading
from pricdr.cli.console import say, warn
from pricdr.cli.options import refuse_given
from pricdr.errors import InputError, ParameterError


def split(
    out: Annotated[Path, Option(help="The split folder to create.")],
    target: Annotated[Path | None, Argument(help=f"The target's ratings: {reading.FILES}.")] = None,
    seed: Annotated[int | None, Option(help="Another seed, another split.  [default: 0]")] = None,
    threshold: Annotated[float | None, Option(help="Count only rows rated at least this.")] = None,
    by: Annotated[Literal["random", "time"] | None, Option(help="At random, or the latest.  [default: random]")] = None,
    test_items: Annotated[int | None, Option(help="Test items per user.  [default: 1]")] = None,
    ratio: Annotated[float | None, Option(help="Instead: test by this share of each user's ratings.")] = None,
    cold: Annotated[float | None, Option(help="Hide the whole history of this share of the users.")] = None,
    train: Annotated[Path | None, Option(help="Your own split: the ratings to train on.")] = None,
    test: Annotated[Path | None, Option(help="Your own split: the ratings to test by.")] = None,
    validation: Annotated[Path | None, Option(help="Your own split: to validate by.  [default: some of train]")] = None,
    official: Annotated[Path | None, Option(help="Import a split: user, valid_item, test_item, negatives_99.")] = None,
    columns: reading.ColumnsOption = None,
    config: reading.InputConfigOption = None,
) -> None:
    """Hold out one item per user for testing and one for validation, each with 99 unrated items to rank among.

    Users with too few ratings (fewer than 3, or --test-items and 2) are trained on, not evaluated. With --cold some
    users lose all other ratings too: that is what a newcomer looks like, and where a release helps most.

    --by time tests by the latest ratings of each user and validates by the one before them; ratings of the same time
    come in random order. --ratio rounds each user's share, to at least one and at most all but two.

    --train and --test take files that you divided yourself. Test ratings that are also to be trained on are dropped and
    counted. Without --validation one rating of every user with two or more in --train is set aside.
    """
    import numpy as np

    from pricdr.data.splits import read_official, save_split
    from pricdr.files import new_folder

    how = replace(config or reading.InputSettings(), columns=columns)
    ratings = how.files_or_query(target, "TARGET")
    parts = {"--train": train, "--test": test, "--validation": validation}
    rules = {"--by": by, "--test-items": test_items, "--ratio": ratio}
    if official is not None:
        taken = parts | rules | {"--cold": cold, "--seed": seed}
        refuse_given(taken, "--official takes a split as it is, of the ratings it was made of")
    if ratings is not None:
        refuse_given(parts, f"these are already divided, and {ratings} would be split: give one or the other")
    elif train is None or test is None:
        raise ParameterError("give the ratings to split, or --train and --test")
    else:
        refuse_given(rules, "--train and --test divide the ratings already")
    reading.require_one_stream(*parts.values())
    each, share, number = 1 if test_items is None else test_items, cold or 0.0, seed or 0
    with new_folder(out, private=True) as staging:
        if ratings is None:
            files = [how.read_some(path, threshold) for path in parts.values() if path]
            made = pricdr.Split.of(*(file.ratings for file in files), cold=share, seed=number)
            for file, kept, verb in zip(files[1:], (made.test, made.validation), ("tested", "validated"), strict=False):
                if repeated := len(file.ratings) - len(kept):
                    warn(f"{file.name}: {repeated:,} ratings are in another file too: they are not {verb} by")
            reason = "without a test rating"
        elif official is not None:
            made = read_official(official, how.read_some(ratings, threshold).ratings.positives().rated())
            reason = "whom the official split does not name"
        else:
            timed = by == "time"
            file = how.read_some(ratings, threshold, with_times=timed)
            if timed and (file.times is None or np.isnan(file.times).any()):
                rule = "--by time needs the time of every rating; say which column it is with --columns …,time=…"
                raise InputError(f"{file.name}: {rule}")
            made = pricdr.split(file.ratings, cold=share, seed=number, test_items=each, ratio=ratio, times=file.times)
            reason = f"with fewer than {each + 2} ratings"
        save_split(made, staging)
    users = {name: int(keep.sum()) for name, keep in made.strata().items()}
    say(f"tested by: {made.protocol}")
    say(f"evaluated: {users['warm']:,} warm ({users['few']:,} with 1 to 3 ratings) and {users['cold']:,} cold users")
    if len(made.test) > users["all"]:
        say(f"test items: {len(made.test):,}, {len(made.test) / users['all']:.1f} per user")
    say(f"ratings to train on: {len(made.train):,}")
    if made.not_evaluated:
        say(f"not evaluated: {made.not_evaluated:,} users {reason}, who are trained on")
    say(f"split written to {out}")
