"""What the page shows about one user: the recommended items, what they are based on, and how two models differ."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pricdr.models.recommend import Basis
from pricdr.pages import Cell, Column, Row, Table
from pricdr.serving.snapshot import Answer, Recommended, Snapshot

_MAX_HISTORY: Final = 50
"""How many of the user's own items are listed; there may be thousands."""
_EXPLANATIONS: Final = {
    Basis.BOTH: "These are based on what the user rated here and on the user's row in the release.",
    Basis.HISTORY: "These are based on what the user rated here. No release row is used for this user.",
    Basis.RELEASE: "These are based on the user's row in the release. Ratings by the user here, if any, are not used.",
    Basis.POPULARITY: "The model uses nothing about this user. These are the items that most people rated.",
}
_UNKNOWN: Final = (
    "The model does not know this id: it has no ratings and no release row for it. All unknown users get the same "
    "list, the most popular items."
)
BASIS_NAMES: Final = {
    Basis.BOTH: "own history and release",
    Basis.HISTORY: "own history",
    Basis.RELEASE: "release",
    Basis.POPULARITY: "popularity",
}
"""The tag next to a model's name."""


@dataclass(frozen=True)
class ModelAnswer:
    """What one model recommends to a user, ready for the template."""

    model: str
    basis: str
    explanation: str
    table: Table
    known: bool
    history: tuple[str, ...]
    """The first items that the user rated in training."""
    history_count: int
    keeps_histories: bool
    """Whether the model folder contains what users rated; an exported one does not."""


def of_models(snapshots: Sequence[Snapshot], user: str, k: int) -> tuple[list[ModelAnswer], str]:
    """Return what one or two models recommend to a user, and for two a sentence on how their lists differ."""
    found = [(snapshot, snapshot.recommend(user, k)) for snapshot in snapshots]
    if len(found) == 1:
        return [_model_answer(*found[0], _score_table(found[0][1], k))], ""
    (first, one), (second, two) = found
    tables = _comparison_table(one, two, second.name, 1), _comparison_table(two, one, first.name, 2)
    lists = [_model_answer(first, one, tables[0]), _model_answer(second, two, tables[1])]
    return lists, describe_difference(one.items, two.items, first.name, second.name)


def describe_difference(first: Sequence[Recommended], second: Sequence[Recommended], name: str, other: str) -> str:
    """Return how two lists differ, in a sentence or two."""
    ranks = {item.item: item.rank for item in second}
    common = [item for item in first if item.item in ranks]
    unmoved = sum(ranks[item.item] == item.rank for item in common)
    if unmoved == len(first) == len(second):
        return f"“{name}” and “{other}” recommend the same items in the same order."
    return (
        f"In both lists: {len(common)} of {len(first)} items, {unmoved} of them at the same rank. Only in “{name}”: "
        f"{len(first) - len(common)}. Only in “{other}”: {len(second) - len(common)}."
    )


def rank_change(rank: int, other: int | None) -> str:
    """Return how the rank of an item compares with its rank in the other model's list.

    >>> rank_change(2, 5), rank_change(5, 2), rank_change(3, 3), rank_change(1, None)
    ('↑ 3 higher', '↓ 3 lower', 'same rank', 'only here')
    """
    if other is None:
        return "only here"
    if other == rank:
        return "same rank"
    return f"↑ {other - rank} higher" if other > rank else f"↓ {rank - other} lower"


def _model_answer(snapshot: Snapshot, answer: Answer, table: Table) -> ModelAnswer:
    history, known = snapshot.history(answer.user), snapshot.knows(answer.user)
    return ModelAnswer(
        model=snapshot.name,
        basis=BASIS_NAMES[answer.basis],
        explanation=_EXPLANATIONS[answer.basis] if known else _UNKNOWN,
        table=table,
        known=known,
        history=history[:_MAX_HISTORY],
        history_count=len(history),
        keeps_histories=snapshot.model.summary is None,
    )


def _score_table(answer: Answer, k: int) -> Table:
    columns = [Column("rank"), Column("item", numeric=False), Column("score")]
    rows = [Row([Cell(str(item.rank)), Cell(item.item), Cell(f"{item.score:.4g}")]) for item in answer.items]
    short = "" if len(answer.items) == k else "There are no more items that the user has not rated."
    note = f"{short} A score orders the items of one user; it is not a probability.".strip()
    return Table("items-1", "Recommended items, best first", columns, rows, note=note)


def _comparison_table(answer: Answer, other: Answer, other_name: str, number: int) -> Table:
    ranks = {item.item: item.rank for item in other.items}
    columns = [Column("rank"), Column("item", numeric=False), Column(f"compared with “{other_name}”", numeric=False)]
    rows = [
        Row([Cell(str(item.rank)), Cell(item.item), Cell(rank_change(item.rank, ranks.get(item.item)))])
        for item in answer.items
    ]
    return Table(f"items-{number}", "Recommended items, best first", columns, rows)
