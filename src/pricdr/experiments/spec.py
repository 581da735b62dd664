"""A spec: one TOML file says which data, which methods and which controls make one table, or a family of them."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field, TypeAdapter

from pricdr.data.reading.text_files import read_toml, shorten
from pricdr.errors import InputError, ParameterError, require_file_name
from pricdr.experiments.arms import Arm, DataSpec, result_key
from pricdr.experiments.records import RECORD, FileName, Flag, Line, Text, Whole, from_table, limits
from pricdr.models.catalogue import METHODS, configure
from pricdr.privacy.strategies import BY_NAME

MAX_ARMS: Final = 1_000
MAX_SEEDS: Final = 1_000
MAX_DATA: Final = 100
MAX_ROWS: Final = 10_000
"""Arms of all tables of one file together."""


@dataclass(frozen=True, kw_only=True)
class SpecFile:
    """What a spec's file says: the data of one table or of several, their arms, and the seeds they are run with."""

    __pydantic_config__ = RECORD

    name: FileName
    """What its results are filed under; without it, the name of the spec's file."""
    title: Line
    """Heading of the table."""
    data: Annotated[tuple[DataSpec, ...], limits(minItems=1, maxItems=MAX_DATA)]
    """Where the two domains come from: [data], or one [[data]] for each table of a family."""
    arms: Annotated[tuple[Arm, ...], Field(validation_alias="arm"), limits(minItems=1, maxItems=MAX_ARMS)]
    """Rows of the table: in a file, one [[arm]] each."""
    seeds: Annotated[tuple[Whole, ...], limits(minItems=1, maxItems=MAX_SEEDS, uniqueItems=True)] = (1, 2, 3, 4, 5)
    """Whole numbers from 0 on: every arm is run with each. A seed decides the split, the release and the network."""
    full: Flag = True
    """Rank among all items too, beside the 99 negatives."""
    note: Text = ""
    """What the reader of the table should know."""
    baseline: Line | None = None
    """The arm that the others are compared with, seed by seed."""
    ceiling: Line | None = None
    """The arm whose gain over the baseline counts as all there is to gain."""

    def __post_init__(self) -> None:
        require_file_name(name=self.name)
        names = [one.name for one in self.data]
        if not 1 <= len(self.data) <= MAX_DATA or (
            len(self.data) > 1 and (None in names or len(set(names)) != len(names))
        ):
            raise ParameterError(
                f"data are written as [data], or as [[data]]: {MAX_DATA} at most, each with a name of its own"
            )
        # Counted before they are made: a file has room for 100 times as many.
        rows = sum(sum(map(len, arm.vary.values())) or 1 for arm in self.arms)
        if not 1 <= rows <= MAX_ARMS:
            rule = f"one at least and {MAX_ARMS:,} at most, each value of vary counted"
            raise ParameterError(f"arms are written as [[arm]], {rule}, got {rows:,}")
        if rows * len(self.data) > MAX_ROWS:
            raise ParameterError(f"{len(self.data)} tables of {rows:,} arms each are more than {MAX_ROWS:,} rows")
        if not 1 <= len(self.seeds) <= MAX_SEEDS or len(set(self.seeds)) != len(self.seeds) or min(self.seeds) < 0:
            rule = f"one or more and at most {MAX_SEEDS:,} whole numbers from 0 on, all different"
            raise ParameterError(f"seeds must be {rule}, got {shorten(list(self.seeds))}")


