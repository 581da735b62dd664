"""The form that asks for a user: reading it from a request, with limits, and checking its fields."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs

from fastapi import Request

from pricdr.data.ids import LONGEST_ID, id_fault
from pricdr.serving.errors import Refusal
from pricdr.serving.snapshot import MAX_K

DEFAULT_K: Final = 10
_FORM: Final = "application/x-www-form-urlencoded"
_MAX_BYTES: Final = 16 << 10
"""The longest id takes 12,000: four bytes a character, each percent-encoded as three."""
_MAX_FIELDS: Final = 8


@dataclass(frozen=True)
class UserForm:
    """The fields as they were typed, and what is wrong with them."""

    user: str = ""
    k_text: str = str(DEFAULT_K)
    user_error: str = ""
    k_error: str = ""

    @property
    def k(self) -> int:
        """How many items are requested."""
        return int(self.k_text)

    @property
    def is_valid(self) -> bool:
        """Whether the form can be answered."""
        return not self.user_error and not self.k_error


def check_form(user: str, k_text: str) -> UserForm:
    """Return the form with its errors, if any.

    >>> check_form("alice", "10").is_valid, check_form("", "0").is_valid
    (True, False)
    """
    k_text = k_text.strip()
    valid = k_text.isascii() and k_text.isdigit() and len(k_text) < 9 and 1 <= int(k_text) <= MAX_K
    return UserForm(
        user=user,
        k_text=k_text[:9],
        user_error=_user_error(user),
        k_error="" if valid else f"The number of items must be a whole number from 1 to {MAX_K:,}.",
    )


async def read_form(request: Request) -> UserForm:
    """Return the form in the body of a request; refuse a body that is not a form."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != _FORM:
        raise Refusal(415, f"the form must be sent as {_FORM}")
    body = await request.body()
    if len(body) > _MAX_BYTES:
        raise Refusal(413, f"the form has at most {_MAX_BYTES:,} bytes")
    try:
        fields = parse_qs(
            body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS, separator="&"
        )
    except ValueError as error:  # not ASCII, not UTF-8 once decoded, or too many fields
        raise Refusal(400, "the form cannot be read") from error
    if any(len(values) > 1 for values in fields.values()):
        raise Refusal(400, "the form contains a field twice")
    return check_form(fields.get("id", [""])[0], fields.get("k", [str(DEFAULT_K)])[0])


def _user_error(user: str) -> str:
    """Return what is wrong with an id, without repeating it."""
    if not user:
        return "Enter the id of a user."
    if len(user) > LONGEST_ID:
        return f"An id has at most {LONGEST_ID:,} characters."
    return "An id must not contain line breaks or other control characters." if id_fault(user) else ""
