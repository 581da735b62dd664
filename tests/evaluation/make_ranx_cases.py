"""Writes ranx_cases.json: lists with several relevant items each, and what ranx says of them.

ranx compiles itself with numba, which is too much for a development environment. Run this where it is installed:

    python -m venv ranx && ranx/bin/pip install ranx==0.3.21 && ranx/bin/python tests/evaluation/make_ranx_cases.py

Per case there are two lists of figures: those of the whole list of unseen items, and the means over one list per
relevant item, with negatives of its own. Half of the cases have ties. ranx breaks a tie between two items by the order
they come in; what it says is recorded with every tie broken in favour of the relevant items ("best") and against them
("worst"). Without ties both agree.
"""

import json
from importlib.metadata import version
from pathlib import Path

import numpy as np

ITEMS, CASES, NEGATIVES, CUTOFFS = 40, 300, 10, (3, 10, 20)
NAMES = {"HR": "hit_rate", "NDCG": "ndcg", "MRR": "mrr", "Recall": "recall", "MAP": "map"}


def measured(lists, cutoffs=CUTOFFS):
    """What ranx says of lists: (candidates, their scores, the relevant ones) each; one dictionary per list."""
    import ranx  # not at the top: pytest imports this file where there is none

    qrels = ranx.Qrels({f"q{at:04d}": {f"i{i}": 1 for i in rel} for at, (_, _, rel) in enumerate(lists)})
    run = ranx.Run(
        {
            f"q{at:04d}": {f"i{i}": float(s) for i, s in zip(items, scores, strict=True)}
            for at, (items, scores, _) in enumerate(lists)
        }
    )
    wanted = {f"{ours}@{k}": f"{theirs}@{k}" for ours, theirs in NAMES.items() for k in cutoffs}
    found = ranx.evaluate(qrels, run, list(wanted.values()), return_mean=False)
    return [{ours: float(found[theirs][at]) for ours, theirs in wanted.items()} for at in range(len(lists))]


def broken(scores, relevant, towards):
    """The scores with ties between a relevant item and another broken, for it (1) or against it (-1)."""
    return scores + 0.25 * towards * np.isin(np.arange(len(scores)), relevant)


def main():
    rng = np.random.default_rng(14)
    cases = []
    for at in range(CASES):
        tied = at % 2 == 1
        scores = rng.integers(0, 12, ITEMS) if tied else rng.permutation(ITEMS)
        shuffled = rng.permutation(ITEMS)
        seen, relevant = shuffled[: rng.integers(0, 12)], shuffled[12 : 12 + rng.integers(1, 13)]
        free = np.setdiff1d(np.arange(ITEMS), relevant)
        negatives = [sorted(rng.choice(free, NEGATIVES, replace=False).tolist()) for _ in relevant]
        cases.append((scores, seen, np.sort(relevant), negatives))
    written = [
        {"scores": s.tolist(), "seen": sorted(seen.tolist()), "relevant": r.tolist(), "negatives": n}
        for s, seen, r, n in cases
    ]
    for name, towards in (("best", 1), ("worst", -1)):
        full = []
        sampled = []
        for scores, seen, relevant, negatives in cases:
            apart = broken(scores, relevant, towards)
            candidates = np.setdiff1d(np.arange(ITEMS), seen)
            full.append((candidates, apart[candidates], relevant))
            for item, others in zip(relevant, negatives, strict=True):
                own = np.array([item, *others])
                sampled.append((own, apart[own], [item]))
        of_lists, each = measured(full), iter(measured(sampled))
        for case, found in zip(written, of_lists, strict=True):
            own = [next(each) for _ in case["relevant"]]
            means = {metric: np.mean([one[metric] for one in own]) for metric in found}
            case[name] = [[round(float(value), 5) for value in values.values()] for values in (found, means)]
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in written)
    metrics = [f"{name}@{k}" for name in NAMES for k in CUTOFFS]
    head = f'"ranx":"{version("ranx")}","metrics":{json.dumps(metrics)}'
    Path(__file__).with_name("ranx_cases.json").write_text(f'{{{head},"cases":[\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
