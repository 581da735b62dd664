"""How much of what plain ratings are worth to cold users is kept, against the number of users, on a synthetic pair.

    python -m benchmarks.frontier_synthetic --users 10000 100000 1000000 --out results/frontier_synthetic.jsonl

Directions that many users share are learnt better from more users; the noise in a user's own row does not shrink. So
beside the learnt strategies stand the generator's true directions, known to everybody: what perfect directions would
give. A line of results that is there already is not measured again; ``--table`` prints what there is.
"""

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.frontier_table import (
    CONTROLS,
    NOISE,
    NOTE,
    PLAIN,
    PLAIN_ITEMS,
    POPULARITY,
    SHUFFLED,
    STRATEGIES,
    TRUE,
    TRUE_LESS,
    SyntheticResult,
    Table,
    read_synthetic,
)
from benchmarks.latent_pair import LatentConfig, LatentPair, latent_pair
from pricdr.arrays import Float64Array
from pricdr.data.csr import CSR, with_values
from pricdr.data.features import ItemFeatures
from pricdr.data.ratings import Ids, Ratings
from pricdr.data.splits import HeldOut, hold_out
from pricdr.evaluation.metrics import per_user
from pricdr.evaluation.ranking import sampled_ranks
from pricdr.evaluation.verdict import standard_error
from pricdr.experiments.arms import GUIDE_DIM, key_of, resolved_strategy
from pricdr.experiments.results import append, peak_memory, provenance, watch_memory
from pricdr.privacy.accounting import Guarantee
from pricdr.privacy.mechanism import Entries, Run
from pricdr.privacy.steps import Bounds, Declared, calibrate, noiseless
from pricdr.privacy.strategies.spectral import SHARES
from pricdr.randomness import Simulation
from pricdr.strategies import JLT, Features, Guided, Spectral, Strategy

Matrix = npt.NDArray[np.float32]

DELTA: Final = 1e-6
COLD: Final = 0.2
MAX_EVALUATED: Final = 20_000
REGULARISATIONS: Final = (0.003, 0.03, 0.3, 3.0, 30.0)
REGULARISATIONS_ALL_ITEMS: Final = (30.0, 100.0, 300.0, 1000.0, 3000.0)
"""λ, in mean squares of a column over all users who are fitted."""
SCALES: Final = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.3, 1.7, 2.2)
"""Standard deviation, over users and items, of what the rows add to the log-odds of popularity."""
FEATURE_NOISE: Final = 1.0
"""Of the public item features, in standard deviations of the strongest column of the true vectors."""
LAST_SHARE: Final = SHARES[-1]
"""Of μ², what the learnt strategies have left for the rows that they publish."""
TAGGED: Final = 0.15
"""An item has the tag of a taste, one for either end, where it is among this share of the catalogue there."""
DIMS: Final = {1.0: 4, 2.0: 5, 4.0: 8, 8.0: 8}
"""For each ε, the columns of every release but those of jlt: by validation on two real pairs."""
JLT_DIM: Final = 200
REVISION: Final = 1
"""Of the pair, the decoder and the measuring: raised when the same settings begin to give other figures."""


class Arm(NamedTuple):
    """One figure to measure; ``epsilon`` is None where nothing is private."""

    name: str
    epsilon: float | None = None


