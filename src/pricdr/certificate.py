"""``Certificate``: what a release promises, as a file. It states only what was declared or drawn.

Nothing in it is read off the ratings: no counts, ranges, means or hashes of the input. The JSON Schema is committed
as ``docs/certificate.schema.json``; the meaning of a field never changes within a schema version.
"""

import hashlib
import json
import math
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pricdr.errors import VerificationError
from pricdr.privacy.calibration import (
    GRID_STEPS,
    LATTICE_FACTOR,
    SAMPLER_DISTANCE,
    composed_epsilon,
    composed_mu,
    paper_sigma,
)
from pricdr.privacy.guarantee import Unit

SCHEMA_VERSION: Final = 1
DELTAS: Final = (1e-5, 1e-6, 1e-8, 1e-10)
"""Where every certificate states its ε, beside its own δ."""
GROUP_SIZES: Final = (5, 20, 100)
"""Numbers of ratings for which the cost to a whole user is stated: declared here, not read off anybody."""
MAX_BYTES: Final = 1 << 20
_TOLERANCE: Final = 1e-9


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)


class StrategyStatement(_Part):
    """How the item rows E were built."""

    name: str
    parameters: dict[str, float]
    rows_cancel: bool = Field(description="item rows point in independent random directions")


class BoundsStatement(_Part):
    """The declared limits that ratings were forced into."""

    entries: str
    rating_bound: float = Field(gt=0)
    rating_step: float = Field(gt=0)
    clip: float | None


class EpsilonAtDelta(_Part):
    """One point of the privacy curve."""

    delta: float
    epsilon: float | None = Field(description="null where it is beyond anything that can be certified")


class GroupFigure(_Part):
    """What a rating-level promise means for a user with this many ratings, as ε at the certificate's δ."""

    ratings: int
    removed_at_worst: float | None = Field(description="null where the cost is beyond anything that can be certified")
    replaced_at_worst: float | None
    removed_typically: float | None = Field(description="for rows in independent random directions")


class NoiseStatement(_Part):
    """The law of the noise and where its bits came from."""

    law: str
    source: Literal["secret", "seeded", "none"]
    grid_steps_per_sigma: int
    lattice_factor: float
    sampler_distance: float


class InputStatement(_Part):
    """Where the user list and the item universe came from, and what was done to the ratings before."""

    user_list: Literal["declared", "read off the ratings"]
    item_universe: Literal["declared", "read off the ratings", "not needed"]
    filtered_by: str | None


class LedgerStatement(_Part):
    """The ledger's account including this release."""

    releases: int
    mu_total: float
    epsilon_total: float
    budget_epsilon: float
    budget_delta: float


class DimStatement(_Part):
    """How ``--dim auto`` chose: a noisy mean of squared profile norms, paid with this μ."""

    mu: float
    noisy_mean_square: float


class Certificate(_Part):
    """Everything a release promises; see ``docs/certificate.schema.json``."""

    schema_version: Literal[1]
    private: bool
    epsilon: float | None = Field(description="exact; null where there is no noise")
    nominal_epsilon: float | None = Field(default=None, description="what Algorithm 1 of the paper would claim")
    delta: float = Field(gt=0, lt=1)
    unit: Literal["rating", "user"]
    sigma: float = Field(ge=0)
    sensitivity: float = Field(gt=0)
    mu: float | None
    grid: float = Field(gt=0)
    strategy: StrategyStatement
    users: int = Field(ge=1)
    dim: int = Field(ge=1)
    neighbours: str
    epsilon_at_delta: list[EpsilonAtDelta]
    whole_user: list[GroupFigure]
    bounds: BoundsStatement
    calibration: Literal["exact", "paper"]
    noise: NoiseStatement
    input: InputStatement
    ledger: LedgerStatement | None
    dim_chosen_by: DimStatement | None
    not_protected: list[str]
    warnings: list[str]
    software: str
    signed_by: str | None = Field(default=None, description="Ed25519 public key, base64")
    files: dict[str, str] = Field(default_factory=dict, description="name to SHA-256")

    def to_bytes(self) -> bytes:
        """The one byte sequence this certificate is written as, closing with a digest of everything before it."""
        content = self.model_dump(mode="json")
        if self.nominal_epsilon is None:
            del content["nominal_epsilon"]
        return _canonical({**content, "digest": _digest(content)})

    @classmethod
    def from_bytes(cls, raw: bytes) -> "Certificate":
        """The certificate in these bytes; :class:`VerificationError` says what is wrong with them."""
        content = _parse(raw)
        if content.get("schema_version") != SCHEMA_VERSION:
            raise VerificationError(
                f"certificate.json has schema_version {content.get('schema_version')!r:.40}, "
                f"this software knows {SCHEMA_VERSION}"
            )
        digest = content.pop("digest", None)
        try:
            certificate = cls.model_validate(content)
        except ValidationError as error:
            first = error.errors()[0]
            raise VerificationError(
                f"certificate.json: {'.'.join(map(str, first['loc']))}: {first['msg']}, got {first['input']!r:.60}"
            ) from error
        if digest != _digest(content) or certificate.to_bytes() != raw:
            raise VerificationError("certificate.json was changed after it was written: its digest does not fit")
        return certificate

    def spends(self) -> list[tuple[float, int]]:
        """(μ, noisy numbers per user row) of each Gaussian release behind this certificate."""
        chosen = [] if self.dim_chosen_by is None else [(self.dim_chosen_by.mu, 1)]
        return [(self.sensitivity / self.sigma, self.dim), *chosen]

    def check(self) -> None:
        """Recompute every figure that follows from others; :class:`VerificationError` names the first that fails."""
        largest = self.bounds.rating_bound if self.unit == "rating" else 2 * (self.bounds.clip or 0)
        _agree("sensitivity", self.sensitivity, largest)
        secret = self.noise.source == "secret"
        if self.private != secret:
            raise VerificationError(f"private is {self.private} but the noise is {self.noise.source}")
        if self.noise.source == "none":
            if (self.sigma, self.epsilon, self.mu) != (0.0, None, None):
                raise VerificationError("a release without noise cannot state sigma, epsilon or mu")
            return
        if self.sigma == 0 or self.epsilon is None or self.mu is None:
            raise VerificationError("sigma, epsilon and mu must be stated where there is noise")
        _agree("grid", self.grid, self.sigma / GRID_STEPS)
        _agree("mu", self.mu, composed_mu(mu for mu, _ in self.spends()))
        delivered = composed_epsilon(self.spends(), self.delta)
        if delivered > self.epsilon * (1 + _TOLERANCE):
            raise VerificationError(
                f"epsilon {self.epsilon:g} promises more than sigma gives: {delivered:.6g} at delta {self.delta:g}"
            )
        self._check_derived(delivered)

    def _check_derived(self, delivered: float) -> None:
        if self.epsilon_at_delta != epsilon_curve(self.spends()):
            raise VerificationError("epsilon_at_delta does not follow from sigma and the sensitivity")
        if self.whole_user != whole_user_figures(self):
            raise VerificationError("whole_user does not follow from sigma and the sensitivity")
        if (self.calibration == "paper") != (self.nominal_epsilon is not None):
            raise VerificationError("nominal_epsilon belongs to the paper's calibration, and only there")
        if self.nominal_epsilon is not None:
            _agree("sigma", self.sigma, paper_sigma(self.nominal_epsilon, self.delta, dim=self.dim))
            _agree("epsilon", self.epsilon or 0.0, delivered)
        if self.ledger is not None and self.ledger.mu_total < (self.mu or 0.0) * (1 - _TOLERANCE):
            raise VerificationError("the ledger's mu_total is less than this release alone")


