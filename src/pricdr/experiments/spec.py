"""A spec: one TOML file says which data, which methods and which controls make one table."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field, TypeAdapter

from pricdr.data.reading.text_files import shorten
from pricdr.data.toml_files import read_toml
from pricdr.errors import (
    InputError,
    ParameterError,
    require_count,
    require_file_name,
    require_positive,
    require_probability,
    require_share,
)
from pricdr.experiments.records import (
    RECORD,
    FileName,
    Flag,
    Line,
    Number,
    Settings,
    Text,
    Whole,
    from_table,
    limits,
)
from pricdr.models.base import DataAccess
from pricdr.models.catalogue import METHODS, configure, method_class, with_preset
from pricdr.privacy.calibration import Calibration
from pricdr.privacy.registry import BY_NAME, require_arguments

MOST_ARMS: Final = 1_000
MOST_SEEDS: Final = 1_000
MOST_COLUMNS: Final = 4_096
"""Of a simulated release."""
_ADDED: Final = frozenset(("guide", "refine", "calibration", "density"))
"""Fields that releases did not have at first: keys of results count them only where they say something."""


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


@dataclass(frozen=True, kw_only=True)
class DataSpec:
    """Where the two domains come from and how the target is split.

    A spec may come from anywhere, so it names files and no paths: nothing outside the data folder is read because a
    spec says so. What is linked into that folder was put there by its owner.
    """

    __pydantic_config__ = RECORD

    folder: FileName
    """Folder of the data set, inside the folder of data sets (--data, PRICDR_DATA). A name, no path."""
    source: FileName
    """File of the source's ratings, in that folder."""
    target: FileName
    """File of the target's ratings, in that folder."""
    threshold: Number | None = None
    """Count only ratings of at least this; without it every row counts."""
    core: Annotated[Whole | None, limits(minimum=1)] = None
    """The K of a joint K-core: users and items with fewer ratings are left out. Without it, the paper's
    preprocessing."""
    filtered: Flag = False
    """Take the files as they are, since their authors filtered them: threshold and core do not apply."""
    official: FileName | None = None
    """File of the authors' split, in that folder; without it, leave-one-out by seed."""
    cold: Annotated[Number, limits(minimum=0, exclusiveMaximum=1)] = 0.0
    """Share of users who lose all their target ratings in the split, to be recommended to as cold users."""
    distinct: Flag = False
    """Leave out source items that a target item repeats: products that both domains list."""

    def __post_init__(self) -> None:
        require_file_name(folder=self.folder, source=self.source, target=self.target)
        if self.official is not None:
            require_file_name(official=self.official)
        if self.core is not None:
            require_count(core=self.core)
        require_share(cold=self.cold)

    @property
    def name(self) -> str:
        """The name that its trials are filed under."""
        return f"{self.folder}_distinct" if self.distinct else self.folder

    def content(self) -> dict[str, Any]:
        """Return what tells it from other data, as JSON has it."""
        # Keys from before there was ``distinct`` stay valid: it counts only where it is set.
        return {name: value for name, value in asdict(self).items() if name != "distinct" or value}


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
    delta: Annotated[Number, limits(exclusiveMinimum=0, exclusiveMaximum=1)] = 1e-6
    """Chance of exceeding ε."""
    rows: RowContent = RowContent.PRIVATE
    """private: noise of the certified size. noiseless: the projection alone. shuffled: each user has another's row.
    noise: noise and nothing else. The last two are controls."""
    guide: Guide = Guide.PRIVATE
    """Of a guided release: a spectral release of the target's training ratings, private at the same ε and δ, or in the
    clear (without noise)."""
    refine: Flag = True
    """Of a guided release: three rounds, each one's rows a guide to the next; otherwise one."""
    calibration: Calibration = Calibration.EXACT
    """How the size of the noise follows from ε and δ. exact: no more than they need. paper: Algorithm 1's w, for jlt
    and sjlt, which delivers a far smaller ε than the one it is given."""
    density: Annotated[Number | None, limits(exclusiveMinimum=0, maximum=1)] = None
    """Share of non-zeros in the sparse projection of sjlt, the paper's sp; without it 0.5."""

    def __post_init__(self) -> None:
        kind = BY_NAME.find(self.strategy_name)
        require_arguments(kind, set(kind.needs) - {"guide"})  # a guide is made of the target's ratings
        if self.dim is None and self.strategy in ("jlt", "sjlt"):
            object.__setattr__(self, "dim", 200)
        if self.dim is not None:
            require_count(dim=self.dim)
            if self.dim > MOST_COLUMNS:
                raise ParameterError(f"dim must be at most {MOST_COLUMNS:,}, got {self.dim:,}")
        require_positive(epsilon=self.epsilon)
        require_probability(delta=self.delta)
        if self.calibration is Calibration.PAPER and not kind.rows_cancel:
            raise ParameterError(f"calibration paper is for the paper's own jlt and sjlt, not for {kind.name}")
        if self.density is not None:
            if self.strategy != "sjlt":
                raise ParameterError(f"density is a setting of sjlt, not of {kind.name}")
            if not 0 < self.density <= 1:
                raise ParameterError(f"density must lie in (0, 1], got {self.density!r}")

    @property
    def strategy_name(self) -> str:
        """The strategy in the registry; module:Class stands for one where the user has named it too."""
        return BY_NAME.spelled(self.strategy)


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One row of a table: a method, what it sees, and its settings."""

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
    settings: Settings = field(default_factory=dict)
    """Settings of the method and of its training, by name; the others keep their defaults."""
    tuned: Flag = False
    """Start from the settings that a search chose for this method and data (tuned/FOLDER.toml beside the spec)."""
    source_share: Annotated[Number, limits(exclusiveMinimum=0, maximum=1)] = 1.0
    """Share of the source's ratings that are used, drawn by the seed; a smaller share lies within a larger one."""

    def content(self) -> dict[str, Any]:
        """Return what tells it from other arms, as JSON has it."""
        # Keys from before a release could have a guide stay valid: guides count only where there is one. So do keys
        # from before the rest: it counts only where it is set.
        content = asdict(self)
        if self.source_share == 1:
            del content["source_share"]
        if self.release is not None:
            release = {name: value for name, value in content["release"].items() if name not in _ADDED}
            if self.release.strategy == "guided":
                release |= {name: content["release"][name] for name in ("guide", "refine")}
            if self.release.calibration is not Calibration.EXACT:
                release["calibration"] = self.release.calibration.value
            if self.release.density is not None:
                release["density"] = self.release.density
            content["release"] = release
        return content

    def __post_init__(self) -> None:
        if not 0 < self.source_share <= 1:
            raise ParameterError(f"source_share must lie in (0, 1], got {self.source_share!r}")
        given = DataAccess.RELEASE if self.release else DataAccess.PLAINTEXT if self.plaintext else DataAccess.TARGET
        if self.source_share != 1 and given is DataAccess.TARGET:
            raise ParameterError("source_share is for an arm that is given a release or the source's ratings")
        needed = method_class(self.method_name).data_access()
        if given not in needed or (self.release and self.plaintext):
            raise ParameterError(f"method {self.method_name} needs {', or '.join(access.value for access in needed)}")

    @property
    def method_name(self) -> str:
        """The method in the catalogue: a preset is one of its own, module:Class one that the user has named too."""
        return with_preset(METHODS.spelled(self.method), self.preset)


