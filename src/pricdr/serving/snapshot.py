"""One loaded model, ready to answer queries. It never changes: a new model folder becomes a new snapshot."""

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pricdr.errors import InputError, printable
from pricdr.models.fitted import FittedModel
from pricdr.models.recommendations import Basis
from pricdr.models.recommending import BASES
from pricdr.serving.search import (
    ExactSearch,
    Ranked,
    Search,
    SimilarItems,
    rank_rows,
    seen_items,
    with_fast_layout,
)
from pricdr.untrusted.opening import Folder

_CERTIFICATE: Final = "release.certificate.json"
FILES: Final = ("model.json", "model.safetensors", "users.txt", "items.txt", _CERTIFICATE)
"""The files of a model folder; the last exists only if the model was trained with a release."""
MAX_K: Final = 1000
"""The most items in one answer."""
_FINGERPRINT_DIGITS: Final = 12
"""Enough to tell models apart by eye."""
_BLOCK_BYTES: Final = 1 << 20


class Recommended(NamedTuple):
    """One item of an answer."""

    item: str
    score: float
    rank: int
    """Counted from 1."""


class Answer(NamedTuple):
    """The recommendations of one user, and what they are based on."""

    user: str
    basis: Basis
    items: tuple[Recommended, ...]


class UserQuery(NamedTuple):
    """A request for the ``k`` best items of a user."""

    user: str
    k: int


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A model with everything that answers need: positions of ids, a search, the most popular items."""

    model: FittedModel
    folder: Path
    fingerprint: str
    search: Search = field(repr=False)
    loaded_at: float = field(default_factory=time.time)

    @classmethod
    def load(cls, folder: Path, *, public_key: Path | None = None, exact: bool = True) -> "Snapshot":
        """Return the model in ``folder``, fully checked and warmed up.

        Args:
            folder: a model folder, or a link to one.
            public_key: a PEM file; a model trained on a release is refused unless that key signed it.
            exact: score all items, however many there are; otherwise more than a million items get an index.

        Raises:
            InputError: it is not a model, or it cannot answer queries.
        """
        from pricdr.serving.approximate import build_search

        fingerprint = _fingerprint(folder)
        model = FittedModel.load(folder, public_key=public_key)
        if _fingerprint(folder) != fingerprint:
            raise InputError(f"{folder} changed while it was being read")
        model, search = build_search(model, exact=exact)
        snapshot = cls(model, folder, fingerprint, search)
        snapshot._warm_up()
        return snapshot

    @classmethod
    def of(cls, model: FittedModel, *, fingerprint: str = "", folder: Path = Path("model")) -> "Snapshot":
        """Return a snapshot of a model that was never saved, for tests and benchmarks."""
        model = with_fast_layout(model)
        return cls(model, folder, fingerprint, ExactSearch(model))

    @property
    def name(self) -> str:
        """The name of its folder."""
        return printable(self.folder.name)

    @property
    def n_users(self) -> int:
        """How many users the model knows."""
        return len(self.model.users)

    @property
    def n_items(self) -> int:
        """How many items the model recommends from."""
        return len(self.model.items)

    def knows(self, user: str) -> bool:
        """Return whether the model knows a user, from ratings or from a release."""
        return user in self._users

    def recommend(self, user: str, k: int) -> Answer:
        """Return the ``k`` best unseen items of a user, or the most popular items if the user is unknown."""
        return self.answers([UserQuery(user, k)])[0]

    def answers(self, queries: Sequence[UserQuery]) -> list[Answer]:
        """Return the answers to several queries, in order, by one matrix product for all of them."""
        positions = [self._users.get(query.user, -1) for query in queries]
        known = np.array([position for position in positions if position >= 0], dtype=np.int64)
        max_k = max((query.k for query in queries), default=1)
        ranked = iter(self.search.best(known, max_k) if len(known) else ())
        bases = iter(self._bases[known].tolist())
        return [
            Answer(query.user, Basis.POPULARITY, self._popular[: query.k])
            if position < 0
            else Answer(query.user, BASES[next(bases)], self._recommended(next(ranked), query.k))
            for query, position in zip(queries, positions, strict=True)
        ]

    def similar(self, item: str, k: int) -> tuple[Recommended, ...] | None:
        """Return the ``k`` items most like this one, by the cosine of their vectors; None if it is not known."""
        return self.similar_to([(item, k)])[0]

    def similar_to(self, queries: Sequence[tuple[str, int]]) -> list[tuple[Recommended, ...] | None]:
        """Return the answers to several queries, each an item and a ``k``, in order, by one matrix product."""
        positions = [self._items.get(item, -1) for item, _ in queries] if self.has_similar_items else []
        known = np.array([position for position in positions if position >= 0], dtype=np.int64)
        ranked = iter(self._similar.best(known, max(k for _, k in queries)) if len(known) else ())
        return [
            None if position < 0 else self._recommended(next(ranked), k)
            for position, (_, k) in zip(positions or [-1] * len(queries), queries, strict=True)
        ]

    @property
    def has_similar_items(self) -> bool:
        """Whether items can be compared; a popularity model has no item vectors."""
        return self._similar.available

    def history(self, user: str) -> tuple[str, ...]:
        """Return the items that a user rated in training; none if the model was exported without histories."""
        position = self._users.get(user)
        if position is None:
            return ()
        return tuple(self.model.items[at] for at in seen_items(self.model, position).tolist())

    def _recommended(self, ranked: Ranked, k: int) -> tuple[Recommended, ...]:
        items = self.model.items
        pairs = zip(ranked.items[:k].tolist(), ranked.scores[:k].tolist(), strict=True)
        return tuple([Recommended(items[at], score, rank) for rank, (at, score) in enumerate(pairs, 1)])

    def _warm_up(self) -> None:
        """Answer a first query, so everything that is computed on first use is ready and known to work."""
        self.answers([UserQuery("", 1), *(UserQuery(user, 1) for user in self.model.users[:1])])
        if self.has_similar_items and self.model.items:
            self.similar(self.model.items[0], 1)

    @cached_property
    def _bases(self) -> npt.NDArray[np.uint8]:
        """The basis of each user's answers, as positions in ``BASES``."""
        return self.model.bases(np.arange(self.n_users)).astype(np.uint8)

    @cached_property
    def _users(self) -> dict[str, int]:
        return {name: at for at, name in enumerate(self.model.users)}

    @cached_property
    def _items(self) -> dict[str, int]:
        return {name: at for at, name in enumerate(self.model.items)}

    @cached_property
    def _popular(self) -> tuple[Recommended, ...]:
        """The answer for users whom the model does not know."""
        return self._recommended(rank_rows(self.model.popularity()[None, :], MAX_K)[0], MAX_K)

    @cached_property
    def _similar(self) -> SimilarItems:
        return SimilarItems(self.model)


def _fingerprint(folder: Path) -> str:
    """Return a short hash of all files in a model folder: two exports may differ only in their numbers."""
    digest = hashlib.sha256()
    with Folder.opened(folder, "a model") as opened:
        for name in FILES:
            if name == _CERTIFICATE and not opened.holds(name):
                continue
            with opened.file(name, limit=2**63 - 1) as descriptor, open(descriptor, "rb", closefd=False) as file:
                size = 0
                while block := file.read(_BLOCK_BYTES):
                    digest.update(block)
                    size += len(block)
                digest.update(f"{name} {size}\n".encode())
    return digest.hexdigest()[:_FINGERPRINT_DIGITS]
