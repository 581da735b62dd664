"""Packages that are damaged, clash or overreach: one line each, and nothing else is harmed."""

from dataclasses import dataclass, field
from typing import ClassVar

import pytest

from pricdr import Guarantee, Ratings, publish
from pricdr.cli import run
from pricdr.errors import ParameterError
from pricdr.models import EASE, Popularity, TargetMethod, register
from pricdr.models.catalogue import METHODS, configure, method_class
from pricdr.privacy.strategies import BY_NAME
from pricdr.strategies import JLT, register as register_strategy
from tests.extensions.packages import BUCKETS, NEIGHBOURS

OURS = list(METHODS.own)


def pyproject(name: str, methods: dict[str, str] | None = None, strategies: dict[str, str] | None = None) -> str:
    text = f'[project]\nname = "{name}"\nversion = "0.1"\n'
    for group, points in (("methods", methods), ("strategies", strategies)):
        lines = "".join(f'"{key}" = "{value}"\n' for key, value in (points or {}).items())
        text += f'[project.entry-points."pricdr.{group}"]\n{lines}'
    return text


BROKEN = {
    "no such module": ("x = 1", "gone.there:Thing", "No module named 'gone'"),
    "no such class": ("x = 1", "bad.home:Thing", "AttributeError"),
    "a syntax error": ("def", "bad.home:Thing", "SyntaxError"),
    "an error at import": ("raise RuntimeError('\\x1b[31mred')", "bad.home:Thing", "RuntimeError: \\u001b[31mred"),
    "an exit at import": ("raise SystemExit(0)", "bad.home:Thing", "SystemExit"),
    "no class": ("Thing = 3", "bad.home:Thing", "it is no class, but int"),
    "no method": ("class Thing: name = 'thing'", "bad.home:Thing", "does not inherit from pricdr.models.base:Method"),
    "nothing implemented": (
        "from pricdr.models import TargetMethod\nclass Thing(TargetMethod):\n    name = 'thing'",
        "bad.home:Thing",
        "does not define _train",
    ),
    "another name": (NEIGHBOURS, "bad.home:Neighbours", "it calls itself 'neighbours'"),
    "no summary": (
        "from pricdr.models import TargetMethod\nclass Thing(TargetMethod):\n    name = 'thing'\n    _train = None",
        "bad.home:Thing",
        "needs a class attribute summary",
    ),
}


@pytest.mark.parametrize(("module", "home", "says"), BROKEN.values(), ids=BROKEN.keys())
def test_what_cannot_be_loaded_is_one_line_and_takes_nothing_with_it(installed, module, home, says, capsys):
    installed(pyproject("bad", {"thing": home}), home=module)
    assert run(["list", "methods"]) == 0
    shown = capsys.readouterr()
    assert [line.split()[0] for line in shown.out.splitlines()[1:]] == OURS
    (line,) = shown.err.splitlines()
    assert line.startswith(f"warning: method thing of bad 0.1 ({home}): ")
    assert says in line


def test_our_names_cannot_be_taken_and_what_is_no_name_or_no_class_is_not_offered(installed):
    wrong = {"Thing": "bad.home:Thing", "os:x": "bad.home:Thing", "thing": "bad.home", "more": "bad.home:Thing [x]"}
    points = {"hetero": "bad.home:Neighbours", "ease": "bad.home:Neighbours", **wrong}
    installed(pyproject("bad", points, {"jlt": "bad.ways:Buckets"}), home=NEIGHBOURS, ways=BUCKETS)
    assert method_class("ease") is EASE
    assert BY_NAME["jlt"] is JLT
    assert list(METHODS) == OURS
    problems = METHODS.problems()
    assert len(problems) == len(points)
    for problem, name in zip(problems, points, strict=True):
        assert problem.startswith(f"package bad 0.1 offers the method {name!r}")
    assert problems[0].endswith(", a name of PriCDR's own: ours is used")
    assert BY_NAME.problems()[0].startswith("package bad 0.1 offers the strategy 'jlt', a name of PriCDR's own")


