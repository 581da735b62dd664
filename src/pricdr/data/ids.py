"""Ids of users and items: text, kept byte for byte. One rule for lists, ratings, releases and models."""

import re
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from pricdr.errors import InputError

Ids: TypeAlias = tuple[str, ...]

LONGEST_ID: Final = 1000
"""Characters in an id."""
CONTROLS: Final = "[\x00-\x1f\x7f-\x9f\u2028\u2029]"
"""What no id may hold, as a regular expression: control characters and line breaks of every kind."""
_CONTROL: Final = re.compile(CONTROLS)


def require_ids(what: str, ids: Sequence[Any]) -> Ids:
    """The ids, if they are distinct text of one line each; ``what`` they are ids of is named otherwise.

    >>> require_ids("user", ["a", "b"])
    ('a', 'b')
    >>> require_ids("user", ["a", "a"])
    Traceback (most recent call last):
    ...
    pricdr.errors.InputError: user ids must be distinct
    """
    try:
        lines = "\n".join(ids)
        lines.encode()
    except (TypeError, UnicodeEncodeError) as error:
        raise InputError(f"{what} ids must be text that UTF-8 can hold: {error}") from error
    if len(set(ids)) != len(ids):
        raise InputError(f"{what} ids must be distinct")
    if "" in ids:
        raise InputError(f"{what} ids must not be empty")
    # Searched together and, where there is something, one by one: a search in each of millions takes seconds.
    if lines.count("\n") >= max(1, len(ids)) or _CONTROL.search(lines.replace("\n", "")):
        wrong = next(name for name in ids if _CONTROL.search(name))
        raise InputError(f"{what} ids must not hold control characters or line breaks, got {wrong!r:.60}")
    if max(map(len, ids), default=0) > LONGEST_ID:
        raise InputError(f"{what} ids may have at most {LONGEST_ID:,} characters")
    return tuple(ids)
