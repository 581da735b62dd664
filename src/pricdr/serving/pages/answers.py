"""What the page says about one user: the items, what they rest on, and what moves from one model to another."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pricdr.models.recommendations import Basis
from pricdr.pages import Cell, Column, Row, Table
from pricdr.serving.snapshot import Answer, Recommended, Snapshot

_SHOWN: Final = 50
"""Own items that are listed; there may be thousands."""
_RESTS_ON: Final = {
    Basis.BOTH: "These rest on two things: what the user rated here, and the user's row in the release.",
    Basis.HISTORY: "These rest on what the user rated here. No row of a release is used for this user.",
    Basis.RELEASE: "These rest on the user's row in the release: the user's own ratings here, if any, are not used.",
    Basis.POPULARITY: "The model uses nothing about this user. These are the items that most people rated.",
}
_UNKNOWN: Final = (
    "The model does not know this id: no ratings and no release row. Whoever it knows nothing about gets what is "
    "popular, in the same order."
)
BASIS_NAMES: Final = {
    Basis.BOTH: "own history and release",
    Basis.HISTORY: "own history",
    Basis.RELEASE: "release",
    Basis.POPULARITY: "popularity",
}
"""The tag beside a model's name."""


@dataclass(frozen=True)
class UserAnswer:
    """What one model recommends to a user, ready to be shown."""

    model: str
    basis: str
    rests_on: str
    table: Table
    known: bool
    own_items: tuple[str, ...]
    """The first of what the user rated in training."""
    own_count: int
    keeps_histories: bool
    """Whether the model folder says what users rated; an exported one does not."""


def answered(snapshot: Snapshot, user: str, k: int) -> tuple[Answer, UserAnswer]:
    """Return what a model recommends to a user, as it is and ready to be shown."""
    answer = snapshot.recommend(user, k)
    return answer, _shown(snapshot, answer, _alone(answer, k))


def compared(snapshots: Sequence[Snapshot], user: str, k: int) -> tuple[list[UserAnswer], str]:
    """Return what two models recommend to a user, each beside the other, and what moved in one sentence."""
    first, second = (snapshot.recommend(user, k) for snapshot in snapshots)
    names = [snapshot.name for snapshot in snapshots]
    tables = [
        _beside(answer, other, name, number)
        for number, (answer, other, name) in enumerate(((first, second, names[1]), (second, first, names[0])), 1)
    ]
    shown = [
        _shown(snapshot, answer, table)
        for snapshot, answer, table in zip(snapshots, (first, second), tables, strict=True)
    ]
    return shown, moved(first.items, second.items, *names)


def moved(first: Sequence[Recommended], second: Sequence[Recommended], name: str, other: str) -> str:
    """Return in one sentence how two lists differ."""
    ranks = {one.item: one.rank for one in second}
    common = [one for one in first if one.item in ranks]
    if len(common) == len(first) == len(second) and all(ranks[one.item] == one.rank for one in common):
        return f"“{name}” and “{other}” recommend the same items in the same order."
    still = sum(ranks[one.item] == one.rank for one in common)
    return (
        f"In both lists: {len(common)} of {len(first)} items, {still} of them at the same rank. Only in “{name}”: "
        f"{len(first) - len(common)}. Only in “{other}”: {len(second) - len(common)}."
    )


def change(rank: int, other: int | None) -> str:
    """Return where another model has an item.

    >>> change(2, 5), change(5, 2), change(3, 3), change(1, None)
    ('↑ 3 higher', '↓ 3 lower', 'same rank', 'only here')
    """
    if other is None:
        return "only here"
    if other == rank:
        return "same rank"
    return f"↑ {other - rank} higher" if other > rank else f"↓ {rank - other} lower"


def _shown(snapshot: Snapshot, answer: Answer, table: Table) -> UserAnswer:
    own, known = snapshot.history(answer.user), snapshot.knows(answer.user)
    return UserAnswer(
        model=snapshot.name,
        basis=BASIS_NAMES[answer.basis],
        rests_on=_RESTS_ON[answer.basis] if known else _UNKNOWN,
        table=table,
        known=known,
        own_items=own[:_SHOWN],
        own_count=len(own),
        keeps_histories=snapshot.model.summary is None,
    )


def _alone(answer: Answer, k: int) -> Table:
    columns = [Column("rank"), Column("item", numeric=False), Column("score")]
    rows = [Row([Cell(str(one.rank)), Cell(one.item), Cell(f"{one.score:.4g}")]) for one in answer.items]
    few = "" if len(answer.items) == k else "There are no more items that the user has not rated."
    note = f"{few} A score orders the items of one user; it is no probability.".strip()
    return Table("items-1", "Recommended items, best first", columns, rows, note=note)


def _beside(answer: Answer, other: Answer, other_name: str, number: int) -> Table:
    ranks = {one.item: one.rank for one in other.items}
    columns = [Column("rank"), Column("item", numeric=False), Column(f"beside “{other_name}”", numeric=False)]
    rows = [
        Row([Cell(str(one.rank)), Cell(one.item), Cell(change(one.rank, ranks.get(one.item)))]) for one in answer.items
    ]
    return Table(f"items-{number}", "Recommended items, best first", columns, rows)