@dataclass(frozen=True, kw_only=True)
class Spec:
    """One table: its data, its arms with all their settings, and the seeds that every arm is run with."""

    name: str
    """What its results are filed under."""
    family: str = ""
    """The name of the spec's file, which several tables may share."""
    title: str
    data: DataSpec
    arms: tuple[Arm, ...]
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)
    full: bool = True
    note: str = ""
    baseline: str | None = None
    ceiling: str | None = None

    def __post_init__(self) -> None:
        names = [arm.name for arm in self.arms]
        for name, times in Counter(names).items():
            if times > 1:
                raise ParameterError(f"arms need different names, and {shorten(name)} is that of several")
        for role, referred in (("baseline", self.baseline), ("ceiling", self.ceiling)):
            if referred not in (None, *names):
                raise ParameterError(f"{role} {referred!r} is none of the arms")

    def key(self, arm: Arm) -> str:
        """Return what tells one arm on one data set from any other, defaults included: results are looked up by it."""
        return result_key(self.data, arm, full=self.full)

    def only(self, arms: Sequence[str] = (), seeds: Sequence[int] = ()) -> "Spec":
        """Return what is left of it with these arms (those of a curve by its name too) and these seeds; () takes all.

        The baseline and the ceiling stay only where they are among the arms.
        """
        kept = tuple(arm for arm in self.arms if not arms or _is_called(arm, arms))
        names = {arm.name for arm in kept}
        return replace(
            self,
            arms=kept,
            seeds=tuple(seeds) or self.seeds,
            baseline=self.baseline if self.baseline in names else None,
            ceiling=self.ceiling if self.ceiling in names else None,
        )


def read_specs(path: Path, tuned: Path | None = None) -> tuple[Spec, ...]:
    """Return the tables that the spec in ``path`` asks for, their arms with all their settings.

    Args:
        path: a TOML file.
        tuned: the folder of settings that searches chose, one TOML file per data folder.
    """
    with _naming(path):
        given = _read(path)
        return tuple(_table(given, data, tuned) for data in given.data)


def require_names(specs: Sequence[Spec]) -> None:
    """Refuse two tables of one name, whose files would overwrite each other."""
    for name, times in Counter(spec.name for spec in specs).items():
        if times > 1:
            raise ParameterError(f"{times} tables are called {name}: give their specs, or their [[data]], other names")


def require_arms(specs: Sequence[Spec], names: Sequence[str]) -> None:
    """Refuse the name of an arm or a curve that none of these tables has."""
    for name in names:
        if not any(spec.only([name]).arms for spec in specs):
            raise ParameterError(f"no arm or curve of these specs is called {shorten(name)}")


def read_spec(path: Path, tuned: Path | None = None) -> Spec:
    """Return the one table of a spec that is no family."""
    specs = read_specs(path, tuned)
    if len(specs) > 1:
        raise InputError(f"{path} is a family of {len(specs)} tables, and one was asked for")
    return specs[0]


