"""``FittedModel``: what every method returns. Vectors of users and items, and a bias per item.

Vectors may be dense or sparse (an item-kNN's user vector is the user's row of ratings). Methods with a network over
pairs add an :class:`Interaction`. Scoring, recommending and evaluating need only numpy, and torch where there is an
interaction.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pricdr.arrays import Float32Array, IntArray
from pricdr.data.csr import CSR, sp
from pricdr.data.ids import as_ids
from pricdr.data.ratings import Ids, IdsLike, Ratings, RatingsLike
from pricdr.errors import InputError, printable
from pricdr.models.interaction import MAX_SCORE, Interaction, largest
from pricdr.models.recommend import (
    BASES,
    SCORES_AT_ONCE,
    Basis as Basis,
    Recommendation as Recommendation,
    Recommendations as Recommendations,
    Recommender,
    WrittenRecommendations as WrittenRecommendations,
)
from pricdr.pages import summary_html
from pricdr.progress import Progress, shown

if TYPE_CHECKING:
    from pricdr.models.fold_in import Encoders
    from pricdr.release import Release
    from pricdr.release.certificate import Certificate


class Trust(NamedTuple):
    """How far a source is trusted, from 0 (not at all) to 1, for users with target history and without."""

    warm: float
    cold: float


TRUSTED: Final = Trust(1.0, 1.0)
UNTRUSTED: Final = Trust(0.0, 0.0)


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """What validation chose, for a training on everything to follow, and for people to read."""

    epochs: Mapping[str, int] = field(default_factory=dict)
    """The best epoch of each network, by the name it has in the log."""
    trust: Trust | None = None
    """How far the source is trusted; None for a method that sees no source, or trusts it always."""
    settings: Mapping[str, float] = field(default_factory=dict)
    """Settings that a method without epochs chose by itself."""
    evidence: tuple[float, ...] | None = None
    """The p-value of each source's evidence test; None where it was not made: without a release, or without gates."""
    used: tuple[int, ...] | None = None
    """Which of the sources are used, by their numbers in ``Origin.releases``; None for every one."""
    not_chosen: str = ""
    """Why nothing could be set aside to choose by; empty where it could, or where nothing was to be chosen."""

    def facts(self) -> dict[str, str]:
        """Return what was chosen, in words."""
        facts = {}
        if self.epochs:
            facts["epochs"] = ", ".join(f"{network} {epoch:,}" for network, epoch in self.epochs.items())
        if self.settings:
            facts["settings"] = ", ".join(f"{name} {value:g}" for name, value in self.settings.items())
        if len(self.evidence or ()) > 1:
            facts["sources used"] = ", ".join(str(number + 1) for number in self.used or ()) or "none"
        if self.trust is not None:
            facts["trust"] = "{:.0%} for warm users and {:.0%} for cold ones".format(*self.trust)
        return facts


NOTHING_CHOSEN = Chosen()
MAX_RELEASES: Final = 512  # of those that a model was trained with and those that were folded in later
_MAX_GROUPS: Final = 8
Vectors: TypeAlias = Any  # one row per user or item: a float32 array, or a CSR matrix where rows are mostly zero


@dataclass(frozen=True, eq=False)
class HistorySummary:
    """What an exported model keeps of the histories it was trained on."""

    item_counts: Float32Array  # how often each item was rated in training
    has_history: npt.NDArray[np.bool_]  # which users rated anything in training


@dataclass(frozen=True)
class ReleaseOrigin:
    """A release that a model was trained with."""

    sha256: str  # of its matrix file
    signed_by: str | None = None  # the public key, in base64, that its signature was checked with
    verified: bool | None = field(default=None, compare=False)  # before use; None where that is not recorded
    covers: tuple[int, int] | None = field(default=None, compare=False)  # of the target's users, and of how many
    certificate: "Certificate | None" = field(default=None, compare=False)  # None where none was kept
    source: int = 0  # which of the sources it is of: the releases of a series are added up, and are one

    @classmethod
    def of(
        cls, release: "Release", covers: tuple[int, int], source: int = 0, *, allow_not_private: bool
    ) -> "ReleaseOrigin":
        """Return what a model records of a release that it uses; refuse one that must not be used."""
        certificate = release.certificate
        if not certificate.private and not allow_not_private:
            raise InputError(
                "the release is marked NOT PRIVATE and must not be used "
                "(allow_not_private, or --allow-not-private, is for experiments)"
            )
        # Only a signature that was checked says anything about who made the release.
        signed_by = certificate.signed_by if release.verified else None
        return cls(release.sha256(), signed_by, release.verified, covers, certificate, source)


