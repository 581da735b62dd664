"""Classes by name: PriCDR's own, those that installed packages offer, and those that somebody here named or defined.

A name in a certificate, a model folder or a spec may come from anywhere. It is only looked up, and imports nothing but
our own modules and those of packages that are installed and offer that very name (entry points). Only
:meth:`Registry.resolve_reference` imports what a text names: it is for what the user typed or a program's author wrote.
"""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from pricdr.errors import ParameterError

if TYPE_CHECKING:
    from importlib.metadata import Distribution

T = TypeVar("T")

NAME_PATTERN: Final = r"^[a-z][a-z0-9_-]{0,39}$"
"""Of methods and strategies. Names are shown, become Markdown and stand in files: no colon, no markup, no line ends."""
_REFERENCE: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)


def is_name(text: str) -> bool:
    """Return whether a method or a strategy can have this name."""
    return re.fullmatch(NAME_PATTERN, text) is not None


def fields_without_default(kind: type) -> list[str]:
    """Return the fields that a dataclass cannot be made without."""
    required = (one for one in fields(cast(Any, kind)) if one.init and one.default is one.default_factory is MISSING)
    return [one.name for one in required]


class Registry(Mapping[str, type[T]], Generic[T]):
    """Classes of one kind by name, imported when they are asked for. Our own names cannot be taken by others."""

    def __init__(
        self, kind: str, *, group: str, own: Mapping[str, str], base: str, check: Callable[[Any], None] = lambda _: None
    ) -> None:
        """Hold our ``own``, as module:Class, and find what packages offer in a ``group`` of entry points when asked.

        A class of somebody else's must inherit from ``base``, a module:Class; ``check`` may refuse it for more.
        """
        self.kind, self.group, self.own, self._base, self._check = kind, group, own, base, check
        self._registered: dict[str, type[T]] = {}
        self._references: dict[str, str] = {}
        self._path: tuple[str, ...] | None = None
        self._offers: dict[str, dict[str, str]] = {}
        self._problems: list[str] = []

    def __getitem__(self, name: str) -> type[T]:
        if name not in self:
            raise KeyError(name)
        return self.find(name)

    def __contains__(self, name: object) -> bool:
        # Not the inherited one, which would import the class.
        return name in self.own or name in self._registered or len(self._offered().get(str(name), ())) == 1

    def __iter__(self) -> Iterator[str]:
        yield from self.own
        yield from sorted(name for name in {*self._registered, *self._offered()} if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def find(self, name: str) -> type[T]:
        """Return the class of this name, whoever wrote it; :class:`ParameterError` says why there is none."""
        if name in self.own:
            return cast(type[T], _imported(self.own[name]))
        if name in self._registered:
            return self._registered[name]
        offers = self._offered().get(name, {})
        if len(offers) > 1:
            raise ParameterError(self._conflict(name, offers))
        for home, package in offers.items():
            try:
                kind = _imported_safely(home)
                if self._checked(kind) != name:
                    raise ParameterError(f"it calls itself {kind.name!r:.60}")
            except ParameterError as error:
                raise ParameterError(f"{self.kind} {name} of {package} ({home}): {error}") from error
            return cast(type[T], kind)
        more = "or one of your own as module:Class, which a file cannot name unless the command line names it too"
        raise ParameterError(f"there is no {self.kind} {name!r:.60}: {', '.join(self)}, {more}")

    def resolve_reference(self, text: str) -> str:
        """Return the name for what the user typed, never a file: a name, or that of module:Class, which is imported."""
        if ":" not in text:
            return text
        if not _REFERENCE.fullmatch(text):
            raise ParameterError(f"{self.kind} {text!r:.60} is neither a name nor module:Class")
        try:
            name = self.register(_imported_safely(text))
        except ParameterError as error:
            raise ParameterError(f"{self.kind} {text}: {error}") from error
        self._references[text] = name
        return name

    def resolve_stored(self, text: str) -> str:
        """Return the name for text in a file: module:Class stands for a name only where the user has named it too."""
        return self._references.get(text, text)

    def register(self, kind: type) -> str:
        """Make a class known in this process under the name it gives itself, and return that name.

        A class that is defined anew, as in a notebook, replaces itself. One that the user registers is preferred to one
        that a package offers under the same name, but never to one of ours.
        """
        name = self._checked(kind)
        known = self.find(name) if name in self.own else self._registered.get(name, kind)
        whose = f"a {self.kind} of PriCDR's own" if name in self.own else f"and so does {_home(known)}"
        if known is not kind and (name in self.own or _home(known) != _home(kind)):
            raise ParameterError(f"{_home(kind)} calls itself {name!r}, {whose}: rename it")
        if name not in self.own:
            self._registered[name] = kind
        return name

    def origin(self, name: str) -> str | None:
        """Return where a class that is not ours comes from: its package, or module:Class. None for our own."""
        offers, registered = self._offered().get(name, {}), self._registered.get(name)
        if registered is None:
            return next(iter(offers.values()), None)
        return offers.get(_home(registered), _home(registered))

    def problems(self) -> tuple[str, ...]:
        """Return what is wrong with what installed packages offer, one line each; nothing is imported for it."""
        offered = self._offered()
        clashes = [self._conflict(name, offers) for name, offers in offered.items() if len(offers) > 1]
        return (*self._problems, *clashes)

    def complete(self, incomplete: str) -> list[str]:
        """Return the names that begin like this, for a shell to complete."""
        return [name for name in self if name.startswith(incomplete)]

    def _checked(self, kind: Any) -> str:  # noqa: ANN401 - a class of somebody else's
        """Return the name a class gives itself; refuse what is not of this kind, or what cannot be a name."""
        _require_kind(kind, _imported(self._base))
        self._check(kind)
        name = getattr(kind, "name", None)
        if not isinstance(name, str) or not is_name(name):
            rule = "1 to 40 small letters, digits, - or _, a letter first"
            raise ParameterError(f"{_home(kind)} needs a class attribute name of {rule}, got {name!r:.60}")
        return name

    def _conflict(self, name: str, offers: Mapping[str, str]) -> str:
        both = " and by ".join(f"{package} ({home})" for home, package in offers.items())
        return f"{self.kind} {name} is offered by {both}: remove one of them, or name one as module:Class"

    def _offered(self) -> Mapping[str, Mapping[str, str]]:
        """Return what the metadata of packages that can be imported offers: by name, which module:Class of which."""
        if self._path == (path := tuple(sys.path)):
            return self._offers
        # Imported here: it takes as long as everything else that pricdr --help imports.
        from importlib.metadata import distributions

        seen: set[str] = set()
        self._path, self._offers, self._problems = path, {}, []
        for distribution in distributions():
            package = _package(distribution)
            try:
                points = [point for point in distribution.entry_points if point.group == self.group]
            except Exception as error:  # one damaged package must not take the others with it
                reason = f"{type(error).__name__}: {error!s:.200}"
                self._problems.append(f"the entry points of {package} cannot be read: {reason}")
                continue
            if not points or package.split()[0] in seen:  # of a package that is there twice, Python imports the first
                continue
            seen.add(package.split()[0])
            for point in points:
                where = f"package {package} offers the {self.kind} {point.name!r:.60}"
                if not is_name(point.name) or not _REFERENCE.fullmatch(point.value):
                    rule = "it takes a name of small letters and module:Class"
                    self._problems.append(f"{where} as {point.value!r:.80}: {rule}")
                elif point.name in self.own:
                    self._problems.append(f"{where}, a name of PriCDR's own: ours is used")
                else:
                    self._offers.setdefault(point.name, {}).setdefault(point.value, package)
        return self._offers


def _require_kind(kind: object, base: type) -> None:
    """Refuse what is no class, does not inherit from ``base``, or has not implemented all of it."""
    if not isinstance(kind, type):
        raise ParameterError(f"it is no class, but {type(kind).__name__}")
    if not issubclass(kind, base):
        raise ParameterError(f"{_home(kind)} does not inherit from {_home(base)}")
    missing = sorted(getattr(kind, "__abstractmethods__", ()))
    if missing:
        raise ParameterError(f"{_home(kind)} does not define {', '.join(missing)}")


def _home(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _imported(home: str) -> Any:  # noqa: ANN401 - whatever the module holds
    module, _, name = home.partition(":")
    return getattr(import_module(module), name)


def _imported_safely(home: str) -> Any:  # noqa: ANN401
    try:
        return _imported(home)
    except ModuleNotFoundError as error:
        raise ParameterError(f"{error} (is its folder on PYTHONPATH?)") from error
    except (Exception, SystemExit) as error:  # somebody else's module may do anything when it is imported
        raise ParameterError(f"it cannot be imported: {type(error).__name__}: {error!s:.200}") from error


def _package(distribution: "Distribution") -> str:
    """Return the name and the version of an installed package, as far as it says them."""
    try:
        return f"{distribution.metadata['Name'] or 'unnamed'} {distribution.version}"[:100]
    except Exception:  # metadata that is not there, or no text
        return "a package without a name"
