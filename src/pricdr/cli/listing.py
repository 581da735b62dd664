"""``pricdr list``: the methods and strategies there are, ours and those of installed packages."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from typer import Argument

from pricdr.cli.console import progress_bar, say, warn
from pricdr.cli.options import JsonOption, write_json
from pricdr.errors import MissingExtraError, ParameterError
from pricdr.extensions import Registry
from pricdr.models.catalogue import METHODS
from pricdr.privacy.strategies import BY_NAME

_REGISTRIES: Final[Mapping[str, Registry[Any]]] = {"methods": METHODS, "strategies": BY_NAME}


def list_names(
    what: Annotated[Literal["methods", "strategies"] | None, Argument(help="Only these.  [default: both]")] = None,
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
        for kind, registry in _REGISTRIES.items():
            try:
                if what in (None, kind):
                    found[kind] = _described(registry)
            except MissingExtraError as error:  # whoever only publishes has no torch, and need not miss it
                if what is not None:
                    raise
                warn(str(error))
    for number, (kind, rows) in enumerate(found.items()):
        say(*[""] * min(number, 1), *_table(_REGISTRIES[kind].kind, rows))
    write_json(json_output, found)


def _described(registry: Registry[Any]) -> list[dict[str, str | None]]:
    """Return what there is to say of each class; warn of those that cannot be loaded."""
    rows: list[dict[str, str | None]] = []
    problems = list(registry.problems())
    for name in registry:
        try:
            kind = registry.find(name)
        except ParameterError as error:
            problems.append(str(error))
            continue
        if registry is METHODS:
            about = {"private": " or ".join(data.privacy_note for data in kind.data_access())}
            about["needs"] = " or ".join(data.value for data in kind.data_access())
        else:
            directions = "learnt from the ratings" if kind.learns else "drawn or public"
            about = {"directions": directions, "needs": " and ".join(kind.needs) or "nothing"}
        rows.append({"name": name, **about, "summary": kind.summary, "from": registry.origin(name)})
    for problem in problems:
        warn(problem)
    return rows


def _table(kind: str, rows: list[dict[str, str | None]]) -> list[str]:
    """Return the rows under a heading, in columns; where a class is not ours, its last cell says whose it is."""
    names = {"name": kind, "private": "private?", "summary": "what it is"}
    *keys, _ = rows[0]
    cells = [[names.get(key, key) for key in keys]]
    for row in rows:
        *texts, origin = row.values()
        cells.append([*map(str, texts[:-1]), f"{texts[-1]}{'' if origin is None else f' (from {origin})'}"])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(map(str.ljust, line, widths)).rstrip() for line in cells]
