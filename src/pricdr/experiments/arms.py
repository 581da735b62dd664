"""The arms of a spec and the data they run on; and the key of a result, which tells one from any other.

A key is made of everything that decides what is measured, defaults included, but for the seed and the device, which
stand beside it. A default that changes invalidates every arm that left it as it was, and no other. So does a method's
``revision``, which is raised when the same settings begin to give other models.
"""

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import MISSING, field, fields
from enum import StrEnum
from typing import Annotated, Any, Final, TypeAlias

from pydantic import Field

from pricdr.errors import ParameterError
from pricdr.experiments import records
from pricdr.experiments.records import FileName, Flag, Line, Probability, Share, Whole, from_table, naming, record
from pricdr.models.base import MAX_SOURCES, DataAccess
from pricdr.models.catalogue import METHODS, configure, method_class, with_preset
from pricdr.privacy.accounting import Calibration, Guarantee
from pricdr.privacy.strategies import BY_NAME, require_arguments
from pricdr.strategies import Guided, Spectral, Strategy

DELTA: Final = 1e-6
"""Chance of exceeding ε where nobody says otherwise."""


@record
class DataSpec:
    """Where the two domains come from and how the target is split.

    A spec may come from anywhere, so it names files and no paths: only what is in the data folder, or linked there.
    """

    folder: FileName
    """Folder of the data set, inside the folder of data sets (--data, PRICDR_DATA). A name, no path."""
    source: FileName
    """File of the source's ratings, there; or, without a suffix, a domain of the paper's data, such as Books."""
    target: FileName
    """File of the target's ratings, or such a domain."""
    more_sources: Annotated[tuple[FileName, ...], Field(max_length=MAX_SOURCES - 1)] = ()
    """Files of further sources, there. They are prepared by ``core``; the source lists the users whom it has."""
    any_source: Flag = False
    """With ``more_sources``: take the users of the target and of any source, and not only those of every source."""
    name: FileName | None = None
    """What its results are filed under, after the name of the spec. Needed where a spec has several [[data]]."""
    title: Line | None = None
    """What readers call it, such as Douban Book→Music; without it, the name of the folder."""
    paper: Line | None = None
    """The task of the paper that it is, or stands for: such as Amazon Movie→Music."""
    stand_in: Flag = False
    """Other data than the paper's of that task: shown as a stand-in, never as the task itself."""
    note: records.Text = ""
    """What the reader of its table should know, beside the note of the spec."""
    threshold: records.Number | None = None
    """Count only ratings of at least this; without it every row counts."""
    core: Annotated[Whole, Field(ge=1)] | None = None
    """The K of a joint K-core: users and items with fewer ratings are left out. Without it, the paper's five steps."""
    filtered: Flag = False
    """Take the files as they are, since their authors filtered them: threshold and core do not apply."""
    official: FileName | None = None
    """File of the authors' split, in that folder; without it, leave-one-out by seed."""
    cold: Annotated[float, Field(strict=True, ge=0, lt=1)] = 0.0
    """Share of users who lose all their target ratings in the split, to be recommended to as cold users."""
    distinct: Flag = False
    """Leave out source items that a target item repeats: products that both domains list."""
    sample: Annotated[Whole, Field(ge=1)] | None = None
    """Take so many of the users, drawn once: smaller samples are parts of larger ones."""
    delta: Probability = DELTA
    """Chance of exceeding ε, for releases that do not set their own."""
    tuned: FileName | None = None
    """The data whose chosen settings are used (tuned/NAME.toml); without it, those of a search on this data."""
    search: Mapping[str, records.Settings] = field(default_factory=dict)
    """Settings that a search on this data keeps fixed, by method: on large data larger batches."""

    def __post_init__(self) -> None:
        if self.more_sources and (self.core is None or self.filtered or self.threshold is not None or self.official):
            raise ParameterError("more_sources are prepared by core alone, without threshold, filtered and official")
        if self.sample is not None and (self.more_sources or self.official):
            raise ParameterError("sample is for data of one source and without an official split")
        if self.any_source and not self.more_sources:
            raise ParameterError("any_source is for data with more_sources")

    @property
    def search_name(self) -> str:
        """The name that trials on it are filed under."""
        return f"{self.folder}_distinct" if self.distinct else self.folder

    def content(self) -> dict[str, Any]:
        """Return what tells it from other data, as JSON has it; the rest is what it is called and tuned by."""
        files, rules = ("folder", "source", "target", "official"), ("threshold", "core", "filtered", "cold", "distinct")
        several = {"more_sources": list(self.more_sources), "any_source": self.any_source} if self.more_sources else {}
        sample = {} if self.sample is None else {"sample": self.sample}
        return {**{name: getattr(self, name) for name in (*files, *rules)}, **several, **sample}


