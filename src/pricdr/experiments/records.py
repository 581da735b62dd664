"""Dataclasses from TOML and JSON that are not trusted: pydantic checks them, and errors are one line in plain words."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias, TypeVar, cast, dataclass_transform

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
)

from pricdr.data.reading.text_files import shorten
from pricdr.errors import FILE_NAME, InputError, ParameterError, PriCDRError
from pricdr.untrusted import read_bounded

T = TypeVar("T")


@contextmanager
def naming(what: object, kind: type[PriCDRError] = ParameterError) -> Iterator[None]:
    """Name what a refusal is about; ``kind`` is what is raised."""
    try:
        yield
    except ParameterError as error:
        raise kind(f"{what}: {error}") from error


_RECORD: Final = ConfigDict(extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)
"""Strictness is in the types below and not here: a strict dataclass takes no table for itself, no list for a tuple and
no text for an enum, and files have nothing else."""
_MAX_LINE_LENGTH: Final = 200


@dataclass_transform(frozen_default=True)
def record(kind: type[T]) -> type[T]:
    """Make a class a frozen dataclass that files may describe."""
    kind.__pydantic_config__ = _RECORD  # type: ignore[attr-defined]  # where pydantic looks for it
    return dataclass(frozen=True)(kind)


def _as_written(value: Any, check: ValidatorFunctionWrapHandler) -> Any:  # noqa: ANN401 - whatever a file holds
    check(value)
    return value


def _one_line(text: str) -> str:
    if not (text.isprintable() and 1 <= len(text) <= _MAX_LINE_LENGTH):
        raise ParameterError(f"must be one line of 1 to {_MAX_LINE_LENGTH} printable characters, got {shorten(text)}")
    return text


Whole: TypeAlias = Annotated[int, Field(strict=True, ge=-(2**63), lt=2**63)]
Count: TypeAlias = Annotated[Whole, Field(ge=0)]
# 4 stays an int and 4.0 a float: outlines have a number as its spec has it.
_NUMBER: Final = WrapValidator(_as_written)
Number: TypeAlias = Annotated[float, Field(strict=True, gt=-(2.0**63), lt=2.0**63), _NUMBER]
Positive: TypeAlias = Annotated[float, Field(strict=True, gt=0, lt=2.0**63), _NUMBER]
Probability: TypeAlias = Annotated[float, Field(strict=True, gt=0, lt=1), _NUMBER]
Share: TypeAlias = Annotated[float, Field(strict=True, gt=0, le=1), _NUMBER]
Flag: TypeAlias = Annotated[bool, Field(strict=True)]
Line: TypeAlias = Annotated[
    str,
    Field(strict=True),
    AfterValidator(_one_line),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": _MAX_LINE_LENGTH}),
]
Text: TypeAlias = Annotated[str, Field(strict=True, max_length=20_000)]
FileName: TypeAlias = Annotated[str, Field(strict=True, pattern=f"^{FILE_NAME}$")]
Settings: TypeAlias = Annotated[dict[str, Any], Field(strict=True, max_length=1_000)]
"""Settings of a method, which checks them itself."""


_RULES: Final = {
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "string_type": "must be text",
    "tuple_type": "must be a list",
    **dict.fromkeys(("dict_type", "dataclass_type", "model_type"), "must be a table"),
    "string_pattern_mismatch": "becomes a file name: 1 to 100 letters, digits, _, - or . (not first)",
}
"""By the type of pydantic's error, where its own words are those of Python."""


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:  # noqa: ANN401 - a type
    """Return what checks records, made once: it reads the descriptions of all fields off their source."""
    return TypeAdapter(kind)


def from_table(kind: type[T], table: object) -> T:
    """Return the dataclass that a table of TOML or JSON describes."""
    try:
        return cast(T, _adapter(cast(Any, kind)).validate_python(table))
    except ValidationError as error:
        raise ParameterError(_in_words(error)) from error


def from_json(kind: type[T], text: str) -> T:
    """Return the dataclass that JSON describes."""
    try:
        # Not pydantic's own parser, which takes the last of two equal keys without a word.
        table = json.loads(text, object_pairs_hook=_distinct, parse_constant=_refuse)
    except RecursionError as error:
        raise ParameterError("it is nested too deeply") from error
    except ValueError as error:
        raise ParameterError(f"it is not JSON: {error}") from error
    return from_table(kind, table)


def read_json(path: Path, kind: type[T], what: str, *, limit: int) -> T:
    """Return the dataclass in a file of JSON with at most ``limit`` bytes; ``what`` names it where it is none."""
    try:
        return from_json(kind, read_bounded(path, limit=limit).decode())
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except (ParameterError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not {what}: {error}") from error


def _in_words(error: ValidationError) -> str:
    """Return one thing that is wrong as one line: the key, the rule and the value."""
    # An unknown key first: it is often a misspelt one, and then the right one is missing as well.
    first = min(error.errors(include_url=False), key=lambda one: one["type"] != "unexpected_keyword_argument")
    kind, loc = first["type"], first["loc"]
    if kind == "unexpected_keyword_argument":
        return f"unknown key {shorten(loc[-1])} in {_key(loc[:-1])}"
    if kind == "missing":
        return f"{_key(loc[:-1])} needs {shorten(loc[-1])}"
    if kind == "value_error":
        # A rule of our own, with the value in it: of a type ("must be …"), or of a whole record ("cold must be …").
        said = str(first["ctx"]["error"])
        return f"{_key(loc)}{' ' if said.startswith('must') else ': '}{said}" if loc else said
    rule = _RULES.get(kind) or re.sub(r"^\w+ should(.*?)( after validation.*)?$", r"must\1", first["msg"])
    return f"{_key(loc)} {rule}, got {shorten(first['input'])}"


def _key(loc: tuple[int | str, ...]) -> str:
    """Return the way to a value, entries of a list counted from 1.

    >>> _key(("arm", 0, "release", "epsilon")), _key(())
    ('arm #1.release.epsilon', 'it')
    """
    parts = (f" #{part + 1}" if isinstance(part, int) else "." + shorten(part).strip("'") for part in loc)
    return "".join(parts).removeprefix(".") or "it"


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a key occurs twice")
    return table


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a number")
