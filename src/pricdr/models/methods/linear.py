"""Methods in closed form: popularity, item-kNN, EASE, and ridge regression on release rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf

from pricdr.arrays import Float32Array, Float64Array
from pricdr.data.csr import CSR, item_counts, ones
from pricdr.data.ratings import Ratings
from pricdr.data.splits import HeldOut
from pricdr.errors import ParameterError
from pricdr.evaluation.verdict import Verdict, compare
from pricdr.memory import require_memory
from pricdr.models.base import Config, Method, PlaintextMethod, ReleaseMethod, SearchSpace, TargetMethod, Trained
from pricdr.models.fitted import TRUSTED, UNTRUSTED, Chosen, FittedModel, Trust, Vectors
from pricdr.models.gates import REGULARISATION, SCALE, Gates, Newcomers, best_above, decoder, ndcg_of
from pricdr.models.methods.networks import log_odds
from pricdr.models.training_data import TrainingData
from pricdr.randomness import Simulation
from pricdr.training.run_log import RunLog

if TYPE_CHECKING:
    from pricdr.release import Release


def popularity_tie_break(ratings: CSR, most: float) -> Float32Array:
    """Return a bias that orders items by popularity where nothing else does: ``most`` for the most rated one."""
    counts = item_counts(ratings)
    return (most * counts / max(int(counts.max(initial=0)), 1)).astype(np.float32)


@dataclass(frozen=True, kw_only=True)
class Popularity(TargetMethod):
    """Items by how often they were rated, the same for everybody."""

    name: ClassVar[str] = "popularity"
    summary: ClassVar[str] = "items by how often they were rated: the control"

    def _train(self, data: TrainingData, *, validation: HeldOut | None, chosen: Chosen, log: RunLog) -> Trained:
        users, items = (np.zeros((count, 0), dtype=np.float32) for count in data.ratings.shape)  # the bias alone scores
        return data.model(self.name, users, items, item_counts(data.ratings).astype(np.float32)), chosen


CELLS: Final = 1 << 22  # similarities held at once, however many items there are


@dataclass(frozen=True, kw_only=True)
class ItemKNNConfig(Config):
    """Settings of :class:`ItemKNN`."""

    neighbours: int = 200
    shrinkage: float = 30.0
    """Added to the denominator of the cosine: a pair that met once is not a pair."""


@dataclass(frozen=True, kw_only=True)
class ItemKNN(TargetMethod):
    """Cosine of item columns with shrinkage, n_ij / (√(n_i n_j) + shrinkage); an item keeps its nearest neighbours.

    As Ferrari Dacrema et al. (RecSys 2019) tune it against the deep methods. Popularity orders ties and all the rest.
    """

    name: ClassVar[str] = "itemknn"
    summary: ClassVar[str] = "items like those a user rated, by cosine"
    config: ItemKNNConfig = ItemKNNConfig()
    space: ClassVar[SearchSpace] = {
        "neighbours": (20, 50, 100, 200, 500, 1000),
        "shrinkage": (0.0, 3.0, 10.0, 30.0, 100.0, 300.0),
    }

    def _train(self, data: TrainingData, *, validation: HeldOut | None, chosen: Chosen, log: RunLog) -> Trained:
        users, n_items = ones(data.ratings), len(data.items)
        items = users.T.tocsr()
        norms = np.sqrt(np.diff(items.indptr))
        rows = [sp.csr_array((0, n_items), dtype=np.float32)]
        for part in _blocks(n_items, max(1, CELLS // max(n_items, 1))):
            # Sparse times sparse: only pairs of items that a user rated together are ever computed.
            met = (items[part] @ users).tocoo()
            own, other = met.row + part.start, met.col
            similar = met.data / (norms[own] * norms[other] + self.config.shrinkage)
            # Nearest first; of equal ones those further left, so that runs repeat.
            order = np.lexsort((other, -similar, own))
            order = order[own[order] != other[order]]
            row = met.row[order]
            nearest = order[np.arange(len(row)) - np.searchsorted(row, row) < self.config.neighbours]
            entries = (similar[nearest].astype(np.float32), (met.row[nearest], other[nearest]))
            rows.append(sp.coo_array(entries, shape=met.shape).tocsr())
        bias = popularity_tie_break(data.ratings, 1e-6)
        return data.model(self.name, users.astype(np.float32), sp.vstack(rows, format="csr"), bias), chosen


# EASE in closed form: from the side of the columns or of the users, or on the leading directions of the ratings.
#
# With X = [target | weight · source], P = (XᵀX + λI)⁻¹ and j an item of the target, EASE (Steck, WWW 2019) scores
#
#     X B = X − X P / diag(P),    so    score(u, j) = X_uj − (X P)_uj / P_jj.
#
# Primal: P is inverted, columns x columns. Dual, where there are fewer users than columns, with C = (X Xᵀ + λI)⁻¹:
#
#     X P = C X    and    P_jj = (1 − x_jᵀ C x_j) / λ.
#
# Vectors hold the second part only: the first adds 1 to what the user has already rated, which is neither recommended
# nor ranked. Memory is one square float64 matrix of the smaller side and a float32 copy; products are made in blocks.
#
# Low rank, where both sides are too many to invert a matrix, replaces X's Gram matrix by its best approximation in the
# leading right singular vectors V of X, with singular values s. With shrink = s² / (s² + λ), an unrated item j scores
#
#     P = (I − V diag(shrink) Vᵀ) / λ,    so    −(X P)_uj / P_jj = (X V diag(shrink) Vᵀ)_uj / (1 − Σ_r shrink_r V_jr²).
#
# With all directions this is EASE itself; what is left out is what EASE would have shrunk away, for s² far below λ.

Square: TypeAlias = npt.NDArray[np.float64]  # in Fortran order, so that a block of columns is one piece of memory
Matrix: TypeAlias = Any  # a part of X, sparse (ratings) or dense (a release): both multiply and slice alike
Solver: TypeAlias = Callable[[list[Matrix], float], tuple[Vectors, Vectors]]  # of the parts of X, by λ

BLOCK: Final = 1024  # rows or columns per block: a block of the square matrix fits the processor's caches
MAX_INVERTED: Final = 20_000  # rows of a matrix: 3.2 GB, and some minutes on two cores. Above it EASE is of low rank
RANK: Final = 1000  # directions: on Amazon Music its NDCG@10 was that of EASE itself to three digits
MIN_REGULARISATION: Final = 1e-9  # of the largest diagonal value: below it rounding errors decide the result
_ROUNDS: Final = 4  # multiplications by X and back: after so many the leading directions stand still to three digits
_MORE: Final = 1.1  # directions carried along, relative to those wanted: the last ones converge slowly


def solve_ease(
    method: str, data: TrainingData, *, regularisation: float, weight: float = 1.0, solve: Solver | None = None
) -> FittedModel:
    """Return EASE on [target | weight · source]; every rating counts as 1, and all that a user has is scored by.

    A user without any data gets what is popular. Both inversions give the same scores, ``low_rank`` nearly so.
    """
    (n_users, n_items), source = data.ratings.shape, data.source
    columns = n_items + (0 if source is None else source.shape[1])
    if solve is None:  # by the smaller side, since both cost its cube; by neither where that would take hours
        solve = dual if n_users < columns else primal
        solve = solve if min(n_users, columns) <= MAX_INVERTED else low_rank
    # Before any of it is there: the directions; or the square matrix, vectors, and copies of a dense source.
    if solve is low_rank:
        need, what = 4 * _carried(n_users, columns) * (3 * columns + 3 * n_users), f"EASE of rank {RANK:,}"
    else:
        square, vectors = (n_users, n_users) if solve is dual else (columns, n_items)
        copies = 0 if source is None or data.is_plaintext else 32 * n_users * (columns - n_items)
        need, what = 8 * square * square + 4 * square * vectors + copies, "EASE"
    require_memory(need, f"{what} on {n_users:,} users and {columns:,} columns")
    parts: list[Matrix] = [ones(data.ratings)]
    if source is not None:
        parts.append(weight * (ones(source) if sp.issparse(source) else source.astype(np.float64)))
    bias = popularity_tie_break(data.ratings, 1e-4 / (1 + regularisation))
    user_vectors, item_vectors = solve(parts, regularisation)
    return data.model(method, user_vectors, item_vectors, bias)


def primal(parts: list[Matrix], regularisation: float) -> tuple[Vectors, Vectors]:
    """Return user vectors X (sparse) and item vectors −P_·j / P_jj."""
    n_items = parts[0].shape[1]
    rows = sp.hstack([sp.csr_array(part) for part in parts], format="csr", dtype=np.float32)
    gram = np.zeros((rows.shape[1], rows.shape[1]), order="F")
    sides = [part.T.tocsr() if isinstance(part, sp.csr_array) else part.T for part in parts]
    spans = (slice(n_items), slice(n_items, None))
    for at, (left, own) in enumerate(zip(sides, spans, strict=False)):
        for right, other in zip(sides[: at + 1], spans, strict=False):  # the lower triangle is all that is read
            _add_product(gram[own, other], left, right)
    inverse = invert(gram, regularisation)
    scale = -1 / np.diagonal(inverse)[:n_items]
    # Kept by columns: that is how a sparse row times these vectors reads them.
    weights = np.empty((len(inverse), n_items), dtype=np.float32)
    for part in _blocks(len(inverse)):
        weights[part] = inverse[:n_items, part].T * scale
    return rows, weights.T


def dual(parts: list[Matrix], regularisation: float) -> tuple[Vectors, Vectors]:
    """Return user vectors C and item vectors −x_j / P_jj (sparse), both over the users with a history."""
    target = parts[0]
    n_users = target.shape[0]
    gram = np.zeros((n_users, n_users), order="F")
    for rows in parts:
        _add_product(gram, rows, rows)
    inverse = invert(gram, regularisation).T  # symmetric: the same, with contiguous rows
    warm = np.flatnonzero(np.diff(target.indptr))
    items = target.T.tocsr()
    blocks = [items[part] for part in _blocks(items.shape[0])]
    explained = np.concatenate([block.multiply(block @ inverse).sum(axis=1) for block in blocks])
    diagonal = (1 - explained) / regularisation
    items = items[:, warm]
    items.data /= -np.repeat(diagonal, np.diff(items.indptr))
    users = np.empty((n_users, len(warm)), dtype=np.float32)
    for part in _blocks(n_users):
        users[part] = inverse[part, warm]
    return users, items.astype(np.float32)


def _add_product(out: Square, left: Matrix, right: Matrix) -> None:
    """Add ``left · rightᵀ`` to ``out``, a block of columns at a time: no sparse product is ever held whole."""
    for part in _blocks(right.shape[0]):
        product = left @ right[part].T
        out[:, part] += product if isinstance(product, np.ndarray) else product.toarray()


def invert(gram: Square, regularisation: float) -> Square:
    """Return (gram + λI)⁻¹ from the lower triangle, in gram's own memory."""
    diagonal = np.einsum("ii->i", gram)
    enough = regularisation >= MIN_REGULARISATION * diagonal.max(initial=0.0)
    diagonal += regularisation
    blocks = _blocks(len(gram))
    if not enough or not _factor(gram, blocks):
        raise ParameterError(f"regularisation {regularisation!r} is too small for these ratings: use a larger one")
    _invert(gram, blocks)
    for rows in blocks:  # (L⁻¹)ᵀ L⁻¹, a row of blocks at a time: what is below is still L⁻¹
        gram[rows, : rows.stop] = gram[rows.start :, rows].T @ gram[rows.start :, : rows.stop]
    for rows in blocks:
        gram[rows, rows.stop :] = gram[rows.stop :, rows].T
    return gram


