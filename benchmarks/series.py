"""A year of weekly releases under one lifetime ε, simulated: what their sum keeps, beside the last and a single one.

Half of the ratings are there in the first week, and three users in ten join later. Each week all ratings so far are
published. ``python -m benchmarks.series --data DIR --out results/series.jsonl`` adds what is missing there.
"""

import argparse
from collections.abc import Iterator
from dataclasses import astuple, replace
from functools import partial
from itertools import groupby, product
from pathlib import Path
from statistics import fmean
from typing import Final

import numpy as np
import scipy.sparse as sp

from pricdr._publish import publish
from pricdr._transfer import transfer
from pricdr.data.ratings import Ratings
from pricdr.data.splits import Split
from pricdr.experiments.arms import DELTA
from pricdr.experiments.measured import Measurement
from pricdr.experiments.records import Line, Number, Whole, record
from pricdr.experiments.results import Provenance, append, provenance, read_lines
from pricdr.experiments.spec import read_specs
from pricdr.experiments.tasks import Task, load_task
from pricdr.models.catalogue import configure
from pricdr.models.fitted import FittedModel
from pricdr.models.gates import ndcg_of
from pricdr.privacy.accounting import Guarantee
from pricdr.privacy.ledger import Balance
from pricdr.privacy.plan import equal_allowance
from pricdr.privacy.strategies.continued import Continued
from pricdr.privacy.strategies.spectral import Spectral
from pricdr.randomness import Simulation
from pricdr.release import Release
from pricdr.release.series import Series
from pricdr.training.checkpoints import Checkpoints
from pricdr.training.run_log import NO_LOG, RunLog

SPECS: Final = Path(__file__).parents[1] / "specs"
COLUMNS: Final = 8
EARLY, LATE = 0.6, 0.3
"""Share of the ratings of those who are there from the start that are there too; share of users who join later. With
both, a little over half of all ratings are there in the first week."""
WATCHED: Final = (1, 2, 4, 8, 13, 18, 26, 39, 52)
RIDGE, HETERO = "ridge-release", "hetero"
OWN, SHUFFLED, NOTHING = "own", "shuffled", "nothing"
"""Whose ratings are published: the users' own, another's (a control), or none (a control: noise alone)."""


@record
class Plan:
    """What one run simulates."""

    data: Line
    epsilon: Number
    """Of all releases together."""
    weeks: Whole
    first: Number
    """Share of μ² of the first release; 0 for the same as the others'."""
    rows: Line
    method: Line
    seed: Whole


@record
class Simulated:
    """What a plan gave: NDCG@10 of cold users among 99 negatives."""

    plan: Plan
    popularity: Number
    single: Number
    """By one release of everything at the end, with the whole budget."""
    last: dict[str, Number]
    """By the release of a week alone, by week."""
    sum: dict[str, Number]
    """By the sum of all releases up to a week."""
    rank: dict[str, Number]
    """Effective rank of the sum: e to the entropy of its variances."""
    provenance: Provenance


def read_simulated(path: Path) -> list[Simulated]:
    """Return the results in a file."""
    return read_lines(path, Simulated)


def plans(data: str, method: str, seeds: list[int]) -> Iterator[Plan]:
    """Yield what is measured: equal and front-loaded budgets, three lengths, and controls at one of them."""
    for epsilon, seed in product((4.0, 8.0), seeds):
        plan = partial(Plan, data=data, epsilon=epsilon, method=method, seed=seed)
        yield plan(weeks=26, first=0.0, rows=OWN)
        yield plan(weeks=26, first=0.4, rows=OWN)
        if method == RIDGE:
            yield plan(weeks=4, first=0.0, rows=OWN)
            yield plan(weeks=52, first=0.0, rows=OWN)
        if epsilon == 4.0:
            yield plan(weeks=26, first=0.0, rows=SHUFFLED)
            yield plan(weeks=26, first=0.0, rows=NOTHING)


