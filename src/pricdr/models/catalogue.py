"""Every method by name: what it is and what it sees. Reading this table loads nothing heavy; ``configure`` does."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import Enum
from importlib import import_module
from typing import Any, Final, TypeAlias, cast

from pricdr.data.reading.contents import shorten
from pricdr.errors import ParameterError

Settings: TypeAlias = Mapping[str, Any]
"""Names of a method's configuration and of ``TrainingOptions`` in one table, as in a TOML file."""
MOST: Final = 1_000_000
"""Of whatever a setting counts: layers, epochs, rows of a batch."""


class Sees(Enum):
    """What a method is given beside the target's ratings."""

    NOTHING = "target ratings alone"
    RELEASE = "a release"
    PLAINTEXT = "the source's ratings"

    @property
    def private(self) -> str:
        """Whether a model made from it keeps the source's secrets: one without the source has none to keep."""
        return {Sees.NOTHING: "yes", Sees.RELEASE: "as the release", Sees.PLAINTEXT: "NOT PRIVATE"}[self]


@dataclass(frozen=True)
class Entry:
    """One method."""

    name: str
    summary: str
    sees: tuple[Sees, ...]
    """More than one where it takes either."""
    home: str
    """module:class under pricdr.models."""
    presets: Mapping[str, str] = field(default_factory=dict)
    """Other classes of the same method, by the name of their preset."""

    def configure(self, settings: Settings, *, preset: str = "default") -> Any:  # noqa: ANN401 - three kinds of methods
        """The method with these settings, checked by name and type; the rest as its preset has them."""
        homes = {"default": self.home, **self.presets}
        if preset not in homes:
            raise ParameterError(f"method {self.name} has no preset {preset!r}: {', '.join(homes)}")
        module, _, name = homes[preset].partition(":")
        method = getattr(import_module(f"pricdr.models.{module}"), name)()
        parts = [part.name for part in fields(method)]
        known = {key.name: part for part in parts for key in fields(getattr(method, part))}
        unknown = sorted(set(settings) - set(known))
        if unknown:
            raise ParameterError(f"method {self.name} has no setting {unknown[0]!r}: {', '.join(sorted(known))}")
        for part in parts:
            chosen = {key: value for key, value in settings.items() if known[key] == part}
            method = replace(method, **{part: _changed(getattr(method, part), chosen)})
        return method


def _changed(part: Any, chosen: Settings) -> Any:  # noqa: ANN401 - any configuration
    """``part`` with other values, each of the type its default has."""
    assert is_dataclass(part)
    values = {}
    for key, value in chosen.items():
        default = getattr(part, key)
        if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if type(value) is not type(default):
            raise ParameterError(f"{key} must be {type(default).__name__}, got {shorten(value)}")
        if isinstance(value, int) and key != "seed" and abs(value) > MOST:
            raise ParameterError(f"{key} must be at most {MOST:,}, got {value:,}")
        values[key] = value
    return replace(cast(Any, part), **values)


TARGET, RELEASE, PLAINTEXT = (Sees.NOTHING,), (Sees.RELEASE,), (Sees.PLAINTEXT,)
_ENTRIES = (
    Entry(
        "hetero",
        "HeteroCDR: auto-encoder on the release, DMF towers on the target, aligned users",
        (Sees.RELEASE, Sees.PLAINTEXT),
        "pricdr.hetero:HeteroCDR",
        {"paper": "pricdr.paper:PaperCDR"},
    ),
    Entry("symmetric", "PriCDR-SYM: auto-encoders on both sides", RELEASE, "pricdr.symmetric:SymmetricCDR"),
    Entry("dmf", "deep matrix factorisation: user and item towers", TARGET, "pricdr.dmf:DMF"),
    Entry("bpr", "matrix factorisation with a pairwise loss", TARGET, "factorisation.bpr:BPR"),
    Entry("neumf", "matrix factorisation and a multi-layer perceptron, fused", TARGET, "factorisation.neumf:NeuMF"),
    Entry("conet", "two networks with cross connections", PLAINTEXT, "crossdomain.conet:CoNet"),
    Entry("ddtcdr", "two networks and an orthogonal map between their users", PLAINTEXT, "crossdomain.ddtcdr:DDTCDR"),
    Entry("darec", "auto-encoders with a domain classifier to be fooled", PLAINTEXT, "crossdomain.darec:DARec"),
    Entry("etl", "auto-encoders joined by an equivalent transformation", PLAINTEXT, "crossdomain.etl:ETL"),
    Entry("popularity", "items by how often they were rated: the control", TARGET, "linear.popularity:Popularity"),
    Entry("itemknn", "items like those a user rated, by cosine", TARGET, "linear.itemknn:ItemKNN"),
    Entry("ease", "linear item-item model in closed form", TARGET, "linear.ease:EASE"),
    Entry("ease-source", "EASE on target and source ratings together", PLAINTEXT, "linear.ease_source:EASESource"),
    Entry(
        "ease-release", "EASE on target ratings and release rows together", RELEASE, "linear.ease_release:EASERelease"
    ),
    Entry(
        "ridge-release", "linear decoder of release rows in closed form", RELEASE, "linear.ridge_release:RidgeRelease"
    ),
)
METHODS: Mapping[str, Entry] = {entry.name: entry for entry in _ENTRIES}
