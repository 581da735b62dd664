"""Whether a release may be used, and for whom.

**Evidence** comes before any choice by validation, which picks the best of many by the same few users: chance alone can
make a worthless release look useful. A permutation test picks nothing, and its error rate is known. With X the release
rows (each of length 1, centred) and Z the histories of the same users (items weighted by 1/√popularity, rows of length
1, projected on their leading directions), the statistic is ‖XᵀZ‖². If the release says nothing about the target, the
true pairing ranks first among itself and 199 random ones with probability 1/200, whatever the distributions.

**Newcomers** show what a release row is worth on its own: cold users are served by it only if it beats popularity for
users whose rows were not fitted (or memorising them would look like learning). These are validation's cold users; if
they are too few, some warm users stand in, whose rows are left out of fitting and alone score them.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from pricdr.arrays import BoolArray, Float64Array, IntArray
from pricdr.data.csr import CSR, item_counts, ones
from pricdr.data.splits import NEGATIVES, HeldOut, draw_negatives
from pricdr.evaluation.metrics import per_user
from pricdr.evaluation.ranking import sampled_ranks
from pricdr.evaluation.verdict import clearly_above
from pricdr.memory import require_memory
from pricdr.models.fitted import TRUSTED, UNTRUSTED, Chosen, FittedModel, Trust
from pricdr.models.training_data import TrainingData, unit_rows
from pricdr.randomness import Simulation

Choice = TypeVar("Choice", bound=Hashable)

SIGNIFICANCE: Final = 0.005  # the share of worthless releases that pass the evidence test
PERMUTATIONS: Final = 199
_DIRECTIONS: Final = 32  # of the target's histories: the first few hold what users share, the rest is mostly chance
_ITERATIONS: Final = 4

REGULARISATION: Final = 100.0  # λ of a linear decoder, beside release rows of length 1, where nothing chooses it
SCALE: Final = 0.4  # standard deviation of what such a decoder adds to the log-odds of popularity

FEWEST: Final = 10  # fewer cold users show little: two of them are both served better by chance in one case of four
_STAND_IN_SHARE, _MIN_STAND_INS, _MAX_STAND_INS = 0.2, 30, 1000
"""Of the users with a history and a row, at most a third. They cost little: rows are left out only to choose."""


@dataclass(frozen=True, eq=False)
class Newcomers:
    """Held-out items of users who are scored by their release rows alone."""

    held_out: HeldOut
    stand_ins: BoolArray  # a mask over the users: warm newcomers, whose rows must not be fitted to their histories

    def hidden_from(self, data: TrainingData) -> TrainingData:
        """Return the data without the histories of the stand-ins, which makes them cold users."""
        own = data.target.matrix
        hidden = np.repeat(self.stand_ins[: own.shape[0]], np.diff(own.indptr))
        return replace(data, target=data.target.only(~hidden))


@dataclass(frozen=True, eq=False)
class Gates:
    """Which releases may be used, and for whom: evidence decides the first, newcomers and validation the second."""

    data: TrainingData  # with the rows of the releases that are used, and of no others
    used: tuple[int, ...]  # the numbers of those releases
    evidence: tuple[float, ...] | None  # the p-value of each release's evidence test; None where it was not made
    trust: Trust | None  # in the source, if it is settled by now; None where newcomers and validation must choose
    newcomers: Newcomers | None  # None where nothing is left to choose

    @classmethod
    def of(
        cls, data: TrainingData, validation: HeldOut | None, chosen: Chosen, *, seed: int = 0, enabled: bool = True
    ) -> "Gates":
        """Return what is known before training: plaintext needs no evidence, and an earlier choice settles the trust.

        Where gates are not ``enabled`` (for ablations) a source is always trusted; newcomers still pick an epoch.
        """
        every = tuple(range(len(data.sources)))
        if not enabled:
            newcomers = None if validation is None else select_newcomers(data, validation, seed=seed)
            return cls(data, every, chosen.evidence, TRUSTED, newcomers)
        if validation is None and chosen.trust is not None:
            used = every if chosen.used is None else chosen.used
            trusted = () if chosen.trust == UNTRUSTED else used
            return cls(data.only(trusted), used, chosen.evidence, chosen.trust, None)
        evidence = None if data.is_plaintext else tuple(p_value(data.only([number])) for number in every)
        passed = tuple(number for number in every if evidence is None or evidence[number] <= SIGNIFICANCE)
        if not passed:
            return cls(data.only(()), (), evidence, UNTRUSTED, None)
        if len(passed) > 1:
            passed = _best_together(data, passed, validation, seed=seed)
        data = data.only(passed)
        return cls(data, passed, evidence, None, select_newcomers(data, validation, seed=seed))

    def noted(self, chosen: Chosen) -> Chosen:
        """Return what was chosen, with what was found about the releases."""
        return replace(chosen, evidence=self.evidence, used=self.used)

    @property
    def refused(self) -> bool:
        """Whether the source is not used at all, before anything is trained on it."""
        return self.trust == UNTRUSTED

    def settle(self, choose: Callable[[Newcomers], Trust]) -> Trust:
        """Return the trust in the source; ``choose`` says it by newcomers, unless it was settled before."""
        if self.trust is None:
            assert self.newcomers is not None
            return choose(self.newcomers)
        return self.trust


def _best_together(
    data: TrainingData, passed: tuple[int, ...], validation: HeldOut | None, *, seed: int
) -> tuple[int, ...]:
    """Return the releases that serve newcomers best by linear decoders: one more at a time, while that is better."""
    newcomers = select_newcomers(data.only(passed), validation, seed=seed)
    hidden, held_out = newcomers.hidden_from(data), newcomers.held_out
    used: tuple[int, ...] = ()
    best: Float64Array | None = None
    while rest := [number for number in passed if number not in used]:
        found = {(*used, number): _decoded(hidden.only((*used, number)), held_out) for number in rest}
        more = max(found, key=lambda together: float(found[together].mean()))
        if best is not None and not found[more].mean() > best.mean():
            break
        used, best = more, found[more]
    return tuple(sorted(used))


def _decoded(data: TrainingData, held_out: HeldOut) -> Float64Array:
    """Return the NDCG@10 of held-out items by a linear decoder of release rows, without anything chosen."""
    source: Any = data.source
    dim = source.shape[1]
    require_memory(8 * (5 * dim * dim + 4 * dim * len(data.items)), f"choosing among releases of {dim:,} numbers a row")
    users, items = (np.zeros((count, 0), dtype=np.float32) for count in data.ratings.shape)
    share = (item_counts(data.ratings) + 0.5) / (data.warm.sum() + 1)
    popular = data.model("popularity", users, items, np.log(share / (1 - share)).astype(np.float32))
    return ndcg_of(decoder(data, popular)(REGULARISATION, SCALE), held_out)


def decoder(data: TrainingData, popular: FittedModel) -> Callable[[float, float], FittedModel]:
    """Return what solves the normal equations, for one λ and one scale of what the release adds."""
    source: Any = data.source
    known = data.present & data.warm
    rows = unit_rows(source)
    # Around those it is fitted to: the item bias holds what they have in common.
    rows = (rows - rows[known].mean(axis=0)) * data.present[:, None]
    fitted = rows[known].astype(np.float64)
    ratings = ones(data.ratings[known])
    # Rows are centred, so centring the ratings would change nothing: Σ_u x_u (y_u − ȳ) = Σ_u x_u y_u.
    products = (ratings.T @ fitted) / np.sqrt(item_counts(ratings) + 1)[:, None]
    gram = fitted.T @ fitted

    def model(regularisation: float, scale: float) -> FittedModel:
        weights = np.linalg.solve(gram + regularisation * np.eye(len(gram)), products.T)
        # The mean square of all users' predictions, without making them: tr(XᵀX · WWᵀ) / (users · items).
        spread = np.sqrt((gram * (weights @ weights.T)).sum() / (len(fitted) * weights.shape[1]))
        items = np.ascontiguousarray(weights.T * (scale / max(spread, 1e-12)), dtype=np.float32)
        return data.model(popular.method, rows, items, popular.item_bias, uses_history=False)

    return model


def ndcg_of(model: FittedModel, held_out: HeldOut) -> Float64Array:
    """Return the NDCG@10 of each held-out item among its stored negatives."""
    return per_user(sampled_ranks(model.score_candidates, held_out))["NDCG@10"]


def best_above(ndcg: Mapping[Choice, Float64Array], popular: Float64Array) -> Choice | None:
    """Return the choice with the best NDCG@10, the first of equals; None if not a standard error above popularity."""
    if len(popular) < 2:
        return None
    best = max(ndcg, key=lambda choice: float(ndcg[choice].mean()))
    return best if clearly_above(ndcg[best], popular) else None


def p_value(data: TrainingData, *, permutations: int = PERMUTATIONS) -> float:
    """Return the p-value of "release rows and histories are unrelated"; the permutations are always the same."""
    source: Any = data.source
    both = data.present & data.warm
    rows = unit_rows(source[both])
    if not rows.any():
        return 1.0
    # Without centring, what all rows have in common would make any pairing look related.
    rows -= rows.mean(axis=0)
    simulation = Simulation(0)
    tastes = _leading_directions(data.ratings[both], simulation)
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


def select_newcomers(data: TrainingData, validation: HeldOut | None, *, seed: int) -> Newcomers:
    """Return validation's cold users who have a row, with stand-ins if they are few; without it, stand-ins alone."""
    warm, simulation, everyone = data.warm, Simulation(seed), np.arange(len(data.warm))
    if validation is None:
        stand_ins = _draw_stand_ins(np.flatnonzero(warm & data.present), simulation)
        return Newcomers(_held_out(data, stand_ins, simulation), np.isin(everyone, stand_ins))
    users = validation.users
    cold = ~warm[users] & data.present[users]
    if cold.sum() >= FEWEST:
        return Newcomers(validation.only(cold), np.zeros_like(warm))
    candidates = np.unique(users[warm[users] & data.present[users]])
    is_stand_in = np.isin(everyone, _draw_stand_ins(candidates, simulation))
    return Newcomers(validation.only(cold | is_stand_in[users]), is_stand_in)


