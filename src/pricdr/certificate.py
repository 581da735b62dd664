"""``Certificate``: what a release promises, as a file. It states only what was declared or drawn.

Nothing in it is read off the ratings: no counts, ranges, means or hashes of the input. The JSON Schema is committed
as ``docs/certificate.schema.json``; the meaning of a field never changes within a schema version. Which fields follow
from which is the business of ``issuing``.
"""

import hashlib
import json
import math
from decimal import ROUND_CEILING, Decimal
from typing import Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pricdr.errors import VerificationError

SCHEMA_VERSION: Final = 2
"""What is issued now. Version 1 had no steps and no guide; its certificates still verify."""
_SINCE_2: Final = ("steps", "guide", "items")
MAX_BYTES: Final = 1 << 20

NoiseSource: TypeAlias = Literal["secret", "seeded", "none"]
UserList: TypeAlias = Literal["declared", "read off the ratings"]
ItemUniverse: TypeAlias = Literal["declared", "read off the ratings", "not needed", "hashed into buckets"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)


class StrategyStatement(_Part):
    """The strategy and its public parameters: with the dimension, all that its steps depend on."""

    name: str
    parameters: dict[str, float]


class BoundsStatement(_Part):
    """The declared limits that ratings were forced into."""

    counts: Literal["rows", "values"] = Field(description="a rated pair counts as 1, or as its value")
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
    source: NoiseSource
    refinement: int = Field(ge=1, description="r: the noise is r·Z1 + Z2 of two table draws; 1 is a single draw")
    grid_steps_per_sigma: float | None
    lattice_factor: float
    sampler_distance: float


class InputStatement(_Part):
    """Where the user list and the item universe came from, and what was done to the ratings before."""

    threshold: float | None = Field(description="only pairs rated at least this count, where one was declared")
    user_list: UserList
    item_universe: ItemUniverse
    filtered_by: str | None


class LedgerStatement(_Part):
    """The ledger's account including this release."""

    releases: int = Field(ge=1)
    mu_total: float = Field(gt=0)
    epsilon_total: float = Field(ge=0)
    budget_epsilon: float = Field(gt=0)
    budget_delta: float = Field(gt=0, lt=1)


class DimStatement(_Part):
    """How ``--dim auto`` chose: a noisy mean of squared profile norms, paid with this μ."""

    mu: float = Field(gt=0)
    noisy_mean_square: float = Field(ge=0)


class StepStatement(_Part):
    """One noisy computation on the ratings and what it cost."""

    name: str
    purpose: str
    payer: Literal["listed users", "users outside the list"] = Field(description="whose ratings it read")
    published: bool = Field(description="whether its rows are in the release; otherwise later steps alone saw them")
    rows: int = Field(ge=1)
    numbers: int = Field(ge=1, description="noisy numbers in a row")
    moved: int = Field(ge=1, description="noisy numbers that one neighbouring change can move")
    sensitivity: float = Field(gt=0, description="of the exact result, over all rows together")
    rounding: float = Field(ge=0, description="grid steps that rounding adds to the sensitivity")
    sigma: float = Field(ge=0)
    grid: float = Field(gt=0)
    refinement: int = Field(ge=1)
    mu: float | None = Field(description="(sensitivity + rounding) / sigma; null where there is no noise")
    share: float | None = Field(description="of the payer's mu squared")


class GuideStatement(_Part):
    """The release of the other party along which directions were learnt. It does not enter the promise."""

    sha256: str = Field(pattern="^[0-9a-f]{64}$", description="of its release.parquet")
    strategy: str = Field(max_length=40)
    private: bool
    epsilon: float | None
    delta: float
    unit: Literal["rating", "user"]
    missing_users: int = Field(ge=0, description="listed users without a row in it; they got a row of zeros")


class Certificate(_Part):
    """Everything a release promises; see ``docs/certificate.schema.json``."""

    schema_version: Literal[1, 2]
    private: bool
    epsilon: float | None = Field(description="exact; null where there is no noise")
    nominal_epsilon: float | None = Field(default=None, description="what Algorithm 1 of the paper would claim")
    delta: float = Field(gt=0, lt=1)
    unit: Literal["rating", "user"]
    sigma: float = Field(ge=0, description="of the last step, whose rows are published")
    sensitivity: float = Field(gt=0, description="of the last step")
    mu: float | None = Field(description="of the whole release, every step counted")
    grid: float = Field(gt=0)
    strategy: StrategyStatement
    users: int = Field(ge=1, le=1 << 27)
    items: int | None = Field(default=None, ge=1, le=1 << 24, description="size of the declared item universe")
    dim: int = Field(ge=1)
    steps: list[StepStatement] = Field(default_factory=list, max_length=64)
    guide: GuideStatement | None = None
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
        if self.schema_version == 1:
            for name in _SINCE_2:
                del content[name]
        return _canonical({**content, "digest": _digest(content)})

    @classmethod
    def from_bytes(cls, raw: bytes) -> "Certificate":
        """The certificate in these bytes; :class:`VerificationError` says what is wrong with them."""
        content = _parse(raw)
        version = content.get("schema_version")
        if type(version) is not int or not 1 <= version <= SCHEMA_VERSION:
            raise VerificationError(
                f"certificate.json has schema_version {version!r:.40}, this software knows 1 to {SCHEMA_VERSION}"
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


def rounded_up(value: float, digits: int = 6) -> float:
    """A figure for people, rounded up to so many significant digits: it never understates (by more than 10^-9).

    The 10^-9 keep a computed 4.000000000001 a 4, here and on a machine whose last bits differ.

    >>> rounded_up(10.52162), rounded_up(1.0000049), rounded_up(4.0 + 1e-12)
    (10.5217, 1.00001, 4.0)
    """
    if value == 0 or not math.isfinite(value):
        return value
    exact = Decimal(value * (1 - 1e-9))
    return float(exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), rounding=ROUND_CEILING))


def schema_text() -> str:
    """The JSON Schema of ``certificate.json``, as committed under ``docs/``."""
    schema = Certificate.model_json_schema()
    schema["title"] = f"pricdr certificate, schema versions 1 and {SCHEMA_VERSION}"
    schema["properties"]["digest"] = {
        "type": "string",
        "description": "SHA-256 of the same object without this key, written the same way",
    }
    schema["required"] = [*schema["required"], "files", "digest"]
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


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
