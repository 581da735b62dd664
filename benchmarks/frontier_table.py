"""The results of :mod:`benchmarks.frontier_synthetic`, and their table: what cold users keep, by number of users."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Final, NamedTuple

from pricdr.experiments.measured import Measurement
from pricdr.experiments.records import Line, Number, Whole, record
from pricdr.experiments.results import Provenance, read_lines

TRUE: Final = "true directions"
TRUE_LESS: Final = "true directions, 60 % of μ²"
STRATEGIES: Final = ("jlt", "spectral", "guided", "features: vectors", "features: tags", TRUE_LESS, TRUE)
POPULARITY, PLAIN, PLAIN_ITEMS, SHUFFLED, NOISE = "popularity", "plaintext", "plaintext, all items", "shuffled", "noise"
CONTROLS: Final = (POPULARITY, PLAIN, PLAIN_ITEMS, SHUFFLED, NOISE)
"""Arms that bound the others: nothing crosses, all of it does, and rows that must not help."""


@record
class SyntheticResult:
    """One arm on one synthetic pair, for cold users."""

    users: Whole
    """Of the pair; at most 20,000 cold ones are evaluated."""
    seed: Whole
    arm: Line
    epsilon: Number | None
    """None where nothing is private."""
    key: Line
    """A hash of all settings, defaults included: a result counts only for those it was measured with."""
    ndcg: Number
    """NDCG@10 among 99 negatives, mean over evaluated users."""
    gain: Number
    """Of that, what popularity alone does not reach."""
    gain_error: Number
    """Its standard error, over evaluated users."""
    dim: Whole
    sigma: Number
    """Of the noise on the published rows."""
    seconds: Number
    """Of the publish step."""
    memory: Number | None
    """Most bytes that step took beyond what was held before, where the system can tell."""
    chosen: Line
    """The decoder's settings, chosen on validation; ``popularity`` where the rows are not used at all."""
    evaluated: Whole
    provenance: Provenance


def read_synthetic(path: Path) -> list[SyntheticResult]:
    """Return the results in a file: of those with the same size, arm, ε and seed the last one; none without a file."""
    latest = {(one.users, one.seed, one.arm, one.epsilon): one for one in read_lines(path, SyntheticResult)}
    return list(latest.values())


class Share(NamedTuple):
    """A share of the plaintext gain and its error."""

    value: float
    error: float


def share(results: Iterable[SyntheticResult], arm: str, epsilon: float | None, users: int) -> Share | None:
    """Return the share of the plaintext gain that an arm keeps, mean over seeds; None where it was not measured.

    With one seed the error is that over evaluated users.
    """
    of_size = [one for one in results if one.users == users]
    plain = {one.seed: one.gain for one in of_size if one.arm == PLAIN}
    kept = [one for one in of_size if (one.arm, one.epsilon) == (arm, epsilon) and one.seed in plain]
    if not kept:
        return None
    over_seeds = Measurement({one.seed: one.gain / plain[one.seed] for one in kept})
    error = over_seeds.error if len(kept) > 1 else kept[0].gain_error / plain[kept[0].seed]
    return Share(over_seeds.value, error)


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
        score, gain = fmean(one.ndcg for one in of_arm), fmean(one.gain for one in of_arm)
        return f"{score:.4f} ({gain / (score - gain):+.0%})"

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
