"""The form that asks for a user, as it arrives: a body that is bounded, decoded and checked."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs

from fastapi import Request

from pricdr.data.ids import LONGEST_ID, id_fault
from pricdr.serving.errors import Refusal
from pricdr.serving.snapshot import LARGEST_K

DEFAULT_K: Final = 10
_FORM: Final = "application/x-www-form-urlencoded"
_MOST_BYTES: Final = 16 << 10
"""An id of the greatest length takes 12,000: four bytes a character, three letters a byte."""
_MOST_FIELDS: Final = 8


@dataclass(frozen=True)
class Question:
    """What was typed, and what is wrong with it."""

    user: str = ""
    k_text: str = str(DEFAULT_K)
    user_fault: str = ""
    k_fault: str = ""

    @property
    def k(self) -> int:
        """How many items are asked for."""
        return int(self.k_text)

    @property
    def is_good(self) -> bool:
        """Whether it can be answered."""
        return not self.user_fault and not self.k_fault


def question(user: str, k_text: str) -> Question:
    """Return what was typed, checked.

    >>> question("alice", "10").is_good, question("", "0").is_good
    (True, False)
    """
    k_text = k_text.strip()
    good = k_text.isascii() and k_text.isdigit() and len(k_text) < 9 and 1 <= int(k_text) <= LARGEST_K
    return Question(
        user=user,
        k_text=k_text[:9],
        user_fault=_user_fault(user),
        k_fault="" if good else f"How many must be a whole number from 1 to {LARGEST_K:,}.",
    )


async def read_form(request: Request) -> Question:
    """Return the question in the body of a request; refuse a body that is no form."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _FORM:
        raise Refusal(415, f"the form must be sent as {_FORM}")
    body = await request.body()
    if len(body) > _MOST_BYTES:
        raise Refusal(413, f"the form has at most {_MOST_BYTES:,} bytes")
    try:
        fields = parse_qs(
            body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS, separator="&"
        )
    except ValueError as error:  # not ASCII, not UTF-8 behind its percent signs, or a thousand fields
        raise Refusal(400, "the form cannot be read") from error
    if any(len(values) > 1 for values in fields.values()):
        raise Refusal(400, "the form names a field twice")
    return question(fields.get("id", [""])[0], fields.get("k", [str(DEFAULT_K)])[0])


def _user_fault(user: str) -> str:
    """Return what is wrong with an id, without repeating it."""
    if not user:
        return "Type the id of a user."
    if len(user) > LONGEST_ID:
        return f"An id has at most {LONGEST_ID:,} characters."
    return "An id holds no line break and no other control character." if id_fault(user) else ""
