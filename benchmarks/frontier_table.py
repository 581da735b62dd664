"""The table of :mod:`benchmarks.frontier_synthetic`, from its lines of results."""

import json
from statistics import median
from typing import Any, Final

from pricdr.experiments.results import mean

TRUE: Final = "true directions"
TRUE_LESS: Final = "true directions, 60 % of μ²"
STRATEGIES: Final = ("jlt", "spectral", "guided", "features: vectors", "features: tags", TRUE_LESS, TRUE)
POPULARITY, PLAIN, PLAIN_ITEMS, SHUFFLED, NOISE = "popularity", "plaintext", "plaintext, all items", "shuffled", "noise"
CONTROLS: Final = (POPULARITY, PLAIN, PLAIN_ITEMS, SHUFFLED, NOISE)
NOTE: Final = """# A synthetic pair: what is kept, against the number of users

Made by `python -m benchmarks.frontier_synthetic`. Unit: one rating; δ = 1e-6; 20 % cold users, at most 20,000 of them
evaluated: one held-out item among 99, NDCG@10. One closed-form decoder for all, its settings chosen on validation.

- *plaintext*: the decoder on noiseless sums of the generator's true item vectors (rows at norm 1, all columns). Shares
  are shares of its gain. *plaintext, all items*: ridge regression on the plain ratings, which has to learn directions.
- *true directions*: the same item vectors, declared public, their leading columns with the certified noise: what
  perfect directions would give. The noise in a user's own row does not shrink, however many users there are.
  *60 % of μ²*: the noise that `spectral` and `guided` have in their last round: where they would end with perfect
  directions, the rest of the budget having gone into learning them.
- *features: vectors*: public vectors, the true ones plus noise; *features: tags*: tags derived from those.
- *guided*: the guide is the target's own `spectral` release of its training ratings at the same ε.
- *shuffled*: the rows of *plaintext*, each given to another user. *noise*: what `spectral` publishes of no ratings.
- Columns: jlt 200; the others 4, 5, 8, 8 at ε = 1, 2, 4, 8 (`--dim auto`).

Means and standard errors over seeds; where there is one seed, the error is over evaluated users. The strength of shared
taste was set by hand, so that plaintext gains 30 % or more over popularity: levels are this generator's, and only
differences between strategies and sizes say something. Seconds: simulated bits, in memory, without reading or writing
files, on two cores shared with other work.
"""


class Table:
    """Everything measured, by number of users, arm and ε."""

    def __init__(self, lines: list[str]) -> None:
        self.found: dict[tuple[int, str, float | None], list[dict[str, Any]]] = {}
        for line in map(json.loads, lines):
            self.found.setdefault((line["users"], line["arm"], line["epsilon"]), []).append(line)
        self.sizes = sorted({users for users, _, _ in self.found})
        self.epsilons = sorted({epsilon for _, name, epsilon in self.found if epsilon and name in STRATEGIES})

    def __str__(self) -> str:
        """Three tables in Markdown."""
        heads = [f"{users:,} users" for users in self.sizes]
        shares = [
            [f"{name}, ε = {epsilon:g}", *(self._share(users, name, epsilon) for users in self.sizes)]
            for name in STRATEGIES
            for epsilon in self.epsilons
        ]
        controls = [[name, *(self._control(users, name) for users in self.sizes)] for name in CONTROLS]
        costs = [[name, *(self._cost(users, name) for users in self.sizes)] for name in STRATEGIES]
        return "\n".join(
            [
                "Share of the plaintext gain that is kept, %:\n",
                _markdown(["strategy", *heads], shares),
                "\nNDCG@10 of cold users, and gain over popularity:\n",
                _markdown(["control", *heads], controls),
                "\nThe publish step: median seconds, and most GiB above what was held before, over ε and seeds:\n",
                _markdown(["strategy", *heads], costs),
            ]
        )

    def _share(self, users: int, name: str, epsilon: float) -> str:
        lines = self.found.get((users, name, epsilon), [])
        plain = {line["seed"]: line["gain"] for line in self.found.get((users, PLAIN, None), [])}
        lines = [line for line in lines if line["seed"] in plain]
        if not lines:
            return ""
        found = mean([100 * line["gain"] / plain[line["seed"]] for line in lines])
        one_seed = 100 * lines[0]["gain_error"] / plain[lines[0]["seed"]]
        return f"{found.value:.0f} ± {found.error if len(lines) > 1 else one_seed:.1f}"

    def _control(self, users: int, name: str) -> str:
        lines = [line for (size, arm, _), group in self.found.items() if (size, arm) == (users, name) for line in group]
        if not lines:
            return ""
        score, gain = mean([line["ndcg"] for line in lines]), mean([line["gain"] for line in lines])
        relative = gain.value / (score.value - gain.value)
        return f"{score.value:.4f} ({relative:+.0%})"

    def _cost(self, users: int, name: str) -> str:
        lines = [line for (size, arm, _), group in self.found.items() if (size, arm) == (users, name) for line in group]
        if not lines:
            return ""
        return f"{median(line['seconds'] for line in lines):.2f} s, {max(line['GiB'] for line in lines):.2f} GiB"


def _markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
