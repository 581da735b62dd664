"""``spectral``: taste directions learnt from the source's own ratings, inside the mechanism."""

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, Final, Self

import numpy as np

from pricdr.errors import ParameterError, require_count
from pricdr.privacy.accounting import Unit
from pricdr.privacy.mechanism import MOST_ITEMS
from pricdr.privacy.run import Entries, Run, Secrets, erasing
from pricdr.privacy.steps import MOST_RATINGS, Declared, Kind, Step, UserGroup
from pricdr.privacy.strategies.base import Float32Array, Strategy
from pricdr.privacy.strategies.gaussian import unit_gaussian_rows
from pricdr.privacy.strategies.item_model import BUCKET_CAP, ItemModel, into_buckets, round_shares, step_name
from pricdr.privacy.strategies.rounds import Rounds, spread
from pricdr.privacy.sums import Float64Array, whole_guide

SHARES: Final = (0.1, 0.1, 0.2, 0.6)
"""Of μ², by round: the last round's rows are what is published, so it gets most."""
WIDE: Final = 16
"""Columns of the first rounds: a random start needs some room to find what matters."""
MEDIUM: Final = 8


class LearnFrom(Enum):
    """Whose ratings directions are learnt from."""

    LISTED = "listed"
    ALL = "all"
    """Users outside the list give the first round its item vectors; they get no rows."""


def _learn_from(given: LearnFrom | str) -> LearnFrom:
    """Return the member that is given, or that a text names."""
    try:
        return LearnFrom(given)
    except ValueError as error:
        raise ParameterError(f"learn_from must be listed or all, got {given!r}") from error


@dataclass(frozen=True, kw_only=True)
class Spectral(Strategy):
    """Rounds from a random start: users' noisy rows guide the next round, and the last round's are published.

    With ``LearnFrom.ALL`` the start is an item model that the users outside the list pay for, with their whole budget:
    nobody is in both groups.
    """

    name: ClassVar[str] = "spectral"
    summary: ClassVar[str] = "taste directions learnt from the ratings, inside the promise"
    learns: ClassVar[bool] = True

    dim: int | None = None
    """Columns of the published matrix; None takes what suits ε."""
    learn_from: LearnFrom = LearnFrom.LISTED
    buckets: int = 1 << 16
    """How many buckets items are hashed into where the item universe is not declared."""
    centring: float = 0.01
    item_prior: float = 5.0
    percentile: float = 50.0
    item_rounds: int = 2
    count_weight: float = 0.3
    user_prior: float = 4.0
    floor: float = 0.02

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "learn_from", _learn_from(self.learn_from))
        require_count(buckets=self.buckets)
        if self.buckets > MOST_ITEMS:
            raise ParameterError(f"at most {MOST_ITEMS:,} buckets, got {self.buckets:,}")
        self._model(self.dim or 1)
        self._rounds(self.dim or 1)

    @property
    def learns_from_unlisted(self) -> bool:
        """Whether users outside the list give the first round its item vectors."""
        return self.learn_from is LearnFrom.ALL

    def parameters(self) -> dict[str, float]:
        """Return every constant of the method; shares and widths of the rounds are in the steps."""
        names: tuple[str, ...] = ("centring", "item_prior", "percentile")
        if self.learn_from is LearnFrom.LISTED:
            return {name: float(getattr(self, name)) for name in names}
        names += ("buckets", "item_rounds", "count_weight", "user_prior", "floor")
        return {"learn_from_all": 1.0, **{name: float(getattr(self, name)) for name in names}}

    @classmethod
    def described(cls, dim: int, parameters: dict[str, float]) -> Self:
        """Return the strategy that a certificate describes."""
        given: dict[str, float] = dict(parameters)
        everybody = given.pop("learn_from_all", 0.0)
        whole = {name: int(given.pop(name)) for name in ("buckets", "item_rounds") if name in given}
        return cls(dim=dim, learn_from=LearnFrom.ALL if everybody else LearnFrom.LISTED, **whole, **given)  # type: ignore[arg-type]

    def steps(self, declared: Declared) -> tuple[Step, ...]:
        """Return the steps of the rounds, after those of an item model where users outside the list take part."""
        rounds = self._rounds(self.columns)
        if self.learn_from is LearnFrom.LISTED:
            return rounds.steps(declared)
        return *self._item_steps(declared), *rounds.steps(declared, first_given=True)

    def publish(self, entries: Entries, run: Run) -> Float32Array:
        """Return the last round's rows; everything learnt about items is erased."""
        rounds = self._rounds(self.columns)
        with erasing() as secrets:
            if self.learn_from is LearnFrom.LISTED:
                # A random start costs nothing, and must not depend on the ratings: the theorem asks for that.
                start = unit_gaussian_rows(run.randomness.stream("start"), len(entries.users), rounds.widths[0])
                rows = rounds.publish(entries, whole_guide(start.astype(np.float64)), run, secrets)
            else:
                rows = rounds.publish_from(entries, self._item_vectors(entries, run, secrets), run, secrets)
            return rows.astype(np.float32)

    def _rounds(self, dim: int) -> Rounds:
        return Rounds(
            shares=SHARES,
            widths=(max(WIDE, dim), max(WIDE, dim), max(MEDIUM, dim), dim),
            centring=self.centring,
            item_prior=self.item_prior,
            percentile=self.percentile,
        )

    def _model(self, dim: int) -> ItemModel:
        return ItemModel(
            dim=dim,
            rounds=self.item_rounds,
            count_weight=self.count_weight,
            user_prior=self.user_prior,
            floor=self.floor,
        )

    def _item_steps(self, declared: Declared) -> list[Step]:
        # Ratings of one user add up in a bucket; where a clip bounds a user's sum, it bounds that too.
        several = BUCKET_CAP if declared.items is None and declared.unit is Unit.RATING else 1
        rows = self.buckets if declared.items is None else declared.items
        numbers = self._rounds(self.columns).widths[0] + 1
        return [
            Step(
                name=step_name(number),
                purpose=f"learns which way items point, round {number} of {self.item_rounds}",
                sensitivity=declared.change * (1 + self.count_weight**2) ** 0.5,
                share=share,
                rows=rows,
                numbers=numbers,
                moved=rows * numbers,
                most=MOST_RATINGS,
                spread=spread(declared) * several,
                kind=Kind.COUNTED,
                published=False,
                payer=UserGroup.UNLISTED,
            )
            for number, share in enumerate(round_shares(self.item_rounds), 1)
        ]

    def _item_vectors(self, entries: Entries, run: Run, secrets: Secrets) -> Float64Array:
        """Return one vector per item from the item model: its own, or that of its bucket."""
        model = self._model(self._rounds(self.columns).widths[0])
        others = entries.unlisted
        assert others is not None
        largest = entries.bounds.largest
        if entries.universe_declared:
            return model.learn(others, entries.value, largest, run, secrets)
        stream = run.randomness.stream("buckets")
        hashed, bucket_of = into_buckets(others, entries.items, self.buckets, stream, cap=BUCKET_CAP * entries.most)
        return model.learn(hashed, entries.value, largest, run, secrets)[bucket_of]
