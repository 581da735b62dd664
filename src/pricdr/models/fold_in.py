"""People and rows that come after training: user vectors from what was trained, in seconds, without training again.

The towers of a two-tower model are kept beside the vectors, and give that of any other history and release row. The
directions of a *newer* release are its own: its rows are carried into those of the old one by ridge regression on the
users whom both list; where the two are hardly related, nothing is folded in.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from pricdr.arrays import Float32Array, IntArray
from pricdr.data.csr import CSR, sp
from pricdr.data.ratings import Ids, Ratings, position_of
from pricdr.errors import InputError
from pricdr.models.fitted import UNTRUSTED, FittedModel, ReleaseOrigin, Trust
from pricdr.models.interaction import MAX_SCORE, largest
from pricdr.models.training_data import standardised, unshared_ids

if TYPE_CHECKING:
    from pricdr.release import Release

LEAST_COMMON: Final = 50  # users whom both releases list: fewer say little about how the two are related
LEAST_RELATED: Final = 0.05  # of the old rows' variance, explained for users left out of the regression
_RIDGE: Final = 1.0  # λ, beside rows of length 1 on average


class Tower(NamedTuple):
    """ReLU(rows · first + first bias) · last + bias."""

    first: Float32Array
    first_bias: Float32Array
    last: Float32Array
    bias: Float32Array

    def __call__(self, rows: Float32Array | CSR) -> Float32Array:
        """Return one vector per row."""
        hidden = np.maximum(rows @ self.first + self.first_bias, 0)
        return np.asarray(hidden @ self.last + self.bias, dtype=np.float32)


@dataclass(frozen=True, eq=False)
class Encoders:
    """What a two-tower model makes the vectors of its users of."""

    scale: float  # the length of a user vector
    history: Tower
    source: Tower | None  # None where no release is used
    rows: Float32Array  # of the releases in use, side by side as ``source`` takes them: one per user of the model
    columns: tuple[slice, ...]  # the columns of each of those releases

    def require_fitting(self, items: int, width: int, releases: int) -> None:
        """Refuse arrays that do not fit each other or the model: its items, numbers in a vector, releases in use."""
        takes = {"history": (self.history, items), "source": (self.source, self.rows.shape[1])}
        for name, (tower, numbers) in takes.items():
            if tower is None:
                continue
            hidden, out = tower.last.shape
            shapes = [(numbers, hidden), (hidden,), (hidden, out), (out,)]
            if [part.shape for part in tower] != shapes or out > width:
                raise InputError(f"the {name} tower of a model does not take {numbers:,} numbers to at most {width:,}")
        sizes = [self.scale, *(largest(part) for tower in (self.history, self.source) if tower for part in tower)]
        if not max(sizes) <= MAX_SCORE or not largest(self.rows) <= MAX_SCORE or not self.scale >= 0:
            raise InputError("the towers of a model must consist of finite numbers")
        widths = sum(part.stop - part.start for part in self.columns)
        counted = widths == self.rows.shape[1] and len(self.columns) in (0, releases)
        if not counted or bool(self.columns) != (self.source is not None):
            raise InputError(f"the rows of a model do not fit {releases} releases in use")

    def user_vectors(self, ratings: CSR, rows: Float32Array, trust: Trust) -> Float32Array:
        """Return the vectors of users with these histories and rows; a row of zeros is none."""
        counts = np.diff(ratings.indptr)
        weights = np.repeat(1 / np.sqrt(np.maximum(counts, 1)), counts).astype(np.float32)
        warm, covered = counts > 0, rows.any(axis=1)
        histories = sp.csr_array((weights, ratings.indices, ratings.indptr), shape=ratings.shape)
        vectors = self.history(histories) * warm[:, None]
        if self.source is not None:
            share = np.where(warm, trust.warm, 1.0) * covered
            vectors += self.source(rows) * share.astype(np.float32)[:, None]
        lengths = np.maximum(np.linalg.norm(vectors, axis=1), 1e-12)
        reach = self.scale * np.where(warm, 1.0, trust.cold * covered) / lengths
        return np.asarray(vectors * reach[:, None], dtype=np.float32)


def with_ratings(model: FittedModel, more: Ratings) -> FittedModel:
    """Return the model with these ratings added to the histories of its users, and with the users who are new."""
    _require_encoders(model)
    if model.summary is not None:
        raise InputError("the model was exported without its ratings, and so without the histories to add to")
    known = set(model.items)
    if not any(item in known for item in more.items):
        raise InputError(
            f"none of the {len(more.items):,} rated items is among the model's {len(known):,}: an item that came after "
            "training has no vector, train again"
        )
    model = _extended(model, more.rated().users)
    added = more.over(model.users, model.items).matrix
    seen = sp.csr_array((model.seen + added).astype(bool).astype(model.seen.dtype))
    origin = model.origin
    if origin is not None:  # it has seen more than what it was trained on, and what a split holds out may be part of it
        together = Ratings(sp.csr_array(seen.astype(np.float64)), model.users, model.items, has_values=False)
        origin = replace(origin, trained_on=together.fingerprint())
    return _recomputed(replace(model, seen=seen, origin=origin), np.flatnonzero(np.diff(added.indptr)))


def with_release(
    model: FittedModel, newer: "Release | Sequence[Release]", *, allow_not_private: bool = False
) -> FittedModel:
    """Return the model with the rows and users of a newer release, which follows its most related one.

    Of several, all of one series, it is their sum; where the model knows some of them, that takes the place of its own.
    """
    from pricdr.release.series import by_series

    if _require_encoders(model).source is None:
        raise InputError("the model uses no release, so that none can follow: train it with this one")
    series = by_series(newer if isinstance(newer, Sequence) else [newer])
    if len(series) != 1:
        raise InputError(f"releases that are folded in together must be of one series, got {len(series)} series")
    source, known, own = series[0], len(model.users), set(model.users)
    origins = [
        ReleaseOrigin.of(one, (len(own.intersection(one.users)), known), allow_not_private=allow_not_private)
        for one in source.members
    ]
    fresh = standardised(source.matrix)
    model = _extended(model, source.users)
    encoders, places = model.encoders, _places(model, source.users)
    assert encoders is not None
    relations = [_Relation.of(fresh, encoders.rows[places, part]) for part in encoders.columns]
    best, relation = max(enumerate(relations), key=lambda one: (one[1].share, one[1].common))
    part = encoders.columns[best]
    if relation.common < LEAST_COMMON:
        raise InputError(
            f"the newer release lists {relation.common:,} users whom the model has a row of, and {LEAST_COMMON} are "
            f"needed to relate the two. {unshared_ids(model.users[:known], source.users)}"
        )
    if relation.share < LEAST_RELATED:
        raise InputError(
            f"the newer release's rows explain {relation.share:.1%} of the old one's, and {LEAST_RELATED:.0%} are "
            "needed: it is of other ratings or too noisy to follow, train again"
        )
    # Two noisy rows of one user say more than either does; what regression predicts is as long as it is reliable.
    carried, rows, in_release = fresh @ relation.weights, encoders.rows.copy(), model.in_release.copy()
    number, old = (model.chosen.used or range(len(encoders.columns)))[best], encoders.rows[places, part]
    had = () if model.origin is None else model.origin.releases
    summed, given = {one.sha256 for one in had if one.source == number}, {one.sha256 for one in origins}
    if summed and summed <= given:  # the sum holds what the model has
        old = np.zeros_like(old)
    elif summed & given:
        raise InputError("the model knows some of these releases: give all of the series, or those that are new to it")
    joined = ~old.any(axis=1)
    for group, combined in ((joined, carried), (~joined, old + carried)):
        rows[places[group], part] = _unit_length(combined[group])
    in_release[places, best] = True
    if model.origin is not None:  # what it knows comes from both
        added = tuple(replace(one, source=number) for one in origins)  # in the order of their places, the newest last
        kept = tuple(one for one in had if one.sha256 not in given)
        model = replace(model, origin=replace(model.origin, releases=(*kept, *added)))
    return _recomputed(replace(model, encoders=replace(encoders, rows=rows), in_release=in_release), places)


class _Relation(NamedTuple):
    """How the rows of a newer release are related to those of an older one."""

    common: int  # users who have a row in both
    share: float  # of the old rows' variance, explained for users left out of the regression; 0 of too few users
    weights: Float32Array  # newer rows · weights ≈ old rows

    @classmethod
    def of(cls, fresh: Float32Array, old: Float32Array) -> "_Relation":
        """Relate the rows of the same users; a row of zeros is none."""
        both = old.any(axis=1)
        fresh, old = fresh[both], old[both]
        half, error = np.arange(len(old)) % 2 == 0, 0.0
        for fitted in (half, ~half):
            predicted = fresh[~fitted] @ _ridge(fresh[fitted], old[fitted])
            error += float(np.square(predicted - old[~fitted]).sum())
        share = 1 - error / max(float(np.square(old).sum()), 1e-12) if len(old) >= LEAST_COMMON else 0.0
        return cls(len(old), max(share, 0.0), _ridge(fresh, old))


def _ridge(rows: Float32Array, old: Float32Array) -> Float32Array:
    gram = rows.T @ rows + _RIDGE * np.eye(rows.shape[1], dtype=np.float32)
    return np.asarray(np.linalg.solve(gram, rows.T @ old), dtype=np.float32)


def _unit_length(rows: Float32Array) -> Float32Array:
    """Return rows of length 1 on average, as a release's are in training."""
    return rows / max(float(np.linalg.norm(rows, axis=1).mean()), 1e-12) if len(rows) else rows


