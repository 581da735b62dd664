"""The evidence test: a permutation test of whether release rows and target histories of users are related at all.

It precedes any choice by validation. Validation picks the best of many epochs and levels of trust by the same few
users, so chance alone can make a worthless release look useful. This test picks nothing, and its error rate is known.

With X the release rows (each of length 1, centred) and Z the histories of the same users (items weighted by
1/√popularity, rows of length 1, projected on their leading directions), the statistic is ‖XᵀZ‖². If the release says
nothing about the target, permuting the rows among users changes nothing: the true pairing then ranks first among itself
and 199 random ones with probability 1/200, whatever the sizes and distributions. No rating has to be held out.
"""

from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pricdr.data.csr import CSR
from pricdr.data.splits import HeldOut
from pricdr.models.chosen import UNTRUSTED, Chosen
from pricdr.models.inputs import Inputs, unit_rows
from pricdr.randomness import Simulation

SIGNIFICANCE: Final = 0.005
"""The share of worthless releases that pass."""
PERMUTATIONS: Final = 199
_DIRECTIONS: Final = 32
"""Leading directions of the target's histories. The first few hold what users share; the rest is mostly chance."""
_ITERATIONS: Final = 4


def trust_is_settled(validation: HeldOut | None, chosen: Chosen) -> bool:
    """Return whether an earlier training decided how far the source is trusted, so that nothing is chosen now."""
    return validation is None and chosen.trust is not None


def with_evidence(inputs: Inputs, validation: HeldOut | None, chosen: Chosen) -> Chosen:
    """Return ``chosen`` with the p-value of the evidence test; an earlier one is kept if trust is settled."""
    return chosen if trust_is_settled(validation, chosen) else replace(chosen, evidence=p_value(inputs))


def is_refused(validation: HeldOut | None, chosen: Chosen) -> bool:
    """Return whether the source is not used at all, before anything is trained on it.

    If trust is settled, that decides. If not, a release that was tested must have passed the test.
    """
    if trust_is_settled(validation, chosen):
        return chosen.trust == UNTRUSTED
    return chosen.evidence is not None and chosen.evidence > SIGNIFICANCE


def has_evidence(inputs: Inputs) -> bool:
    """Return whether the release rows say something about the target histories of their users."""
    return p_value(inputs) <= SIGNIFICANCE


def p_value(inputs: Inputs, *, permutations: int = PERMUTATIONS) -> float:
    """Return the p-value of "release rows and target histories are unrelated"; 1 if no user has both.

    The permutations are always the same, so that trainings are repeatable.
    """
    source: Any = inputs.source
    both = inputs.present & (np.diff(inputs.ratings.indptr) > 0)
    rows = unit_rows(source[both])
    if not rows.any():
        return 1.0
    # Without centring, what all rows have in common would make any pairing look related.
    rows -= rows.mean(axis=0)
    simulation = Simulation(0)
    tastes = _leading_directions(inputs.ratings[both], simulation)
    order = simulation.generator("evidence: permutations")
    observed = _association(rows, tastes)
    # Rounding can make two equal sums differ; a tie counts against the release.
    as_strong = sum(
        _association(rows, tastes[order.permutation(len(tastes))]) >= observed * (1 - 1e-6) for _ in range(permutations)
    )
    return (1 + as_strong) / (1 + permutations)


def _association(rows: npt.NDArray[np.float32], tastes: npt.NDArray[np.float32]) -> float:
    return float(np.square(rows.T @ tastes, dtype=np.float64).sum())


def _leading_directions(ratings: CSR, simulation: Simulation) -> npt.NDArray[np.float32]:
    """Return the histories, projected on approximations of their leading singular vectors (by subspace iteration)."""
    counts = np.bincount(ratings.indices, minlength=ratings.shape[1])
    weighted = ratings.astype(np.float32)
    # Otherwise a few items that everybody rated would decide.
    weighted.data = (1 / np.sqrt(counts[weighted.indices])).astype(np.float32)
    lengths = np.sqrt(np.add.reduceat(np.square(weighted.data), weighted.indptr[:-1]))
    weighted.data /= np.repeat(lengths, np.diff(weighted.indptr))
    by_item = weighted.T.tocsr()
    start = simulation.generator("evidence: directions")
    basis = start.standard_normal((ratings.shape[1], min(_DIRECTIONS, *ratings.shape)), dtype=np.float32)
    # A few iterations are enough: the test needs directions of high variance, not exact singular vectors.
    for _ in range(_ITERATIONS):
        basis, _ = np.linalg.qr(by_item @ (weighted @ basis))
    projected: npt.NDArray[np.float32] = weighted @ basis
    return projected
