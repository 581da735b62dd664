"""``spectral``: taste directions learnt from the source's own ratings, inside the mechanism."""

from dataclasses import dataclass, replace
from enum import Enum
from typing import ClassVar, Final

from pricdr.data.ratings import CSR, Ids
from pricdr.errors import ParameterError, require_count, require_not_negative, require_positive, require_probability
from pricdr.privacy.guarantee import Guarantee
from pricdr.privacy.guide import guide
from pricdr.privacy.item_model import BUCKET_CAP, Group, ItemModel, into_buckets, round_shares, step_name
from pricdr.privacy.mechanism import MOST_ITEMS
from pricdr.privacy.run import Entries, Run, Secrets, erasing
from pricdr.privacy.steps import Declared, Kind, Payer, Step
from pricdr.privacy.strategies.base import FloatArray
from pricdr.privacy.strategies.learnt import InnerRows, as_published, dim_for, row_step, spread, user_rows
from pricdr.privacy.sums import Float64Array

MOST_ROUNDS: Final = 8


class LearnFrom(Enum):
    """Whose ratings the item model is learnt from."""

    LISTED = "listed"
    ALL = "all"
    """Users outside the list too: their rows are never published."""


@dataclass(frozen=True, kw_only=True)
class Spectral:
    """Three things in one release, each with a part of the budget: an item model, first rows, final rows.

    The item model gives items directions from noisy sums over their raters. First rows add them up for every user. The
    final rows use those first rows as a guide (:mod:`pricdr.privacy.sums`), and they alone are published.
    """

    name: ClassVar[str] = "spectral"
    rows_cancel: ClassVar[bool] = False
    needs_catalogue: ClassVar[bool] = False
    """Without a catalogue items are hashed into a declared number of buckets."""
    learns: ClassVar[bool] = True

    dim: int | None = None
    """Columns of the published matrix; None takes 8, or 4 below ε = 4."""
    buckets: int = 1 << 16
    """How many there are where no item universe is declared."""
    learn_from: LearnFrom = LearnFrom.LISTED
    rounds: int = 2
    item_share: float = 0.25
    """Of μ², for the item model."""
    first_share: float = 0.25
    """Of μ², for the first rows; the final rows get the rest."""
    count_weight: float = 0.3
    user_prior: float = 4.0
    item_prior: float = 5.0
    floor: float = 0.02

    def __post_init__(self) -> None:
        if self.dim is not None:
            require_count(dim=self.dim)
            object.__setattr__(self, "dim", int(self.dim))
        require_count(buckets=self.buckets, rounds=self.rounds)
        if self.buckets > MOST_ITEMS or self.rounds > MOST_ROUNDS:
            raise ParameterError(
                f"at most {MOST_ITEMS:,} buckets and {MOST_ROUNDS} rounds, got {self.buckets}, {self.rounds}"
            )
        require_probability(item_share=self.item_share, first_share=self.first_share, floor=self.floor)
        require_positive(count_weight=self.count_weight)
        require_not_negative(user_prior=self.user_prior, item_prior=self.item_prior)
        if self.item_share + self.first_share >= 1:
            raise ParameterError(f"item_share and first_share leave nothing: {self.item_share} + {self.first_share}")

    def with_dim(self, dim: int | None) -> "Spectral":
        """The same strategy with ``dim`` columns, or with the choice left open."""
        return replace(self, dim=dim)

    def resolved(self, guarantee: Guarantee, users: Ids) -> "Spectral":
        """With the dimension that suits ε."""
        return self if self.dim is not None else self.with_dim(dim_for(guarantee))

    def parameters(self) -> dict[str, float]:
        """Every constant of the method."""
        return {
            "buckets": float(self.buckets),
            "learn_from_all": float(self.learn_from is LearnFrom.ALL),
            "rounds": float(self.rounds),
            "item_share": self.item_share,
            "first_share": self.first_share,
            "count_weight": self.count_weight,
            "user_prior": self.user_prior,
            "item_prior": self.item_prior,
            "floor": self.floor,
        }

    @classmethod
    def described(cls, dim: int, parameters: dict[str, float]) -> "Spectral":
        """The strategy that a certificate describes."""
        given = dict(parameters)
        everybody = given.pop("learn_from_all")
        whole = {name: int(given.pop(name)) for name in ("buckets", "rounds")}
        return cls(dim=dim, learn_from=LearnFrom.ALL if everybody else LearnFrom.LISTED, **whole, **given)  # type: ignore[arg-type]

    def steps(self, declared: Declared) -> tuple[Step, ...]:
        """The item model's rounds, first rows, final rows."""
        assert self.dim is not None, "the dimension is settled before the steps are laid out"
        rows = self.buckets if declared.items is None else declared.items
        widest = spread(declared) * (BUCKET_CAP if declared.items is None else 1)
        payers = [(Payer.LISTED, "", self.item_share)]
        if self.learn_from is LearnFrom.ALL:
            payers.append((Payer.UNLISTED, Payer.UNLISTED.value, 1.0))
        found = [
            Step(
                name=step_name(number, label),
                purpose=f"learns which way items point, round {number} of {self.rounds}",
                sensitivity=declared.change * (1 + self.count_weight**2) ** 0.5,
                share=whole * share,
                rows=rows,
                numbers=self.dim + 1,
                moved=rows * (self.dim + 1),
                spread=widest,
                kind=Kind.COUNTED,
                published=False,
                payer=payer,
            )
            for number, share in enumerate(round_shares(self.rounds), 1)
            for payer, label, whole in payers
        ]
        rest = 1 - self.item_share - self.first_share
        first = "adds up each user's items, to guide the last step"
        last = "adds up each user's items, along directions that their raters gave them"
        found.append(
            row_step("first rows", first, declared, self.dim, self.first_share, kind=Kind.GIVEN, published=False)
        )
        found.append(row_step("rows", last, declared, self.dim, rest, kind=Kind.LEARNT, published=True))
        return tuple(found)

    def publish(self, entries: Entries, run: Run) -> FloatArray:
        """The final rows; everything learnt about items is erased."""
        assert self.dim is not None, "the dimension is settled before the steps are laid out"
        with erasing() as secrets:
            first = self._first_rows(entries, run, secrets)
            inner = InnerRows(self.item_prior)
            return as_published(inner.publish("rows", entries, guide(first, self.dim), run, secrets))

    def _first_rows(self, entries: Entries, run: Run, secrets: Secrets) -> Float64Array:
        assert self.dim is not None
        listed = self._by_row(entries, entries.listed, run)
        groups = [Group(listed, entries.value, 1.0 if entries.unlisted is None else self.item_share)]
        if entries.unlisted is not None:
            # Their noise has a 1/item_share times smaller variance: weights are inverse to it.
            others = self._by_row(entries, entries.unlisted, run)
            groups.append(Group(others, entries.value, 1.0, Payer.UNLISTED.value))
        model = ItemModel(
            dim=self.dim,
            rounds=self.rounds,
            count_weight=self.count_weight,
            user_prior=self.user_prior,
            floor=self.floor,
        )
        items = model.learn(groups, listed.shape[1], run, secrets)
        return user_rows("first rows", replace(entries, listed=listed), items, run, secrets)

    def _by_row(self, entries: Entries, matrix: CSR, run: Run) -> CSR:
        """Users x rows of the item model: the declared items, or buckets that items are hashed into."""
        if entries.universe_declared:
            return matrix
        cap = BUCKET_CAP * entries.most
        return into_buckets(matrix, entries.items, self.buckets, run.randomness.stream("buckets"), cap=cap)
