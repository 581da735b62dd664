"""Methods and strategies on the command line: what --method and --strategy take, and the tables of what there is."""

from collections.abc import Callable
from typing import TypeVar

from pricdr.cli.console import say, warn, working
from pricdr.errors import ParameterError
from pricdr.extensions import Registry

T = TypeVar("T")


def name_given(registry: Registry[T], text: str) -> str:
    """Return the name of what --method or --strategy asks for, by name or as module:Class, once it is found."""
    try:
        name = registry.named(text)
        registry.find(name)
    except ParameterError as error:
        raise ParameterError(f"--{registry.kind}: {error}") from error
    return name


def say_registry(registry: Registry[T], heading: tuple[str, ...], cells: Callable[[type[T]], tuple[str, ...]]) -> None:
    """Write one line for each class: its name, its cells, and (where it is not ours) where it comes from.

    What cannot be loaded is named in a warning of one line, and takes nothing else with it.
    """
    rows = [(registry.kind, *heading)]
    problems = list(registry.problems())
    with working("loading"):  # what there is to say is said by the classes
        for name in registry:
            try:
                *middle, last = cells(registry.find(name))
            except ParameterError as error:
                problems.append(str(error))
                continue
            origin = registry.origin(name)
            rows.append((name, *middle, last if origin is None else f"{last} (from {origin})"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    widths[-1] = 0  # nothing follows it
    for row in rows:
        say("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)))
    for problem in problems:
        warn(problem)