def _factor(lower: Square, blocks: list[slice]) -> bool:
    """Replace the lower triangle by the L of L Lᵀ; return false where rounding left none.

    LAPACK alone would do, but the one that comes with scipy (OpenBLAS 0.3.30) crashes on large matrices with several
    threads: n = 16,000 with two. Here it never sees more than a block, and the work is in matrix products all the same.
    torch.cholesky_inverse does not crash, but took 1.9 times as long at n = 6,000 and twice the memory.
    """
    for at, block in enumerate(blocks):
        corner, failed = dpotrf(lower[block, block], lower=1)
        if failed:
            return False
        lower[block, block] = corner
        lower[block.stop :, block] = solve_triangular(corner, lower[block.stop :, block].T, lower=True).T
        for part in blocks[at + 1 :]:
            lower[part.start :, part] -= lower[part.start :, block] @ lower[part, block].T
    return True


def _invert(lower: Square, blocks: list[slice]) -> None:
    """Replace L by L⁻¹: block columns from the right, and in each from the bottom, so nothing is read too late."""
    for at, block in reversed(list(enumerate(blocks))):
        corner = solve_triangular(lower[block, block], np.eye(block.stop - block.start), lower=True)
        for row in reversed(blocks[at + 1 :]):
            between = slice(block.stop, row.stop)
            lower[row, block] = -(lower[row, between] @ lower[between, block]) @ corner
        lower[block, block] = corner


