"""RQ1 and RQ2: what the paper reads off its Table 2, checked on ours, method against method and seed by seed."""

from collections.abc import Sequence
from itertools import product
from typing import Final

import numpy as np
import numpy.typing as npt

from pricdr.evaluation.verdict import Verdict
from pricdr.report.measurements import Measurement
from pricdr.report.table2 import Row, Task

METRIC: Final = "NDCG@10"
SINGLE: Final = ("BPR", "NeuMF", "DMF")
CROSS: Final = ("CoNet", "DDTCDR", "DARec", "ETL")
OURS: Final = ("PriCDR-J", "PriCDR-S")
_FEWEST: Final = 3
"""Methods, for their order to be worth a sentence."""


def claims(task: Task) -> tuple[str, ...]:
    """Return what the paper claims of a task beside what was measured; nothing where too little was."""
    rows = {row.method: row for row in task.rows if row.ours(METRIC)}
    told = [
        _claim("every cross-domain method is ahead of every single-domain one", rows, CROSS, SINGLE),
        _claim("PriCDR-J and PriCDR-S are ahead of all seven compared methods", rows, OURS, (*SINGLE, *CROSS)),
        _claim("PriCDR-S is ahead of PriCDR-J", rows, ("PriCDR-S",), ("PriCDR-J",)),
        *_refusals(rows),
        _order(list(rows.values())),
    ]
    return tuple(sentence for sentence in told if sentence)


def _claim(claim: str, rows: dict[str, Row], better: Sequence[str], worse: Sequence[str]) -> str:
    pairs = [(rows[a], rows[b]) for a, b in product(better, worse) if a in rows and b in rows]
    differences = [difference for a, b in pairs if (difference := a.ours(METRIC) - b.ours(METRIC))]
    if not differences:
        return ""
    counts = {verdict: sum(one.verdict is verdict for one in differences) for verdict in Verdict}
    single = f" ({differences[0].interval_in_words()})" if len(differences) == 1 else ""
    return (
        f"The paper: {claim}. Ours, of {len(differences)} {'pair' if len(differences) == 1 else 'pairs'}: ahead in "
        f"{counts[Verdict.HELPS]}, behind in {counts[Verdict.HURTS]}, cannot be told in "
        f"{counts[Verdict.UNCLEAR]}{single}."
    )


def _refusals(rows: dict[str, Row]) -> list[str]:
    """Return which of these figures are no sign of what a release is worth."""
    by_refusal: dict[str, list[str]] = {}
    for method in OURS:
        if method in rows and (refusal := rows[method].refusal()):
            by_refusal.setdefault(refusal, []).append(method)
    return [f"{' and '.join(methods)}: {refusal[0].lower()}{refusal[1:]}" for refusal, methods in by_refusal.items()]


def _order(rows: Sequence[Row]) -> str:
    """Return how alike the paper's order of methods and ours are, and by how much ours differ from the paper's."""
    both = [(row.paper.figures[METRIC], row.ours(METRIC)) for row in rows if row.paper is not None]
    if len(both) < _FEWEST:
        return ""
    above = sum(ours.value > paper for paper, ours in both)
    return (
        f"Of {len(both)} figures, ours is above the paper's in {above}; the rank correlation of both orders is "
        f"{rank_correlation([paper for paper, _ in both], [ours for _, ours in both]):+.2f}.".replace("-", "−")
    )


def rank_correlation(paper: Sequence[float], ours: Sequence[Measurement]) -> float:
    """Return Spearman's correlation: 1 where both orders are the same, −1 where one is the other's reverse.

    >>> rank_correlation([0.1, 0.2, 0.3], [Measurement({1: value}) for value in (0.3, 0.2, 0.1)])
    -1.0
    """
    left, right = _ranks(paper), _ranks([one.value for one in ours])
    scale = float((left @ left) * (right @ right)) ** 0.5
    return float(left @ right) / scale if scale else 0.0


def _ranks(values: Sequence[float]) -> npt.NDArray[np.float64]:
    """Return the ranks around their mean, equal values in the middle of their places."""
    column = np.array(values)[:, None]
    ranks = (column > column.T).sum(axis=1) + (column == column.T).sum(axis=1) / 2
    centred: npt.NDArray[np.float64] = ranks - ranks.mean()
    return centred
