"""What was run, when, on what and from which commit, and what is missing."""

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
    """The days on which the first and the last run finished; empty where there is none."""
    last: str


@dataclass(frozen=True)
class Environment:
    """A machine, a commit and versions that runs have in common."""

    words: tuple[str, ...]
    """Machine, commit, and the versions of pricdr, Python, torch, numpy and scipy."""
    runs: int
    first: str
    """When the first and the last of them finished."""
    last: str


def provenance(folder: ResultsFolder) -> tuple[RunRow, ...]:
    """Return a row for every task of every spec."""
    return tuple(_row(experiment) for experiment in folder.experiments)


def environments(folder: ResultsFolder) -> tuple[Environment, ...]:
    """Return what runs were measured by, the most frequent first."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for experiment in folder.experiments:
        for one in _known(experiment):
            words = (one.machine, one.commit, one.version, one.python, one.torch, one.numpy, one.scipy)
            groups.setdefault(words, []).append(one.finished)
    found = [Environment(words, len(ends), min(ends), max(ends)) for words, ends in groups.items()]
    return tuple(sorted(found, key=lambda one: -one.runs))


def _known(experiment: Experiment) -> list[Provenance]:
    arms = experiment.outline.arms
    return [result.provenance for arm in arms for result in experiment.results_of(arm).values()]


def _row(experiment: Experiment) -> RunRow:
    outline = experiment.outline
    finished = sorted(one.finished for one in _known(experiment))
    return RunRow(
        *(outline.name, outline.family, experiment.title, len(outline.arms), len(outline.seeds), experiment.runs),
        missing=len(experiment.missing),
        missing_in_words=outline.missing or _missing(experiment),
        stale=experiment.stale,
        first=finished[0][:10] if finished else "",
        last=finished[-1][:10] if finished else "",
    )


def _missing(experiment: Experiment) -> str:
    """Return the missing runs, seeds of one arm together."""
    by_arm: dict[str, list[int]] = {}
    for arm, seed in experiment.missing:
        by_arm.setdefault(arm, []).append(seed)
    if not experiment.runs and by_arm:
        return "every run"
    return "; ".join(f"{arm}: seed {', '.join(map(str, seeds))}" for arm, seeds in by_arm.items())
