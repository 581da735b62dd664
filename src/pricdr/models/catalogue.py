"""Every method by name. Reading this table loads nothing heavy: a method is imported when it is asked for."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from pricdr.data.reading.text_files import shorten
from pricdr.errors import ParameterError
from pricdr.extensions import Registry, fields_without_default

if TYPE_CHECKING:
    from pricdr.models.base import Method
    from pricdr.models.fitted import FittedModel

Kind = TypeVar("Kind", bound="type[Method]")
Settings: TypeAlias = Mapping[str, Any]  # of a method's configuration and its ``TrainingOptions`` in one table
MOST: Final = 1_000_000  # the largest value of a setting that counts something: layers, epochs, rows of a batch

_OWN: Final[Mapping[str, str]] = {
    "hetero": "pricdr.models.methods.hetero:HeteroCDR",
    "hetero-paper": "pricdr.models.methods.paper:PaperCDR",
    "symmetric": "pricdr.models.methods.hetero:SymmetricCDR",
    "dmf": "pricdr.models.methods.dmf:DMF",
    "bpr": "pricdr.models.methods.factorisation:BPR",
    "neumf": "pricdr.models.methods.factorisation:NeuMF",
    "conet": "pricdr.models.methods.crossdomain:CoNet",
    "ddtcdr": "pricdr.models.methods.crossdomain:DDTCDR",
    "darec": "pricdr.models.methods.crossdomain:DARec",
    "etl": "pricdr.models.methods.crossdomain:ETL",
    "popularity": "pricdr.models.methods.linear:Popularity",
    "itemknn": "pricdr.models.methods.linear:ItemKNN",
    "ease": "pricdr.models.methods.linear:EASE",
    "ease-source": "pricdr.models.methods.linear:EASESource",
    "ease-release": "pricdr.models.methods.linear:EASERelease",
    "ridge-release": "pricdr.models.methods.linear:RidgeRelease",
}
"""Where each of our methods lives, module:class; what it is and may see, its class says."""


def _require_method(kind: Any) -> None:  # noqa: ANN401 - whatever a package offers
    """Refuse a class that the command line, specs and searches could not use as a method."""
    if not isinstance(getattr(kind, "summary", None), str):
        raise ParameterError(f"{kind.__name__} needs a class attribute summary: what it is, in a few words")
    if not kind.data_access():
        raise ParameterError(f"{kind.__name__} must be a TargetMethod, a ReleaseMethod or a PlaintextMethod")
    if lacking := fields_without_default(kind):
        raise ParameterError(f"{kind.__name__} needs a default for {', '.join(lacking)}")
    try:
        method = kind()
    except Exception as error:  # defaults that the method itself refuses
        raise ParameterError(f"{kind.__name__} cannot be made of its defaults: {error!s:.200}") from error
    for group in (part.name for part in fields(method)):
        if getattr(method, group) is not None and not is_dataclass(getattr(method, group)):
            raise ParameterError(f"{kind.__name__} needs its settings in a dataclass, and {group} is none")


METHODS: Final["Registry[Method]"] = Registry(
    "method", group="pricdr.methods", own=_OWN, base="pricdr.models.base:Method", check=_require_method
)
"""Our methods, and those that installed packages offer (entry points in the group ``pricdr.methods``)."""

FAST: Final[Settings] = {"epochs": 60, "patience": 5, "patience_steps": 40}  # for a first look at any method


def method_class(name: str) -> "type[Method]":
    """Return the class of a method; importing it loads torch for most of them."""
    return METHODS.find(name)


def register(kind: Kind) -> Kind:
    """Make your own method known by name in this process, and return it (a decorator); packages use entry points."""
    METHODS.register(kind)
    return kind


def with_preset(name: str, preset: str) -> str:
    """Return the name of a method's preset, which is a method of its own.

    >>> with_preset("hetero", "default"), with_preset("hetero", "paper")
    ('hetero', 'hetero-paper')
    """
    presets = {"default": name} | ({"paper": "hetero-paper"} if name == "hetero" else {})
    if preset not in presets:
        raise ParameterError(f"method {name} has no preset {shorten(preset)}: {', '.join(presets)}")
    return presets[preset]


def configure(name: str, settings: Settings) -> "Method":
    """Return the method with these settings, checked by name and type; the others keep their defaults."""
    method = method_class(name)()
    groups = [part.name for part in fields(method) if getattr(method, part.name) is not None]
    group_of = {setting.name: group for group in groups for setting in fields(getattr(method, group))}
    if unknown := sorted(set(settings) - set(group_of)):
        raise ParameterError(f"method {name} has no setting {unknown[0]!r}: {', '.join(sorted(group_of))}")
    for group in groups:
        given = {key: value for key, value in settings.items() if group_of[key] == group}
        now: Any = getattr(method, group)
        checked = {key: _checked(key, value, getattr(now, key)) for key, value in given.items()}
        method = replace(method, **{group: replace(now, **checked)})
    return method


def _checked(key: str, value: object, default: object) -> object:
    # TOML tells 1 from 1.0, people do not; true is no number all the same.
    if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not type(default):
        raise ParameterError(f"{key} must be {type(default).__name__}, got {shorten(value)}")
    if isinstance(value, int) and key != "seed" and abs(value) > MOST:
        raise ParameterError(f"{key} must be at most {MOST:,}, got {value:,}")
    return value


def method_of(model: "FittedModel") -> "Method":
    """Return the method that a model was trained with, with its settings: to train another model alike.

    ``transfer(target, release, method=method_of(model), chosen=model.chosen)`` also follows what validation chose for
    it, and sets nothing aside.
    """
    if model.origin is None:
        raise ParameterError("the model does not say what it was trained with: only what fit returned, or load, does")
    settings: dict[str, Any] = {}
    for name, value in model.origin.settings.items():
        settings |= value if isinstance(value, Mapping) else {name: value}
    return configure(model.method, settings)
