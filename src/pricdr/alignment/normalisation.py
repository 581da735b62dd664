"""How ids are normalised before they are compared: by a rule that both parties declare.

Rules change ASCII characters only. Unicode's case tables differ between versions of Python, and two parties that
disagree about a single letter would silently miss a user.
"""

import re
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from pricdr.data.reading.text_files import shorten
from pricdr.errors import InputError

Normalisation: TypeAlias = Literal["exact", "email", "phone"]
_LOWER: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_ADDRESS: Final = re.compile(r"[^@\s]+@[^@\s]+")
_PUNCTUATION: Final = str.maketrans("", "", " -./()")
_NUMBER: Final = re.compile(r"\+[1-9][0-9]{6,14}", re.ASCII)


def _email(user_id: str) -> str:
    address = user_id.strip(" ").translate(_LOWER)
    if not _ADDRESS.fullmatch(address):
        raise ValueError("is not an e-mail address: it needs one @, text on both sides and no white space")
    return address


def _phone(user_id: str) -> str:
    if "(0)" in user_id.replace(" ", ""):  # with the 0 kept, it would never match the same number written without it
        raise ValueError("is not an international number: leave out the (0), which is only dialled within the country")
    number = user_id.translate(_PUNCTUATION)
    number = f"+{number[2:]}" if number.startswith("00") else number
    if not _NUMBER.fullmatch(number):
        raise ValueError("is not an international number: it needs + or 00, then 7 to 15 digits, the first not 0")
    return number


RULES: Final[dict[Normalisation, tuple[str, Callable[[str], str]]]] = {
    "exact": ("Ids are compared byte for byte.", str),
    "email": (
        "Spaces at both ends are removed and the letters A to Z become a to z; everything else, dots and +tags "
        "included, is kept; what is left must have one @, text on both sides of it, and no white space.",
        _email,
    ),
    "phone": (
        "Spaces and the characters - . / ( ) are removed and 00 at the beginning becomes +; what is left must be + and "
        "7 to 15 digits, not 0 first; a number with (0) in it is refused.",
        _phone,
    ),
}
"""Each as one sentence, which is part of every message and must be the same on both sides, and as a function that
raises ``ValueError`` for an id that it does not cover: the rest of a sentence that begins with the id."""


@dataclass(frozen=True, repr=False)
class NormalisedIds:
    """The distinct normalised ids of one party, each with the first spelling in which the party listed it."""

    normalisation: Normalisation
    ids: tuple[str, ...]
    own: tuple[str, ...]
    merged: int = 0  # how many ids were left out because an earlier one has the same normalised form

    @classmethod
    def of(cls, ids: Sequence[str], normalisation: Normalisation, *, name: str = "ids") -> "NormalisedIds":
        """Normalise ids and keep their order; errors call their file ``name``."""
        if not ids:
            raise InputError(f"{name}: no ids to align")
        _, normalise = RULES[normalisation]
        distinct: dict[str, str] = {}
        for line, user_id in enumerate(ids, start=1):
            try:
                distinct.setdefault(normalise(user_id), user_id)
            except ValueError as error:
                raise InputError(f"{name}: line {line}: {shorten(user_id)} {error}") from error
        return cls(normalisation, tuple(distinct), tuple(distinct.values()), len(ids) - len(distinct))