MAX_COLUMNS: Final = 4_096
"""Of a simulated release."""
Points: TypeAlias = Annotated[tuple[records.Number, ...], Field(min_length=1, max_length=100)]
GUIDE_DIM: Final = 8
"""Columns of a release that serves as a guide: the rounds that follow choose among its directions."""


class RowContent(StrEnum):
    """What the rows of a simulated release contain, controls included."""

    PRIVATE = "private"
    NOISELESS = "noiseless"
    """NOT PRIVATE: the projection alone."""
    SHUFFLED = "shuffled"
    """Each row given to another user, without noise; a strategy that learns publishes shuffled ratings with noise."""
    NOISE = "noise"


class Guide(StrEnum):
    """What the source is guided by: a release of the target's training ratings, by ``spectral``."""

    PRIVATE = "private"
    CLEAR = "clear"
    """NOT PRIVATE: without noise, which protects nobody on the target's side."""


class Axis(StrEnum):
    """What the arms of one curve differ in."""

    EPSILON = "epsilon"
    DIM = "dim"
    DENSITY = "density"
    SOURCE_SHARE = "source_share"


_NO_BASE: Final = "dmf"
_LETTERS: Final = {Axis.EPSILON: "ε", Axis.DIM: "n", Axis.DENSITY: "sp", Axis.SOURCE_SHARE: "sd"}
"""The paper's."""


@record
class ReleaseSpec:
    """A simulated release: the mechanism and σ of a real one, with repeatable bits."""

    source: Annotated[Whole, Field(ge=1, le=MAX_SOURCES)] = 1
    """Which source publishes it, where the data has several: 1, or 2 for the first of more_sources, and so on."""
    strategy: Line = "jlt"
    """A strategy by name (see pricdr list) but for features; module:Class where the command line names it too."""
    dim: Annotated[Whole, Field(ge=1, le=MAX_COLUMNS)] | None = None
    """Numbers per user; without it 200 for jlt and sjlt, and what suits ε for the others."""
    epsilon: records.Positive = 8.0
    """Privacy loss ε, for one rating."""
    delta: Probability | None = None
    """Chance of exceeding ε; without it, what the data says."""
    rows: RowContent = RowContent.PRIVATE
    """private: noise of the certified size. noiseless: the projection alone. shuffled: each user has another's row.
    noise: noise and nothing else. The last two are controls."""
    calibration: Calibration = Calibration.EXACT
    """exact: the least noise that ε allows. paper: that of the paper's Algorithm 1, for jlt and sjlt. It is far more
    than its ε needs, so that the exact ε of the release is far smaller."""
    density: Share | None = None
    """Of sjlt: the share of non-zeros in its sparse matrix, the paper's sp."""
    guide: Guide = Guide.PRIVATE
    """Of a guided release: a spectral one of the target's training ratings, private (same ε, δ) or clear (no noise)."""
    refine: Flag = True
    """Of a guided release: three rounds, each one's rows a guide to the next; otherwise one."""

    def __post_init__(self) -> None:
        if self.dim is None and self.strategy in ("jlt", "sjlt"):
            object.__setattr__(self, "dim", 200)
        if self.calibration is Calibration.PAPER and self.strategy not in ("jlt", "sjlt"):
            raise ParameterError(f"calibration paper is for the paper's own jlt and sjlt, not for {self.strategy}")
        if self.density is not None and self.strategy != "sjlt":
            raise ParameterError(f"density is a setting of sjlt, not of {self.strategy}")

    @property
    def strategy_name(self) -> str:
        """The strategy in the registry; module:Class stands for one where the user has named it too."""
        return BY_NAME.resolve_stored(self.strategy)