def test_two_packages_with_one_name_are_both_named_and_neither_is_taken(installed):
    for name in ("one", "two", "two"):  # of a package that is there twice, the first counts
        installed(pyproject(name, {"neighbours": f"{name}.home:Neighbours"}), home=NEIGHBOURS)
    assert list(METHODS) == OURS
    says = "method neighbours is offered by two 0.1 (two.home:Neighbours) and by one 0.1 (one.home:Neighbours): remove"
    with pytest.raises(ParameterError) as refused:
        method_class("neighbours")
    assert str(refused.value).startswith(says)
    assert METHODS.problems() == (str(refused.value),)
    assert METHODS.resolve_reference("one.home:Neighbours") == "neighbours"  # what the user names is what the user gets
    assert method_class("neighbours").__module__ == "one.home"


@pytest.mark.parametrize(
    "content", [b"[pricdr.methods]\nthis is no entry point\n", b"[pricdr.methods]\nx = \xff\xfe\n"]
)
def test_metadata_that_cannot_be_read_is_named(installed, content):
    site = installed(pyproject("bad", {"thing": "bad.home:Thing"}), home="")
    (points,) = site.glob("*.dist-info/entry_points.txt")
    points.write_bytes(content)
    assert list(METHODS) == OURS
    (problem,) = METHODS.problems()
    assert problem.startswith("the entry points of bad 0.1 cannot be read: ")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("hetreo", "there is no method 'hetreo': hetero, hetero-paper,"),
        ("os:system", "method os:system: it is no class"),
        ("os.path", "there is no method 'os.path'"),
        ("a b:C", "method 'a b:C' is neither a name nor module:Class"),
        (":", "method ':' is neither a name nor module:Class"),
        ("\x1b[31m", "there is no method '\\x1b[31m'"),
        ("pricdr.models.base:TargetMethod", "does not define _train"),
        ("pricdr.models.methods.linear:Nothing", "AttributeError"),
    ],
)
def test_what_cannot_be_a_method_is_one_line(given, says):
    with pytest.raises(ParameterError) as refused:
        METHODS.find(METHODS.resolve_reference(given))
    assert says in str(refused.value)


@dataclass(frozen=True, kw_only=True)
class Loose(TargetMethod):
    """A method with a setting of its own, outside a dataclass of settings."""

    name: ClassVar[str] = "loose"
    summary: ClassVar[str] = "x"
    neighbours: int = 3

    def _train(self, data, *, validation, chosen, log): ...


@dataclass(frozen=True, kw_only=True)
class Bare(TargetMethod):
    """A method without a default."""

    name: ClassVar[str] = "bare"
    summary: ClassVar[str] = "x"
    config: Loose

    def _train(self, data, *, validation, chosen, log): ...


@dataclass(frozen=True, kw_only=True)
class Stern(Bare):
    """A method that refuses its own defaults."""

    config: Loose = field(default_factory=lambda: 1 / 0)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (Loose, "Loose needs its settings in a dataclass, and neighbours is none"),
        (Bare, "Bare needs a default for config"),
        (Stern, "Stern cannot be made of its defaults: division by zero"),
        (type("Ours", (Popularity,), {}), "calls itself 'popularity', a method of PriCDR's own: rename it"),
        (type("Loud", (Popularity,), {"name": "LOUD"}), "1 to 40 small letters"),
        (type("Nameless", (Popularity,), {"name": None}), "1 to 40 small letters"),
        (3, "it is no class, but int"),
    ],
)
def test_what_cannot_be_registered_says_why(forgetting, kind, says):
    with pytest.raises(ParameterError, match=says):
        register(kind)


def test_a_class_that_is_defined_anew_replaces_itself_and_no_other(forgetting):
    first, second = (type("Mine", (Popularity,), {"name": "mine", "__module__": "notebook"}) for _ in range(2))
    assert register(first) is first
    assert method_class("mine") is first
    assert register(second) is second
    assert method_class("mine") is second
    with pytest.raises(ParameterError, match=r"elsewhere:Mine calls itself 'mine', and so does notebook:Mine"):
        register(type("Mine", (Popularity,), {"name": "mine", "__module__": "elsewhere"}))
    assert configure("mine", {}) == second()


def test_a_strategy_is_registered_like_a_method(forgetting):
    mine = register_strategy(type("Mine", (JLT,), {"name": "mine"}))
    ratings = Ratings.from_triples(["a", "b"], ["x", "y"])
    release = publish(ratings, Guarantee(epsilon=4, delta=1e-6), strategy="mine", users=["a", "b"])
    assert release.certificate.strategy.name == "mine"
    assert BY_NAME["mine"] is mine
    with pytest.raises(ParameterError, match="jlt"):
        register_strategy(type("Mine", (JLT,), {}))
