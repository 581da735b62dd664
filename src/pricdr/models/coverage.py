"""How many of the target's users a release covers: a wrong list or different ids show here first."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pricdr.data.ratings import Ids
from pricdr.errors import printable

_LOW: Final = 0.2
_EXAMPLES: Final = 3
_SHOWN: Final = 30
"""The most characters of an id that is shown as an example."""


@dataclass(frozen=True)
class Coverage:
    """Users of the target with and without a row in a release. The target knows the ids of both parties."""

    covered: int
    users: int
    only_target: Ids
    """A few users of the target that are not in the release."""
    only_release: Ids
    """A few users of the release that are not in the target."""

    @classmethod
    def of(cls, target_users: Sequence[str], release_users: Sequence[str]) -> "Coverage":
        """Return the coverage of the target's users by those of a release.

        >>> Coverage.of(("a", "b"), ("b", "c")).sentence()
        'the release covers 1 of 2 users'
        """
        target, release = set(target_users), set(release_users)
        only_target, only_release = (
            tuple([user for user in users if user not in others][:_EXAMPLES])
            for users, others in ((target_users, release), (release_users, target))
        )
        return cls(len(target & release), len(target), only_target, only_release)

    @property
    def is_low(self) -> bool:
        """Whether so few users are covered that the ids may be of different kinds."""
        return self.covered < _LOW * self.users

    def sentence(self) -> str:
        """Return the coverage in words."""
        return f"the release covers {self.covered:,} of {self.users:,} users"

    def examples(self) -> str:
        """Return a few ids of each side that the other does not have, to show how they differ."""
        target, release = (
            ", ".join(repr(printable(user[:_SHOWN])) for user in users) or "none"
            for users in (self.only_target, self.only_release)
        )
        return f"only in the target: {target}; only in the release: {release} (are they ids of the same kind?)"