@dataclass(frozen=True, eq=False)
class Task:
    """A pair with a split: cold users have no target rating to train on, and at most 20,000 of them are evaluated."""

    config: LatentConfig
    seed: int
    drawn: LatentPair
    train: Ratings
    validation: HeldOut
    test: HeldOut
    known: npt.NDArray[np.bool_] = field(repr=False)
    """Users with target ratings to train on."""

    @classmethod
    def of(cls, config: LatentConfig, seed: int) -> "Task":
        """Held-out items and negatives are the library's, drawn for the evaluated users alone."""
        drawn = latent_pair(config, seed=seed)
        target = drawn.pair.target
        counts = np.diff(target.matrix.indptr)
        able = Simulation(seed).generator("cold users").permutation(np.flatnonzero(counts >= 3))
        cold = able[: math.floor(COLD * len(able) + 0.5)]
        evaluated = np.sort(cold[:MAX_EVALUATED])
        users = tuple(target.users[at] for at in evaluated)
        split = hold_out(Ratings(target.matrix[evaluated], users, target.items, has_values=False), seed=seed)
        parts = [HeldOut(evaluated[part.users], part.items, part.negatives) for part in (split.validation, split.test)]
        known = np.ones(len(counts), dtype=bool)
        known[cold] = False
        train = target.only(np.repeat(known, counts))
        return cls(config, seed, drawn, train, parts[0], parts[1], known & (counts > 0))

    @property
    def source(self) -> Ratings:
        """What is released."""
        return self.drawn.pair.source

    @cached_property
    def popularity(self) -> Float64Array:
        """Log-odds of target items."""
        counts = np.bincount(self.train.matrix.indices, minlength=len(self.train.items)) + 0.5
        return np.asarray(np.log(counts / (self.known.sum() + 1 - counts)))

    @cached_property
    def by_item(self) -> Any:  # noqa: ANN401 - a sparse matrix
        """Target items x known users, every item divided by √popularity."""
        counts = np.bincount(self.train.matrix.indices, minlength=len(self.train.items))
        fitted = self.train.matrix[self.known].astype(np.float32)
        fitted.data = (1 / np.sqrt(counts[fitted.indices] + 1)).astype(np.float32)
        return fitted.T.tocsr()

    def features(self, kind: str) -> ItemFeatures:
        """What the public knows about source items: true vectors, vectors with noise, or tags."""
        vectors, items = self.drawn.source_vectors.astype(np.float64), self.source.items
        noise = Simulation(self.seed).generator("feature noise").standard_normal(vectors.shape)
        if kind in (TRUE, TRUE_LESS):
            return ItemFeatures(items, vectors)
        noisy = vectors + FEATURE_NOISE * vectors[:, 0].std() * noise
        if kind == "features: vectors":
            return ItemFeatures(items, noisy)
        low, high = np.quantile(noisy, [TAGGED, 1 - TAGGED], axis=0)
        found = [
            tuple(f"low{at}" for at in np.flatnonzero(row < low))
            + tuple(f"high{at}" for at in np.flatnonzero(row > high))
            for row in noisy
        ]
        return ItemFeatures.of_tags(items, found)


class SimulatedRelease(NamedTuple):
    """Rows as a target would receive them; drawn from a seed, so never private."""

    matrix: npt.NDArray[np.float32]
    users: Ids
    sigma: float
    """Standard deviation of the noise in it."""


def publish(
    ratings: Ratings,
    strategy: Strategy,
    guarantee: Guarantee,
    seed: int,
    *,
    noisy: bool = True,
    rated: bool = True,
    share: float = 1.0,
) -> SimulatedRelease:
    """Return what ``pricdr publish`` computes, with bits that repeat, and with less than the whole budget if asked to.

    ``share`` is what a strategy of one step may use of μ²; the rest goes to a step that is never run.
    """
    bounds = Bounds()
    strategy = strategy.resolved(guarantee, ratings.users)
    declared = Declared(bounds=bounds, unit=guarantee.unit, users=len(ratings.users))
    steps = strategy.steps(declared)
    if share < 1:
        steps = (replace(steps[-1], name="left out", share=1 - share), replace(steps[-1], share=share))
    calibrated = calibrate(steps, guarantee, bounds) if noisy else noiseless(steps, bounds)
    entries = Entries.of(ratings, bounds, summed=strategy.learns)
    run = Run(calibrated, Simulation(seed), noisy=noisy)
    if not rated:  # a control: what is published of no rating at all is noise alone
        entries = replace(entries, listed=ratings.units(_emptied))
    matrix = strategy.publish(entries, run)
    return SimulatedRelease(matrix, ratings.users, calibrated[-1].grid.sigma)


def _emptied(block: CSR) -> CSR:
    return with_values(block, np.zeros(block.nnz, dtype=np.int64))


def strategy_of(task: Task, arm: Arm, guarantee: Guarantee) -> Strategy:
    """The strategy of an arm; a guide is the target's own release of its training ratings, by bits of its own."""
    dim = DIMS[guarantee.epsilon]
    if arm.name == "jlt":
        return JLT(dim=JLT_DIM)
    if arm.name in ("spectral", NOISE):
        return Spectral(dim=dim)
    if arm.name == "guided":
        guide = publish(task.train, Spectral(dim=GUIDE_DIM), guarantee, 1_000_000 + task.seed)
        return Guided(guide=guide, dim=dim)
    return Features(features=task.features(arm.name), dim=dim)


def decode(task: Task, rows: Matrix) -> tuple[Float64Array, str]:
    """Cold users' NDCG@10 on test of popularity plus ridge regression on the rows, settings chosen on validation.

    Rows are centred and shortened to x/√(|x|² + median²), in place; how long they were stays, as one more column.
    Popularity alone is what is left where the best choice beats it on validation by less than a standard error.
    """
    rows -= rows.mean(axis=0)
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    middle = max(float(np.median(lengths)), 1e-6)
    rows /= np.sqrt(lengths**2 + np.float32(middle**2))[:, None]
    rows = np.column_stack([rows, np.log(lengths + np.float32(0.1 * middle))])
    rows -= rows[task.known].mean(axis=0)
    fitted = rows[task.known]
    return _chosen(task, fitted.T @ fitted, task.by_item @ fitted, lambda users: rows[users], REGULARISATIONS)


