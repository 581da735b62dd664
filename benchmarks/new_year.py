"""Two years of weekly releases, each with a budget of its own for its own ratings: does January start from nothing?

Half of the ratings are of the first year. The releases of the second hold its own alone, and go on from those of the
first, or begin anew. ``python -m benchmarks.new_year --data DIR --out results/new_year.jsonl`` adds what is missing.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Final

from benchmarks.series import OWN, RIDGE, SPECS, Plan, published, weekly
from pricdr._transfer import transfer
from pricdr.experiments.measured import Measurement
from pricdr.experiments.records import Number, record
from pricdr.experiments.results import Provenance, append, provenance, read_lines
from pricdr.experiments.spec import read_specs
from pricdr.experiments.tasks import Task, load_task
from pricdr.models.gates import ndcg_of
from pricdr.randomness import Simulation
from pricdr.release import Release

WEEKS: Final = 26
WATCHED: Final = (1, 4, 13, 26)
FIRST_YEAR, WENT_ON, BEGAN_ANEW = "the first year alone", "went on", "began anew"


@record
class TwoYears:
    """NDCG@10 of cold users among 99 negatives, by the sum of releases."""

    plan: Plan
    popularity: Number
    ndcg: dict[str, dict[str, Number]]
    """How the second year is published → its week → mean."""
    provenance: Provenance


def read_two_years(path: Path) -> list[TwoYears]:
    """Return the results in a file."""
    return read_lines(path, TwoYears)


def main() -> None:
    """Run what a file of results lacks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of data sets")
    parser.add_argument("--out", type=Path, required=True, help="file of results, added to")
    given = parser.parse_args()
    specs = {one.data.name: one for one in read_specs(SPECS / "frontier.toml", SPECS / "tuned")}
    for name in ("movie_music", "electronics_cell"):
        task = load_task(specs[name].data, given.data)
        for epsilon in (4.0, 8.0):
            for seed in range(1, 6):
                plan = Plan(data=name, epsilon=epsilon, weeks=WEEKS, first=0.0, rows=OWN, method=RIDGE, seed=seed)
                if all(one.plan != plan for one in read_two_years(given.out)):
                    append(given.out, simulated(task, plan))
    print("\n".join(table(read_two_years(given.out))))


def simulated(task: Task, plan: Plan) -> TwoYears:
    """Publish two years week by week, and train on what there is in the watched weeks of the second."""
    split, source = task.split(plan.seed), task.pair.source
    cold = split.test.only(split.cold[split.test.users])
    in_first = Simulation(plan.seed).generator("years").random(len(source)) < 0.5

    def year(which: bool) -> Task:
        return replace(task, pair=replace(task.pair, source=source.only(in_first == which)))

    def ndcg(releases: list[Release]) -> float:
        model = transfer(split.train, releases, method=RIDGE, validation=split.validation, allow_not_private=True)
        return round(float(ndcg_of(model, cold).mean()), 6)

    before: list[Release] = []
    for week, ratings in enumerate(weekly(year(True), split, plan), 1):
        before.append(published(ratings, plan, week, before))
    went_on, anew = list(before), list[Release]()
    found: dict[str, dict[str, float]] = {FIRST_YEAR: {"0": ndcg(before)}, WENT_ON: {}, BEGAN_ANEW: {}}
    arrives = Simulation(plan.seed).generator("second year").integers(0, WEEKS, len(source))
    for week in range(1, WEEKS + 1):
        ratings = source.only(~in_first & (arrives < week))
        for members, name in ((went_on, WENT_ON), (anew, BEGAN_ANEW)):
            members.append(published(ratings, plan, WEEKS + week, members))
            if week in WATCHED:
                found[name][str(week)] = ndcg(members)
    popular = transfer(split.train, method="popularity", validation=split.validation)
    return TwoYears(
        plan=plan,
        popularity=round(float(ndcg_of(popular, cold).mean()), 6),
        ndcg=found,
        provenance=provenance("cpu"),
    )


def table(results: list[TwoYears]) -> list[str]:
    """Return a row for each data set and ε: the gain over popularity after the first year, and in the second."""
    rows = []
    for name, title in (("movie_music", "Movie→Music"), ("electronics_cell", "Electronics→Cell")):
        for epsilon in (4.0, 8.0):
            found = [one for one in results if (one.plan.data, one.plan.epsilon) == (name, epsilon)]

            def gain(how: str, week: int, found: list[TwoYears] = found) -> str:
                gains = {one.plan.seed: one.ndcg[how][str(week)] - one.popularity for one in found}
                return str(Measurement(gains)).replace("-", "−")

            second = " | ".join(gain(how, week) for how in (WENT_ON, BEGAN_ANEW) for week in WATCHED)
            rows.append(f"| {title}, ε = {epsilon:g} a year | {gain(FIRST_YEAR, 0)} | {second} |")
    return rows


if __name__ == "__main__":
    main()
