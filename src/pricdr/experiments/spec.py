"""A spec: one TOML file says which data, which methods and which controls make one table."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from pricdr.data.reading.text_files import shorten
from pricdr.data.toml_files import read_toml
from pricdr.errors import (
    InputError,
    ParameterError,
    PriCDRError,
    require_count,
    require_file_name,
    require_positive,
    require_probability,
    require_share,
)
from pricdr.experiments.records import build
from pricdr.models.base import DataAccess
from pricdr.models.catalogue import METHODS, configure, method_class, with_preset

MOST_ARMS: Final = 1_000
MOST_SEEDS: Final = 1_000
MOST_COLUMNS: Final = 4_096
"""Of a simulated release."""
_LONGEST_NAME: Final = 200
"""Characters in the name of an arm, or a title."""


class Rows(StrEnum):
    """What the rows of a release are, controls included."""

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


STRATEGIES = ("jlt", "sjlt", "spectral", "guided")


@dataclass(frozen=True, kw_only=True)
class DataSpec:
    """Where the two domains come from and how the target is split.

    A spec may come from anywhere, so it names files and no paths: nothing outside the data folder is read because a
    spec says so. What is linked into that folder was put there by its owner.
    """

    folder: str
    """In the data folder."""
    source: str
    """A file in ``folder``, like ``target`` and ``official``."""
    target: str
    threshold: float | None = None
    core: int | None = None
    """The K of a joint K-core."""
    filtered: bool = False
    """The files are taken as they are: their authors filtered them."""
    official: str | None = None
    """The authors' split, a file of the folder; otherwise leave-one-out by seed."""
    cold: float = 0.0
    distinct: bool = False
    """Without source items that a target item repeats, see :meth:`DomainPair.duplicate_items`."""

    def __post_init__(self) -> None:
        require_file_name(folder=self.folder, source=self.source, target=self.target)
        if self.official is not None:
            require_file_name(official=self.official)
        if self.core is not None:
            require_count(core=self.core)
        require_share(cold=self.cold)

    @property
    def name(self) -> str:
        """What its trials are filed under."""
        return f"{self.folder}_distinct" if self.distinct else self.folder

    def content(self) -> dict[str, Any]:
        """What tells it from other data; results from before there was ``distinct`` are found again."""
        return {name: value for name, value in asdict(self).items() if name != "distinct" or value}


@dataclass(frozen=True, kw_only=True)
class ReleaseSpec:
    """A simulated release: the mechanism and σ of a real one, with repeatable bits."""

    strategy: str = "jlt"
    dim: int | None = None
    """Columns; without it 200 for jlt and sjlt, and what suits ε for the others."""
    epsilon: float = 8.0
    delta: float = 1e-6
    rows: Rows = Rows.PRIVATE
    guide: Guide = Guide.PRIVATE
    """What a guided release has for a guide."""
    refine: bool = True

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise ParameterError(f"strategy must be one of {', '.join(STRATEGIES)}, got {self.strategy!r}")
        for name, kind in (("rows", Rows), ("guide", Guide)):
            if getattr(self, name) not in list(kind):
                raise ParameterError(f"{name} must be one of {', '.join(kind)}, got {getattr(self, name)!r}")
        if self.dim is None and self.strategy in ("jlt", "sjlt"):
            object.__setattr__(self, "dim", 200)
        if self.dim is not None:
            require_count(dim=self.dim)
            if self.dim > MOST_COLUMNS:
                raise ParameterError(f"dim must be at most {MOST_COLUMNS:,}, got {self.dim:,}")
        require_positive(epsilon=self.epsilon)
        require_probability(delta=self.delta)


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One row of a table: a method, what it sees, and its settings."""

    name: str
    method: str
    preset: str = "default"
    release: ReleaseSpec | None = None
    plaintext: bool = False
    """NOT PRIVATE: fed the source's ratings."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    tuned: bool = False
    """Settings from the search, where one was made for this method and data."""

    def content(self) -> dict[str, Any]:
        """What tells it from other arms; results from before a release could have a guide are found again."""
        content = asdict(self)
        if self.release is not None and self.release.strategy != "guided":
            content["release"] = {
                name: value for name, value in content["release"].items() if name not in ("guide", "refine")
            }
        return content

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ParameterError(f"arm {self.name!r}: there is no method {self.method!r}: {', '.join(METHODS)}")
        given = DataAccess.RELEASE if self.release else DataAccess.PLAINTEXT if self.plaintext else DataAccess.TARGET
        try:
            taken = method_class(self.method_name).data_access()
        except ParameterError as error:
            raise ParameterError(f"arm {self.name!r}: {error}") from error
        if given not in taken or (self.release and self.plaintext):
            needs = ", or ".join(access.value for access in taken)
            raise ParameterError(f"arm {self.name!r}: method {self.method_name} needs {needs}")

    @property
    def method_name(self) -> str:
        """The method in the catalogue: a preset is one of its own."""
        return with_preset(self.method, self.preset)


