"""A spec: one TOML file says which data, which methods and which controls make one table, or a family of them."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

from pydantic import Field, TypeAdapter

from pricdr.data.reading.text_files import read_toml, shorten
from pricdr.errors import InputError, ParameterError, require_file_name
from pricdr.experiments.arms import Arm, DataSpec, result_key
from pricdr.experiments.records import Count, FileName, Flag, Line, Text, from_table, naming, record
from pricdr.models.catalogue import METHODS, configure
from pricdr.privacy.strategies import BY_NAME

MAX_ARMS: Final = 1_000
MAX_DATA: Final = 100
MAX_ROWS: Final = 10_000
"""Arms of all tables of one file together."""
Seeds: TypeAlias = Annotated[
    tuple[Count, ...], Field(min_length=1, max_length=1_000, json_schema_extra={"uniqueItems": True})
]


@record
class Spec:
    """One table: its data, its arms, and the seeds that every arm is run with."""

    name: FileName
    """What its results are filed under; without it, the name of the spec's file."""
    title: Line
    """Heading of the table."""
    data: DataSpec
    """Where the two domains come from: [data], or one [[data]] for each table of a family."""
    arms: Annotated[tuple[Arm, ...], Field(validation_alias="arm", min_length=1, max_length=MAX_ARMS)]
    """Rows of the table: in a file, one [[arm]] each."""
    seeds: Seeds = (1, 2, 3, 4, 5)
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
        # Counted before they are made: a file has room for 100 times as many.
        if self.rows > MAX_ARMS:
            raise ParameterError(f"arms must be {MAX_ARMS:,} at most, each value of vary counted, got {self.rows:,}")
        if len(set(self.seeds)) != len(self.seeds):
            raise ParameterError(f"seeds must be all different, got {shorten(list(self.seeds))}")
        names = Counter(one.name for arm in self.arms for one in arm.each())
        if twice := [name for name, times in names.items() if times > 1]:
            raise ParameterError(f"arms need different names, and {shorten(twice[0])} is that of several")
        for role, referred in (("baseline", self.baseline), ("ceiling", self.ceiling)):
            if referred not in (None, *names):
                raise ParameterError(f"{role} {referred!r} is none of the arms")

    @property
    def rows(self) -> int:
        """How many arms there are, each value of ``vary`` counted."""
        return sum(sum(map(len, arm.vary.values())) or 1 for arm in self.arms)

    @property
    def family(self) -> str:
        """The name of the spec's file, which several tables may share."""
        return self.name.removesuffix(f"_{self.data.name}")

    def key(self, arm: Arm) -> str:
        """Return what tells one arm on one data set from any other, defaults included: results are looked up by it."""
        return result_key(self.data, arm, full=self.full)


def read_specs(path: Path, tuned: Path | None = None) -> tuple[Spec, ...]:
    """Return the tables that a spec asks for, complete; ``tuned`` is the folder of settings that searches chose."""
    with naming(path, InputError):
        return tuple(_finished(spec, tuned) for spec in _read(path))


def require_runnable(specs: Sequence[Spec], arms: Sequence[str]) -> None:
    """Refuse tables of one name, whose files would overwrite each other, and an arm or curve that no table has."""
    for name, times in Counter(spec.name for spec in specs).items():
        if times > 1:
            raise ParameterError(f"{times} tables are called {name}: give their specs, or their [[data]], other names")
    for name in arms:
        if not any(arm.is_called([name]) for spec in specs for arm in spec.arms):
            raise ParameterError(f"no arm or curve of these specs is called {shorten(name)}")


def read_search(path: Path) -> tuple[DataSpec, ...]:
    """Return the data of a spec, with what a search keeps fixed there; its arms may wait for that search."""
    with naming(path, InputError):
        data = tuple(spec.data for spec in _read(path))
        for one in data:
            for method, settings in one.search.items():
                configure(method, settings)
    return data


def _read(path: Path) -> list[Spec]:
    """Return the tables of a file as they are written: with ``vary``, and without settings chosen by a search."""
    specs = _tables({"name": path.stem, **read_toml(path)})
    for arm in specs[0].arms:
        with naming(f"arm {arm.name!r}"):
            arm.require_known()
    return specs


