"""What changed between two verified releases: who is protected more and by how much, then every field, user and row."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pricdr.privacy.accounting import TradeOff
from pricdr.privacy.registry import BY_NAME
from pricdr.release.certificate import Certificate
from pricdr.release.folder import MATRIX, Release
from pricdr.release.inspection import percent_up

LAYOUT_VERSION: Final = 2
"""Of :meth:`Difference.to_dict`. Keys may be added; one that is removed or changes its meaning takes a new version."""

NO_LIMIT: Final = "without limit"
"""In place of a figure: no promise bounds it, or none that can be certified."""
COVERED: Final = "covered by the unit itself"
"""In place of what all ratings of a user cost: the promise is about all of them, however many."""
_LIMITS: Final = frozenset({"epsilon", "mu", "removed_at_worst", "replaced_at_worst"})
"""Figures that a certificate leaves out where they have no limit."""
_FALSE_ALARMS: Final = 0.05
_RATINGS: Final = 20
"""Of the user whose whole profile the sentences speak of."""
_MANY: Final = 1 << 30

SENTENCES: Final = ("not_protected", "warnings")
"""Fields that are lists of sentences, which may begin anywhere in the list."""
GROUPS: Final = {
    "promise": (
        *("private", "epsilon", "nominal_epsilon", "delta", "unit", "neighbours", "epsilon_at_delta", "whole_user"),
        *SENTENCES,
    ),
    "mechanism": (
        *("strategy", "dim", "calibration", "bounds", "sigma", "sensitivity", "mu", "grid", "noise"),
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
    """Its path in the certificate, as in ``steps.0.sigma``, or ``whole_user.20.removed_at_worst`` for 20 ratings."""
    before: Any
    after: Any
    """What the certificate says, :data:`NO_LIMIT` or :data:`COVERED`; None where it says nothing of this."""


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
    sentences: tuple[str, str, str]
    """Which one promises more and to whom, and by how much: for one rating, and for all ratings of one user."""
    users: UserChange
    changes: tuple[Change, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return all of it for programs; ``docs/privacy-officer.md`` documents the layout."""
        return {
            "layout_version": LAYOUT_VERSION,
            "same": self.same,
            "same_matrix": self.same_matrix,
            "sentences": list(self.sentences),
            "users": vars(self.users),
            "changes": [vars(change) for change in self.changes],
        }


def difference(before: Release, after: Release) -> Difference:
    """Return what changed from ``before`` to ``after``; both must have been verified."""
    assert before.verified and after.verified, "fields of an unverified certificate mean nothing"  # noqa: PT018
    return Difference(
        same=before.certificate.to_bytes() == after.certificate.to_bytes(),
        same_matrix=before.certificate.files[MATRIX] == after.certificate.files[MATRIX],
        sentences=_sentences(before.certificate, after.certificate),
        users=_users(before, after),
        changes=tuple(_changes(before.certificate, after.certificate)),
    )


def _changes(before: Certificate, after: Certificate) -> Iterator[Change]:
    left, right = _content(before), _content(after)
    for group, names in GROUPS.items():
        for name in names:
            old, new = dict(_leaves(left[name], name)), dict(_leaves(right[name], name))
            if name in SENTENCES:  # one that goes must not make all after it look new
                yield from (Change(group, name, text, None) for text in old.values() if text not in new.values())
                yield from (Change(group, name, None, text) for text in new.values() if text not in old.values())
                continue
            for field in dict.fromkeys((*old, *new)):
                was, now = _stated(before, field, old), _stated(after, field, new)
                if not _alike(was, now):
                    yield Change(group, field, was, now)


def _content(c: Certificate) -> dict[str, Any]:
    """Return a certificate's fields, with what a whole user costs by the number of its ratings."""
    figures = {str(figure.ratings): figure.model_dump(exclude={"ratings"}) for figure in c.whole_user}
    return {**c.model_dump(mode="json"), "whole_user": figures}


def _stated(c: Certificate, field: str, leaves: dict[str, Any]) -> Any:  # noqa: ANN401 - whatever JSON can hold
    """Return what a certificate says in a field; where that is nothing, why."""
    if leaves.get(field) is not None:
        return leaves[field]
    group, name = field.partition(".")[0], field.rpartition(".")[2]
    if group == "whole_user" and field not in leaves:
        return COVERED if c.unit == "user" and c.mu is not None else NO_LIMIT
    if name == "removed_typically":  # of strategies whose rows do not cancel it is never stated
        return NO_LIMIT if BY_NAME[c.strategy.name].rows_cancel else None
    if name in _LIMITS and (field in leaves or group == "epsilon_at_delta"):
        return NO_LIMIT
    return None


def _sentences(a: Certificate, b: Certificate) -> tuple[str, str, str]:
    one = f"{_detected(a, 1)} with A, {_detected(b, 1)} with B"
    whole = f"{_detected(a, _RATINGS)} with A, {_detected(b, _RATINGS)} with B"
    return (
        _verdict(a, b),
        f"One rating: a test with {percent_up(_FALSE_ALARMS)} false alarms detects it in at most {one}.",
        f"All {_RATINGS} ratings of one user, taken out together: in at most {whole}.",
    )


def _verdict(a: Certificate, b: Certificate) -> str:
    losses = [(_loss(a, ratings), _loss(b, ratings)) for ratings in (1, _MANY)]
    if all(_alike(*pair) for pair in losses):
        return "A and B promise the same." if losses[0][0] < math.inf else "Neither A nor B promises anything."
    if all(left >= right for left, right in losses):
        return "B promises more than A, to everybody."
    if all(left <= right for left, right in losses):
        return "A promises more than B, to everybody."
    # One protects a rating better, and the other, whose unit is the user, protects users with many of them.
    (rating, _), (user, name) = sorted([(a, "A"), (b, "B")], key=lambda pair: pair[0].unit)
    other = "B" if name == "A" else "A"
    enough = math.ceil(_loss(user, 1) / _loss(rating, 1))
    return f"{name} promises more than {other} to users with at least {enough:,} ratings, and less to those with fewer."


def _loss(c: Certificate, ratings: float) -> float:
    """Return μ of a change of so many ratings of one user, at worst."""
    if c.mu is None or c.noise.source != "secret":
        return math.inf
    return c.mu if c.unit == "user" else c.mu * ratings


def _detected(c: Certificate, ratings: int) -> str:
    """Return how often a change of so many ratings is detected, and the ε behind it."""
    mu = _loss(c, ratings)
    if mu == math.inf:
        return f"100 % of cases ({NO_LIMIT})"
    assert c.epsilon is not None, "where there is a mu there is an epsilon"
    figures: dict[int, float | None] = {1: c.epsilon, **{one.ratings: one.removed_at_worst for one in c.whole_user}}
    epsilon = c.epsilon if c.unit == "user" else figures[ratings]
    figure = f"epsilon {NO_LIMIT}" if epsilon is None else f"epsilon {epsilon:.6g} at delta {c.delta:g}"
    however = f"; {COVERED}, however many" if c.unit == "user" and ratings > 1 else ""
    return f"{percent_up(TradeOff(mu, c.epsilon, c.delta).detections(_FALSE_ALARMS))} of cases ({figure}{however})"


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
