"""The data of a spec: where the two domains come from and how the target is split."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from pricdr.errors import require_count, require_file_name, require_probability, require_share
from pricdr.experiments.records import RECORD, FileName, Flag, Line, Number, Settings, Text, Whole, limits

DELTA: Final = 1e-6
"""Chance of exceeding ε where nobody says otherwise."""


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
    """File of the source's ratings, in that folder; or, without a suffix, a domain of the paper's data, such as Books,
    under any name that it is distributed by."""
    target: FileName
    """File of the target's ratings, or such a domain."""
    name: FileName | None = None
    """What its results are filed under, after the name of the spec. Needed where a spec has several [[data]]."""
    title: Line | None = None
    """What readers call it, such as Douban Book→Music; without it, the name of the folder."""
    paper: Line | None = None
    """The task of the paper that it is, or stands for: such as Amazon Movie→Music."""
    stand_in: Flag = False
    """Other data than the paper's of that task: shown as a stand-in, never as the task itself."""
    note: Text = ""
    """What the reader of its table should know, beside the note of the spec."""
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
    delta: Annotated[Number, limits(exclusiveMinimum=0, exclusiveMaximum=1)] = DELTA
    """Chance of exceeding ε, for releases that do not set their own."""
    tuned: FileName | None = None
    """The data whose chosen settings are used (tuned/NAME.toml); without it, those of a search on this data."""
    search: Mapping[str, Settings] = field(default_factory=dict)
    """Settings that a search on this data keeps fixed, by method: on large data larger batches."""

    def __post_init__(self) -> None:
        require_file_name(folder=self.folder, source=self.source, target=self.target)
        named = {"official": self.official, "name": self.name, "tuned": self.tuned}
        require_file_name(**{key: value for key, value in named.items() if value is not None})
        if self.core is not None:
            require_count(core=self.core)
        require_share(cold=self.cold)
        require_probability(delta=self.delta)

    @property
    def search_name(self) -> str:
        """The name that trials on it are filed under."""
        return f"{self.folder}_distinct" if self.distinct else self.folder

    def content(self) -> dict[str, Any]:
        """Return what tells it from other data, as JSON has it; the rest is what it is called and tuned by."""
        return {
            "folder": self.folder,
            "source": self.source,
            "target": self.target,
            "threshold": self.threshold,
            "core": self.core,
            "filtered": self.filtered,
            "official": self.official,
            "cold": self.cold,
            "distinct": self.distinct,
        }
