"""``continued``: the next release of a series, along the sum of those before it and in their columns.

Whatever is computed here is computed from what was published, so it is fixed given the past: theorem 4a covers the
release for every such guide, and the releases compose adaptively (``docs/mathematics.md``, section 14).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple, Self

import numpy as np

from pricdr.arrays import BoolArray, Float64Array, IntegerArray
from pricdr.data.ratings import Ids
from pricdr.errors import InputError, ParameterError
from pricdr.privacy.accounting import Guarantee
from pricdr.privacy.mechanism import Entries, Run
from pricdr.privacy.strategies.base import GuideRows
from pricdr.privacy.strategies.rounds import LearntInRounds, guide, matched

_LEAST: Final = 1e-12  # of a variance that is divided by, beside that of the rows


class Sum(NamedTuple):
    """What several releases in the same columns say together."""

    rows: Float64Array  # one per user; zeros where no release has one
    present: BoolArray
    noise: float  # standard deviation of the noise in a number of a row, on average over users

    @property
    def noise_share(self) -> float:
        """The part of the rows' variance that is noise."""
        variance = float(self.rows[self.present].var(axis=0).mean()) if self.present.any() else 0.0
        return min(1.0, self.noise**2 / variance) if variance > 0 else 1.0


def added_up(releases: Sequence[GuideRows], users: Ids) -> Sum:
    """Return the best guess at each user's row from all releases that have one, centred.

    A release shows the same rows at a length of its own, since better guides give longer ones, under noise of its own.
    """
    rows = np.zeros((len(users), releases[0].matrix.shape[1]))
    weights, noise = np.zeros(len(users)), np.zeros(len(users))
    present = np.zeros(len(users), dtype=bool)
    for release in releases:
        own, there = matched(np.asarray(release.matrix), release.users, users)
        if not there.any():
            continue
        own[there] -= own[there].mean(axis=0)
        power = float(np.square(own[there]).mean())
        variance = max(release.sigma**2, _LEAST * power, np.finfo(float).tiny)
        # What is not noise; at least the error of that difference, so that bad luck leaves no release out.
        signal = max(power - variance, variance * (2 / (there.sum() * own.shape[1])) ** 0.5)
        rows[there] += signal**0.5 / variance * own[there]
        weights[there] += signal / variance
        present |= there
    known = weights[present]
    rows[present] /= (1 + known)[:, None]  # shortened by what is noise in them: late users have shorter rows
    noise[present] = np.sqrt(known) / (1 + known)
    return Sum(rows, present, float(np.sqrt(np.square(noise[present]).mean())) if len(known) else 0.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Continued(LearntInRounds):
    """One round, guided by the sum of the releases before: nothing is rotated, so that all of them can be added up."""

    name: ClassVar[str] = "continued"
    summary: ClassVar[str] = "the next release of a series, along the sum of those before"
    needs: ClassVar[tuple[str, ...]] = ("before",)
    continues: ClassVar[bool] = True
    constants: ClassVar[tuple[str, ...]] = ("centring", "item_prior", "percentile")
    not_protected: ClassVar[tuple[str, ...]] = (
        "Ratings that earlier releases of the series hold too: they pay in each of them.",
        "Whoever left the user list since: their rows remain in the earlier releases, and so does what directions then "
        "learnt from their ratings; nothing of theirs is used in this one.",
    )

    before: Sequence[GuideRows] = ()
    """Releases of the same source, of one series; empty describes a strategy without the means to run it."""

    @property
    def rounds(self) -> tuple[tuple[float, int], ...]:
        """One."""
        return ((1.0, self.dim or 1),)

    @classmethod
    def default_dim(cls, guarantee: Guarantee) -> int | None:
        """Return None: a series keeps its number of columns, whatever a week may cost."""
        return None

    def resolved(self, guarantee: Guarantee, users: Ids) -> Self:
        """Return it with the columns of the series; releases that cannot guide these users are refused."""
        if not self.before:
            raise ParameterError("strategy continued needs the releases that it goes on from")
        strategy = self if self.dim is not None else self.with_dim(self.before[0].matrix.shape[1])
        strategy._guide_for(users)
        return strategy

    def start(self, entries: Entries, run: Run) -> IntegerArray:
        """Return the sum's rows of the listed users, as a guide."""
        return self._guide_for(entries.users)

    def _guide_for(self, users: Ids) -> IntegerArray:
        if len({release.matrix.shape[1] for release in self.before} | {self.columns}) > 1:
            raise ParameterError("the releases of a series all have the same number of columns")
        rows, present, noise = added_up(self.before, users)
        if not present.any():
            raise InputError("no release of the series has a row for any listed user: is it another user list?")
        return guide(rows, self.columns, sigma=noise, percentile=self.percentile, present=present, rotated=False)
