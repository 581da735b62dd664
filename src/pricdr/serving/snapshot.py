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
from pricdr.models.recommend import BASES, Basis
from pricdr.serving.search import Ranked, Search, SimilarItems, build_search, rank_rows, seen_items
from pricdr.untrusted import Folder

_CERTIFICATE: Final = "release.certificate.json"
FILES: Final = ("model.json", "model.safetensors", "users.txt", "items.txt", _CERTIFICATE)
"""The files of a model folder; the last exists only if the model was trained with a release."""
MAX_K: Final = 1000
"""The most items in one answer."""
_FINGERPRINT_DIGITS: Final = 12
"""Enough to tell models apart by eye."""


class Recommended(NamedTuple):
    """One item of an answer; ranks are counted from 1."""

    item: str
    score: float
    rank: int


class Answer(NamedTuple):
    """The recommendations of one user, and what they are based on."""

    user: str
    basis: Basis
    items: tuple[Recommended, ...]


class Query(NamedTuple):
    """A request for the ``k`` best items of a user, or for the ``k`` items most like an item."""

    id: str
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
        fingerprint = _fingerprint(folder)
        model = FittedModel.load(folder, public_key=public_key)
        if _fingerprint(folder) != fingerprint:
            raise InputError(f"{folder} changed while it was being read")
        snapshot = cls.of(model, fingerprint=fingerprint, folder=folder, exact=exact)
        # A first query, so everything that is computed on first use is ready and known to work.
        snapshot.answers([Query("", 1), *(Query(user, 1) for user in model.users[:1])])
        snapshot.similar_to([Query(item, 1) for item in model.items[:1]])
        return snapshot

    @classmethod
    def of(
        cls, model: FittedModel, *, fingerprint: str = "", folder: Path = Path("model"), exact: bool = True
    ) -> "Snapshot":
        """Return a snapshot of a model that is in memory."""
        model, search = build_search(model, exact=exact)
        return cls(model, folder, fingerprint, search)

    @property
    def name(self) -> str:
        """The name of its folder."""
        return printable(self.folder.name)

    def knows(self, user: str) -> bool:
        """Return whether the model knows a user, from ratings or from a release."""
        return user in self._users

    def recommend(self, user: str, k: int) -> Answer:
        """Return the ``k`` best unseen items of a user, or the most popular items if the user is unknown."""
        return self.answers([Query(user, k)])[0]

    def answers(self, queries: Sequence[Query]) -> list[Answer]:
        """Return the answers to several queries, in order, by one matrix product for all of them."""
        positions = [self._users.get(query.id, -1) for query in queries]
        known = np.array([position for position in positions if position >= 0], dtype=np.int64)
        ranked = iter(self.search.best(known, max(query.k for query in queries)) if len(known) else ())
        bases = iter(self._bases[known].tolist())
        return [
            Answer(query.id, Basis.POPULARITY, self._popular[: query.k])
            if position < 0
            else Answer(query.id, BASES[next(bases)], self._recommended(next(ranked), query.k))
            for query, position in zip(queries, positions, strict=True)
        ]

    @property
    def compares_items(self) -> bool:
        """Whether similar items can be found; a popularity model has no item vectors."""
        return self._similar.available

    def similar_to(self, queries: Sequence[Query]) -> list[tuple[Recommended, ...] | None]:
        """Return the items most like each of some items, by the cosine of their vectors; None for an unknown one."""
        positions = [self._items.get(query.id, -1) if self.compares_items else -1 for query in queries]
        known = np.array([position for position in positions if position >= 0], dtype=np.int64)
        ranked = iter(self._similar.best(known, max(query.k for query in queries)) if len(known) else ())
        return [
            None if position < 0 else self._recommended(next(ranked), query.k)
            for query, position in zip(queries, positions, strict=True)
        ]

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

    @cached_property
    def _bases(self) -> npt.NDArray[np.uint8]:
        """The basis of each user's answers, as positions in ``BASES``."""
        return self.model.bases(np.arange(len(self.model.users))).astype(np.uint8)

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
                digest.update(f"{name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return digest.hexdigest()[:_FINGERPRINT_DIGITS]