def _blocks(total: int, size: int | None = None) -> list[slice]:
    return [slice(start, min(start + (size or BLOCK), total)) for start in range(0, total, size or BLOCK)]


def low_rank(parts: list[Matrix], regularisation: float) -> tuple[Vectors, Vectors]:
    """Return the vectors of users and items, both over the leading directions."""
    parts = [part.astype(np.float32) for part in parts]
    directions, squares = _leading_directions(parts)
    shrink = (squares / (squares + regularisation)).astype(np.float32)
    items = directions[: parts[0].shape[1]]
    diagonal = 1 - (items**2 @ shrink)
    return _times(parts, directions) * shrink, items / diagonal[:, None]


def _leading_directions(parts: list[Matrix]) -> tuple[Float32Array, Float64Array]:
    """Return leading right singular vectors by powers (Halko et al., SIAM Review 2011), and their values' squares."""
    columns = sum(part.shape[1] for part in parts)
    shape = columns, _carried(parts[0].shape[0], columns)
    directions = Simulation(0).generator("EASE directions").standard_normal(shape, dtype=np.float32)
    for _ in range(_ROUNDS):
        # Made orthogonal on both sides: else all of them turn into the first one.
        turned = np.linalg.qr(_times(parts, directions))[0]
        directions = np.linalg.qr(np.concatenate([part.T @ turned for part in parts]))[0]
    image = _times(parts, directions)
    squares, turn = np.linalg.eigh((image.T @ image).astype(np.float64))
    leading = slice(None, -RANK - 1, -1)
    return directions @ turn[:, leading].astype(np.float32), np.maximum(squares[leading], 0.0)


