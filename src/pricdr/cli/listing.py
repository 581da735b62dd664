"""``pricdr list``: the methods and strategies there are, ours and those of installed packages."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from pricdr.cli.console import progress_bar, say, warn
from pricdr.cli.options import JsonOption
from pricdr.errors import MissingExtraError, ParameterError
from pricdr.extensions import Registry
from pricdr.models.catalogue import METHODS
from pricdr.privacy.strategies import BY_NAME


class Listed(StrEnum):
    """What can be listed."""

    METHODS = "methods"
    STRATEGIES = "strategies"


_REGISTRIES: Final[Mapping[Listed, Registry[Any]]] = {Listed.METHODS: METHODS, Listed.STRATEGIES: BY_NAME}
_HEADINGS: Final = {"private": "private?", "summary": "what it is"}


def list_names(
    what: Annotated[Listed | None, typer.Argument(help="Only these.  [default: both]")] = None,
    json_output: JsonOption = None,
) -> None:
    """List every method for "pricdr train --method" and every strategy for "pricdr publish --strategy".

    A method's line says what it needs and whether its models keep the source's secrets; methods that need the source in
    plaintext are for comparison. A strategy's line says where its directions come from and what it needs.

    What other installed packages offer comes last, with the package's name: that it does what it says is the claim of
    that package.
    """
    found = {}
    with progress_bar("loading"):  # what there is to say is said by the classes
        for kind in Listed if what is None else [what]:
            try:
                found[kind.value], problems = _described(_REGISTRIES[kind])
            except MissingExtraError as error:  # whoever only publishes has no torch, and need not miss it
                if what is not None:
                    raise
                problems = [str(error)]
            for problem in problems:
                warn(problem)
    for number, (name, rows) in enumerate(found.items()):
        say(*([""] if number else []), *_table(_REGISTRIES[Listed(name)].kind, rows))
    if json_output is not None:
        json_output.write(found)


def _described(registry: Registry[Any]) -> tuple[list[dict[str, str | None]], list[str]]:
    """Return what there is to say of each class, and one line for each that cannot be loaded."""
    rows: list[dict[str, str | None]] = []
    problems = list(registry.problems())
    for name in registry:
        try:
            kind = registry.find(name)
        except ParameterError as error:
            problems.append(str(error))
            continue
        if registry is METHODS:
            access = kind.data_access()
            about = {
                "private": " or ".join(data.privacy_note for data in access),
                "needs": " or ".join(data.value for data in access),
            }
        else:
            directions = "learnt from the ratings" if kind.learns else "drawn or public"
            about = {"directions": directions, "needs": " and ".join(kind.needs) or "nothing"}
        rows.append({"name": name, **about, "summary": kind.summary, "from": registry.origin(name)})
    return rows, problems


def _table(kind: str, rows: list[dict[str, str | None]]) -> list[str]:
    """Return the rows under a heading, in columns; where a class is not ours, its last cell says whose it is."""
    heading = [kind, *(_HEADINGS.get(key, key) for key in rows[0] if key not in {"name", "from"})]
    cells = [heading]
    for row in rows:
        *texts, origin = row.values()
        cells.append([str(text) for text in texts])
        cells[-1][-1] += "" if origin is None else f" (from {origin})"
    widths = [*(max(map(len, column)) for column in list(zip(*cells, strict=True))[:-1]), 0]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)) for line in cells]