@record
class CurvePoint:
    """Where an arm lies on a curve."""

    curve: Line
    """The curve's name: what its arms have in common."""
    axis: Axis
    """What they differ in."""
    at: records.Number
    """This arm's value."""


@record
class Arm:
    """One row of a table: a method, what it sees, and its settings. With ``vary``, several rows: a curve."""

    name: Line
    """What the table calls it; no two arms alike."""
    method: Line
    """A method by name (pricdr list names them), or module:Class where the command line names it too."""
    preset: Line = "default"
    """Whose settings to start from: default, or for hetero also paper."""
    release: ReleaseSpec | None = None
    """The release that the method is given; for methods that take one."""
    more_releases: Annotated[tuple[ReleaseSpec, ...], Field(max_length=MAX_SOURCES - 1)] = ()
    """Further releases that it is given beside that one; each has noise of its own."""
    plaintext: Flag = False
    """NOT PRIVATE: give the method the ratings of all sources as they are. For comparison."""
    source_share: Share = 1.0
    """Share of the source's ratings that are used, drawn by seed: smaller shares are parts of larger ones."""
    settings: records.Settings = field(default_factory=dict)
    """Settings of the method and of its training, by name; the others keep their defaults."""
    tuned: Flag = False
    """Start from the settings that a search chose for this method and data (tuned/FOLDER.toml beside the spec)."""
    tuned_with: FileName | None = None
    """Whose search: the strategy of its releases, where that is in the file's name (tuned/FOLDER_STRATEGY.toml)."""
    vary: Annotated[Mapping[Axis, Points], Field(max_length=1)] = field(default_factory=dict)
    """Write one arm for each of these values of epsilon, dim, density or source_share: { epsilon = [1, 2, 4] }. Their
    names end in the value: "jlt" becomes "jlt, ε = 1" and so on."""
    point: CurvePoint | None = None
    """Where the arm lies on a curve; ``vary`` says so by itself."""

    def __post_init__(self) -> None:
        if self.source_share != 1 and not (self.release or self.plaintext):
            raise ParameterError("source_share is for an arm that is given a release or the source's ratings")
        if self.more_releases and not self.release:
            raise ParameterError("more_releases are given beside a release, and the arm has none")
        if self.vary and self.point:
            raise ParameterError("an arm that varies has no point: its values are points")

    @property
    def releases(self) -> tuple[ReleaseSpec, ...]:
        """Every release that the method is given."""
        return () if self.release is None else (self.release, *self.more_releases)

    @property
    def method_name(self) -> str:
        """The method in the catalogue: a preset is one of its own, module:Class one that the user has named too."""
        return with_preset(METHODS.resolve_stored(self.method), self.preset)

    def require_known(self) -> None:
        """Refuse a method or a strategy that is not installed, and a method that is not given what it needs."""
        for release in self.releases:
            kind = BY_NAME.find(release.strategy_name)
            require_arguments(kind, set(kind.needs) - {"guide"})  # a guide is made of the target's ratings
        given = DataAccess.RELEASE if self.release else DataAccess.PLAINTEXT if self.plaintext else DataAccess.TARGET
        needed = method_class(self.method_name).data_access()
        if given not in needed or (self.release and self.plaintext):
            raise ParameterError(f"method {self.method_name} needs {', or '.join(access.value for access in needed)}")

    def is_called(self, names: Collection[str]) -> bool:
        """Return whether its name, or that of its curve, is among these."""
        return self.name in names or (self.point is not None and self.point.curve in names)

    def each(self) -> Iterator["Arm"]:
        """Yield the arms that ``vary`` asks for, or the arm itself."""
        for axis, values in self.vary.items():
            for value in values:
                with naming(f"arm {self.name!r}"):
                    yield self._at(axis, value)
        if not self.vary:
            yield self

    def _at(self, axis: Axis, value: float) -> "Arm":
        name, point = f"{self.name}, {_LETTERS[axis]} = {value:g}", CurvePoint(curve=self.name, axis=axis, at=value)
        changed: dict[str, Any] = {axis.value: value}
        if axis is not Axis.SOURCE_SHARE:
            if self.release is None:
                raise ParameterError(f"vary = {{ {axis.value} = … }} is of a release, and the arm has none")
            first, *more = (from_table(ReleaseSpec, {**vars(release), **changed}) for release in self.releases)
            changed = {"release": first, "more_releases": tuple(more)}
        return from_table(Arm, {**vars(self), "name": name, "vary": {}, "point": point, **changed})


