"""The paper's tables: Table 2 as printed, and what in it cannot be; Table 3, counted from the raw files.

``table2.csv`` is Table 2 of Chen et al., "Differential Private Knowledge Transfer for Privacy-Preserving Cross-Domain
Recommendation" (WWW 2022), transcribed digit for digit. A user's held-out item at rank r counts 1 for HR@k,
1/log2(1 + r) for NDCG@k and 1/r for MRR@k where r ≤ k, and 0 otherwise. The table has means of these over users and
runs, so whatever holds for every single rank holds for them:

- NDCG@k ≥ MRR@k, because log2(1 + r) ≤ r for every whole r from 1 on;
- no metric falls from k = 5 to k = 10;
- what NDCG and MRR rise by between the two is due to the users whose item is at rank 6 to 10, and so lies between
  HR@10 − HR@5 times the least and times the most that such a rank counts.

The third holds for figures of the same rankings only; the others where each figure is the best of its own runs, too.
"""

import csv
import json
import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from pricdr.data.pairs import DomainPair, prepare
from pricdr.data.ratings import Ratings
from pricdr.errors import MissingDataError, plain
from pricdr.evaluation.metrics import NAMES
from pricdr.experiments.arms import DataSpec
from pricdr.experiments.records import Count, Line, from_table, read_json, record
from pricdr.experiments.results import NOT_PRESENT, Provenance, provenance
from pricdr.experiments.tasks import find_files, prepare_pair
from pricdr.files import replace_file
from pricdr.progress import Progress, silent

_ROUNDING: Final = 1e-4
"""By how much two figures with four digits may be off together."""
_WEIGHTS: Final = {"NDCG": (1 / math.log2(11), 1 / math.log2(7)), "MRR": (1 / 10, 1 / 6)}
"""The least and the most that a rank from 6 to 10 counts."""
_BELOW: Final = "Impossible: NDCG is below MRR, and a rank never counts less for it."
_FALLS: Final = "Impossible: the metric falls from k = 5 to k = 10, and whoever counts among five counts among ten."
_MISFIT: Final = "Impossible if all figures are of the same rankings: the step from 5 to 10 does not fit HR's."


@cache
def table2() -> Mapping[tuple[str, str], Mapping[str, float]]:
    """Return the figures of the paper's Table 2, by task and method in the paper's order, and by metric."""
    text = (files("pricdr.experiments") / "table2.csv").read_text(encoding="utf-8")
    return {
        (f"{row['dataset']} {row['source']}→{row['target']}", row["method"]): {name: float(row[name]) for name in NAMES}
        for row in csv.DictReader(text.splitlines())
    }


def contradictions(figures: Mapping[str, float]) -> dict[str, str]:
    """Return why figures of one method on one task cannot be, rounding allowed for: by metric, the plainest reason."""
    steps = {metric: figures[f"{metric}@10"] - figures[f"{metric}@5"] for metric in ("HR", "NDCG", "MRR")}
    found: dict[str, str] = {}
    for k in (5, 10):
        if figures[f"NDCG@{k}"] < figures[f"MRR@{k}"] - _ROUNDING:
            found |= {f"NDCG@{k}": _BELOW, f"MRR@{k}": _BELOW}
    for metric, step in steps.items():
        least, most = _WEIGHTS.get(metric, (1, 1))
        # Four figures, each off by a rounding at most.
        low = least * steps["HR"] - _ROUNDING * (1 + least) - 1e-9
        high = most * steps["HR"] + _ROUNDING * (1 + most) + 1e-9
        if step < -_ROUNDING or not low <= step <= high:
            why = _FALLS if step < -_ROUNDING else _MISFIT
            found = {f"{metric}@5": why, f"{metric}@10": why} | found
    return found


@record
class Counts:
    """The figures of one row of Table 3."""

    users: Count
    source_items: Count
    source_ratings: Count
    target_items: Count
    target_ratings: Count

    @classmethod
    def of(cls, pair: DomainPair) -> "Counts":
        """Return the users, items and ratings of a pair."""
        sides = (pair.source, pair.target)
        return cls(len(pair.users), *(figure for side in sides for figure in (len(side.items), len(side))))

    @property
    def cells(self) -> list[str]:
        """The figures as a table prints them; behind each side's the share of all (user, item) pairs that are rated."""
        cells = [f"{self.users:,}"]
        for items, ratings in ((self.source_items, self.source_ratings), (self.target_items, self.target_ratings)):
            cells += [f"{items:,}", f"{ratings:,}", f"{ratings / max(1, self.users * items):.2%}"]
        return cells