def _times(parts: list[Matrix], directions: Float32Array) -> Float32Array:
    n_items = parts[0].shape[1]
    spans = directions[:n_items], directions[n_items:]
    product: Float32Array = sum(part @ own for part, own in zip(parts, spans, strict=False))
    return product


def _carried(n_users: int, columns: int) -> int:
    return min(int(_MORE * RANK) + 1, n_users, columns)


@dataclass(frozen=True, kw_only=True)
class EASEConfig(Config):
    """Settings of :class:`EASE`."""

    positive = ("regularisation", "weight")

    regularisation: float = 300.0
    """λ: the larger, the less a pair of items that met by chance counts."""


class _EASEMethod(Method):
    config: EASEConfig

    def _train(self, data: TrainingData, *, validation: HeldOut | None, chosen: Chosen, log: RunLog) -> Trained:
        return self._solved(data), chosen  # there is nothing that validation could choose

    def _solved(self, data: TrainingData) -> FittedModel:
        return solve_ease(self.name, data, **vars(self.config))


@dataclass(frozen=True, kw_only=True)
class EASE(_EASEMethod, TargetMethod):
    """Each item predicted from the others by ridge regression (Steck, WWW 2019); for cold users what is popular."""

    name: ClassVar[str] = "ease"
    summary: ClassVar[str] = "linear item-item model in closed form"
    space: ClassVar[SearchSpace] = {"regularisation": (10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)}
    config: EASEConfig = EASEConfig()


