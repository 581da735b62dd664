"""The models being served: a snapshot is one loaded model, and is replaced when its folder changes."""

import hashlib
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import numpy as np
from pydantic import Field

from pricdr.errors import InputError, PriCDRError, printable
from pricdr.models.fitted import FittedModel
from pricdr.models.folder import certificate_name
from pricdr.models.recommend import BASES, Basis
from pricdr.serving.log import Report
from pricdr.serving.search import Ranked, Search, SimilarItems, build_search, rank_rows, seen_items

_FILES: Final = ("model.json", "model.safetensors", "users.txt", "items.txt", *map(certificate_name, range(1, 65)))
"""The files of a model folder; the last exist only if the model was trained with releases."""
MAX_K: Final = 1000  # the most items in one answer


class ItemsQuery(NamedTuple):
    """A request for the ``k`` best items of a user, or for the ``k`` items most like an item."""

    id: str
    k: int


@dataclass(slots=True)
class RecommendedItem:
    """One recommended item; ranks are counted from 1."""

    item: str
    score: float
    rank: Annotated[int, Field(ge=1)]


@dataclass(slots=True)
class Answer:
    """The best unseen items of one user, best first, and what they are based on.

    The basis is history, the user's own ratings; release, the user's row in the source's release; both; or popularity:
    nothing about the user, who gets the most popular items.
    """

    user: str
    basis: Basis
    items: list[RecommendedItem]


class Snapshot:
    """One loaded model with all that answers need. Unless ``exact``, an index finds among more than a million items."""

    def __init__(
        self, model: FittedModel, *, fingerprint: str = "", folder: Path = Path("model"), exact: bool = True
    ) -> None:
        self.model, self._search = build_search(model, exact=exact)
        self.folder, self.fingerprint, self.loaded_at = folder, fingerprint, time.time()
        self.name = printable(folder.name)
        self.facts: dict[str, Any] = {"model": fingerprint, "users": len(model.users), "items": len(model.items)}
        """What the log and ``/ready`` say about it."""
        self._users = {name: at for at, name in enumerate(model.users)}
        self._items = {name: at for at, name in enumerate(model.items)}
        self._bases = model.bases(np.arange(len(model.users))).astype(np.uint8)
        self._popular = self._recommended(rank_rows(model.popularity()[None, :], MAX_K)[0], MAX_K)
        self._similar = SimilarItems(self.model)
        self.compares_items = self._similar.available

    @classmethod
    def load(cls, folder: Path, *, public_key: Path | None = None, exact: bool = True) -> "Snapshot":
        """Return the model in ``folder``, checked and warmed up; see :meth:`FittedModel.load` for what is refused."""
        signature = _signature(folder)
        # Without its towers: a server folds nobody in.
        model = replace(FittedModel.load(folder, public_key=public_key), encoders=None)
        fingerprint = _fingerprint(folder)
        if _signature(folder) != signature:
            raise InputError(f"{folder} changed while it was being read")
        snapshot = cls(model, fingerprint=fingerprint, folder=folder, exact=exact)
        # A first query, so everything that is computed on first use is ready and known to work.
        snapshot.answers([ItemsQuery("", 1), *(ItemsQuery(user, 1) for user in model.users[:1])])
        snapshot.similar_to([ItemsQuery(item, 1) for item in model.items[:1]])
        return snapshot

    def knows(self, user: str) -> bool:
        """Return whether the model knows a user, from ratings or from a release."""
        return user in self._users

    def answers(self, queries: Sequence[ItemsQuery]) -> list[Answer]:
        """Return the best unseen items of each user, or the most popular items if the user is unknown."""
        positions = [self._users.get(query.id) for query in queries]
        lists = self._lists(self._search, positions, queries)
        return [
            Answer(query.id, Basis.POPULARITY, self._popular[: query.k])
            if at is None or items is None
            else Answer(query.id, BASES[self._bases[at]], items)
            for query, at, items in zip(queries, positions, lists, strict=True)
        ]

    def similar_to(self, queries: Sequence[ItemsQuery]) -> list[list[RecommendedItem] | None]:
        """Return the items most like each of some items, by the cosine of their vectors; None for an unknown one."""
        positions = [self._items.get(query.id) if self.compares_items else None for query in queries]
        return self._lists(self._similar, positions, queries)

    def _lists(
        self, search: Search | SimilarItems, positions: Sequence[int | None], queries: Sequence[ItemsQuery]
    ) -> list[list[RecommendedItem] | None]:
        known = np.array([at for at in positions if at is not None], dtype=np.int64)
        ranked = iter(search.best(known, max(query.k for query in queries)) if len(known) else ())
        return [
            None if at is None else self._recommended(next(ranked), query.k)
            for at, query in zip(positions, queries, strict=True)
        ]

    def history(self, user: str) -> list[str]:
        """Return the items that a user rated in training; none if the model was exported without histories."""
        position = self._users.get(user)
        return [] if position is None else [self.model.items[at] for at in seen_items(self.model, position)]

    def _recommended(self, ranked: Ranked, k: int) -> list[RecommendedItem]:
        items, pairs = self.model.items, zip(*(column[:k].tolist() for column in ranked), strict=True)
        return [RecommendedItem(items[at], score, rank) for rank, (at, score) in enumerate(pairs, 1)]


class WatchedModel:
    """The latest snapshot of a model folder that may be replaced, or of a link that may be moved to another one."""

    def __init__(
        self,
        folder: Path,
        *,
        load: Callable[[Path], Snapshot] = Snapshot.load,
        report: Report = lambda event, **facts: None,
    ) -> None:
        self._folder, self._load, self._report = folder, load, report
        self._loaded_signature = self._last_signature = _signature(folder)
        self.problem: str | None = None  # why the newest folder was refused; None if it was not
        self.snapshot = load(folder)  # what to answer a request from, to be asked for once in each request

    def reload_if_changed(self) -> None:
        """Load the folder if it has changed and is no longer being written."""
        signature = _signature(self._folder)
        settled, self._last_signature = signature == self._last_signature, signature
        if signature == self._loaded_signature or not settled:
            return
        self._loaded_signature = signature
        try:
            snapshot = self._load(self._folder)
        except Exception as error:  # whatever is wrong with the folder, the old model goes on answering
            self.problem = str(error) if isinstance(error, PriCDRError) else f"{self._folder}: {type(error).__name__}"
            self._report("model refused", reason=self.problem, serving=self.snapshot.fingerprint)
            return
        self.problem = None
        if snapshot.fingerprint != self.snapshot.fingerprint:  # otherwise touched or moved, but the same model
            self._report("model taken", **snapshot.facts)
            # Answers that were begun with the old snapshot hold it; it is freed after the last of them.
            freed = weakref.finalize(self.snapshot, self._report, "model freed", model=self.snapshot.fingerprint)
            freed.atexit = False
            self.snapshot = snapshot


def _signature(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return what changes when a file of a folder is written or replaced, or a link to the folder is moved."""
    found: dict[str, tuple[int, ...]] = {}
    for name in _FILES:
        with suppress(OSError):  # not there, or not readable: loading says which
            status = (folder / name).stat()
            found[name] = status.st_dev, status.st_ino, status.st_ctime_ns
    return found


def _fingerprint(folder: Path) -> str:
    """Return a short hash of all files in a model folder: two exports may differ only in their numbers."""
    digest = hashlib.sha256()
    for name in _FILES:
        with suppress(FileNotFoundError), (folder / name).open("rb") as file:
            digest.update(f"{name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return digest.hexdigest()[:12]  # enough to tell models apart by eye