@record
class PaperTask:
    """The data of one row of Table 3, and what the paper says of them; nothing of data that are not the paper's."""

    data: DataSpec
    counts: Counts | None = None

    @property
    def preprocessing(self) -> str:
        """Return, for people, what is done to the raw files."""
        if self.data.filtered:
            return "taken as it is"
        rated = "all ratings" if self.data.threshold is None else f"rating ≥ {self.data.threshold:g}"
        return f"{rated}, {'the five steps' if self.data.core is None else f'joint {self.data.core}-core'}"


@cache
def paper_tasks() -> tuple[PaperTask, ...]:
    """Return the rows of the paper's Table 3 in its order, then other data that experiments run on."""
    text = (files("pricdr.experiments") / "table3.toml").read_text(encoding="utf-8")
    return from_table(tuple[PaperTask, ...], tomllib.loads(text)["task"])


_MAX_BYTES: Final = 1 << 20


@record
class Preprocessing:
    """What another preprocessing of the same raw files, in words, would give."""

    words: Line
    counts: Counts


@record
class Table3Row:
    """One task: the paper's figures, where it is the paper's; and those that were counted, where the data was there."""

    title: Line
    preprocessing: Line
    paper: Counts | None
    measured: Counts | None = None
    expected: tuple[Line, ...] = ()
    """Which files would do, for each domain that is not there."""
    readings: tuple[Preprocessing, ...] = ()

    @property
    def agrees(self) -> bool | None:
        """Return whether what was counted is what the paper says, to the digit; None where one of them is not there."""
        return None if self.paper is None or self.measured is None else self.paper == self.measured


@record
class Table3:
    """The paper's six tasks in its order, then other data."""

    rows: tuple[Table3Row, ...]
    provenance: Provenance


def measure_table3(root: Path, *, progress: Progress = silent) -> Table3:
    """Return Table 3, counted from the raw files under ``root``; a task whose files are absent keeps its row."""
    tasks, rows = paper_tasks(), []
    for at, task in enumerate(tasks):
        progress("tasks", at, len(tasks), task.data.title or "")
        rows.append(_row(task, root))
    return Table3(tuple(rows), provenance("cpu"))


def write_table3(path: Path, table: Table3) -> None:
    """Write the table as JSON, in place of one that is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, (json.dumps(asdict(table), indent=1, ensure_ascii=False) + "\n").encode())


def read_table3(path: Path) -> Table3:
    """Return the table that :func:`write_table3` wrote; whatever else is in the file is refused in one line."""
    return read_json(path, Table3, "a Table 3", limit=_MAX_BYTES)


def table3_text(table: Table3) -> tuple[list[str], list[list[str]]]:
    """Return the table as text, none of it markup: its header, and the paper's figures and ours, one row each."""
    header = ["task", "", "users", "source items", "source ratings", "density"]
    header += ["target items", "target ratings", "density"]
    rows = []
    for row in table.rows:
        if row.paper is not None:
            rows.append([row.title, "paper", *row.paper.cells])
        if row.measured is None:
            rows.append([row.title, NOT_PRESENT, *[""] * 7])
        else:
            verdict = {None: "", True: ": the same", False: ": differs"}[row.agrees]
            rows.append([row.title, f"ours{verdict} ({row.preprocessing})", *row.measured.cells])
        rows += [[row.title, reading.words, *reading.counts.cells] for reading in row.readings]
    return header, rows


def table3_markdown(table: Table3) -> str:
    """Return the table in Markdown: the paper's figures and ours, one line each."""
    header, rows = table3_text(table)
    lines = [header, ["---", "---", *["---:"] * 7], *([plain(cell) for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _row(task: PaperTask, root: Path) -> Table3Row:
    data = task.data
    row = Table3Row(title=data.title or data.folder, preprocessing=task.preprocessing, paper=task.counts)
    try:
        files = find_files(root, data.folder, data.source, data.target)
    except MissingDataError as error:
        return replace(row, expected=error.expected)
    source, target = (file.read().ratings for file in files)
    pair = prepare_pair(data, source, target)
    readings = (Preprocessing(words, Counts.of(other)) for words, other in _readings(task, source, target, pair))
    return replace(row, measured=Counts.of(pair), readings=tuple(readings))


def _readings(task: PaperTask, source: Ratings, target: Ratings, pair: DomainPair) -> Iterator[tuple[str, DomainPair]]:
    """Yield what else the paper could mean by "filter the users and items with less than 5 interactions"."""
    threshold = task.data.threshold
    if task.data.filtered:
        yield "the paper's five steps", prepare(source, target, threshold=threshold)
    elif task.counts is None:
        yield "without source items that repeat a target item", pair.without_duplicates()
    else:
        # "Less than 5" leaves those with 5 themselves, and a K-core filters until nothing changes.
        one_pass = prepare(source, target, threshold=threshold, more_than=4)
        yield "5 or more positives per user and item, in one pass", one_pass
        for core in (5, 6):
            iterated = prepare(source, target, core=core, threshold=threshold)
            yield f"{core} or more, iterated with the common users (joint {core}-core)", iterated
