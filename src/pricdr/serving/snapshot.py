"""One loaded model, ready to answer. It never changes: a new model folder becomes a new snapshot."""

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
    as_positions,
    laid_out,
    ranked_rows,
    seen_by,
)
from pricdr.untrusted.opening import Folder

_CERTIFICATE: Final = "release.certificate.json"
FILES: Final = ("model.json", "model.safetensors", "users.parquet", "items.parquet", _CERTIFICATE)
"""What a model folder consists of; the last only where it was trained with a release."""
LARGEST_K: Final = 1000
"""Items that one answer lists at most."""
_DIGITS: Final = 12
"""Of a fingerprint: enough to tell models apart by eye."""
_AT_ONCE: Final = 1 << 20


class Recommended(NamedTuple):
    """One item of an answer."""

    item: str
    score: float
    rank: int
    """From 1."""


class Answer(NamedTuple):
    """What is recommended to one user, and what that rests on."""

    user: str
    basis: Basis
    items: tuple[Recommended, ...]


class Wanted(NamedTuple):
    """What somebody asked for: so many items for a user."""

    user: str
    k: int


class UnknownItem(InputError):  # noqa: N818 - the name is what the interface is written in
    """An item that the model never met, or a model whose items cannot be compared."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A model, and what answers need of it beside the model: positions of ids, a search, what is popular."""

    model: FittedModel
    folder: Path
    fingerprint: str
    search: Search = field(repr=False)
    loaded_at: float = field(default_factory=time.time)

    @classmethod
    def load(cls, folder: Path, *, public_key: Path | None = None, exact: bool = True) -> "Snapshot":
        """Return the model in ``folder``, checked in full and tried out.

        Args:
            folder: a model folder, or a link to one.
            public_key: a PEM file; a model trained on a release is refused unless that key signed it.
            exact: score all items, however many there are; otherwise an index is built beyond a million.

        Raises:
            InputError: it is not a model, or it cannot answer.
        """
        from pricdr.serving.approximate import search_of

        before = _fingerprint(folder)
        model = FittedModel.load(folder, public_key=public_key)
        if _fingerprint(folder) != before:
            raise InputError(f"{folder} changed while it was read")
        model, search = search_of(model, exact=exact)
        snapshot = cls(model, folder, before, search)
        snapshot._try_out()
        return snapshot

    @classmethod
    def of(cls, model: FittedModel, *, fingerprint: str = "", folder: Path = Path("model")) -> "Snapshot":
        """Return a model that was never saved, ready to answer: for tests and measurements."""
        model = laid_out(model)
        return cls(model, folder, fingerprint, ExactSearch(model))

    @property
    def name(self) -> str:
        """What its folder is called."""
        return printable(self.folder.name)

    @property
    def n_users(self) -> int:
        """How many users it knows."""
        return len(self.model.users)

    @property
    def n_items(self) -> int:
        """How many items it recommends from."""
        return len(self.model.items)

    def knows(self, user: str) -> bool:
        """Return whether the model has met a user, in ratings or in a release."""
        return user in self._users

    def recommend(self, user: str, k: int) -> Answer:
        """Return the ``k`` best unseen items of a user, or what is popular where the model never met the user."""
        return self.answers([Wanted(user, k)])[0]

    def answers(self, wanted: Sequence[Wanted]) -> list[Answer]:
        """Return the answers to several questions at once, in their order: one matrix product for all of them."""
        places = [self._users.get(one.user, -1) for one in wanted]
        known = as_positions([place for place in places if place >= 0])
        most = max((one.k for one in wanted), default=1)
        ranked = iter(self.search.best(known, most) if len(known) else ())
        bases = iter(self._bases[known].tolist())
        return [
            Answer(one.user, Basis.POPULARITY, self._popular[: one.k])
            if place < 0
            else Answer(one.user, BASES[next(bases)], self._named(next(ranked), one.k))
            for one, place in zip(wanted, places, strict=True)
        ]

    def similar(self, item: str, k: int) -> tuple[Recommended, ...]:
        """Return the ``k`` items most like this one, by the cosine of their vectors."""
        place = self._items.get(item)
        if place is None:
            raise UnknownItem("the model does not know this item")
        if not self._similar.possible:
            raise UnknownItem("this model has no vectors of items: it cannot tell which are alike")
        return self._named(self._similar.best(place, k), k)

    def history(self, user: str) -> tuple[str, ...]:
        """Return what a user rated in training; nothing where the model was exported without histories."""
        place = self._users.get(user)
        if place is None:
            return ()
        return tuple(self.model.items[at] for at in seen_by(self.model, place).tolist())

    def _named(self, ranked: Ranked, k: int) -> tuple[Recommended, ...]:
        items = self.model.items
        pairs = zip(ranked.items[:k].tolist(), ranked.scores[:k].tolist(), strict=True)
        return tuple([Recommended(items[at], score, rank) for rank, (at, score) in enumerate(pairs, 1)])

    def _try_out(self) -> None:
        """Answer once, so that everything that is made at the first answer is there, and works, before anybody asks."""
        self.answers([Wanted("", 1), *(Wanted(user, 1) for user in self.model.users[:1])])
        if self._similar.possible and self.model.items:
            self.similar(self.model.items[0], 1)

    @cached_property
    def _bases(self) -> npt.NDArray[np.uint8]:
        """What the answers of each user rest on, as positions in ``BASES``."""
        return self.model.bases(np.arange(self.n_users)).astype(np.uint8)

    @cached_property
    def _users(self) -> dict[str, int]:
        return {name: at for at, name in enumerate(self.model.users)}

    @cached_property
    def _items(self) -> dict[str, int]:
        return {name: at for at, name in enumerate(self.model.items)}

    @cached_property
    def _popular(self) -> tuple[Recommended, ...]:
        """What everybody gets whom the model never met."""
        return self._named(ranked_rows(self.model.popularity()[None, :], LARGEST_K)[0], LARGEST_K)

    @cached_property
    def _similar(self) -> SimilarItems:
        return SimilarItems(self.model)


def _fingerprint(folder: Path) -> str:
    """Return a short hash of everything in a model folder: two exports may differ in their numbers alone."""
    digest = hashlib.sha256()
    with Folder.opened(folder, "a model") as opened:
        for name in FILES:
            if name == _CERTIFICATE and not opened.holds(name):
                continue
            with opened.file(name, limit=2**63 - 1) as descriptor, open(descriptor, "rb", closefd=False) as file:
                size = 0
                while block := file.read(_AT_ONCE):
                    digest.update(block)
                    size += len(block)
                digest.update(f"{name} {size}\n".encode())
    return digest.hexdigest()[:_DIGITS]