def result_key(data: DataSpec, arm: Arm, *, full: bool) -> str:
    """Return the key of an arm's results on this data."""
    return key_of({"data": data.content(), "arm": resolved(data, arm), "full": full})


def key_of(settings: Mapping[str, Any]) -> str:
    """Return the key of results that these settings, resolved, tell from any others."""
    # Every number as a float, so that 4 and 4.0 are the same setting.
    alike = json.loads(json.dumps(settings, default=repr), parse_int=float)
    return hashlib.sha256(json.dumps(alike, sort_keys=True).encode()).hexdigest()[:16]


def resolved(data: DataSpec, arm: Arm) -> dict[str, Any]:
    """Return everything that decides what an arm measures beside data and seed: no name, and every default."""
    settings = configure(arm.method_name, arm.settings).settings()
    for name in ("seed", "device"):
        settings.get("options", {}).pop(name, None)
    if settings.get("config", {}).get("base") == _NO_BASE:  # which is how it was before there were bases
        del settings["config"]["base"]
    more = [_resolved_release(data, release) for release in arm.more_releases]
    return {
        "method": arm.method_name,
        "revision": method_class(arm.method_name).revision,
        "settings": settings,
        "release": None if arm.release is None else _resolved_release(data, arm.release),
        **({"more_releases": more} if more else {}),
        "plaintext": arm.plaintext,
        "source_share": arm.source_share if arm.release or arm.plaintext else None,
    }


def _resolved_release(data: DataSpec, release: ReleaseSpec) -> dict[str, Any]:
    kind = BY_NAME.find(release.strategy_name)
    guarantee = Guarantee(epsilon=release.epsilon, delta=release.delta or data.delta)
    given: dict[str, Any] = {"dim": release.dim or kind.default_dim(guarantee)}
    if release.density is not None:
        given["density"] = release.density
    if kind is Guided:
        guide = {"rows": release.guide.value, **resolved_strategy(Spectral, {"dim": GUIDE_DIM})}
        given |= {"refine": release.refine, "guide": guide}
    return {
        **({"source": release.source} if release.source > 1 else {}),
        "strategy": release.strategy_name,
        **resolved_strategy(kind, given),
        "epsilon": guarantee.epsilon,
        "delta": guarantee.delta,
        "rows": release.rows.value,
        "calibration": release.calibration.value,
    }


def resolved_strategy(kind: type[Strategy], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return everything that decides what a strategy computes: what it is given, every default, and its revision."""
    defaults = {one.name: None if one.default is MISSING else one.default for one in fields(kind)}
    return {"revision": kind.revision, "constants": defaults | dict(given)}
