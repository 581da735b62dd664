"""The arms of a spec: a method, what it sees, and its settings; and arms that are points of one curve."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated, Final

from pricdr.errors import ParameterError, require_count, require_positive, require_probability
from pricdr.experiments.records import RECORD, Flag, Line, Number, Settings, Whole, limits
from pricdr.models.base import DataAccess
from pricdr.models.catalogue import METHODS, method_class, with_preset
from pricdr.privacy.accounting import Calibration
from pricdr.privacy.strategies import BY_NAME, require_arguments

MOST_COLUMNS: Final = 4_096
"""Of a simulated release."""
MOST_POINTS: Final = 100
"""Of one curve."""
GUIDE_DIM: Final = 8
"""Columns of a release that serves as a guide: the rounds that follow choose among its directions."""


class RowContent(StrEnum):
    """What the rows of a simulated release contain, controls included."""

    PRIVATE = "private"
    """Noise of the certified size."""
    NOISELESS = "noiseless"
    """NOT PRIVATE: the projection alone."""
    SHUFFLED = "shuffled"
    """Each row given to another user: whatever it gains is no transfer. Without noise for jlt and sjlt; a strategy
    that learns is given shuffled ratings, and publishes them with its noise."""
    NOISE = "noise"
    """Noise of the certified size and nothing else."""


class Guide(StrEnum):
    """What the source is guided by: a release of the target's training ratings, by ``spectral``."""

    PRIVATE = "private"
    """At the same ε and δ."""
    CLEAR = "clear"
    """NOT PRIVATE: without noise, which protects nobody on the target's side."""


class Axis(StrEnum):
    """What the arms of one curve differ in."""

    EPSILON = "epsilon"
    DIM = "dim"
    DENSITY = "density"
    SOURCE_SHARE = "source_share"

    @property
    def symbol(self) -> str:
        """The paper's letters for it."""
        return {"epsilon": "ε", "dim": "n", "density": "sp", "source_share": "sd"}[self.value]


@dataclass(frozen=True, kw_only=True)
class ReleaseSpec:
    """A simulated release: the mechanism and σ of a real one, with repeatable bits."""

    __pydantic_config__ = RECORD

    strategy: Line = "jlt"
    """A strategy by name (pricdr strategies lists them) that needs nothing beyond its columns and a guide, so not
    features. module:Class where the command line names it too."""
    dim: Annotated[Whole | None, limits(minimum=1, maximum=MOST_COLUMNS)] = None
    """Numbers per user; without it 200 for jlt and sjlt, and what suits ε for the others."""
    epsilon: Annotated[Number, limits(exclusiveMinimum=0)] = 8.0
    """Privacy loss ε, for one rating."""
    delta: Annotated[Number | None, limits(exclusiveMinimum=0, exclusiveMaximum=1)] = None
    """Chance of exceeding ε; without it, what the data says."""
    rows: RowContent = RowContent.PRIVATE
    """private: noise of the certified size. noiseless: the projection alone. shuffled: each user has another's row.
    noise: noise and nothing else. The last two are controls."""
    calibration: Calibration = Calibration.EXACT
    """exact: the least noise that ε allows. paper: that of the paper's Algorithm 1, for jlt and sjlt. It is far more
    than its ε needs, so that the exact ε of the release is far smaller."""
    density: Annotated[Number | None, limits(exclusiveMinimum=0, maximum=1)] = None
    """Of sjlt: the share of non-zeros in its sparse matrix, the paper's sp."""
    guide: Guide = Guide.PRIVATE
    """Of a guided release: a spectral release of the target's training ratings, private at the same ε and δ, or in the
    clear (without noise)."""
    refine: Flag = True
    """Of a guided release: three rounds, each one's rows a guide to the next; otherwise one."""

    def __post_init__(self) -> None:
        if self.dim is None and self.strategy in ("jlt", "sjlt"):
            object.__setattr__(self, "dim", 200)
        if self.dim is not None:
            require_count(dim=self.dim)
            if self.dim > MOST_COLUMNS:
                raise ParameterError(f"dim must be at most {MOST_COLUMNS:,}, got {self.dim:,}")
        require_positive(epsilon=self.epsilon)
        if self.delta is not None:
            require_probability(delta=self.delta)
        if self.calibration is Calibration.PAPER and self.strategy not in ("jlt", "sjlt"):
            raise ParameterError(f"calibration paper is for the paper's own jlt and sjlt, not for {self.strategy}")
        if self.density is not None:
            if self.strategy != "sjlt":
                raise ParameterError(f"density is a setting of sjlt, not of {self.strategy}")
            if not 0 < self.density <= 1:
                raise ParameterError(f"density must lie in (0, 1], got {self.density!r}")

    @property
    def strategy_name(self) -> str:
        """The strategy in the registry; module:Class stands for one where the user has named it too."""
        return BY_NAME.spelled(self.strategy)


