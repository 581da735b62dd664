"""Folding in against training again, on Movie→Music at ε = 8: what users gain who come later, and what it costs.

HeteroCDR is trained with a release over the others. Then a newer release over everyone is folded in, and the newcomers'
histories. ``python -m benchmarks.fold_in --data DIR --out results/fold_in.jsonl`` adds what is missing there.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import compress
from pathlib import Path
from typing import Final, TypeVar

import numpy as np

from pricdr._transfer import transfer
from pricdr.data.ratings import Ids, position_of
from pricdr.data.splits import HeldOut
from pricdr.experiments.arms import Arm
from pricdr.experiments.records import Number, Whole, record
from pricdr.experiments.results import Provenance, append, provenance, read_lines
from pricdr.experiments.runner import seeded_release
from pricdr.experiments.spec import read_specs
from pricdr.experiments.tasks import Task, load_task
from pricdr.models.catalogue import configure
from pricdr.models.fitted import FittedModel
from pricdr.models.gates import ndcg_of
from pricdr.models.methods.linear import Popularity
from pricdr.randomness import Simulation
from pricdr.release.folder import Release

SPECS: Final = Path(__file__).parents[1] / "specs"
ARM: Final = "spectral, ε = 8"
SETTINGS: Final = {"base": "bpr", "hidden": 128, "width": 64}
"""Beside those that a search chose: a network of a quarter of the width, which a processor trains in two minutes."""
SEEDS: Final = (1, 2, 3)
LATE: Final = 0.2
"""Share of the users who come after training."""
COLD, WARM, KNOWN = "cold newcomers", "warm newcomers", "cold users known before"
POPULARITY, BEFORE, FOLDED, AGAIN = "popularity", "before", "folded in", "trained again"
T = TypeVar("T")


@record
class FoldedIn:
    """What folding in and training again give with one seed."""

    seed: Whole
    users: dict[str, Whole]
    """How many were evaluated, by kind."""
    ndcg: dict[str, dict[str, Number]]
    """NDCG@10 among 99 negatives: kind of users → how they are served → mean."""
    seconds: dict[str, Number]
    """Of the processor, by step."""
    provenance: Provenance


def read_folded_in(path: Path) -> list[FoldedIn]:
    """Return the results in a file."""
    return read_lines(path, FoldedIn)


def main() -> None:
    """Run the seeds that a file of results lacks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of data sets")
    parser.add_argument("--out", type=Path, required=True, help="file of results, added to")
    parser.add_argument("--seeds", type=int, nargs="*", default=SEEDS)
    given = parser.parse_args()
    (spec,) = (one for one in read_specs(SPECS / "frontier.toml", SPECS / "tuned") if one.data.name == "movie_music")
    (arm,) = (replace(one, settings={**one.settings, **SETTINGS}) for one in spec.arms if one.name == ARM)
    task = load_task(spec.data, given.data)
    for seed in sorted({*given.seeds} - {one.seed for one in read_folded_in(given.out)}):
        found = measured(task, arm, seed)
        append(given.out, found)
        print(seed, found.ndcg, found.seconds)


def measured(task: Task, arm: Arm, seed: int) -> FoldedIn:
    """Train on four fifths of the users and fold the others in; train again on all of them."""
    split, method = task.split(seed), configure(arm.method_name, {**arm.settings, "seed": seed, "device": "cpu"})
    everyone = split.train.users
    late = Simulation(seed).generator("latecomers").random(len(everyone)) < LATE
    known = tuple(compress(everyone, ~late))
    assert arm.release is not None
    release = seeded_release(task.pair.source.select(users=known), arm.release, seed)
    newer = seeded_release(task.pair.source, arm.release, 1_000 + seed)
    seconds: dict[str, float] = {}

    def timed(step: str, work: Callable[[], T]) -> T:
        started = time.process_time()
        result = work()
        seconds[step] = round(time.process_time() - started, 3)
        return result

    def fitted(users: Ids, seen: Release) -> FittedModel:
        own, validation = split.train.select(users=users), of_users(split.validation, everyone, users)
        return transfer(own, seen, method=method, validation=validation, allow_not_private=True)

    before = timed("training", lambda: fitted(known, release))
    followed = timed("folding in the release", lambda: before.with_release(newer, allow_not_private=True))
    histories = split.train.select(users=tuple(compress(everyone, late))).rated()
    folded = timed("folding in histories", lambda: followed.with_ratings(histories))
    again = timed("training again", lambda: fitted(everyone, newer))
    popular = Popularity().fit(split.train)
    models = {POPULARITY: popular, BEFORE: before, FOLDED: folded, AGAIN: again}
    kinds = {COLD: split.cold & late, WARM: ~split.cold & late, KNOWN: split.cold & ~late}
    return FoldedIn(
        seed=seed,
        users={kind: int(users[split.test.users].sum()) for kind, users in kinds.items()},
        ndcg={
            kind: {
                how: ndcg(model, split.test.only(users[split.test.users]), everyone)
                for how, model in models.items()
                if kind == KNOWN or how != BEFORE
            }
            for kind, users in kinds.items()
        },
        seconds=seconds,
        provenance=provenance("cpu"),
    )


def of_users(held_out: HeldOut, before: Ids, now: Ids) -> HeldOut:
    """Return what is held out of these users, by their positions among them."""
    at = position_of(now)
    moved = np.array([at.get(user, -1) for user in before])
    kept = held_out.only(moved[held_out.users] >= 0)
    return replace(kept, users=moved[kept.users])


def ndcg(model: FittedModel, held_out: HeldOut, users: Ids) -> float:
    """Return the mean NDCG@10 of held-out items, ranked by a model that may know users in another order."""
    return round(float(ndcg_of(model, of_users(held_out, users, model.users)).mean()), 6)


if __name__ == "__main__":
    main()