def _draw_stand_ins(candidates: IntArray, simulation: Simulation) -> IntArray:
    count = min(max(round(_STAND_IN_SHARE * len(candidates)), _MIN_STAND_INS), _MAX_STAND_INS, len(candidates) // 3)
    return np.sort(simulation.generator("stand-ins").permutation(candidates)[:count])


def _held_out(data: TrainingData, users: IntArray, simulation: Simulation) -> HeldOut:
    """Hold out one rating of each user, to be ranked among 99 unrated items, or as many as there are."""
    ratings, n_items = data.ratings, data.ratings.shape[1]
    rows = [ratings.indices[ratings.indptr[user] : ratings.indptr[user + 1]] for user in users]
    count = min(NEGATIVES, n_items - max((len(rated) for rated in rows), default=n_items))
    if count < 1:
        return HeldOut(users[:0], users[:0], np.zeros((0, 1), dtype=np.int64))
    draws = simulation.generator("stand-ins: items")
    items = np.array([draws.choice(rated) for rated in rows], dtype=np.int64)
    from pricdr.training.rows import LISTED  # which needs torch; a page that explains the gates does not

    if n_items > LISTED:  # listing all items for each user would take minutes
        codes = np.repeat(np.arange(len(users), dtype=np.int64), [len(rated) for rated in rows]) * n_items
        codes += np.concatenate(rows)
        drawn = draw_negatives(np.sort(codes), n_items, np.arange(len(users)), count, draws)
        return HeldOut(users, items, drawn)
    unrated = (np.setdiff1d(np.arange(n_items), rated) for rated in rows)
    return HeldOut(users, items, np.array([draws.permutation(others)[:count] for others in unrated]))
