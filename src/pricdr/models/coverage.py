"""How many of the target's users a release has a row for: a wrong list or other ids show here first."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pricdr.data.ratings import Ids
from pricdr.errors import printable

_LOW: Final = 0.2
_EXAMPLES: Final = 3
_SHOWN: Final = 30
"""Characters of an id that is shown as an example."""


@dataclass(frozen=True)
class Coverage:
    """Users of the target with and without a row in a release; both parties' ids are known to the target."""

    covered: int
    users: int
    only_target: Ids
    """A few users of the target whom the release lacks."""
    only_release: Ids
    """A few users of the release whom the target lacks."""

    @classmethod
    def of(cls, target_users: Sequence[str], release_users: Sequence[str]) -> "Coverage":
        """Compare two lists of users.

        >>> Coverage.of(("a", "b"), ("b", "c")).sentence()
        'the release covers 1 of 2 users'
        """
        own, listed = set(target_users), set(release_users)
        only_target, only_release = (
            tuple([user for user in users if user not in others][:_EXAMPLES])
            for users, others in ((target_users, listed), (release_users, own))
        )
        return cls(len(own & listed), len(own), only_target, only_release)

    @property
    def is_low(self) -> bool:
        """Return whether so few users are covered that the ids may be of different kinds."""
        return self.covered < _LOW * self.users

    def sentence(self) -> str:
        """Return one line for people."""
        return f"the release covers {self.covered:,} of {self.users:,} users"

    def examples(self) -> str:
        """Return a few ids of either side that the other lacks, for people to see how they differ."""
        target, release = (
            ", ".join(repr(printable(user[:_SHOWN])) for user in users) or "none"
            for users in (self.only_target, self.only_release)
        )
        return f"only in the target: {target}; only in the release: {release} (are they ids of the same kind?)"