@dataclass(frozen=True, kw_only=True)
class Spec:
    """One table: its data, its arms, and the seeds that every arm is run with."""

    __pydantic_config__ = RECORD

    name: FileName
    """What its results are filed under; without it, the name of the spec's file."""
    title: Line
    """Heading of the table."""
    data: DataSpec
    """Where the two domains come from."""
    arms: Annotated[tuple[Arm, ...], Field(validation_alias="arm"), limits(minItems=1, maxItems=MOST_ARMS)]
    """Rows of the table: in a file, one [[arm]] each."""
    seeds: Annotated[tuple[Whole, ...], limits(minItems=1, maxItems=MOST_SEEDS, uniqueItems=True)] = (1, 2, 3, 4, 5)
    """Whole numbers from 0 on: every arm is run with each. A seed decides the split, the release and the network."""
    full: Flag = True
    """Rank among all items too, beside the 99 negatives."""
    note: Text = ""
    """What the reader of the table should know."""
    baseline: Line | None = None
    """The arm that the others are compared with, seed by seed."""
    ceiling: Line | None = None
    """The arm whose gain over the baseline counts as all there is to gain."""
    search: dict[str, Settings] = field(default_factory=dict)
    """Settings that a search on this data keeps fixed, by method: on large data larger batches."""

    def __post_init__(self) -> None:
        require_file_name(name=self.name)
        if not 1 <= len(self.arms) <= MOST_ARMS:
            raise ParameterError(f"arms are written as [[arm]], one at least and {MOST_ARMS:,} at most")
        names = [arm.name for arm in self.arms]
        for name in {name for name in names if names.count(name) > 1}:
            raise ParameterError(f"arms need different names, and {shorten(name)} is that of several")
        for role, referred in (("baseline", self.baseline), ("ceiling", self.ceiling)):
            if referred not in (None, *names):
                raise ParameterError(f"{role} {referred!r} is none of the arms")
        if not 1 <= len(self.seeds) <= MOST_SEEDS or len(set(self.seeds)) != len(self.seeds) or min(self.seeds) < 0:
            rule = f"one or more and at most {MOST_SEEDS:,} whole numbers from 0 on, all different"
            raise ParameterError(f"seeds must be {rule}, got {shorten(list(self.seeds))}")

    def key(self, arm: Arm) -> str:
        """Return what tells one arm on one data set from any other, settings included: results are looked up by it."""
        content = json.dumps([self.data.content(), arm.content(), self.full], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:16]


