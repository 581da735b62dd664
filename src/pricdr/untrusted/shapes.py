"""What the footer of a plainly written Parquet file needs to say: any other field could carry anything."""

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pricdr.untrusted.footers import LayoutError


@dataclass(frozen=True)
class _Text:
    """Text of bounded length."""

    longest: int


@dataclass(frozen=True)
class _Several:
    """A list of bounded length."""

    of: "_Shape"
    most: int = 16


_Shape: TypeAlias = "type[int] | _Text | _Several | dict[int, _Shape]"
"""A whole number, text, a list, or a struct with these fields and no others."""

_NAME: Final = _Text(40)
_PAGES: Final[_Shape] = {1: int, 2: int, 3: int}
_LOGICAL_TYPE: Final[_Shape] = {1: {}, 3: {}, 4: {}}  # text, lists, enumerations
_ELEMENT: Final[_Shape] = {1: int, 3: int, 4: _NAME, 5: int, 6: int, 9: int, 10: _LOGICAL_TYPE}
_COLUMN: Final[_Shape] = {
    **dict.fromkeys((1, 4, 5, 6, 7, 9, 11), int),
    2: _Several(int),
    3: _Several(_NAME),
    13: _Several(_PAGES),
}
# No column index (6, 7) and no statistics: they may repeat values of the column, or hold anything at all.
_CHUNK: Final[_Shape] = {2: int, 3: _COLUMN, 4: int, 5: int}
_GROUP: Final[_Shape] = {1: _Several(_CHUNK), 2: int, 3: int, 5: int, 6: int, 7: int}

FOOTER: Final[_Shape] = {
    1: int,
    2: _Several(_ELEMENT),
    3: int,
    4: _Several(_GROUP, most=1 << 20),
    5: _Several({1: _NAME, 2: _Text(2048)}, most=1),
    6: _Text(200),
    7: _Several({1: {}}),
}
OFFSET_INDEX: Final[_Shape] = {1: _Several(_PAGES, most=1 << 30)}


def require_shape(value: Any, shape: _Shape, what: str) -> None:  # noqa: ANN401 - whatever the file holds
    """Refuse a value that has fields or texts beyond its ``shape``."""
    if isinstance(shape, dict) and isinstance(value, dict) and value.keys() <= shape.keys():
        for number, part in value.items():
            require_shape(part, shape[number], what)
    elif isinstance(shape, _Several) and isinstance(value, list) and len(value) <= shape.most:
        for part in value:
            require_shape(part, shape.of, what)
    elif not (
        (shape is int and isinstance(value, int))
        or (isinstance(shape, _Text) and isinstance(value, bytes) and len(value) <= shape.longest)
    ):
        raise LayoutError(f"{what} has fields that no release needs")