@dataclass(frozen=True)
class Origin:
    """What a model was trained with and on."""

    settings: Mapping[str, Mapping[str, object]]
    """Every setting of its method, by group."""
    trained_on: str | None
    """Fingerprint of the training ratings; None in an exported model, since it could confirm a guess at them."""
    releases: tuple[ReleaseOrigin, ...] = ()
    """What it was given, in the order it was given in; ``Chosen.used`` says which of them it uses."""
    plaintext_source: bool = False
    """NOT PRIVATE: the source's ratings were used in plaintext."""
    software: str | None = field(default=None, compare=False)
    """The software it was trained with, such as ``pricdr 0.9.0``."""


@dataclass(frozen=True, eq=False)
class FittedModel:
    """score(u, i) = ⟨user vector, item vector⟩ + item bias (+ an interaction of the two)."""

    method: str
    users: Ids
    items: Ids
    user_vectors: Vectors
    item_vectors: Vectors
    item_bias: Float32Array
    seen: CSR
    """What each user rated in training, which is never recommended. Empty in an exported model."""
    in_release: npt.NDArray[np.bool_]
    """Which users have a row that the model uses: a column for each release in use, or a mask where there is one."""
    interaction: Interaction | None = None
    uses_history: bool = True
    """False if a user's scores do not depend on the user's own ratings."""
    summary: HistorySummary | None = None
    """In an exported model, the replacement of ``seen``."""
    encoders: "Encoders | None" = None
    """What the vectors of users were made of, to fold in others; None where a method cannot."""
    chosen: Chosen = NOTHING_CHOSEN
    """What validation chose in training."""
    origin: Origin | None = None
    """What it was trained with and on; ``fit`` fills it in."""

    def __post_init__(self) -> None:
        if self.in_release.ndim == 1:
            object.__setattr__(self, "in_release", self.in_release[:, None])
        per_user = [self.user_vectors.shape[0], len(self.in_release)]
        per_item = [self.item_vectors.shape[0], len(self.item_bias)]
        if self.interaction is not None:
            per_user.append(len(self.interaction.user_parts))
            per_item.append(len(self.interaction.item_parts))
        if self.encoders is not None:
            per_user.append(len(self.encoders.rows))
            used = self.in_release.shape[1]
            self.encoders.require_fitting(len(self.items), self.user_vectors.shape[1], used)
        if self.summary is not None:
            per_user.append(len(self.summary.has_history))
            per_item.append(len(self.summary.item_counts))
        fits = self.seen.shape == (len(self.users), len(self.items))
        if not fits or {*per_user} != {len(self.users)} or {*per_item} != {len(self.items)}:
            raise InputError(f"the model's arrays do not fit {len(self.users)} users and {len(self.items)} items")
        widths = self.user_vectors.shape[1], self.item_vectors.shape[1]
        if widths[0] != widths[1]:
            raise InputError("user vectors have {} numbers, item vectors {}".format(*widths))
        users, items = (v.data if isinstance(v, sp.csr_array) else v for v in (self.user_vectors, self.item_vectors))
        bound = largest(users) * largest(items) * widths[0]
        bound += largest(self.item_bias) + (0.0 if self.interaction is None else self.interaction.largest_score())
        if self.summary is not None:
            bound += largest(self.summary.item_counts)
        if not bound <= MAX_SCORE:
            raise InputError(f"a model must consist of finite numbers, and none of its scores may exceed {MAX_SCORE:g}")

    def __repr__(self) -> str:
        """Show sizes only: a repr ends up in logs, and who rated what must not."""
        sizes = f"{len(self.users)} users x {len(self.items)} items"
        releases = () if self.origin is None else self.origin.releases
        covered = f", {len(releases)} releases" if len(releases) > 1 else ""
        if len(releases) == 1 and releases[0].covers is not None:
            covered = ", the release covers {:,} of {:,} users".format(*releases[0].covers)
        return f"FittedModel({printable(self.method)}, {sizes}{covered})"

    def _repr_html_(self) -> str:
        """Show sizes and choices in a notebook; no fingerprint, by which a guess at the ratings could be confirmed."""
        origin, chosen = self.origin, self.chosen
        plaintext = origin is not None and origin.plaintext_source
        facts = {
            "method": self.method,
            "users": f"{len(self.users):,}",
            "of them in the source": f"{int(self.in_release.any(axis=1).sum()):,}",
            "items": f"{len(self.items):,}",
        }
        if origin is not None:
            given = " and a release" if len(origin.releases) == 1 else f" and {len(origin.releases)} releases"
            source = " and the source's ratings" if plaintext else given if origin.releases else " alone"
            facts["trained on"] = f"target ratings{source}"
            if origin.releases:
                signers = (release.signed_by or "nobody that was checked" for release in origin.releases)
                facts["release signed by"] = "; ".join(signers)
        facts |= chosen.facts()
        if chosen.not_chosen:
            facts["nothing chosen"] = chosen.not_chosen
        if self.summary is not None:
            facts["training ratings"] = "not in it: it was exported without them"
        warning = "NOT PRIVATE: it was trained on the source's ratings as they are" if plaintext else ""
        return summary_html("FittedModel", facts, warning=warning)

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write a model folder, completely or not at all, for its owner alone: it holds ratings or what they taught."""
        from pricdr.files import new_folder
        from pricdr.models.folder import write_model

        with new_folder(Path(folder), private=True) as staging:
            write_model(staging, self)
        return Path(folder)

    @classmethod
    def load(cls, folder: str | os.PathLike[str], *, public_key: str | os.PathLike[str] | None = None) -> "FittedModel":
        """Return the model in ``folder``, or refuse a folder that is corrupt or not a model (``InputError``).

        With ``public_key`` (a PEM file), a model is refused unless that key signed the release it was trained on.
        """
        from pricdr.models.folder import read_model

        return read_model(Path(folder), public_key=None if public_key is None else Path(public_key))

    def score(self, users: IntArray, items: slice | None = None, *, out: Float32Array | None = None) -> Float32Array:
        """Return the scores of all items, or a slice, a row for each user position; ``out`` may be used for them."""
        items = None if items is None or (items.start, items.stop) == (0, len(self.items)) else items
        vectors, bias = self.item_vectors, self.item_bias
        if items is not None:
            vectors, bias = vectors[items], bias[items]
        if isinstance(self.user_vectors, np.ndarray) and isinstance(vectors, np.ndarray):
            scores: Float32Array = np.matmul(self.user_vectors[users], vectors.T, out=out)
        else:
            product = self.user_vectors[users] @ vectors.T
            scores = np.asarray(product if isinstance(product, np.ndarray) else product.toarray(), dtype=np.float32)
        scores += bias
        return scores if self.interaction is None else scores + self.interaction.score(users, items)

    def score_candidates(self, users: IntArray, candidates: IntArray) -> Float32Array:
        """Return the scores of a few items for each user: row r of ``candidates`` for the user at ``users[r]``."""
        if self._is_sparse:
            # Multiplying sparse rows is cheaper than picking items from them: all items, for some users at a time.
            scores = np.empty(candidates.shape, dtype=np.float32)
            at_once = max(1, SCORES_AT_ONCE // max(len(self.items), 1))
            for start in range(0, len(users), at_once):
                block = slice(start, start + at_once)
                scores[block] = np.take_along_axis(self.score(users[block]), candidates[block], axis=1)
            return scores
        # One small product per user: scoring all items for a hundred candidates would be wasteful.
        scores = np.einsum("uw,ucw->uc", self.user_vectors[users], self.item_vectors[candidates])
        scores = np.asarray(scores + self.item_bias[candidates], dtype=np.float32)
        return scores if self.interaction is None else scores + self.interaction.score_candidates(users, candidates)

    def bases(self, users: IntArray) -> IntArray:
        """Return what the recommendations of users are based on, as positions in ``BASES``; −1 is an unknown user."""
        if not self.user_vectors.shape[1] and self.interaction is None:
            return np.full(len(users), BASES.index(Basis.POPULARITY))
        released, history = np.zeros((2, len(users)), dtype=bool)
        known = users >= 0
        released[known] = self.in_release[users[known]].any(axis=1)
        history[known] = self._has_history[users[known]] & self.uses_history
        choices = [released & history, released, history]
        bases = [BASES.index(basis) for basis in (Basis.BOTH, Basis.RELEASE, Basis.HISTORY)]
        return np.select(choices, bases, BASES.index(Basis.POPULARITY))

    def release_groups(self) -> list[tuple[tuple[int, ...], npt.NDArray[np.bool_]]]:
        """Return masks of users by the sources that serve them, numbered from 1, none last; one mask if too many."""
        used, table = self.chosen.used, self.in_release
        # No column where what was chosen says that none is trusted.
        numbers = np.array(used or range(table.shape[1]), dtype=np.int64)[: table.shape[1]]
        combinations = np.unique(table, axis=0)[::-1]
        if len(combinations) > _MAX_GROUPS:
            every, covered = tuple((numbers + 1).tolist()), np.asarray(table.any(axis=1))
            return [(every, covered), ((), ~covered)]
        return [(tuple((numbers[row] + 1).tolist()), (table == row).all(axis=1)) for row in combinations]

    def popularity(self) -> Float32Array:
        """Return how often each item was rated in training."""
        if self.summary is not None:
            return self.summary.item_counts.copy()
        return np.bincount(self.seen.indices, minlength=len(self.items)).astype(np.float32)

    def without_histories(self) -> "FittedModel":
        """Return the model without the training ratings; it can then no longer exclude rated items on its own.

        Its numbers were still learnt from the ratings: it is neither anonymous nor differentially private.
        """
        if self._is_sparse:
            raise InputError(
                f"a model of method {self.method} scores by the ratings themselves: it cannot be exported without them"
            )
        return replace(
            self,
            seen=sp.csr_array((len(self.users), len(self.items))),
            encoders=None,  # without histories there is nothing to fold others into
            summary=HistorySummary(self.popularity(), self._has_history),
            origin=None if self.origin is None else replace(self.origin, trained_on=None),
        )

    def with_ratings(self, more: RatingsLike) -> "FittedModel":
        """Return the model with these ratings added: users who are new, and longer histories, without training again.

        Items that the model does not know are left out. A model is refused if its method does not keep the towers that
        make vectors of histories, or if it was exported without its ratings.
        """
        from pricdr.models.fold_in import with_ratings

        return with_ratings(self, Ratings.of(more))

    def with_release(self, newer: "Release | Sequence[Release]", *, allow_not_private: bool = False) -> "FittedModel":
        """Return the model with the rows of a newer release of the same source, without training again.

        Users who are in it alone are served from now on; those who have a row already get the sum of both. Of a series,
        all releases may be given: their sum takes the place of the rows that the model has. A release whose rows are
        hardly related to those the model was trained with is refused.
        """
        from pricdr.models.fold_in import with_release

        return with_release(self, newer, allow_not_private=allow_not_private)

    def recommend(self, users: IdsLike, k: int = 10, *, seen: RatingsLike | None = None) -> Recommendations:
        """Return the ``k`` best unseen items of each user, best first; unknown users get popular items.

        A user who has rated almost everything gets fewer than ``k``. The result is a list that converts to a data
        frame, and names the unknown users.

        Args:
            users: ids in a list, an array or a column; whole numbers stand for their decimal text.
            k: items per user.
            seen: ratings, or a data frame of them, whose items are left out too; by an exported model, nothing else is.
        """
        recommender = self._recommender(users, k, seen)
        columns = (recommender.columns(part).values() for part in recommender.parts())
        rows = (row for part in columns for row in zip(*(column.tolist() for column in part), strict=True))
        found = (Recommendation(user, item, score, rank, Basis(basis)) for user, item, score, rank, basis in rows)
        return Recommendations(found, unknown_users=recommender.unknown_users)

    def recommend_to(
        self,
        path: str | os.PathLike[str],
        users: IdsLike | None = None,
        k: int = 10,
        *,
        seen: RatingsLike | None = None,
        resume: bool = False,
        progress: Progress | bool = False,
    ) -> WrittenRecommendations:
        """Write the recommendations for any number of users to a file, and return a summary.

        Memory does not grow with users x items, and hardly with users: they are processed in parts, which are kept in
        a hidden folder beside ``path`` until the file is complete. A stopped run can be resumed from there.

        Args:
            path: the file to create, ``.parquet`` or ``.csv``; it must not exist yet.
            users: ids; None means all users of the model.
            k: items per user.
            seen: ratings whose items are left out too.
            resume: continue with the parts that a run of the same model, users and ``k`` has left.
            progress: True shows progress; a function is called after every block of users.
        """
        from pricdr.models.recommendation_files import write_recommendations

        recommender = self._recommender(self.users if users is None else users, k, seen)
        with shown(progress) as report:
            return write_recommendations(Path(path), recommender, resume=resume, progress=report)

    def _recommender(self, users: IdsLike, k: int, seen: RatingsLike | None) -> Recommender:
        ids = self.users if users is self.users else as_ids("users", users)
        return Recommender(self, ids, k, None if seen is None else Ratings.of(seen))

    @property
    def _is_sparse(self) -> bool:
        return isinstance(self.user_vectors, sp.csr_array) or isinstance(self.item_vectors, sp.csr_array)

    @cached_property
    def _has_history(self) -> npt.NDArray[np.bool_]:
        return np.diff(self.seen.indptr) > 0 if self.summary is None else self.summary.has_history