def read_spec(path: Path, tuned: Path | None = None) -> Spec:
    """Return the spec in ``path``, its arms with all their settings.

    Args:
        path: a TOML file.
        tuned: the folder of settings that searches chose, one TOML file per data folder.
    """
    with _naming(path):
        spec = _read(path)
        chosen = _chosen_settings(tuned, spec.data)
        return replace(spec, arms=tuple(_with_settings(arm, chosen) for arm in spec.arms))


def read_search(path: Path) -> tuple[DataSpec, Mapping[str, Mapping[str, Any]]]:
    """Return the data of a spec and what a search keeps fixed there; its arms may wait for that search."""
    with _naming(path):
        spec = _read(path)
        for method, settings in spec.search.items():
            configure(method, settings)
    return spec.data, spec.search


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Name the spec in every refusal."""
    try:
        yield
    except ParameterError as error:
        raise InputError(f"{path}: {error}") from error


def _read(path: Path) -> Spec:
    return from_table(_records(), {"name": path.stem, **read_toml(path)})


@cache
def _records() -> TypeAdapter[Spec]:
    """Return what checks a spec, made once: it reads the descriptions of all fields off their source."""
    return TypeAdapter(Spec)


def _chosen_settings(tuned: Path | None, data: DataSpec) -> dict[str, Any]:
    """Return what a search on this data chose, or on all of it where there was none without duplicate items."""
    files = [] if tuned is None else [tuned / f"{name}.toml" for name in (data.name, data.folder)]
    return next((read_toml(file) for file in files if file.exists()), {})


def _with_settings(arm: Arm, chosen: Mapping[str, Any]) -> Arm:
    """Return the arm with the settings that a search chose, where it asks for them, once its method takes them all."""
    try:
        if arm.tuned:
            if not isinstance(chosen.get(arm.method), dict):
                raise ParameterError(f"no settings of {arm.method} were chosen for this data by a search")
            arm = replace(arm, settings={**chosen[arm.method], **arm.settings})
        configure(arm.method_name, arm.settings)
    except ParameterError as error:
        raise ParameterError(f"arm {arm.name!r}: {error}") from error
    return arm