def _tables(table: dict[str, Any]) -> list[Spec]:
    if not isinstance(table.get("data"), list):
        return [from_table(Spec, table)]
    try:
        several = from_table(tuple[DataSpec, ...], table["data"])
    except ParameterError as error:
        raise ParameterError(f"data{error}") from error
    names = [data.name for data in several]
    if not 1 <= len(names) <= MAX_DATA or (len(names) > 1 and (None in names or len(set(names)) != len(names))):
        rule = f"{MAX_DATA} at most, each with a name of its own"
        raise ParameterError(f"data are written as [data], or as [[data]]: {rule}")
    first = from_table(Spec, {**table, "data": several[0]})
    if first.rows * len(several) > MAX_ROWS:
        raise ParameterError(f"{len(several)} tables of {first.rows:,} arms each are more than {MAX_ROWS:,} rows")
    return [replace(first, data=data) for data in several]


def _finished(spec: Spec, tuned: Path | None) -> Spec:
    """Return a table under its own name, with one arm for each row and all their settings."""
    data = spec.data
    return replace(
        spec,
        name=spec.name if data.name is None else f"{spec.name}_{data.name}",
        title=spec.title if data.title is None else f"{spec.title}: {data.title}",
        arms=tuple(_with_settings(one, data, tuned) for arm in spec.arms for one in arm.each()),
        note="\n".join(part.strip() for part in (spec.note, data.note) if part.strip()),
    )


def _with_settings(arm: Arm, data: DataSpec, tuned: Path | None) -> Arm:
    """Return the arm with the settings that a search chose, where it asks for them, once its method takes them all."""
    with naming(f"arm {arm.name!r}"):
        if arm.tuned or arm.tuned_with:
            arm = replace(arm, settings={**_chosen(arm, data, tuned), **arm.settings})
        for release in arm.releases:
            if release.source > 1 + len(data.more_sources):
                raise ParameterError(f"release.source is {release.source}, and there are {1 + len(data.more_sources)}")
        stated = [one if one.delta is not None else replace(one, delta=data.delta) for one in arm.releases]
        arm = replace(arm, release=next(iter(stated), None), more_releases=tuple(stated[1:]))
        configure(arm.method_name, arm.settings)
    return arm


def _chosen(arm: Arm, data: DataSpec, tuned: Path | None) -> dict[str, Any]:
    """Return what was chosen for a method, by a search with releases of one strategy where that is named."""
    folder, suffix = data.tuned or data.folder, f"_{arm.tuned_with}" if arm.tuned_with else ""
    # A search on all of the data serves where there was none without its duplicate items, and the reverse.
    for name in sorted([folder, f"{folder}_distinct"], reverse=data.distinct):
        if tuned and (path := tuned / f"{name}{suffix}.toml").exists():
            settings = read_toml(path).get(arm.method)
            if isinstance(settings, dict):
                return settings
    raise ParameterError(f"no settings of {arm.method} were chosen for this data by a search")


def schema_text() -> str:
    """Return the JSON Schema of a spec's TOML: types, limits and meanings. The rest ``read_specs`` alone can check."""
    schema = _as_toml(TypeAdapter(Spec).json_schema())
    schema["title"] = "pricdr spec"
    schema["description"] = "What a spec's file says: the data of one table or of several, their arms, and the seeds."
    schema["required"].remove("name")  # the file has one
    data = schema["properties"]["data"]
    one = {"$ref": data.pop("$ref")}
    data["anyOf"] = [one, {"items": one, "maxItems": MAX_DATA, "minItems": 1, "type": "array"}]
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
    skipped: dict[str, type] = {"title": str, "default": type(None)}
    kept = {key: _as_toml(value) for key, value in part.items() if type(value) is not skipped.get(key)}
    given = [one for one in kept.pop("anyOf", []) if one != {"type": "null"}]
    assert len(given) <= 1, "no field of a spec takes two types"
    return {**(given[0] if given else {}), **kept}
