"""``Certificate``: what a release promises, as a file. It states only what was declared, drawn or entered in a ledger.

Nothing in it is read off the ratings: no counts, ranges, means or hashes of the input. The meaning of a field never
changes within a schema version (``docs/certificate.schema.json``). Every number and every text is bounded, so that
checking a hostile certificate never computes with absurd figures. Which fields follow from which: ``certify``.
"""

import hashlib
import json
import math
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import ROUND_CEILING, Decimal
from functools import partial
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from pricdr.data.periods import Window
from pricdr.errors import MAX_SCALE, ParameterError, VerificationError
from pricdr.extensions import NAME_PATTERN

SCHEMA_VERSION: Final = 7  # the only one that is read
MAX_BYTES: Final = 1 << 20
TOLERANCE: Final = 1e-9  # relative: another machine may compute the last bits of a figure differently
_LARGEST: Final = 1e50  # of figures that follow from what was declared: its square is still finite


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must be one line of printable text")
    return text


def require_words(name: str, limit: int, text: str) -> str:
    """Refuse words of a source, shown with its release, that are not one clean line."""
    if not (0 < len(text) <= limit and text.isprintable() and text == text.strip()):
        rule = f"1 to {limit} printable characters without a space at either end"
        raise ParameterError(f"{name} must be {rule}, got {text!r:.60}")
    return text


require_issuer: Final = partial(require_words, "issuer", 200)


def _calendar_day(text: str) -> str:
    date.fromisoformat(text)
    return text


def _zero_or_scale(value: float) -> float:
    if 0 < value < 1 / _LARGEST:
        raise ValueError(f"must be 0 or at least {1 / _LARGEST:g}")
    return value