@dataclass(frozen=True, kw_only=True)
class EASESourceConfig(EASEConfig):
    """Settings of :class:`EASESource`."""

    weight: float = 0.3
    """What a source rating counts beside a target rating's 1."""


@dataclass(frozen=True, kw_only=True)
class EASESource(_EASEMethod, PlaintextMethod):
    """NOT PRIVATE. EASE with the source's items as further columns, never recommended: they serve cold users too."""

    name: ClassVar[str] = "ease-source"
    summary: ClassVar[str] = "EASE on target and source ratings together"
    space: ClassVar[SearchSpace] = {
        "regularisation": (30.0, 100.0, 300.0, 1000.0, 3000.0),
        "weight": (0.1, 0.2, 0.3, 0.5, 1.0, 2.0),
    }
    config: EASESourceConfig = EASESourceConfig()


@dataclass(frozen=True, kw_only=True)
class EASEReleaseConfig(EASESourceConfig):
    """Settings of :class:`EASERelease`."""

    weight: float = 1.0
    """Norm of an average release row; a target row's is the square root of its ratings."""


@dataclass(frozen=True, kw_only=True)
class EASERelease(_EASEMethod, ReleaseMethod):
    """EASE with the release's numbers as further columns: predictors, never recommended.

    A release that fails the evidence test leaves EASE on the target alone. Users without target ratings get what is
    popular, unless release rows beat that by a standard error for newcomers (:mod:`pricdr.models.gates`).
    """

    name: ClassVar[str] = "ease-release"
    summary: ClassVar[str] = "EASE on target ratings and release rows together"
    space: ClassVar[SearchSpace] = {
        "regularisation": (30.0, 100.0, 300.0, 1000.0, 3000.0),
        "weight": (0.1, 0.3, 1.0, 3.0, 10.0),
    }
    config: EASEReleaseConfig = EASEReleaseConfig()

    def _train(self, data: TrainingData, *, validation: HeldOut | None, chosen: Chosen, log: RunLog) -> Trained:
        gates = Gates.of(data, validation, chosen)
        # Of releases that are not used the columns go too: with a weight of 0 they would still be inverted.
        chosen, data = gates.noted(chosen), gates.data
        if gates.refused:
            return self._solved(data), replace(chosen, trust=UNTRUSTED)
        model = self._solved(data)

        def trust_in_rows(newcomers: Newcomers) -> Trust:
            # Stand-ins are cold in a solution of their own: in the model itself their rows were fitted to them.
            unseen = self._solved(newcomers.hidden_from(data)) if newcomers.stand_ins.any() else model
            own, popular = (ndcg_of(one, newcomers.held_out) for one in (unseen, _popular_for_cold_users(unseen)))
            return Trust(1.0, best_above({1.0: own}, popular) or 0.0)

        trust = gates.settle(trust_in_rows)
        return model if trust.cold else _popular_for_cold_users(model), replace(chosen, trust=trust)


def _popular_for_cold_users(model: FittedModel) -> FittedModel:
    warm, vectors = np.diff(model.seen.indptr) > 0, model.user_vectors
    kept = warm.astype(np.float32)
    sparse = isinstance(vectors, sp.csr_array)
    vectors = sp.csr_array(sp.diags_array(kept) @ vectors) if sparse else vectors * kept[:, None]
    return replace(model, user_vectors=vectors, in_release=model.in_release & warm[:, None])


REGULARISATIONS: Final = (1.0, 10.0, 100.0, 1000.0)
SCALES: Final = (0.1, 0.2, 0.4, 0.7, 1.0, 1.5)  # what validation chooses from


