"""Results on synthetic pairs of any size: what cold users keep of the plaintext gain, against the number of users.

``benchmarks.frontier_synthetic`` measures them; whoever shows them reads them here.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pricdr.experiments.records import RECORD, Line, Number, Whole
from pricdr.experiments.results import Mean, Provenance, mean, read_lines

TRUE: Final = "true directions"
TRUE_LESS: Final = "true directions, 60 % of μ²"
STRATEGIES: Final = ("jlt", "spectral", "guided", "features: vectors", "features: tags", TRUE_LESS, TRUE)
POPULARITY, PLAIN, PLAIN_ITEMS, SHUFFLED, NOISE = "popularity", "plaintext", "plaintext, all items", "shuffled", "noise"
CONTROLS: Final = (POPULARITY, PLAIN, PLAIN_ITEMS, SHUFFLED, NOISE)
"""Arms that bound the others: nothing crosses, all of it does, and rows that must not help."""


@dataclass(frozen=True, kw_only=True)
class SyntheticResult:
    """One arm on one synthetic pair, for cold users."""

    __pydantic_config__ = RECORD

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


def share(results: Iterable[SyntheticResult], arm: str, epsilon: float | None, users: int) -> Mean | None:
    """Return the share of the plaintext gain that an arm keeps, mean over seeds; None where it was not measured.

    With one seed the error is that over evaluated users.
    """
    of_size = [one for one in results if one.users == users]
    plain = {one.seed: one.gain for one in of_size if one.arm == PLAIN}
    kept = [one for one in of_size if (one.arm, one.epsilon) == (arm, epsilon) and one.seed in plain]
    if not kept:
        return None
    over_seeds = mean(one.gain / plain[one.seed] for one in kept)
    if len(kept) > 1:
        return over_seeds
    return Mean(over_seeds.value, kept[0].gain_error / plain[kept[0].seed], 1)
