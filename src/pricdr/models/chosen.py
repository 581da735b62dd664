"""What validation chose: the result of one training, and what the next one follows."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple


class Trust(NamedTuple):
    """How far a source is trusted, from 0 (not at all) to 1, for users with target history and without."""

    warm: float
    cold: float


TRUSTED: Final = Trust(1.0, 1.0)
UNTRUSTED: Final = Trust(0.0, 0.0)


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """What validation chose, for a training on everything to follow, and for people to read."""

    epochs: Mapping[str, int] = field(default_factory=dict)
    """The best epoch of each network, by the name it has in the log."""
    trust: Trust | None = None
    """How far the source is trusted; None for a method that sees no source, or trusts it always."""
    settings: Mapping[str, float] = field(default_factory=dict)
    """Settings that a method without epochs chose by itself."""
    evidence: float | None = None
    """The p-value of the evidence test; None where it was not made: without a release, or without gates."""
    not_chosen: str = ""
    """Why nothing could be set aside to choose by; empty where it could, or where nothing was to be chosen."""


NOTHING_CHOSEN = Chosen()
