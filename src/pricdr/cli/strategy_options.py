"""Makes a strategy of its options: the one place where the command line knows strategies apart.

A strategy without options of its own needs nothing here: its name comes from the registry, its columns from --dim.
That goes for the strategies of others too.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pricdr.cli.options import name_given, refuse_unused_key
from pricdr.cli.revocations import heed_revocations
from pricdr.errors import InputError, ParameterError, VerificationError
from pricdr.privacy.strategies import BY_NAME, require_arguments

if TYPE_CHECKING:
    from pricdr.privacy.accounting import Guarantee
    from pricdr.privacy.strategies.base import Strategy
    from pricdr.release import Release

DEFAULT_STRATEGY: Final = "spectral"


class LearnFromName(StrEnum):
    """Whose ratings the item model is learnt from."""

    LISTED = "listed"
    ALL = "all"


def parse_strategy(given: str, dim: int | None, density: float | None, guarantee: "Guarantee") -> "Strategy":
    """Return the strategy with its number of columns; :class:`StrategyOptions` adds what else it needs to run.

    ``given`` is what the user typed: a name, or module:Class.
    """
    name = name_given(BY_NAME, given)
    kind = BY_NAME.find(name)
    # What our own strategies need has options; what others need can be given in Python alone.
    require_arguments(kind, () if name in BY_NAME.own else kind.needs)
    columns = kind.default_dim(guarantee) if dim is None else dim
    # Where the strategy has none for this promise, it keeps the default of its class.
    arguments: dict[str, Any] = {} if columns is None else {"dim": columns}
    if density is not None:
        arguments |= _density(name, density)
    return kind(**arguments)


def _density(name: str, density: float) -> dict[str, float]:
    if name == "sjlt":
        return {"density": density}
    if name != "jlt":
        raise ParameterError(f"--density belongs to --strategy sjlt, not to {name}")
    BY_NAME["sjlt"].described(1, {"density": density})  # jlt has none, but a wrong one is refused all the same
    return {}


@dataclass(frozen=True, kw_only=True)
class StrategyOptions:
    """The options of ``publish`` that belong to one strategy each."""

    guide: Path | None
    public_key: Path | None
    """Whose signature the guide must have, where one was pinned."""
    revocations: Path | None
    """A folder of notices; a guide that one of them revokes is refused."""
    refine: bool | None
    fill_guide: bool
    allow_not_private_guide: bool
    item_features: Path | None
    learn_from: LearnFromName | None
    buckets: int | None
    items: Path | None

    def complete(self, strategy: "Strategy") -> "Strategy":
        """Return the strategy with its guide, its features, its learners; options of another strategy are refused."""
        self._refuse_others(strategy.name)
        if self.guide is None:
            refuse_unused_key(self.public_key, "there is no --guide; to sign a release, give --sign the private key")
        arguments = _ARGUMENTS.get(strategy.name)
        return strategy if arguments is None else replace(strategy, **arguments(self))

    def _refuse_others(self, name: str) -> None:
        owners = {
            "--guide": ("guided", self.guide is not None),
            "--no-refine" if self.refine is False else "--refine": ("guided", self.refine is not None),
            "--fill-guide": ("guided", self.fill_guide),
            "--revocations": ("guided", self.revocations is not None),
            "--allow-not-private-guide": ("guided", self.allow_not_private_guide),
            "--item-features": ("features", self.item_features is not None),
            "--learn-from": ("spectral", self.learn_from is not None),
            "--buckets": ("spectral", self.buckets is not None),
        }
        for option, (owner, given) in owners.items():
            if given and name != owner:
                raise ParameterError(f"{option} belongs to --strategy {owner}, not to {name}")


_Arguments: TypeAlias = Callable[[StrategyOptions], dict[str, Any]]


def _guided(options: StrategyOptions) -> dict[str, Any]:
    if options.guide is None:
        raise ParameterError("--strategy guided needs --guide: a release folder of the other party")
    refine = {} if options.refine is None else {"refine": options.refine}
    return {
        "guide": _verified(options.guide, options.public_key, options.revocations),
        "allow_missing": options.fill_guide,
        **refine,
    }


def _features(options: StrategyOptions) -> dict[str, Any]:
    from pricdr.data.features import read_features

    if options.item_features is None:
        raise ParameterError("--strategy features needs --item-features: a public table of items")
    return {"features": read_features(options.item_features)}


def _spectral(options: StrategyOptions) -> dict[str, Any]:
    arguments: dict[str, Any] = {} if options.learn_from is None else {"learn_from": options.learn_from.value}
    if options.buckets is None:
        return arguments
    if options.learn_from is not LearnFromName.ALL or options.items is not None:
        raise ParameterError("--buckets belongs to --learn-from all without --items: nothing else is hashed")
    return {**arguments, "buckets": options.buckets}


_ARGUMENTS: Final[Mapping[str, _Arguments]] = {"guided": _guided, "features": _features, "spectral": _spectral}
"""For each strategy with options of its own, the function from options to arguments of its constructor."""


def _verified(guide: Path, public_key: Path | None, revocations: Path | None) -> "Release":
    """Return the guide; an error names it first, since publish is given more than one folder."""
    from pricdr.release import verify

    try:
        release = verify(guide, public_key=public_key)
        heed_revocations(release, revocations)
        return release
    except VerificationError as error:
        raise VerificationError(f"--guide {guide}: {error}") from error
    except InputError as error:
        raise InputError(f"--guide {error}") from error