def schema_text() -> str:
    """The JSON Schema of ``certificate.json``, as committed under ``docs/``."""
    schema = Certificate.model_json_schema()
    schema["title"] = f"pricdr certificate, schema version {SCHEMA_VERSION}"
    schema["properties"]["digest"] = {
        "type": "string",
        "description": "SHA-256 of the same object without this key, written the same way",
    }
    schema["required"] = [*schema["required"], "files", "digest"]
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def epsilon_curve(spends: list[tuple[float, int]]) -> list[EpsilonAtDelta]:
    """ε at each of :data:`DELTAS`."""
    return [EpsilonAtDelta(delta=d, epsilon=_stated(composed_epsilon(spends, d))) for d in DELTAS]


def whole_user_figures(certificate: Certificate) -> list[GroupFigure]:
    """The cost of a rating-level release to a user with t ratings: t·μ if removed at worst, 2t·μ if replaced.

    Rows in independent random directions give about √t·μ; parallel rows attain the worst case.
    """
    if certificate.unit == "user" or not certificate.sigma:
        return []
    mu = composed_mu(mu for mu, _ in certificate.spends())

    def cost(factor: float) -> float | None:
        return _stated(composed_epsilon([(factor * mu, certificate.dim)], certificate.delta))

    return [
        GroupFigure(
            ratings=t,
            removed_at_worst=cost(t),
            replaced_at_worst=cost(2 * t),
            removed_typically=cost(t**0.5) if certificate.strategy.rows_cancel else None,
        )
        for t in GROUP_SIZES
    ]


def noise_statement(source: Literal["secret", "seeded", "none"]) -> NoiseStatement:
    """The noise of this software, with bits from ``source``."""
    return NoiseStatement(
        law="none" if source == "none" else "discrete Gaussian on the grid, independent in every coordinate",
        source=source,
        grid_steps_per_sigma=GRID_STEPS,
        lattice_factor=LATTICE_FACTOR,
        sampler_distance=SAMPLER_DISTANCE,
    )


def neighbours_text(unit: Unit, rating_bound: float) -> str:
    """The neighbouring relation in words."""
    if unit is Unit.RATING:
        return (
            f"two inputs over the same listed users that differ in one (user, item) entry, "
            f"each value within [0, {rating_bound:g}], not rated being 0"
        )
    return "two inputs over the same listed users that differ in all ratings of one user, however many"


def _stated(epsilon: float) -> float | None:
    """Six digits, rounded up: figures for people, and equal on every machine."""
    return float(f"{epsilon * (1 + 5e-7):.6g}") if math.isfinite(epsilon) else None


def _agree(name: str, stated: float, follows: float) -> None:
    if abs(stated - follows) > _TOLERANCE * abs(follows):
        raise VerificationError(f"{name} is stated as {stated:g}, but {follows:g} follows from the other figures")


def _parse(raw: bytes) -> dict[str, Any]:
    if len(raw) > MAX_BYTES:
        raise VerificationError(f"certificate.json has over {MAX_BYTES} bytes")
    try:
        content = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise VerificationError("certificate.json is not JSON text") from error
    if not isinstance(content, dict):
        raise VerificationError("certificate.json does not hold a JSON object")
    return content


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(_canonical(content)).hexdigest()


def _canonical(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()
