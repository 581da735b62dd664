"""The table of :mod:`benchmarks.frontier_synthetic`, from its lines of results."""

from collections.abc import Sequence
from statistics import median
from typing import Final

from pricdr.experiments.results import CONTROLS, STRATEGIES, SyntheticResult, mean, share

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
- Columns: jlt 200; the others 4, 5, 8, 8 at ε = 1, 2, 4, 8.

Means and standard errors over seeds; where there is one seed, the error is over evaluated users. The strength of shared
taste was set by hand, so that plaintext gains 30 % or more over popularity: levels are this generator's, and only
differences between strategies and sizes say something. Seconds: simulated bits, in memory, without reading or writing
files, one thread on two cores that were busy with other work: a quiet machine takes less.
"""


class Table:
    """Everything measured, by number of users, arm and ε."""

    def __init__(self, results: Sequence[SyntheticResult]) -> None:
        self.results = results
        self.sizes = sorted({one.users for one in results})
        self.epsilons = sorted({one.epsilon for one in results if one.epsilon and one.arm in STRATEGIES})

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
                f"\nMeasured by commit {', '.join(sorted({one.provenance.commit for one in self.results}))}.",
            ]
        )

    def _share(self, users: int, name: str, epsilon: float) -> str:
        kept = share(self.results, name, epsilon, users)
        return "" if kept is None else f"{100 * kept.value:.0f} ± {100 * kept.error:.1f}"

    def _control(self, users: int, name: str) -> str:
        of_arm = self._of(users, name)
        if not of_arm:
            return ""
        score, gain = mean(one.ndcg for one in of_arm), mean(one.gain for one in of_arm)
        relative = gain.value / (score.value - gain.value)
        return f"{score.value:.4f} ({relative:+.0%})"

    def _cost(self, users: int, name: str) -> str:
        of_arm = self._of(users, name)
        if not of_arm:
            return ""
        memory = max((one.memory or 0) / 2**30 for one in of_arm)
        return f"{median(one.seconds for one in of_arm):.2f} s, {memory:.2f} GiB"

    def _of(self, users: int, name: str) -> list[SyntheticResult]:
        return [one for one in self.results if (one.users, one.arm) == (users, name)]


def _markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