Epsilon: TypeAlias = Annotated[float, Field(ge=0, le=1e9)]
Delta: TypeAlias = Annotated[float, Field(ge=1e-300, lt=1)]
Mu: TypeAlias = Annotated[float, Field(gt=0, le=_LARGEST)]
DeclaredScale: TypeAlias = Annotated[float, Field(ge=1 / MAX_SCALE, le=MAX_SCALE)]
Threshold: TypeAlias = Annotated[float, Field(ge=-MAX_SCALE, le=MAX_SCALE)]
Scale: TypeAlias = Annotated[float, Field(ge=1 / _LARGEST, le=_LARGEST)]
Sigma: TypeAlias = Annotated[float, Field(ge=0, le=_LARGEST), AfterValidator(_zero_or_scale)]
Count: TypeAlias = Annotated[int, Field(ge=1, le=1 << 62)]
Items: TypeAlias = Annotated[int, Field(ge=1, le=1 << 24)]
Refinement: TypeAlias = Annotated[int, Field(ge=1, le=256)]
Text: TypeAlias = Annotated[str, Field(max_length=400), AfterValidator(_printable)]
Name: TypeAlias = Annotated[str, Field(max_length=40), AfterValidator(_printable)]
Issuer: TypeAlias = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(require_issuer)]
Day: TypeAlias = Annotated[str, Field(pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}$"), AfterValidator(_calendar_day)]
Sha256: TypeAlias = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Nonce: TypeAlias = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
PublicKey: TypeAlias = Annotated[str, Field(pattern="^[A-Za-z0-9+/]{43}=$")]
UnitName: TypeAlias = Literal["rating", "user", "user-period"]
StrategyName: TypeAlias = Annotated[str, Field(pattern=NAME_PATTERN)]
"""Any name that a strategy can have, since packages of others bring their own. README.md repeats it: no markup."""
NoiseSource: TypeAlias = Literal["secret", "seeded", "none"]
ItemUniverse: TypeAlias = Literal["declared", "read off the ratings", "not needed"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)


class StrategyStatement(_Part):
    """The strategy and its public parameters: with the dimension, all that its steps depend on."""

    name: StrategyName
    parameters: dict[Name, Annotated[float, Field(ge=0, le=MAX_SCALE)]] = Field(max_length=16)


class BoundsStatement(_Part):
    """The declared limits that ratings were forced into."""

    counts: Literal["rows", "values"] = Field(description="a rated pair counts as 1, or as its value")
    rating_bound: DeclaredScale
    rating_step: DeclaredScale
    clip: DeclaredScale | None


class EpsilonAtDelta(_Part):
    """One point of the privacy curve."""

    delta: Delta
    epsilon: Epsilon | None = Field(description="null where it is beyond anything that can be certified")


class WindowStatement(_Part):
    """The days in UTC whose ratings were read, and the periods that they are cut into."""

    begin: Day
    until: Day = Field(description="the day after the last one")
    days: Annotated[int, Field(ge=1, le=99_999)] | None = Field(description="in a period; null where the window is one")

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        self.window()  # refuses one that ends before it begins
        return self

    @classmethod
    def of(cls, window: Window | None) -> "WindowStatement | None":
        """Return the statement about a window."""
        if window is None:
            return None
        return cls(begin=window.begin.isoformat(), until=window.until.isoformat(), days=window.days)

    def window(self) -> Window:
        """Return the window that is stated."""
        return Window(date.fromisoformat(self.begin), date.fromisoformat(self.until), self.days)


class ReplacementFigure(_Part):
    """What it costs to replace all of a user's ratings, which is to remove some and to add others."""

    mu: Mu
    epsilon: Epsilon | None = Field(description="null where it is beyond anything that can be certified")


class GroupFigure(_Part):
    """What a rating-level promise means for a user with this many ratings, as ε at the certificate's δ."""

    ratings: Count
    removed_at_worst: Epsilon | None = Field(description="null where the cost is beyond anything that can be certified")
    replaced_at_worst: Epsilon | None
    removed_typically: Epsilon | None = Field(description="for rows in independent random directions")


class NoiseStatement(_Part):
    """The law of the noise and where its bits came from."""

    law: Text
    source: NoiseSource
    refinement: Refinement = Field(description="r: the noise is r·Z1 + Z2 of two table draws; 1 is a single draw")
    grid_steps_per_sigma: Scale | None
    lattice_factor: Scale
    sampler_distance: float = Field(ge=0, le=1)


class AlignmentStatement(_Part):
    """How ``pricdr align`` found the user list, by the source's own account; sizes are between the two parties."""

    session: Nonce = Field(description="random; the records that both parties have of the exchange begin with it")
    normalisation: Literal["exact", "email", "phone"] = Field(description="what was done to ids before the comparison")
    learnt_by: Literal["starter", "both"] = Field(description="whom the exchange told which users both parties have")


class InputStatement(_Part):
    """Where the user list and the item universe came from, and what was done to the ratings before."""

    threshold: Threshold | None = Field(description="only pairs rated at least this count, where one was declared")
    user_list: Literal["declared", "read off the ratings"]
    item_universe: ItemUniverse
    filtered_by: Text | None = Field(description="in the words of whoever filtered them")
    alignment: AlignmentStatement | None = Field(description="where a private set intersection found the user list")


class LedgerStatement(_Part):
    """The ledger's account including this release; the last four fields are null in a dry run, which records none."""

    releases: Count = Field(description="recorded so far, this one included: also this release's number in the ledger")
    mu_total: Mu
    epsilon_total: Epsilon = Field(
        description="what the releases so far cost together had all been fixed in advance; for orientation: "
        "the promise is the budget"
    )
    budget_epsilon: Epsilon
    budget_delta: Delta
    numbers: Count = Field(description="noisy numbers that the ledger counts for this release")
    recorded: Day | None = Field(description="the day in UTC on which the ledger recorded it")
    nonce: Nonce | None = Field(description="random; in this release's line and in no other")
    opening: Sha256 | None = Field(description="SHA-256 of the ledger's first line: which ledger it is")
    head: Sha256 | None = Field(
        description="hash of this release's line, which covers everything in the ledger before it"
    )


class StepStatement(_Part):
    """One noisy computation on the ratings and what it cost."""

    name: Name
    purpose: Text
    published: bool = Field(description="whether its rows are in the release; otherwise later steps alone saw them")
    rows: Count
    numbers: Count = Field(description="noisy numbers in a row")
    moved: Count = Field(description="noisy numbers that one neighbouring change can move")
    sensitivity: Scale = Field(description="of the exact result, over all rows together")
    rounding: float = Field(ge=0, le=_LARGEST, description="grid steps that rounding adds to the sensitivity")
    sigma: Sigma
    grid: Scale
    refinement: Refinement
    mu: Mu | None = Field(description="(sensitivity + rounding) / sigma; null where there is no noise")
    share: float | None = Field(ge=0, le=2, description="of mu squared")


class GuideStatement(_Part):
    """The release of the other party along which directions were learnt; it does not enter the promise."""

    sha256: Sha256 = Field(description="of its release.safetensors")
    strategy: StrategyName
    private: bool
    epsilon: Epsilon | None
    delta: Delta
    unit: UnitName
    missing_users: int = Field(
        ge=0, le=1 << 27, description="listed users without a row in it; they got a row of zeros"
    )


class SeriesStatement(_Part):
    """The releases of the same source along whose sum directions were learnt; they do not enter the promise."""

    first: Sha256 = Field(description="of the first release's release.safetensors: which series it is")
    place: int = Field(ge=2, le=1 << 20, description="in the series; places may be missing")
    before: Sha256 = Field(description="of the release.safetensors of the release before it")
    before_place: int = Field(ge=1, le=1 << 20)


class Certificate(_Part):
    """Everything a release promises; see ``docs/certificate.schema.json``."""

    schema_version: Literal[7] = SCHEMA_VERSION
    private: bool = Field(description="noise that nobody can draw again, and an exact epsilon of at most 16")
    epsilon: Epsilon | None = Field(description="exact; null where there is no noise")
    nominal_epsilon: Epsilon | None = Field(default=None, description="what Algorithm 1 of the paper would claim")
    delta: Delta
    unit: UnitName
    window: WindowStatement | None = Field(description="null where rows of every day count, with a time or without")
    sigma: Sigma = Field(description="of the last step, whose rows are published")
    sensitivity: Scale = Field(description="of the last step")
    mu: Mu | None = Field(description="of the whole release, every step counted")
    grid: Scale
    strategy: StrategyStatement
    users: int = Field(ge=1, le=1 << 27)
    items: Items | None = Field(description="size of the declared item universe")
    dim: int = Field(ge=1, le=1 << 20)
    steps: list[StepStatement] = Field(min_length=1, max_length=64)
    guide: GuideStatement | None
    series: SeriesStatement | None = Field(description="null for a release that goes on from no other")
    neighbours: Text
    epsilon_at_delta: list[EpsilonAtDelta] = Field(max_length=16)
    whole_user: list[GroupFigure] = Field(max_length=16)
    replacement: ReplacementFigure | None = Field(description="units of users; null for one rating")
    bounds: BoundsStatement
    calibration: Literal["exact", "paper"]
    noise: NoiseStatement
    input: InputStatement
    ledger: LedgerStatement | None
    not_protected: list[Text] = Field(max_length=32)
    warnings: list[Text] = Field(max_length=32)
    software: str = Field(pattern=r"^pricdr [0-9]{1,4}(\.[0-9]{1,4}){2}((a|b|rc|\.dev|\.post)[0-9]{1,4})?$")
    issuer: Issuer | None = Field(description="who published it, in its own words: a claim")
    issued: Day | None = Field(description="the day in UTC by the source's clock: a claim")
    signed_by: PublicKey | None = Field(default=None, description="Ed25519 public key, base64")
    files: dict[Name, Sha256] = Field(default_factory=dict, max_length=8, description="name to SHA-256")

    @property
    def promises(self) -> bool:
        """Whether ε and δ hold: nobody can draw the noise again. With a large ε it is not private all the same."""
        return self.noise.source == "secret"

    @property
    def noisy(self) -> bool:
        """Whether there is noise, secret or not."""
        return self.noise.source != "none"

    @property
    def asked(self) -> float | None:
        """The ε that was asked for."""
        return self.epsilon if self.nominal_epsilon is None else self.nominal_epsilon

    @property
    def promise(self) -> str:
        """What it promises on one line, every figure rounded up; first of all, that it is not private."""
        if not self.promises or self.epsilon is None or self.mu is None:
            return "none: NOT PRIVATE"
        epsilon, delta, mu = (f"{rounded_up(value, 4):g}" for value in (self.epsilon, self.delta, self.mu))
        within = "" if self.window is None else f" ({self.window.window()})"
        promise = f"ε = {epsilon}, δ = {delta}, μ = {mu}, for one {self.unit}{within}"
        return promise if self.private else f"NOT PRIVATE: {promise}"

    def to_bytes(self) -> bytes:
        """Return the one spelling of this certificate, which ends with a digest of all before it."""
        content = self.model_dump(mode="json")
        if self.nominal_epsilon is None:
            del content["nominal_epsilon"]
        return seal(content)

    @classmethod
    def from_bytes(cls, raw: bytes) -> "Certificate":
        """Return the certificate that has this spelling."""
        if len(raw) > MAX_BYTES:
            raise VerificationError(f"certificate.json has over {MAX_BYTES} bytes")
        try:
            content = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise VerificationError("certificate.json is not JSON text") from error
        if not isinstance(content, dict):
            raise VerificationError("certificate.json does not hold a JSON object")
        version = content.get("schema_version")
        if type(version) is not int or version != SCHEMA_VERSION:
            known = f"this software knows {SCHEMA_VERSION}"
            raise VerificationError(f"certificate.json has schema_version {version!r:.40}, {known}")
        content.pop("digest", None)
        try:
            certificate = cls.model_validate(content)
        except ValidationError as error:
            first = error.errors()[0]
            raise VerificationError(
                f"certificate.json: {'.'.join(map(str, first['loc']))}: {first['msg']}, got {first['input']!r:.60}"
            ) from error
        # A certificate has one spelling, digest included: nothing can hide in spaces or number formats.
        if certificate.to_bytes() != raw:
            raise VerificationError("certificate.json was changed after it was written: its digest does not fit")
        return certificate


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - whatever JSON can hold
    """Yield every value in JSON that is no list or object, with its path, as in ``steps.0.sigma``."""
    if isinstance(value, dict | list):
        for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, f"{path}.{name}" if path else str(name))
    else:
        yield path, value


