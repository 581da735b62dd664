"""What changed between two verified releases: every field of their certificates, their users and their rows."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pricdr.release.certificate import Certificate
from pricdr.release.folder import MATRIX, Release

LAYOUT_VERSION: Final = 1
"""Of :meth:`Difference.to_dict`. Keys may be added; one that is removed or changes its meaning takes a new version."""

SENTENCES: Final = ("not_protected", "warnings")
"""Fields that are lists of sentences, which may begin anywhere in the list."""
GROUPS: Final = {
    "promise": (
        *("private", "epsilon", "nominal_epsilon", "delta", "unit", "neighbours", "epsilon_at_delta", "whole_user"),
        *SENTENCES,
    ),
    "mechanism": (
        *("strategy", "dim", "dim_chosen_by", "calibration", "bounds", "sigma", "sensitivity", "mu", "grid", "noise"),
        *("steps", "guide"),
    ),
    "users and items": ("users", "items", "input"),
    "budget": ("ledger",),
    "origin": ("issuer", "issued", "signed_by", "software", "schema_version"),
    "files": ("files",),
}
"""Every field of a certificate, in the order in which somebody who compares asks for them."""


@dataclass(frozen=True)
class Change:
    """A figure, a sentence or a name that is not the same in both."""

    group: str
    field: str
    """Its path in the certificate, as in ``steps.0.sigma``."""
    before: Any
    after: Any
    """None where the certificate has no such field."""


@dataclass(frozen=True)
class UserChange:
    """How the listed users differ."""

    kept: int
    added: int
    removed: int
    reordered: bool
    """Whether those in both are listed in another order."""


@dataclass(frozen=True)
class Difference:
    """What changed from one release to another; empty where both are the same."""

    same: bool
    """Whether their certificates are equal, byte for byte, and with them every hash of their files."""
    same_matrix: bool
    """Whether their ``release.safetensors`` are."""
    users: UserChange
    changes: tuple[Change, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return all of it for programs; ``docs/privacy-officer.md`` documents the layout."""
        return {
            "layout_version": LAYOUT_VERSION,
            "same": self.same,
            "same_matrix": self.same_matrix,
            "users": vars(self.users),
            "changes": [vars(change) for change in self.changes],
        }


def difference(before: Release, after: Release) -> Difference:
    """Return what changed from ``before`` to ``after``; both must have been verified."""
    assert before.verified and after.verified, "fields of an unverified certificate mean nothing"  # noqa: PT018
    return Difference(
        same=before.certificate.to_bytes() == after.certificate.to_bytes(),
        same_matrix=before.certificate.files[MATRIX] == after.certificate.files[MATRIX],
        users=_users(before, after),
        changes=tuple(_changes(before.certificate, after.certificate)),
    )


def _changes(before: Certificate, after: Certificate) -> Iterator[Change]:
    left, right = before.model_dump(mode="json"), after.model_dump(mode="json")
    for group, names in GROUPS.items():
        for name in names:
            old, new = dict(_leaves(left[name], name)), dict(_leaves(right[name], name))
            if name in SENTENCES:  # one that goes must not make all after it look new
                yield from (Change(group, name, text, None) for text in old.values() if text not in new.values())
                yield from (Change(group, name, None, text) for text in new.values() if text not in old.values())
                continue
            for field in dict.fromkeys((*old, *new)):
                if not _alike(old.get(field), new.get(field)):
                    yield Change(group, field, old.get(field), new.get(field))


def _alike(old: Any, new: Any) -> bool:  # noqa: ANN401
    """Return whether two values are equal, figures up to the last bits, which two computations of one may not share."""
    if isinstance(old, float) and isinstance(new, float):
        return math.isclose(old, new, rel_tol=1e-9)
    return bool(old == new)


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - whatever JSON can hold
    """Yield every value that is neither a list nor an object, with its path."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, f"{path}.{name}")
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from _leaves(inner, f"{path}.{at}")
    else:
        yield path, value


def _users(before: Release, after: Release) -> UserChange:
    old, new = set(before.users), set(after.users)
    return UserChange(
        kept=len(old & new),
        added=len(new - old),
        removed=len(old - new),
        reordered=[user for user in before.users if user in new] != [user for user in after.users if user in old],
    )