@dataclass(frozen=True, kw_only=True)
class Point:
    """Where an arm lies on a curve."""

    __pydantic_config__ = RECORD

    curve: Line
    """The curve's name: what its arms have in common."""
    axis: Axis
    """What they differ in."""
    at: Number
    """This arm's value."""


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One row of a table: a method, what it sees, and its settings. With ``vary``, several rows: a curve."""

    __pydantic_config__ = RECORD

    name: Line
    """What the table calls it; no two arms alike."""
    method: Line
    """A method by name (pricdr methods lists them), or module:Class where the command line names it too."""
    preset: Line = "default"
    """Whose settings to start from: default, or for hetero also paper."""
    release: ReleaseSpec | None = None
    """The release that the method is given; for methods that take one."""
    plaintext: Flag = False
    """NOT PRIVATE: give the method the source's ratings as they are. For comparison."""
    source_share: Annotated[Number, limits(exclusiveMinimum=0, maximum=1)] = 1.0
    """Share of the source's ratings that are used, drawn by seed: smaller shares are parts of larger ones."""
    settings: Settings = field(default_factory=dict)
    """Settings of the method and of its training, by name; the others keep their defaults."""
    tuned: Flag = False
    """Start from the settings that a search chose for this method and data (tuned/FOLDER.toml beside the spec)."""
    tuned_with: Line | None = None
    """Whose search: the strategy of its releases, where that is in the file's name (tuned/FOLDER_STRATEGY.toml)."""
    vary: Mapping[Axis, tuple[Number, ...]] = field(default_factory=dict)
    """Write one arm for each of these values of epsilon, dim, density or source_share: { epsilon = [1, 2, 4] }. Their
    names end in the value: "jlt" becomes "jlt, ε = 1" and so on."""
    point: Point | None = None
    """Where the arm lies on a curve; ``vary`` says so by itself."""

    def __post_init__(self) -> None:
        if self.release is not None:
            kind = BY_NAME.find(self.release.strategy_name)
            require_arguments(kind, set(kind.needs) - {"guide"})  # a guide is made of the target's ratings
        given = DataAccess.RELEASE if self.release else DataAccess.PLAINTEXT if self.plaintext else DataAccess.TARGET
        needed = method_class(self.method_name).data_access()
        if given not in needed or (self.release and self.plaintext):
            raise ParameterError(f"method {self.method_name} needs {', or '.join(access.value for access in needed)}")
        if not 0 < self.source_share <= 1:
            raise ParameterError(f"source_share must lie in (0, 1], got {self.source_share!r}")
        if self.source_share != 1 and given is DataAccess.TARGET:
            raise ParameterError("source_share is for an arm that is given a release or the source's ratings")
        if self.vary and (
            self.point or len(self.vary) > 1 or not 1 <= len(next(iter(self.vary.values()))) <= MOST_POINTS
        ):
            raise ParameterError(f"vary is one list of 1 to {MOST_POINTS} values, and then the arm has no point")

    @property
    def method_name(self) -> str:
        """The method in the catalogue: a preset is one of its own, module:Class one that the user has named too."""
        return with_preset(METHODS.spelled(self.method), self.preset)

    def each(self) -> Iterator["Arm"]:
        """Yield the arms that ``vary`` asks for, or the arm itself."""
        if not self.vary:
            yield self
        for axis, values in self.vary.items():
            for value in values:
                yield self._at(axis, value)

    def _at(self, axis: Axis, value: float) -> "Arm":
        name = f"{self.name}, {axis.symbol} = {value:g}"
        arm = replace(self, name=name, vary={}, point=Point(curve=self.name, axis=axis, at=value))
        if axis is Axis.SOURCE_SHARE:
            return replace(arm, source_share=value)
        if arm.release is None:
            raise ParameterError(f"vary = {{ {axis.value} = … }} is of a release, and the arm has none")
        if axis is Axis.EPSILON:
            return replace(arm, release=replace(arm.release, epsilon=value))
        if axis is Axis.DENSITY:
            return replace(arm, release=replace(arm.release, density=value))
        if value != int(value):
            raise ParameterError(f"dim must be a whole number, got {value!r}")
        return replace(arm, release=replace(arm.release, dim=int(value)))
