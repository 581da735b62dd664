"""Ids of users and items: text, kept byte for byte. One rule for lists, ratings, releases and models."""

import re
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from pricdr.data.reading.text_files import shorten
from pricdr.errors import InputError

Ids: TypeAlias = tuple[str, ...]

LONGEST_ID: Final = 1000
"""Characters in an id."""
CONTROLS: Final = "[\x00-\x1f\x7f-\x9f\u2028\u2029]"
"""What no id holds, as a regular expression: control characters and line breaks of every kind."""
_CONTROL: Final = re.compile(CONTROLS)


def id_fault(name: str) -> str | None:
    """Return what is wrong with an id, to follow "the id"; None where nothing is.

    >>> id_fault("alice") is None, id_fault("")
    (True, 'is empty')
    """
    if name == "":
        return "is empty"
    if len(name) > LONGEST_ID:
        return f"{shorten(name)} has more than {LONGEST_ID:,} characters"
    if _CONTROL.search(name):
        return f"{shorten(name)} holds a line break or another control character"
    return None


def require_ids(what: str, ids: Sequence[Any]) -> Ids:
    """Return the ids if they are distinct text that follows the rule; ``what`` they identify is named in errors.

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
    # Searched all together, and one by one only to name the culprit: a search in each of millions takes seconds.
    broken = lines.count("\n") >= max(1, len(ids)) or _CONTROL.search(lines.replace("\n", ""))
    if broken or "" in ids or max(map(len, ids), default=0) > LONGEST_ID:
        raise InputError(f"the {what} id {next(filter(None, map(id_fault, ids)))}")
    return tuple(ids)
