"""Judge one value of any type, as JSON lines and SQLite have them: whatever types the values of other rows have."""

from typing import Any

from pricdr.data.reading.text_files import shorten


def judged(role: str, value: Any) -> str | float | None:  # noqa: ANN401
    """Return an id or a time as text, and a rating as a number; a time of another type is None: it cannot be read.

    Raises:
        ValueError: what is wrong with an id or a rating, to follow the place of its row.

    >>> judged("user", 7), judged("user", "7"), judged("rating", 4), judged("time", [2024])
    ('7', '7', 4.0, None)
    """
    kind = type(value)  # not isinstance: True is an int to it
    if role == "rating":
        try:
            if kind in (int, float):
                return float(value)
        except OverflowError:
            pass  # a whole number beyond every float
        raise ValueError(f"the rating {shorten(value)} is not a finite number")
    if role == "time" and kind not in (str, int, float):
        return None
    if role != "time" and kind not in (str, int):
        raise ValueError(f"the {role} id {shorten(value)} must be text or a whole number")
    text = str(value)
    if text.isascii() or _is_text(text):
        return text
    if role == "time":
        return None
    raise ValueError(f"the {role} id {shorten(value)} holds half of a surrogate pair, which is not text")


def _is_text(text: str) -> bool:
    try:
        _ = text.encode()
    except UnicodeEncodeError:
        return False
    return True