def decode_all_items(task: Task) -> tuple[Float64Array, str]:
    """The same regression on users' plain ratings of all source items, divided by √popularity and √activity."""
    matrix = task.source.matrix.astype(np.float32)
    counts, activity = np.bincount(matrix.indices, minlength=matrix.shape[1]), np.diff(matrix.indptr)
    matrix.data = (1 / np.sqrt((counts[matrix.indices] + 1) * np.repeat(activity, activity))).astype(np.float32)
    fitted = matrix[task.known]
    mean_row: Matrix = np.asarray(fitted.mean(axis=0)).ravel()
    gram = (fitted.T @ fitted).toarray() - fitted.shape[0] * np.outer(mean_row, mean_row)
    products = (task.by_item @ fitted).toarray() - np.outer(np.asarray(task.by_item.sum(axis=1)).ravel(), mean_row)
    return _chosen(task, gram, products, lambda users: matrix[users].toarray() - mean_row, REGULARISATIONS_ALL_ITEMS)


def _chosen(
    task: Task,
    gram: npt.NDArray[Any],
    products: npt.NDArray[Any],
    rows_of: Callable[[npt.NDArray[np.int64]], Any],
    regularisations: tuple[float, ...],
) -> tuple[Float64Array, str]:
    """Solve for every λ, choose λ and the scale on validation, and score test once."""
    gram, users = gram.astype(np.float64), int(task.known.sum())
    popular = _ndcg(task, task.validation)
    best, label, scale, weights = popular, POPULARITY, 0.0, None
    for regularisation in regularisations:
        ridge = regularisation * np.trace(gram) / len(gram) * np.eye(len(gram))
        solved = np.linalg.solve(gram + ridge, products.T.astype(np.float64))
        spread = float(np.sqrt(np.einsum("ij,ij->", gram @ solved, solved) / (users * solved.shape[1])))
        solved = (solved / max(spread, 1e-12)).astype(np.float32)
        added = _added(task.validation, solved, rows_of)
        for tried in SCALES:
            found = _ndcg(task, task.validation, tried * added)
            if found.mean() > best.mean():
                best, scale, weights, label = found, tried, solved, f"λ {regularisation:g}, scale {tried:g}"
    gain = best - popular
    if weights is None or gain.mean() <= standard_error(gain):
        return _ndcg(task, task.test), POPULARITY
    return _ndcg(task, task.test, scale * _added(task.test, weights, rows_of)), label


def _added(held: HeldOut, weights: Matrix, rows_of: Callable[[npt.NDArray[np.int64]], Any]) -> Matrix:
    """What the rows add to the scores of held-out items and their negatives."""
    candidates = np.column_stack([held.items, held.negatives])
    found = np.empty(candidates.shape, dtype=np.float32)
    for start in range(0, len(held), 2048):
        part = slice(start, start + 2048)
        found[part] = np.take_along_axis(rows_of(held.users[part]) @ weights, candidates[part], axis=1)
    return found


def _ndcg(task: Task, held: HeldOut, added: Matrix | None = None) -> Float64Array:
    scores = task.popularity[np.column_stack([held.items, held.negatives])]
    scores = scores if added is None else scores + added
    # The library asks for the scores of candidates; here they are columns of a table already.
    at = np.arange(len(held))
    columns = HeldOut(at, np.zeros_like(at), np.broadcast_to(np.arange(1, scores.shape[1]), held.negatives.shape))
    found = sampled_ranks(lambda users, wanted: np.take_along_axis(scores[users], wanted, axis=1), columns)
    return per_user(found)["NDCG@10"]


def measure(task: Task, arm: Arm) -> SyntheticResult:
    """One result; seconds and memory are those of the publish step alone."""
    popular, dim, sigma, cost = _ndcg(task, task.test), 0, 0.0, Cost(0.0, 0.0)
    if arm.name == POPULARITY:
        found, label = popular, POPULARITY
    elif arm.name == PLAIN_ITEMS:
        found, label = decode_all_items(task)
    else:
        release, cost = _released(task, arm)
        dim, sigma = release.matrix.shape[1], release.sigma
        found, label = decode(task, release.matrix)
    gain = found - popular
    return SyntheticResult(
        users=task.config.users,
        seed=task.seed,
        arm=arm.name,
        epsilon=arm.epsilon,
        key=key(task.config, arm),
        ndcg=float(found.mean()),
        gain=float(gain.mean()),
        gain_error=float(standard_error(gain)),
        dim=dim,
        sigma=sigma,
        seconds=cost.seconds,
        memory=cost.memory,
        chosen=label,
        evaluated=len(popular),
        provenance=provenance("cpu"),
    )