@dataclass(frozen=True, kw_only=True)
class RidgeReleaseConfig(Config):
    """What holds where there is no validation to choose by."""

    positive = ("regularisation", "scale")

    regularisation: float = REGULARISATION
    """λ, beside release rows of length 1."""
    scale: float = SCALE
    """Standard deviation, over users and items, of what the release adds to the log-odds of popularity."""


@dataclass(frozen=True, kw_only=True)
class RidgeRelease(ReleaseMethod):
    """Score items by popularity plus a linear function of the user's release row.

    The weights are the ridge regression of the target's centred ratings, each item divided by √popularity, on the
    release rows of users who have both. Warm users are scored by their row too, not by their history: a yardstick for
    what a release holds. What is left is popularity where the release fails the evidence test, or where the best choice
    does not beat it for newcomers (:mod:`pricdr.models.gates`) by more than a standard error.
    """

    name: ClassVar[str] = "ridge-release"
    summary: ClassVar[str] = "linear decoder of release rows in closed form"
    config: RidgeReleaseConfig = RidgeReleaseConfig()

    def _train(self, data: TrainingData, *, validation: HeldOut | None, chosen: Chosen, log: RunLog) -> Trained:
        assert data.source is not None
        dim, n_items = data.source.shape[1], len(data.items)
        # The normal equations, λI and what solving copies; the products with items, and the weights.
        require_memory(8 * (5 * dim * dim + 4 * dim * n_items), f"ridge regression on {dim:,} numbers a release row")
        counts = torch.as_tensor(item_counts(data.ratings), dtype=torch.float32)
        users, items = (np.zeros((count, 0), dtype=np.float32) for count in data.ratings.shape)
        gates = Gates.of(data, validation, chosen)
        popularity, data = log_odds(counts, int(data.warm.sum())).numpy(), gates.data
        nobody = np.zeros_like(data.covered)
        popular = data.model(self.name, users, items, popularity, in_release=nobody, uses_history=False)
        unused = gates.noted(Chosen(trust=UNTRUSTED, not_chosen=chosen.not_chosen))
        if gates.refused:
            return popular, unused
        names = ("regularisation", "scale")
        best = tuple(chosen.settings.get(name, getattr(self.config, name)) for name in names)
        if gates.newcomers is not None:
            held_out = gates.newcomers.held_out
            model = decoder(gates.newcomers.hidden_from(data), popular)
            choices = [best] if validation is None else product(REGULARISATIONS, SCALES)
            ndcg = {choice: ndcg_of(model(*choice), held_out) for choice in choices}
            found = best_above(ndcg, ndcg_of(popular, held_out))
            if found is None:
                return popular, unused
            best = found
            if validation is not None:
                chosen = Chosen(settings=dict(zip(names, best, strict=True)))
        return decoder(data, popular)(*best), gates.noted(replace(chosen, trust=TRUSTED))


class BesideRidge(NamedTuple):
    """What ``ridge-release`` makes of the same release as a model, for users of one kind; figures are NDCG@10."""

    stratum: str  # ``warm`` (with ratings to train on) or ``cold``
    users: int
    model: float
    ridge: float
    ridge_helps: Verdict  # HELPS says that the model leaves unused what the release holds


def compare_with_ridge(
    model: FittedModel, target: Ratings, release: "Release | Sequence[Release]", validation: HeldOut
) -> tuple[BesideRidge, ...]:
    """Compare a model with the linear decoder of its releases' rows, on the items that both were chosen by.

    A badly trained network can hide what a release holds: look here before one is thrown away. Kinds of users of whom
    validation has none are left out.
    """
    ridge = RidgeRelease().fit(target, release, validation=validation, allow_not_private=True)
    warm = np.diff(target.matrix.indptr)[validation.users] > 0
    found = []
    for stratum, part in (("warm", validation.only(warm)), ("cold", validation.only(~warm))):
        if len(part):
            own, linear = ndcg_of(model, part), ndcg_of(ridge, part)
            verdict = Verdict.of(compare(linear, own))
            found.append(BesideRidge(stratum, len(part), float(own.mean()), float(linear.mean()), verdict))
    return tuple(found)