def _require_encoders(model: FittedModel) -> Encoders:
    if model.encoders is None:
        raise InputError(f"a model of method {model.method} keeps no towers to fold anything in with: train it again")
    return model.encoders


def _places(model: FittedModel, users: Ids) -> IntArray:
    at = position_of(model.users)
    return np.array([at[user] for user in users], dtype=np.int64)


def _extended(model: FittedModel, users: Ids) -> FittedModel:
    """Return the model with those of the users added whom it does not know, so far without history and row."""
    known, encoders = set(model.users), _require_encoders(model)
    new = tuple(user for user in dict.fromkeys(users) if user not in known)

    def longer(rows: Any) -> Any:  # noqa: ANN401 - an array of any type
        return np.concatenate([rows, np.zeros((len(new), *rows.shape[1:]), dtype=rows.dtype)])

    indptr = np.pad(model.seen.indptr, (0, len(new)), mode="edge")
    shape = (len(known) + len(new), len(model.items))
    seen = sp.csr_array((model.seen.data, model.seen.indices, indptr), shape=shape)
    return replace(
        model,
        users=model.users + new,
        user_vectors=longer(model.user_vectors),
        in_release=longer(model.in_release),
        seen=seen,
        encoders=replace(encoders, rows=longer(encoders.rows)),
    )


def _recomputed(model: FittedModel, users: IntArray) -> FittedModel:
    """Return the model with the vectors of these users computed from their histories and rows as they are now."""
    encoders, trust = _require_encoders(model), model.chosen.trust
    vectors = model.user_vectors.copy()
    own = encoders.user_vectors(model.seen[users], encoders.rows[users], trust or UNTRUSTED)
    vectors[users, : own.shape[1]] = own  # what a base adds, after them, was learnt for each user alone
    return replace(model, user_vectors=vectors)
