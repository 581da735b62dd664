"""``guided``: directions learnt along a release of the other party, so that what crosses is what the other can use."""

from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from pricdr.data.ratings import Ids
from pricdr.errors import InputError, ParameterError, require_count, require_not_negative, require_probability
from pricdr.privacy.guarantee import Guarantee
from pricdr.privacy.guide import guide, matched
from pricdr.privacy.run import Entries, Run, erasing
from pricdr.privacy.steps import Declared, Kind, Step
from pricdr.privacy.strategies.base import FloatArray
from pricdr.privacy.strategies.learnt import InnerRows, as_published, dim_for, row_step
from pricdr.privacy.sums import GUIDE_STEPS, IntegerArray


class GuideRows(Protocol):
    """What a guide is: a row per user. A release of the other party is one."""

    @property
    def matrix(self) -> npt.NDArray[np.float32]:
        """Users x columns."""
        ...

    @property
    def users(self) -> Ids:
        """One id per row."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Guided:
    """Rows along the other party's release, with the whole budget, or with part of it first (``refine``).

    The promise to the users of these ratings holds for any guide, hostile ones included: its rows are clipped to norm 1
    and never depend on these ratings.
    """

    name: ClassVar[str] = "guided"
    rows_cancel: ClassVar[bool] = False
    needs_catalogue: ClassVar[bool] = False
    learns: ClassVar[bool] = True

    guide: GuideRows | None = None
    """None describes a strategy without the means to run it, as a certificate does."""
    dim: int | None = None
    """Columns of the published matrix; None takes 8, or 4 below ε = 4, twice that with ``refine``."""
    refine: bool = False
    """Publish first rows with part of the budget, and second ones that have both the guide and them for a guide."""
    first_share: float = 0.4
    """Of μ², for the first rows where there are two."""
    item_prior: float = 5.0
    allow_missing: bool = False
    """Listed users whom the guide lacks get a row of zeros in it; otherwise they are an error."""

    def __post_init__(self) -> None:
        if self.dim is not None:
            require_count(dim=self.dim)
            object.__setattr__(self, "dim", int(self.dim))
            if self.refine and self.dim % 2:
                raise ParameterError(f"refine publishes two matrices side by side: dim must be even, got {self.dim}")
        require_probability(first_share=self.first_share)
        require_not_negative(item_prior=self.item_prior)

    def with_dim(self, dim: int | None) -> "Guided":
        """The same strategy with ``dim`` columns, or with the choice left open."""
        return replace(self, dim=dim)

    def resolved(self, guarantee: Guarantee, users: Ids) -> "Guided":
        """With the dimension that suits ε; a guide that cannot be used is refused."""
        found = self if self.dim is not None else self.with_dim(dim_for(guarantee) * (2 if self.refine else 1))
        found.guide_for(users)
        return found

    def missing(self, users: Ids) -> int:
        """How many of these users the guide lacks: a fact about two lists, not about ratings."""
        return 0 if self.guide is None else len(set(users) - set(self.guide.users))

    def parameters(self) -> dict[str, float]:
        """Every constant of the method."""
        return {
            "refine": float(self.refine),
            "first_share": self.first_share,
            "item_prior": self.item_prior,
            "guide_steps": float(GUIDE_STEPS),
        }

    @classmethod
    def described(cls, dim: int, parameters: dict[str, float]) -> "Guided":
        """The strategy that a certificate describes, without its guide."""
        given = dict(parameters)
        refine, steps = given.pop("refine"), given.pop("guide_steps")
        if steps != GUIDE_STEPS:
            raise ParameterError(f"guide_steps must be {GUIDE_STEPS}, got {steps!r}")
        return cls(dim=dim, refine=bool(refine), **given)  # type: ignore[arg-type]

    def steps(self, declared: Declared) -> tuple[Step, ...]:
        """One step with the whole budget, or two."""
        width, purpose = self._width, "adds up each user's items, along directions that their raters gave them"
        if not self.refine:
            return (row_step("rows", purpose, declared, width, 1.0, kind=Kind.LEARNT, published=True),)
        first = row_step("first rows", purpose, declared, width, self.first_share, kind=Kind.LEARNT, published=True)
        again = f"{purpose}, guided by the first rows too"
        return first, row_step("rows", again, declared, width, 1 - self.first_share, kind=Kind.LEARNT, published=True)

    def publish(self, entries: Entries, run: Run) -> FloatArray:
        """The rows; with ``refine`` the first and the second ones side by side."""
        inner, along = InnerRows(self.item_prior), self.guide_for(entries.users)
        with erasing() as secrets:
            if not self.refine:
                return as_published(inner.publish("rows", entries, along, run, secrets))
            first = inner.publish("first rows", entries, along, run, secrets)
            both = np.column_stack([along, guide(first, self._width)]).astype(np.float64)
            second = inner.publish("rows", entries, guide(both, self._width), run, secrets)
            return as_published(np.column_stack([first, second]))

    def guide_for(self, users: Ids) -> IntegerArray:
        """The guide's rows for these users; :class:`InputError` where it cannot serve them."""
        if self.guide is None:
            raise ParameterError("strategy guided needs a guide: a release of the other party")
        rows, present = matched(np.asarray(self.guide.matrix), self.guide.users, users)
        if not present.all() and not self.allow_missing:
            absent = next(user for user, there in zip(users, present, strict=True) if not there)
            raise InputError(
                f"the guide lacks {int((~present).sum()):,} of {len(users):,} listed users, {absent!r} for one: "
                "was it made for another list? (--fill-guide gives them a row of zeros)"
            )
        found = guide(rows, self._width, present=present)
        if not found.any():
            raise InputError("the guide's rows are the same for all users, or for most: it cannot tell anybody apart")
        return found

    @property
    def _width(self) -> int:
        assert self.dim is not None, "the dimension is settled before the steps are laid out"
        return self.dim // 2 if self.refine else self.dim