class Cost(NamedTuple):
    """What the publish step took: seconds, and bytes beyond what was held before."""

    seconds: float
    memory: float | None


def _released(task: Task, arm: Arm) -> tuple[SimulatedRelease, Cost]:
    guarantee = Guarantee(epsilon=arm.epsilon or 1.0, delta=DELTA)
    if arm.name in (PLAIN, SHUFFLED):
        features = Features(features=task.features(TRUE), dim=task.config.tastes)
        release = publish(task.source, features, guarantee, task.seed, noisy=False)
        if arm.name == SHUFFLED:
            order = Simulation(task.seed).generator("shuffled rows").permutation(len(release.matrix))
            release.matrix[order] = release.matrix[np.roll(order, 1)]
        return release, Cost(0.0, 0.0)
    strategy = strategy_of(task, arm, guarantee)
    watch_memory()
    held, started = peak_memory("cpu"), time.perf_counter()
    share = LAST_SHARE if arm.name == TRUE_LESS else 1.0
    release = publish(task.source, strategy, guarantee, task.seed, rated=arm.name != NOISE, share=share)
    seconds, most = time.perf_counter() - started, peak_memory("cpu")
    return release, Cost(round(seconds, 3), None if most is None or held is None else most - held)


def arms(epsilons: tuple[float, ...]) -> list[Arm]:
    """Controls first; noise has the shape and the size of the most generous ``spectral``."""
    controls = [Arm(name, max(epsilons) if name == NOISE else None) for name in CONTROLS]
    return controls + [Arm(name, epsilon) for epsilon in epsilons for name in STRATEGIES]


def key(config: LatentConfig, arm: Arm) -> str:
    """Return what tells a measurement from any other, but for its seed: every setting, defaults included."""
    decoder = {
        "grid": REGULARISATIONS_ALL_ITEMS if arm.name == PLAIN_ITEMS else REGULARISATIONS,
        "scales": SCALES,
        "cold": COLD,
        "most evaluated": MAX_EVALUATED,
        "revision": REVISION,
    }
    return key_of({"pair": asdict(config), "arm": arm.name, "decoder": decoder, "release": _settings(config, arm)})


def _settings(config: LatentConfig, arm: Arm) -> dict[str, Any] | None:
    """Return the strategy of an arm with all its settings, without the pair it would be applied to."""
    if arm.name in (POPULARITY, PLAIN_ITEMS):
        return None
    if arm.name in (PLAIN, SHUFFLED):
        return resolved_strategy(Features, {"features": TRUE, "dim": config.tastes})
    guarantee = Guarantee(epsilon=arm.epsilon or 1.0, delta=DELTA)
    dim = DIMS[guarantee.epsilon]
    kinds: dict[str, tuple[type[Strategy], dict[str, Any]]] = {
        "jlt": (JLT, {"dim": JLT_DIM}),
        "spectral": (Spectral, {"dim": dim}),
        NOISE: (Spectral, {"dim": dim}),
        "guided": (Guided, {"dim": dim, "guide": resolved_strategy(Spectral, {"dim": GUIDE_DIM})}),
    }
    features = {"features": arm.name, "dim": dim, "noise": FEATURE_NOISE, "tagged": TAGGED}
    kind, given = kinds.get(arm.name, (Features, features))
    share = LAST_SHARE if arm.name == TRUE_LESS else 1.0
    return {**resolved_strategy(kind, given), "epsilon": arm.epsilon, "delta": DELTA, "share": share}


def run(config: LatentConfig, seed: int, wanted: list[Arm], out: Path) -> None:
    """Measure what is missing; a result of other settings counts as missing, and the new one takes its place."""
    known = {(one.key, one.seed) for one in read_synthetic(out)}
    missing = [arm for arm in wanted if (key(config, arm), seed) not in known]
    if not missing:
        return
    task = Task.of(config, seed)
    for arm in missing:
        found = measure(task, arm)
        append(out, found)
        print(f"{config.users:>9,} seed {seed} {arm.name:28} {arm.epsilon or '':4} {found.ndcg:.4f}", flush=True)


def main() -> None:
    """Measure, write the table beside the results and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--epsilon", type=float, nargs="+", choices=list(DIMS), default=list(DIMS))
    parser.add_argument("--out", type=Path, required=True, help="JSON lines, added to; the table goes beside it")
    parser.add_argument("--table", action="store_true", help="measure nothing")
    given = parser.parse_args()
    for users in () if given.table else given.users:
        for seed in given.seeds:
            run(LatentConfig(users=users), seed, arms(tuple(given.epsilon)), given.out)
    table = str(Table(read_synthetic(given.out)))
    given.out.with_suffix(".md").write_text(f"{NOTE}\n{table}\n", encoding="utf-8")
    print(table)


if __name__ == "__main__":
    main()