def alike(left: Any, right: Any) -> bool:  # noqa: ANN401 - whatever JSON can hold
    """Return whether two values are equal, figures up to their last bits."""
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=TOLERANCE)
    return bool(left == right)


def today() -> str:
    """Return the day in UTC, by this machine's clock."""
    return datetime.now(UTC).date().isoformat()


def rounded_up(value: float, digits: int = 6) -> float:
    """Return a figure for people, rounded up: it never understates by over 10^-9, so that 4.000000000001 is a 4."""
    if value == 0 or not math.isfinite(value):
        return value
    exact = Decimal(value * (1 - 1e-9))
    return float(exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), rounding=ROUND_CEILING))


def schema_text() -> str:
    """Return the JSON Schema, as committed under ``docs/``."""
    schema = Certificate.model_json_schema()
    schema["title"] = f"pricdr certificate, schema version {SCHEMA_VERSION}"
    schema["properties"]["digest"] = {
        "type": "string",
        "description": "SHA-256 of the same object without this key, written the same way",
    }
    schema["required"] = [*schema["required"], "files", "digest"]
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def seal(content: dict[str, Any]) -> bytes:
    """Return the content as a certificate is written, closing with a digest of itself."""
    return _canonical({**content, "digest": hashlib.sha256(_canonical(content)).hexdigest()})


def _canonical(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()
