"""Dataclasses from TOML and JSON that are not trusted: every unknown, missing or mistyped key is named."""

import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, fields
from enum import StrEnum
from types import UnionType
from typing import Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

from pricdr.data.reading.text_files import shorten
from pricdr.errors import ParameterError

T = TypeVar("T")
_WORDS: Final = {
    int: "a whole number",
    float: "a finite number",
    str: "text",
    bool: "true or false",
}


def build(kind: type[T], table: Mapping[str, Any]) -> T:
    """Return the dataclass that ``table`` describes."""
    known = {part.name: part for part in fields(kind)}  # type: ignore[arg-type]
    hints = get_type_hints(kind)
    if not isinstance(table, Mapping):
        raise ParameterError(f"a {kind.__name__} must be a table, got {shorten(table)}")
    for key, value in table.items():
        if key not in known:
            raise ParameterError(f"unknown key {shorten(key)} in a {kind.__name__}: it has {', '.join(known)}")
        if not _fits(value, hints[key]):
            raise ParameterError(f"{key} must be {_in_words(hints[key])}, got {shorten(value)}")
    for name, part in known.items():
        if name not in table and part.default is MISSING and part.default_factory is MISSING:
            raise ParameterError(f"a {kind.__name__} needs {name!r}")
    return kind(**{key: tuple(value) if isinstance(value, list) else value for key, value in table.items()})


def from_json(kind: type[T], line: str) -> T:
    """Return the dataclass in a line of JSON."""
    try:
        table = json.loads(line, object_pairs_hook=_distinct, parse_constant=_refuse)
    except RecursionError as error:
        raise ParameterError("it is nested too deeply") from error
    except ValueError as error:
        raise ParameterError(f"it is not JSON: {error}") from error
    return build(kind, table)


def _in_words(hint: Any) -> str:  # noqa: ANN401 - whatever a field is annotated with
    """Return a type in the words of TOML and JSON.

    >>> _in_words(int | None), _in_words(tuple[int, ...])
    ('a whole number', 'a list (each a whole number)')
    """
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(_in_words(kind) for kind in get_args(hint) if kind is not type(None))
    if get_origin(hint) is tuple:
        return f"a list (each {_in_words(get_args(hint)[0])})"
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return f"one of {', '.join(hint)}"
    return _WORDS.get(hint, "a table")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a number")


def _fits(value: Any, hint: Any) -> bool:  # noqa: ANN401 - whatever TOML or JSON hold
    """Return whether a value has the type of a field; a whole number passes for any number, and all are finite."""
    if hint is Any:
        return True
    if get_origin(hint) in (Union, UnionType):
        return any(_fits(value, part) for part in get_args(hint))
    if get_origin(hint) is tuple:
        return isinstance(value, list | tuple) and all(_fits(part, get_args(hint)[0]) for part in value)
    if get_origin(hint) in (dict, Mapping):
        of_key, of_value = get_args(hint)
        return isinstance(value, Mapping) and all(_fits(k, of_key) and _fits(v, of_value) for k, v in value.items())
    if hint in (int, float):
        whole = isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63
        return whole or (hint is float and isinstance(value, float) and math.isfinite(value))
    return isinstance(value, hint)
