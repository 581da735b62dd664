"""A series: releases of one source in the same columns, each guided by the sum of those before it, and their sum.

The first is any learnt release; every further one names it, and the one that it follows. Places may be missing: a
release may have failed after its spend, or was lost or revoked. What is there is checked against each other.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from pricdr.arrays import Float32Array
from pricdr.data.ids import Ids
from pricdr.errors import InputError, ParameterError
from pricdr.privacy.strategies import BY_NAME
from pricdr.privacy.strategies.continued import Sum, added_up

if TYPE_CHECKING:
    from pricdr.release.folder import Release

MAX_MEMBERS: Final = 366
_SAID: Final = 5


@dataclass(frozen=True, eq=False)
class Series:
    """Releases of one series, in the order of their places; one release is a series of its own."""

    members: tuple["Release", ...]

    def __post_init__(self) -> None:
        if len(self.members) > MAX_MEMBERS:
            raise InputError(f"a series has at most {MAX_MEMBERS} releases, got {len(self.members):,}")
        object.__setattr__(self, "members", tuple(sorted(self.members, key=place)))
        first, by_place = self.members[0], {place(one): one for one in self.members}
        for one in self.members:
            here, stated = f"the release at place {place(one)} of the series", one.certificate.series
            for what, own, expected in zip(_SHARED, _shared(one), _shared(first), strict=True):
                if own != expected:
                    other = f"that at place {place(first)} has {expected}"
                    raise InputError(f"{here} has {what} {own}, and {other}: they cannot be added up")
            if by_place[place(one)] is not one:
                raise InputError(f"two releases are at place {place(one)} of the series: give one of them")
            before = None if stated is None else by_place.get(stated.before_place)
            if stated is not None and before is not None and before.sha256() != stated.before:
                raise InputError(f"{here} follows another release than the one given at place {stated.before_place}")

    @property
    def newest(self) -> "Release":
        """The release at the last place."""
        return self.members[-1]

    @property
    def missing(self) -> list[int]:
        """The places up to the last that no release is at."""
        return sorted(set(range(1, place(self.newest))) - set(map(place, self.members)))

    @cached_property
    def users(self) -> Ids:
        """Everybody who has a row, those of the newest release first."""
        return tuple(dict.fromkeys(user for member in reversed(self.members) for user in member.users))

    @cached_property
    def sum(self) -> Sum:
        """The sum of the members' rows, for these users."""
        return added_up(self.members, self.users)

    @cached_property
    def matrix(self) -> Float32Array:
        """One row per user: a release's own, or the sum of several."""
        return self.newest.matrix if len(self.members) == 1 else self.sum.rows.astype(np.float32)


_SHARED: Final = ("the unit", "the days of a period", "the columns", "the bounds", "the threshold", "the signer")


def _shared(release: "Release") -> tuple[object, ...]:
    c = release.certificate
    days = None if c.window is None else c.window.days
    return c.unit, days, c.dim, tuple(dict(c.bounds).values()), c.input.threshold, c.signed_by or "nobody"


def place(release: "Release") -> int:
    """Return the place of a release in its series."""
    stated = release.certificate.series
    return 1 if stated is None else stated.place


def places_said(places: Sequence[int]) -> str:
    """Return places as text; of many, the first few."""
    return ", ".join(map(str, places[:_SAID])) + (" and more" if len(places) > _SAID else "")


def series_id(release: "Release") -> str:
    """Return what names the series of a release: the hash of the first one's matrix."""
    stated = release.certificate.series
    return release.sha256() if stated is None else stated.first


def by_series(releases: Iterable["Release"]) -> list[Series]:
    """Return the series that these releases are of, in the order in which each is met first."""
    found: dict[str, list[Release]] = {}
    hashes: dict[str, int] = {}
    for number, release in enumerate(releases, 1):
        if (earlier := hashes.setdefault(release.sha256(), number)) != number:
            raise ParameterError(f"releases {earlier} and {number} are the same: give each once")
        found.setdefault(series_id(release), []).append(release)
    return [Series(tuple(members)) for members in found.values()]


def to_continue(releases: Sequence["Release"]) -> Series:
    """Return the one series of these releases, or refuse what a release cannot go on from."""
    series = by_series(releases)
    if len(series) != 1:
        given = ", ".join(series_id(one.newest)[:12] for one in series) or "none"
        raise InputError(f"the releases before must be of one series, got those of {len(series)} ({given})")
    for release in series[0].members:
        name = release.certificate.strategy.name
        if name not in BY_NAME or not BY_NAME[name].learns:
            raise InputError(f"a series begins with a learnt release (spectral, guided), and {name} is none")
    return series[0]