@dataclass(frozen=True, kw_only=True)
class Spec:
    """One table."""

    name: str
    title: str
    data: DataSpec
    arms: tuple[Arm, ...]
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)
    full: bool = True
    """Rank among all items too, beside the 99 negatives."""
    note: str = ""
    """What the reader of the table should know."""
    baseline: str | None = None
    """The arm that the others are compared with, seed by seed."""
    ceiling: str | None = None
    """The arm whose gain over the baseline counts as all there is to gain."""
    search: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What a search on this data keeps fixed, by method: on large data larger batches."""

    def __post_init__(self) -> None:
        require_file_name(name=self.name)

    def key(self, arm: Arm) -> str:
        """Tells one arm on one data set from any other, settings included: results are found again by it."""
        content = json.dumps([self.data.content(), arm.content(), self.full], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:16]


def _chosen(tuned: Path | None, data: DataSpec) -> dict[str, Any]:
    """What a search on this data chose, or on all of it where there was none without the duplicate items."""
    files = [] if tuned is None else [tuned / f"{name}.toml" for name in (data.name, data.folder)]
    return next((read_toml(file) for file in files if file.exists()), {})


def read_spec(path: Path, tuned: Path | None = None) -> Spec:
    """The spec in ``path``; ``tuned`` is a folder of chosen settings, one TOML per data folder."""
    table = read_toml(path)
    try:
        data = build(DataSpec, _pop(table, "data"))
        found = _chosen(tuned, data)
        entries = _pop(table, "arm")
        if not isinstance(entries, list) or not 1 <= len(entries) <= MOST_ARMS:
            raise ParameterError(f"arms are written as [[arm]], one at least and {MOST_ARMS:,} at most")
        arms = tuple(_arm(entry, found) for entry in entries)
        names = [arm.name for arm in arms]
        for name in {name for name in names if names.count(name) > 1}:
            raise ParameterError(f"arms need different names, and {shorten(name)} is that of several")
        spec = build(Spec, {"name": path.stem, "data": data, "arms": arms, **table})
        for text in (spec.title, *names):
            if not (text.isprintable() and 1 <= len(text) <= _LONGEST_NAME):
                rule = f"one line of 1 to {_LONGEST_NAME} printable characters"
                raise ParameterError(f"a title or the name of an arm is {rule}, got {shorten(text)}")
        for role in ("baseline", "ceiling"):
            if getattr(spec, role) not in (None, *names):
                raise ParameterError(f"{role} {getattr(spec, role)!r} is none of the arms")
        if not 1 <= len(spec.seeds) <= MOST_SEEDS or len(set(spec.seeds)) != len(spec.seeds) or min(spec.seeds) < 0:
            rule = f"one or more and at most {MOST_SEEDS:,} whole numbers from 0 on, all different"
            raise ParameterError(f"seeds must be {rule}, got {shorten(list(spec.seeds))}")
    except PriCDRError as error:
        raise InputError(f"{path}: {error}") from error
    return spec


def read_search(path: Path) -> tuple[DataSpec, Mapping[str, Mapping[str, Any]]]:
    """The data of the spec in ``path`` and what a search keeps fixed there; its arms may wait for that search."""
    table = read_toml(path)
    try:
        unknown = set(table) - {part.name for part in fields(Spec)} - {"arm"}
        if unknown:
            raise ParameterError(f"unknown key {min(unknown)!r} in a Spec")
        data, fixed = build(DataSpec, _pop(table, "data")), table.get("search", {})
        for method, settings in fixed.items() if isinstance(fixed, Mapping) else [("", fixed)]:
            if method not in METHODS or not isinstance(settings, Mapping):
                raise ParameterError(
                    f"[search] has a table of settings for each method, got {shorten({method: settings})}"
                )
            configure(method, settings)
    except PriCDRError as error:
        raise InputError(f"{path}: {error}") from error
    return data, fixed


def _arm(entry: dict[str, Any], tuned: Mapping[str, Mapping[str, Any]]) -> Arm:
    if isinstance(entry, dict) and isinstance(entry.get("release"), dict):
        release = dict(entry["release"])
        for name, kind in (("rows", Rows), ("guide", Guide)):
            if release.get(name) in list(kind):
                release[name] = kind(release[name])
        entry = {**entry, "release": build(ReleaseSpec, release)}
    arm = build(Arm, entry)
    if arm.tuned:
        if not isinstance(tuned.get(arm.method), Mapping):
            raise ParameterError(f"arm {arm.name!r}: no settings of {arm.method} were chosen for this data by a search")
        arm = replace(arm, settings={**tuned[arm.method], **arm.settings})
    try:
        configure(arm.method_name, arm.settings)
    except ParameterError as error:
        raise ParameterError(f"arm {arm.name!r}: {error}") from error
    return arm


def _pop(table: dict[str, Any], key: str) -> Any:  # noqa: ANN401 - whatever TOML holds
    if key not in table:
        raise ParameterError(f"there is no [{key}] in it")
    return table.pop(key)
