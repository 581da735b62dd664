"""What was run, when, on what and from which commit, and what is missing."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from pricdr.experiments.provenance import Provenance
from pricdr.report.folder import Experiment, ResultsFolder


@dataclass(frozen=True)
class RunRow:
    """One task of one spec."""

    name: str
    family: str
    title: str
    arms: int
    seeds: int
    runs: int
    missing: int
    missing_in_words: str
    stale: int
    first: str
    """When the first and the last run finished, as days; empty where no run says."""
    last: str
    machines: str
    commits: str
    versions: str


def provenance(folder: ResultsFolder) -> tuple[RunRow, ...]:
    """Return a row for every task of every spec."""
    return tuple(_row(experiment) for experiment in folder.experiments)


def _row(experiment: Experiment) -> RunRow:
    outline = experiment.outline
    known = [result.provenance for arm in outline.arms for result in experiment.results_of(arm).values()]
    finished = sorted(one.finished for one in known)
    return RunRow(
        outline.name,
        outline.family,
        experiment.title,
        len(outline.arms),
        len(outline.seeds),
        experiment.runs,
        len(experiment.missing),
        outline.missing or _missing(experiment),
        experiment.stale,
        finished[0][:10] if finished else "",
        finished[-1][:10] if finished else "",
        _counted(one.machine for one in known),
        _counted(one.commit[:10] for one in known),
        _counted(_versions(one) for one in known),
    )


def _missing(experiment: Experiment) -> str:
    """Return the missing runs, seeds of one arm together."""
    by_arm: dict[str, list[int]] = {}
    for arm, seed in experiment.missing:
        by_arm.setdefault(arm, []).append(seed)
    if not experiment.runs and by_arm:
        return "every run"
    return "; ".join(f"{arm}: seed {', '.join(map(str, seeds))}" for arm, seeds in by_arm.items())


def _versions(one: Provenance) -> str:
    return f"pricdr {one.version}, Python {one.python}, torch {one.torch}, numpy {one.numpy}, scipy {one.scipy}"


def _counted(values: Iterable[str]) -> str:
    """Return the different values, the most frequent first, with how many runs have each where there are several."""
    counts = Counter(values)
    if len(counts) < 2:
        return next(iter(counts), "")
    return "; ".join(f"{value} ({count} runs)" for value, count in counts.most_common())
