"""A results folder describes itself: beside the results of a spec lies its outline, the spec as it was run.

So results can be read, and shown, without the spec they came from, whose arms and settings may have changed since.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field, TypeAdapter

from pricdr.errors import InputError, ParameterError, require_file_name
from pricdr.experiments.arms import DataSpec, ReleaseSpec
from pricdr.experiments.records import RECORD, FileName, Flag, Line, Number, Settings, Text, Whole, from_json
from pricdr.experiments.spec import MAX_ARMS, MAX_SEEDS, Spec
from pricdr.files import replace_file
from pricdr.untrusted import read_bounded

SUFFIX: Final = ".spec.json"
NOT_PRESENT: Final = "data not present: point PRICDR_DATA at it"
_MAX_BYTES: Final = 1 << 24


@dataclass(frozen=True, kw_only=True)
class DataOutline:
    """The data of one table, for its reader."""

    __pydantic_config__ = RECORD

    name: FileName
    title: Line
    folder: FileName
    source: FileName
    target: FileName
    cold: Number
    """Share of users who lost their history."""
    distinct: Flag
    """Whether source items that the target lists too were left out."""
    official: Flag
    """Whether the split is that of the data's authors."""
    paper: Text = ""
    """The task of the paper that it is, or stands for."""
    stand_in: Flag = False


@dataclass(frozen=True, kw_only=True)
class ArmOutline:
    """One arm as it was run."""

    __pydantic_config__ = RECORD

    name: Line
    key: Line
    """What its results are looked up by."""
    method: Line
    plaintext: Flag
    release: ReleaseSpec | None
    settings: Settings
    """Those that it was given; the others had their defaults."""
    source_share: Number = 1.0
    curve: Text = ""
    axis: Text = ""
    at: Number | None = None


@dataclass(frozen=True, kw_only=True)
class Outline:
    """One table as it was run: what its results mean, and which there should be."""

    __pydantic_config__ = RECORD

    name: FileName
    family: FileName
    title: Line
    note: Text
    data: DataOutline
    arms: Annotated[tuple[ArmOutline, ...], Field(max_length=MAX_ARMS)]
    seeds: Annotated[tuple[Whole, ...], Field(max_length=MAX_SEEDS)]
    full: Flag
    baseline: Line | None = None
    ceiling: Line | None = None
    missing: Text = ""
    """Why there are no results, where the data was not there."""

    def __post_init__(self) -> None:
        require_file_name(name=self.name, family=self.family)


def outline(spec: Spec, missing: str = "") -> Outline:
    """Return the outline of a spec; ``missing`` says why it could not be run."""
    return Outline(
        name=spec.name,
        family=spec.family or spec.name,
        title=spec.title,
        note=spec.note,
        data=_data(spec.data),
        arms=tuple(
            ArmOutline(
                name=arm.name,
                key=spec.key(arm),
                method=arm.method_name,
                plaintext=arm.plaintext,
                release=arm.release,
                settings=arm.settings,
                source_share=arm.source_share,
                curve="" if arm.point is None else arm.point.curve,
                axis="" if arm.point is None else arm.point.axis.value,
                at=None if arm.point is None else arm.point.at,
            )
            for arm in spec.arms
        ),
        seeds=spec.seeds,
        full=spec.full,
        baseline=spec.baseline,
        ceiling=spec.ceiling,
        missing=missing,
    )


def _data(data: DataSpec) -> DataOutline:
    return DataOutline(
        name=data.name or data.folder,
        title=data.title or data.folder,
        folder=data.folder,
        source=data.source,
        target=data.target,
        cold=data.cold,
        distinct=data.distinct,
        official=data.official is not None,
        paper=data.paper or "",
        stand_in=data.stand_in,
    )


def write_outline(folder: Path, what: Outline) -> None:
    """Write an outline beside the results that it describes."""
    text = json.dumps(asdict(what), indent=1, ensure_ascii=False, default=lambda value: value.value)
    replace_file(folder / f"{what.name}{SUFFIX}", f"{text}\n".encode())


def read_outline(path: Path) -> Outline:
    """Return the outline in a file, checked."""
    try:
        text = read_bounded(path, limit=_MAX_BYTES).decode()
        return from_json(TypeAdapter(Outline), text)
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not text: {error}") from error
    except ParameterError as error:
        raise InputError(f"{path}: not an outline of results: {error}") from error