def main() -> None:
    """Run what a file of results lacks, and print the means of what is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of data sets")
    parser.add_argument("--out", type=Path, required=True, help="file of results, added to")
    parser.add_argument("--sets", nargs="*", default=["movie_music", "electronics_cell"])
    parser.add_argument("--methods", nargs="*", default=[RIDGE])
    parser.add_argument("--seeds", type=int, nargs="*", default=[1, 2, 3, 4, 5])
    parser.add_argument("--networks", type=Path, help="folder where trained networks are kept, and taken from")
    given = parser.parse_args()
    specs = {one.data.name: one for one in read_specs(SPECS / "frontier.toml", SPECS / "tuned")}
    log = NO_LOG if given.networks is None else RunLog(checkpoints=Checkpoints(finished=given.networks))
    for name, method in product(given.sets, given.methods):
        arm = next(one for one in specs[name].arms if one.method == method and one.release is not None)
        task = load_task(specs[name].data, given.data)
        for plan in plans(name, method, given.seeds):
            if any(one.plan == plan for one in read_simulated(given.out)):
                continue
            found = simulated(task, plan, dict(arm.settings), log)
            append(given.out, found)
            print(plan, found, flush=True)
    print("\n".join(table(read_simulated(given.out))))


def kept(results: list[Simulated], how: str, week: int) -> Measurement:
    """Return what is kept in a week, by the ``sum`` or the ``last``, of what a single release gains in the end."""
    whole = fmean(one.single - one.popularity for one in results)
    return Measurement({one.plan.seed: (getattr(one, how)[str(week)] - one.popularity) / whole for one in results})


NAMES: Final = {"movie_music": "Movie→Music", "electronics_cell": "Electronics→Cell"}


def table(results: list[Simulated]) -> list[str]:
    """Return a row for each plan, over its seeds: what the sum keeps, early and at the end, and the last release."""

    def same(one: Simulated) -> tuple[object, ...]:
        return astuple(replace(one.plan, seed=0))

    rows = []
    for _, group in groupby(sorted((one for one in results if one.plan.rows == OWN), key=same), key=same):
        found = list(group)
        plan = found[0].plan
        first = f", the first with {plan.first:.0%} of μ²" if plan.first else ""
        weeks = [week for week in (1, 8, 18) if str(week) in found[0].sum and week < plan.weeks]
        early = " / ".join(kept(found, "sum", week).percent() for week in weeks)
        end = " | ".join(kept(found, how, plan.weeks).percent() for how in ("sum", "last"))
        decoder = "" if plan.method == RIDGE else f", HeteroCDR, {len(found)} seeds"
        name = f"{NAMES[plan.data]}, ε = {plan.epsilon:g}: {plan.weeks} releases{first}{decoder}"
        rows.append(f"| {name} | {early or '–'} | {end} |")
    return rows


def simulated(task: Task, plan: Plan, settings: dict[str, object], log: RunLog) -> Simulated:
    """Publish week after week, and train on what there is in the watched weeks: a network at the end alone."""
    split = task.split(plan.seed)
    cold = split.test.only(split.cold[split.test.users])
    if plan.method == HETERO:
        settings |= {"seed": plan.seed, "device": "cpu"}
    method = configure(plan.method, settings)

    def ndcg(release: "Release | list[Release]") -> float:
        model: FittedModel = transfer(
            split.train, release, method=method, validation=split.validation, allow_not_private=True, log=log
        )
        return round(float(ndcg_of(model, cold).mean()), 6)

    members: list[Release] = []
    last, total, rank = {}, {}, {}
    for week, ratings in enumerate(weekly(task, split, plan), 1):
        members.append(published(ratings, plan, week, members))
        if week == plan.weeks or (plan.method == RIDGE and week in WATCHED):
            last[str(week)] = ndcg(members[-1])
            total[str(week)] = ndcg(members)
            rank[str(week)] = effective_rank(Series(tuple(members)))
    everything = Guarantee(epsilon=plan.epsilon, delta=DELTA)
    source = shown(task.pair.source, plan)
    single = publish(
        source, everything, strategy=Spectral(dim=COLUMNS), users=source.users, insecure_seed=1_000_000 + plan.seed
    )
    popular = transfer(split.train, method="popularity", validation=split.validation)
    return Simulated(
        plan=plan,
        popularity=round(float(ndcg_of(popular, cold).mean()), 6),
        single=ndcg(single),
        last=last,
        sum=total,
        rank=rank,
        provenance=provenance("cpu"),
    )


def shown(source: Ratings, plan: Plan) -> Ratings:
    """Return the ratings that are published: those of a control belong to nobody on the list, or to somebody else."""
    if plan.rows == NOTHING:
        return source.only(np.zeros(len(source), dtype=bool))
    if plan.rows == SHUFFLED:
        order = Simulation(plan.seed).generator("shuffled rows").permutation(len(source.users))
        return replace(source, matrix=source.matrix[order])
    return source


def weekly(task: Task, split: Split, plan: Plan) -> Iterator[Ratings]:
    """Yield the ratings there are in each week, over the users who have joined by then."""
    draws, source = Simulation(plan.seed).generator("weeks"), shown(task.pair.source, plan)
    users, count = np.array(source.users, dtype=object), len(source)
    joined = np.where(draws.random(len(users)) < LATE, draws.integers(1, plan.weeks, len(users)), 0)
    owner = np.repeat(np.arange(len(users)), np.diff(source.matrix.indptr))
    later = joined[owner] + np.floor(draws.random(count) * (plan.weeks - joined[owner])).astype(np.int64)
    there_at_once = (joined[owner] == 0) & (draws.random(count) < EARLY)
    arrives = np.where(there_at_once, 0, later)
    for week in range(plan.weeks):
        kept = arrives <= week
        pairs = owner[kept], source.matrix.indices[kept]
        matrix = sp.csr_array((np.ones(int(kept.sum())), pairs), shape=source.matrix.shape)[joined <= week]
        yield Ratings(sp.csr_array(matrix), tuple(users[joined <= week]), source.items, has_values=False)


def published(ratings: Ratings, plan: Plan, week: int, before: list[Release]) -> Release:
    """Publish one week's ratings for its part of the budget."""
    budget = Balance.unspent(Guarantee(epsilon=plan.epsilon, delta=DELTA))
    if not plan.first:
        price = equal_allowance(budget, plan.weeks)
    elif week == 1:
        price = equal_allowance(budget, 1, plan.first)
    else:
        price = equal_allowance(budget, plan.weeks - 1, 1 - plan.first)
    strategy = Continued(before=before) if before else Spectral(dim=COLUMNS)
    seed = 1_000 * plan.seed + week
    return publish(ratings, price.guarantee, strategy=strategy, users=ratings.users, insecure_seed=seed)


def effective_rank(series: Series) -> float:
    """Return e to the entropy of the variances of a sum along its principal directions."""
    variances = np.linalg.eigvalsh(np.cov(series.matrix.T))
    shares = variances / variances.sum()
    return round(float(np.exp(-(shares * np.log(np.maximum(shares, 1e-12))).sum())), 3)


if __name__ == "__main__":
    main()
