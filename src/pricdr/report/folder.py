"""A results folder: what was asked for, what was measured, and what is missing or out of date."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from pricdr.data.reading.text_files import shorten
from pricdr.errors import InputError
from pricdr.experiments.measured import Access, Experiment, MeasuredArm
from pricdr.experiments.results import SUFFIX as SUFFIX, read, read_lines, read_outline
from pricdr.experiments.search import Trial
from pricdr.progress import Progress, silent
from pricdr.untrusted import Folder

LINES: Final = ".jsonl"
BENCHMARKS: Final = ("frontier_synthetic.jsonl", "fold_in.jsonl", "new_year.jsonl", "series.jsonl")
TABLE3: Final = "table3.json"
SEARCH: Final = "search"
MAX_ENTRIES: Final = 10_000


@dataclass(frozen=True)
class ResultsFolder:
    """Everything in a results folder that the page shows."""

    path: Path
    experiments: tuple[Experiment, ...]
    trials: Mapping[str, tuple[Trial, ...]] = field(default_factory=dict)
    """By the name of their file."""
    unclaimed: tuple[str, ...] = ()
    """Files of results that belong to no spec in the folder."""

    def family(self, name: str) -> tuple[Experiment, ...]:
        """Return the experiments of one spec file, one for each task."""
        return tuple(one for one in self.experiments if one.spec.family == name)


def read_folder(path: Path, *, progress: Progress = silent) -> ResultsFolder:
    """Return what a results folder holds, every record checked; refuse a folder that holds no outline of a spec."""
    names, searches = _names(path), path / SEARCH
    stems = [name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX)]
    if not stems:
        raise InputError(f"{path} is not a results folder: it holds no *{SUFFIX} (pricdr reproduce writes them)")
    experiments, trials = [], {}
    for number, stem in enumerate(stems):
        progress("reading results", number, len(stems), stem)
        experiments.append(_experiment(path, stem))
    for name in _names(searches) if searches.is_dir() else ():
        if name.endswith(LINES):
            trials[name.removesuffix(LINES)] = tuple(read_lines(_plain(searches / name), Trial))
    claimed = {f"{stem}{LINES}" for stem in stems} | {*BENCHMARKS}
    unclaimed = tuple(name for name in names if name.endswith(LINES) and name not in claimed)
    return ResultsFolder(path, tuple(_beside(one, experiments) for one in experiments), trials, unclaimed)


def _names(path: Path) -> list[str]:
    with Folder.opened(path, "a results folder") as folder:
        return folder.names(ending="", limit=MAX_ENTRIES)


def _plain(path: Path) -> Path:
    """Return a path whose file can be read to its end: a pipe in the folder would be waited for without one."""
    if not path.is_file():
        raise InputError(f"{path} is not a file of results: it is a folder, a pipe, or a link to nothing")
    return path


def _experiment(path: Path, stem: str) -> Experiment:
    outline, lines = read_outline(_plain(path / f"{stem}{SUFFIX}")), path / f"{stem}{LINES}"
    if outline.spec.name != stem:
        other = shorten(outline.spec.name)
        raise InputError(f"{path / stem}{SUFFIX} is the outline of {other}, not of {shorten(stem)}")
    return Experiment.of(outline, read(_plain(lines)) if os.path.lexists(lines) else [])


def _beside(experiment: Experiment, others: Sequence[Experiment]) -> Experiment:
    """Return an experiment that knows what other specs measured on its data with the target alone."""
    known = set(experiment.outline.keys.values())
    alone: dict[str, MeasuredArm] = {}
    for other in others:
        if other.spec.data.content() == experiment.spec.data.content():
            for name, arm in other.arms.items():
                if arm.runs and arm.access is Access.TARGET and other.outline.keys[name] not in known:
                    alone.setdefault(other.outline.keys[name], arm)
    return replace(experiment, alone_elsewhere=tuple(alone.values()))
