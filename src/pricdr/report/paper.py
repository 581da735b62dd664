"""The paper's Table 2, and what in it cannot be: figures that no ranking of one held-out item per user gives.

``table2.csv`` is Table 2 of Chen et al., "Differential Private Knowledge Transfer for Privacy-Preserving Cross-Domain
Recommendation" (WWW 2022), transcribed digit for digit. A user's held-out item at rank r counts 1 for HR@k,
1/log2(1 + r) for NDCG@k and 1/r for MRR@k where r ≤ k, and 0 otherwise. The table has means of these over users and
runs, so whatever holds for every single rank holds for them:

- NDCG@k ≥ MRR@k, because log2(1 + r) ≤ r for every whole r from 1 on;
- no metric falls from k = 5 to k = 10;
- what NDCG and MRR rise by between the two is due to the users whose item is at rank 6 to 10, and so lies between
  HR@10 − HR@5 times the least and times the most that such a rank counts.

The first two hold as well where each figure is the best of its own over the same runs or epochs: the best NDCG is at
least that of the run with the best MRR. The third holds for figures of the same rankings only.
"""

import csv
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from pricdr.evaluation.metrics import NAMES

METHODS: Final = (
    *("BPR", "NeuMF", "DMF", "CoNet", "DDTCDR", "DARec", "ETL"),
    *("PriCDR-SYM", "PriCDR-J", "PriCDR-S"),
)
TASKS: Final = (
    *("Amazon Music→Book", "Amazon Movie→Music", "Amazon Movie→Book"),
    *("Douban Book→Music", "Douban Movie→Book", "Douban Movie→Music"),
)
_ROUNDING: Final = 0.5e-4
"""By how much a figure with four digits may be off."""
_WEIGHTS: Final = {"NDCG": (1 / math.log2(11), 1 / math.log2(7)), "MRR": (1 / 10, 1 / 6)}
"""The least and the most that a rank from 6 to 10 counts."""


@dataclass(frozen=True)
class PaperRow:
    """One method on one task, as the paper has it."""

    task: str
    method: str
    figures: Mapping[str, float]

    @property
    def contradictions(self) -> dict[str, str]:
        """Why cells of it cannot be, rounding allowed for: by metric, the plainest reason first."""
        found: dict[str, str] = {}
        for metrics, why in self._contradictions():
            for metric in metrics:
                found.setdefault(metric, why)
        return found

    def _contradictions(self) -> Iterator[tuple[tuple[str, str], str]]:
        figures = self.figures
        for k in (5, 10):
            if figures[f"NDCG@{k}"] < figures[f"MRR@{k}"] - 2 * _ROUNDING:
                yield (f"NDCG@{k}", f"MRR@{k}"), "Impossible: NDCG is below MRR, and a rank never counts less for it."
        for metric in ("HR", "NDCG", "MRR"):
            if figures[f"{metric}@5"] > figures[f"{metric}@10"] + 2 * _ROUNDING:
                why = (
                    "Impossible: the metric falls from k = 5 to k = 10, and whoever counts among five counts among ten."
                )
                yield (f"{metric}@5", f"{metric}@10"), why
        entering = figures["HR@10"] - figures["HR@5"]
        for metric, (least, most) in _WEIGHTS.items():
            step = figures[f"{metric}@10"] - figures[f"{metric}@5"]
            # Four figures, each off by a rounding at most.
            if not least * entering - _slack(least) <= step <= most * entering + _slack(most):
                why = "Impossible if all figures are of the same rankings: the step from 5 to 10 does not fit HR's."
                yield (f"{metric}@5", f"{metric}@10"), why


def _slack(weight: float) -> float:
    return 2 * _ROUNDING * (1 + weight) + 1e-9


@cache
def paper_table() -> Mapping[tuple[str, str], PaperRow]:
    """Return Table 2 by task and method, in the paper's order."""
    text = (files("pricdr.report") / "table2.csv").read_text(encoding="utf-8")
    rows = [
        PaperRow(
            f"{row['dataset']} {row['source']}→{row['target']}",
            row["method"],
            {metric: float(row[metric]) for metric in NAMES},
        )
        for row in csv.DictReader(text.splitlines())
    ]
    by_cell = {(row.task, row.method): row for row in rows}
    return {(task, method): by_cell[task, method] for task in TASKS for method in METHODS}
