"""The paper's Table 2, and what in it cannot be: figures that no ranking of one held-out item per user gives.

A user's held-out item at rank r counts 1 for HR@k, 1/log2(1 + r) for NDCG@k and 1/r for MRR@k where r ≤ k, and 0
otherwise. The table has means of these over users and runs, so whatever holds for every single rank holds for them:

- NDCG@k ≥ MRR@k, because log2(1 + r) ≤ r for every whole r from 1 on;
- no metric falls from k = 5 to k = 10;
- what NDCG and MRR rise by between the two is due to the users whose item is at rank 6 to 10, and so lies between
  HR@10 − HR@5 times the least and times the most that such a rank counts.

The first two hold as well where each figure is the best of its own over the same runs or epochs: the best NDCG is at
least that of the run with the best MRR. The third holds for figures of the same rankings only.
"""

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib.resources import files
from typing import Final

from pricdr.evaluation.metrics import NAMES
from pricdr.report.measurements import number

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


class Rule(Enum):
    """What figures of rankings cannot break."""

    NDCG_BELOW_MRR = "NDCG below MRR"
    FALLING = "a metric falls as the list grows"
    STEP = "the step from 5 to 10 does not fit HR"


@dataclass(frozen=True)
class Contradiction:
    """Figures of one row that no rankings give together."""

    rule: Rule
    metrics: tuple[str, ...]
    """The cells that contradict each other; at least one of them is wrong."""
    words: str


@dataclass(frozen=True)
class PaperRow:
    """One method on one task, as the paper has it."""

    task: str
    method: str
    figures: Mapping[str, float]

    @property
    def contradictions(self) -> tuple[Contradiction, ...]:
        """What in it cannot be, rounding allowed for."""
        return (*self._ndcg_below_mrr(), *self._falling(), *self._steps())

    def _ndcg_below_mrr(self) -> list[Contradiction]:
        pairs = [(f"NDCG@{k}", f"MRR@{k}") for k in (5, 10)]
        return [
            Contradiction(
                Rule.NDCG_BELOW_MRR,
                (ndcg, mrr),
                f"{ndcg} {self.figures[ndcg]:.4f} is below {mrr} {self.figures[mrr]:.4f}: every rank r counts "
                f"1/log2(1 + r) for NDCG, which is at least the 1/r that it counts for MRR",
            )
            for ndcg, mrr in pairs
            if self.figures[ndcg] < self.figures[mrr] - 2 * _ROUNDING
        ]

    def _falling(self) -> list[Contradiction]:
        pairs = [(f"{metric}@5", f"{metric}@10") for metric in ("HR", "NDCG", "MRR")]
        return [
            Contradiction(
                Rule.FALLING,
                (short, long),
                f"{short} {self.figures[short]:.4f} is above {long} {self.figures[long]:.4f}: whoever counts among the "
                f"first five counts as much among the first ten",
            )
            for short, long in pairs
            if self.figures[short] > self.figures[long] + 2 * _ROUNDING
        ]

    def _steps(self) -> list[Contradiction]:
        found = []
        entering = self.figures["HR@10"] - self.figures["HR@5"]
        for metric, most in (("NDCG", 1 / math.log2(7)), ("MRR", 1 / 6)):
            least = 1 / math.log2(11) if metric == "NDCG" else 1 / 10
            step = self.figures[f"{metric}@10"] - self.figures[f"{metric}@5"]
            # Four figures, each off by a rounding at most.
            if not least * entering - _slack(least) <= step <= most * entering + _slack(most):
                found.append(
                    Contradiction(
                        Rule.STEP,
                        (f"{metric}@5", f"{metric}@10"),
                        f"HR rises by {entering:.4f} from 5 to 10, so {metric} rises by {least * entering:.4f} to "
                        f"{most * entering:.4f}, and not by {number(step)}",
                    )
                )
        return found


def _slack(weight: float) -> float:
    return 2 * _ROUNDING * (1 + weight) + 1e-9


@cache
def paper_table() -> Mapping[tuple[str, str], PaperRow]:
    """Return Table 2 by task and method, in the paper's order."""
    text = (files("pricdr.report") / "paper" / "table2.csv").read_text(encoding="utf-8")
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