def read_search(path: Path) -> tuple[DataSpec, ...]:
    """Return the data of a spec, with what a search keeps fixed there; its arms may wait for that search."""
    with _naming(path):
        data = _read(path).data
        for one in data:
            for method, settings in one.search.items():
                configure(method, settings)
    return data


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Name the spec in every refusal."""
    try:
        yield
    except ParameterError as error:
        raise InputError(f"{path}: {error}") from error


def _read(path: Path) -> SpecFile:
    table = {"name": path.stem, **read_toml(path)}
    if not isinstance(table.get("data"), dict):
        return from_table(_records(), table)
    try:
        return from_table(_records(), {**table, "data": [table["data"]]})
    except ParameterError as error:
        raise ParameterError(str(error).replace("data #1", "data")) from error


@cache
def _records() -> TypeAdapter[SpecFile]:
    """Return what checks a spec, made once: it reads the descriptions of all fields off their source."""
    return TypeAdapter(SpecFile)


def _table(given: SpecFile, data: DataSpec, tuned: Path | None) -> Spec:
    """Return one table of a spec."""
    chosen = _Chosen(tuned, data)
    arms = [_with_settings(one, data, chosen) for arm in given.arms for one in _each(arm)]
    return Spec(
        name=given.name if data.name is None else f"{given.name}_{data.name}",
        family=given.name,
        title=given.title if data.title is None else f"{given.title}: {data.title}",
        data=data,
        arms=tuple(arms),
        seeds=given.seeds,
        full=given.full,
        note="\n".join(part.strip() for part in (given.note, data.note) if part.strip()),
        baseline=given.baseline,
        ceiling=given.ceiling,
    )


def _is_called(arm: Arm, names: Sequence[str]) -> bool:
    return arm.name in names or (arm.point is not None and arm.point.curve in names)


def _each(arm: Arm) -> list[Arm]:
    try:
        return list(arm.each())
    except ParameterError as error:
        raise ParameterError(f"arm {arm.name!r}: {error}") from error


class _Chosen:
    """Settings that searches on one data set chose."""

    def __init__(self, tuned: Path | None, data: DataSpec) -> None:
        self.tuned = tuned
        folder = data.tuned or data.folder
        # A search on all of the data serves where there was none without its duplicate items, and the reverse.
        self.names = sorted([folder, f"{folder}_distinct"], reverse=data.distinct)
        self._read: dict[Path, Mapping[str, Any]] = {}

    def of(self, method: str, strategy: str | None) -> dict[str, Any]:
        """Return what was chosen for a method, by a search with releases of that strategy where one is named."""
        suffix = "" if strategy is None else f"_{strategy}"
        if strategy is not None:
            require_file_name(tuned_with=strategy)
        files = [] if self.tuned is None else [self.tuned / f"{name}{suffix}.toml" for name in self.names]
        for file in files:
            if file not in self._read and file.exists():
                self._read[file] = read_toml(file)
            settings = self._read.get(file, {}).get(method)
            if isinstance(settings, dict):
                return settings
        raise ParameterError(f"no settings of {method} were chosen for this data by a search")


def _with_settings(arm: Arm, data: DataSpec, chosen: _Chosen) -> Arm:
    """Return the arm with the settings that a search chose, where it asks for them, once its method takes them all."""
    try:
        if arm.tuned or arm.tuned_with is not None:
            arm = replace(arm, settings={**chosen.of(arm.method, arm.tuned_with), **arm.settings})
        if arm.release is not None and arm.release.delta is None:
            arm = replace(arm, release=replace(arm.release, delta=data.delta))
        configure(arm.method_name, arm.settings)
    except ParameterError as error:
        raise ParameterError(f"arm {arm.name!r}: {error}") from error
    return arm


def schema_text() -> str:
    """Return the JSON Schema of a spec, once its TOML is read.

    It states types, limits and meanings. What takes more than a schema (which settings a method has, which arms exist)
    ``read_spec`` alone can check.
    """
    schema = _as_toml(TypeAdapter(SpecFile).json_schema())
    schema["title"] = "pricdr spec"
    schema["required"].remove("name")  # the file has one
    several = schema["properties"]["data"]
    schema["properties"]["data"] = {"description": several.pop("description"), "anyOf": [several["items"], several]}
    arm, release = (schema["$defs"][name]["properties"] for name in ("Arm", "ReleaseSpec"))
    arm["method"]["examples"] = list(METHODS.own)  # no enumeration: packages of others bring their own
    release["strategy"]["examples"] = [name for name in BY_NAME.own if name != "features"]
    content = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _as_toml(part: Any) -> Any:  # noqa: ANN401 - any part of a schema
    """Return a schema without what TOML lacks or readers skip: null, and titles that repeat the key."""
    if isinstance(part, list):
        return [_as_toml(one) for one in part]
    if not isinstance(part, dict):
        return " ".join(part.replace("``", "").split()) if isinstance(part, str) else part
    kept = {
        key: _as_toml(value)
        for key, value in part.items()
        if not (key == "title" and isinstance(value, str)) and not (key == "default" and value is None)
    }
    given = [one for one in kept.pop("anyOf", []) if one != {"type": "null"}]
    assert len(given) <= 1, "no field of a spec takes two types"
    return {**(given[0] if given else {}), **kept}
