"""Two domains over the same users, in memory: needs numpy and scipy alone."""

from dataclasses import dataclass

from pricdr.data.ratings import Ids, Ratings
from pricdr.errors import InputError


@dataclass(frozen=True, eq=False)
class DomainPair:
    """Ratings of two domains over the same users, in the same order.

    >>> r = Ratings.from_triples(["a", "b"], ["x", "y"])
    >>> DomainPair(r, r)
    DomainPair(2 users; source: 2 items, 2 rated; target: 2 items, 2 rated)
    """

    source: Ratings
    target: Ratings

    def __post_init__(self) -> None:
        if self.source.users != self.target.users:
            raise InputError("source and target must list the same users in the same order")

    @property
    def users(self) -> Ids:
        """The users of both domains."""
        return self.source.users

    def fingerprint(self) -> str:
        """Of both domains, see :meth:`Ratings.fingerprint`."""
        return f"{self.source.fingerprint()} {self.target.fingerprint()}"

    def __repr__(self) -> str:
        """Sizes only: ratings are private."""
        sides = (("source", self.source), ("target", self.target))
        sizes = (f"{name}: {len(side.items)} items, {len(side)} rated" for name, side in sides)
        return f"DomainPair({len(self.users)} users; {'; '.join(sizes)})"
