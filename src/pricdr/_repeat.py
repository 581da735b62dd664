"""STAGE TWO, several times: train and compare methods over several splits and seeds. One run can mislead."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import numpy as np

from pricdr._transfer import transfer
from pricdr.data.ratings import Ratings, RatingsLike
from pricdr.data.splits import Split, pair_codes, split
from pricdr.errors import InputError, ParameterError, require_count
from pricdr.evaluation.comparison import Comparison, RepeatedComparison, evaluate
from pricdr.evaluation.metrics import CUTOFFS
from pricdr.models.base import Method
from pricdr.models.fitted import FittedModel
from pricdr.progress import Progress, shown
from pricdr.release import Release
from pricdr.training.checkpoints import Checkpoints
from pricdr.training.run_log import RunLog


def repeat(
    methods: Mapping[str, Method],
    target: RatingsLike,
    *,
    releases: Mapping[str, Release | Sequence[Release]] | None = None,
    times: int = 5,
    cold: float = 0.2,
    test_items: int = 1,
    ratio: float | None = None,
    seed: int = 1,
    ranking: Literal["both", "sampled", "full"] = "sampled",
    cutoffs: Sequence[int] = CUTOFFS,
    allow_not_private: bool = False,
    progress: Progress | bool = False,
) -> RepeatedComparison:
    """Split the target's ratings several times, train every method on each split, and compare them over all splits.

    Split and trainings of a repetition have the same seed: ``seed``, and those after it.

    Args:
        methods: What to train, by name; the others are compared with the first.
        target: The target's ratings, all of them, or a data frame of them; each rated pair counts as 1.
        releases: What a method is trained with, one release or several, under the method's name; the others see the
            target alone.
        times: How many splits, two or more.
        cold: Hide the whole history of this share of the evaluated users of each split.
        test_items: How many ratings of each evaluated user are tested by.
        ratio: Test by this share of each evaluated user's ratings instead.
        seed: The seed of the first split.
        ranking: Among 99 stored negatives, among all items, or both.
        cutoffs: The values of k; the comparison is by NDCG@10, or at the largest of them.
        allow_not_private: Use releases that are marked NOT PRIVATE. For experiments.
        progress: True shows how far it has come; a function is called while methods are trained.

    Returns:
        The comparison on each split, and a verdict over all of them; ``print`` shows it.
    """
    require_count(times=times)
    if times < 2 or len(methods) < 2:
        raise ParameterError(f"two methods and two splits are the least to compare, got {len(methods)} and {times}")
    releases = releases or {}
    if unknown := sorted(set(releases) - set(methods)):
        raise ParameterError(f"there is a release for {unknown[0]!r:.60}, which is none of the methods")
    target = Ratings.of(target)
    comparisons: dict[int, Comparison] = {}
    done, total = 0, times * len(methods)
    with shown(progress) as report:
        report("repeating", done, total)
        for own_seed in range(seed, seed + times):
            parts = split(target, cold=cold, seed=own_seed, test_items=test_items, ratio=ratio)
            models: dict[str, FittedModel] = {}
            with TemporaryDirectory() as folder:  # methods with the same target network train it once
                log = RunLog(checkpoints=Checkpoints(finished=Path(folder)), progress=report)
                for name, method in methods.items():
                    models[name] = transfer(
                        parts.train,
                        releases.get(name),
                        method=_seeded(method, own_seed),
                        validation=parts.validation,
                        allow_not_private=allow_not_private,
                        log=log,
                    )
                    done += 1
                    report("repeating", done, total, f"{name}, seed {own_seed}")
            comparisons[own_seed] = evaluate(models, parts, ranking=ranking, cutoffs=cutoffs)
    return RepeatedComparison(comparisons)


def whole_of(parts: Split, ratings: Ratings | None = None) -> Ratings:
    """Return the ratings a split was made of. ``ratings``, which are checked, must hold the histories that it hides."""
    train = parts.train
    rows, columns = (
        np.concatenate([getattr(held_out, side) for held_out in (parts.validation, parts.test)])
        for side in ("users", "items")
    )
    known = np.union1d(pair_codes(train), rows * len(train.items) + columns)
    if ratings is None:
        if parts.cold.any():
            raise InputError(
                f"the split does not hold the histories of its {int(parts.cold.sum()):,} cold users: "
                "give the ratings it was made of (--target)"
            )
        cells = np.divmod(known, len(train.items))
        return Ratings.from_codes(*cells, np.ones(len(known)), train.users, train.items, has_values=False)
    ratings = ratings.positives().rated()
    if set(ratings.users) != set(train.users) or set(ratings.items) != set(train.items):
        raise InputError("the split was made of ratings other than --target, of other users or items")
    ratings = ratings.select(train.users, train.items)
    # Whatever the split holds must be there; of everybody but cold users, nothing else may be.
    whole = pair_codes(ratings)
    more = np.setdiff1d(whole, known) // len(train.items)
    if not np.isin(known, whole).all() or not parts.cold[more].all():
        raise InputError("the split was made of ratings other than --target")
    return ratings


def _seeded(method: Method, seed: int) -> Method:
    return method if method.options is None else replace(method, options=replace(method.options, seed=seed))
