"""The form that asks for a user: reading it from a request, with limits, and checking its fields."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs

from fastapi import Request

from pricdr.data.ids import LONGEST_ID, id_fault
from pricdr.serving.errors import Refusal
from pricdr.serving.schema import DEFAULT_K
from pricdr.serving.snapshot import MAX_K

_FORM: Final = "application/x-www-form-urlencoded"
_MAX_BYTES: Final = 16 << 10
"""The longest id takes 12,000: four bytes a character, each percent-encoded as three."""
_MAX_FIELDS: Final = 8


@dataclass(frozen=True)
class UserForm:
    """The fields as they were typed."""

    user: str = ""
    k_text: str = str(DEFAULT_K)
    is_sent: bool = False
    """Whether anything was typed: an empty form has no errors."""

    @property
    def k(self) -> int:
        """How many items are requested; 0 if that is not a whole number."""
        text = self.k_text.strip()
        return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0

    @property
    def user_error(self) -> str:
        """What is wrong with the id, without repeating it."""
        if not self.user:
            return "Enter the id of a user." if self.is_sent else ""
        if len(self.user) > LONGEST_ID:
            return f"An id has at most {LONGEST_ID:,} characters."
        return "An id must not contain line breaks or other control characters." if id_fault(self.user) else ""

    @property
    def k_error(self) -> str:
        """What is wrong with the number of items."""
        return "" if 1 <= self.k <= MAX_K else f"The number of items must be a whole number from 1 to {MAX_K:,}."


async def read_form(request: Request) -> UserForm:
    """Return the form in the body of a request; refuse a body that is not a form."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
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
    return UserForm(fields.get("id", [""])[0], fields.get("k", [str(DEFAULT_K)])[0], is_sent=True)
