"""How ids are written before they are compared: by a rule that both parties declare, and by no other.

A rule says what happens to ASCII characters alone. What Unicode calls a lower-case letter differs between versions of
Python, and two parties that disagree about one letter would miss a user without a word.
"""

import re
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from pricdr.data.reading.text_files import shorten
from pricdr.errors import InputError, PriCDRError

_LOWER: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_ADDRESS: Final = re.compile(r"[^@\s]+@[^@\s]+")
_PUNCTUATION: Final = str.maketrans("", "", " -./()")
_NUMBER: Final = re.compile(r"\+[1-9][0-9]{6,14}", re.ASCII)


def _exact(given: str) -> str:
    return given


def _email(given: str) -> str:
    text = given.strip(" ").translate(_LOWER)
    if not _ADDRESS.fullmatch(text):
        raise ValueError("is no e-mail address: one @ with text on both sides and no blank inside")
    return text


def _phone(given: str) -> str:
    if "(0)" in given.replace(" ", ""):  # with its 0 kept it would never meet the same number written without
        raise ValueError("is no international number: (0) is dialled within the country only, so leave it out")
    text = given.translate(_PUNCTUATION)
    text = f"+{text[2:]}" if text.startswith("00") else text
    if not _NUMBER.fullmatch(text):
        raise ValueError("is no telephone number with its country: + or 00, then 7 to 15 digits, not 0 first")
    return text


class Normalisation(Enum):
    """A rule by which ids are written before they are hashed."""

    EXACT = "exact"
    EMAIL = "email"
    PHONE = "phone"

    @property
    def rule(self) -> str:
        """The rule as one sentence. It travels with every message, and both sides must have the same."""
        return _RULES[self][0]

    def apply(self, given: str) -> str:
        """Return an id as the rule writes it; ValueError says, to follow the id, why the rule has no form for it.

        >>> Normalisation.EMAIL.apply(" Ann.Smith+news@Example.ORG"), Normalisation.PHONE.apply("0049 (30) 123-4567")
        ('ann.smith+news@example.org', '+49301234567')
        """
        return _RULES[self][1](given)


_RULES: Final[dict[Normalisation, tuple[str, Callable[[str], str]]]] = {
    Normalisation.EXACT: ("Ids are compared byte for byte.", _exact),
    Normalisation.EMAIL: (
        "Spaces at both ends are removed and the letters A to Z become a to z; everything else, dots and +tags "
        "included, is kept; what is left must have one @, text on both sides of it, and no white space.",
        _email,
    ),
    Normalisation.PHONE: (
        "Spaces and the characters - . / ( ) are removed and 00 at the beginning becomes +; what is left must be + and "
        "7 to 15 digits, not 0 first; a number with (0) in it is refused.",
        _phone,
    ),
}


@dataclass(frozen=True, repr=False)
class NormalisedIds:
    """The distinct ids of one party as a rule writes them, each with the first spelling that the party had for it."""

    normalisation: Normalisation
    ids: tuple[str, ...]
    own: tuple[str, ...]
    merged: int = 0
    """How many ids had the form of an earlier one."""

    @classmethod
    def of(cls, ids: Sequence[str], normalisation: Normalisation, *, name: str = "ids") -> "NormalisedIds":
        """Return the ids in the order given; ``name`` is what refusals call the file they came from.

        >>> found = NormalisedIds.of(["A@x.org", "b@x.org", "a@X.org"], Normalisation.EMAIL)
        >>> found.ids, found.own, found.merged
        (('a@x.org', 'b@x.org'), ('A@x.org', 'b@x.org'), 1)
        """
        if not ids:
            raise InputError(f"{name}: there is no id to align")
        if normalisation is Normalisation.EXACT:
            distinct = dict(zip(ids, ids, strict=True))
        else:
            distinct = {}
            for line, given in enumerate(ids, start=1):
                try:
                    distinct.setdefault(normalisation.apply(given), given)
                except ValueError as error:
                    raise InputError(f"{name}: line {line}: {shorten(given)} {error}") from error
        return cls(normalisation, tuple(distinct), tuple(distinct.values()), len(ids) - len(distinct))


def agreed_normalisation(name: str, rule: str, error: type[PriCDRError] = InputError) -> Normalisation:
    """Return the rule of this name, if the other party means the same by it."""
    try:
        normalisation = Normalisation(name)
    except ValueError:
        raise error(f"normalisation must be exact, email or phone, got {shorten(name)}") from None
    if normalisation.rule != rule:
        raise error(f"the rule {name} reads {shorten(rule, 200)} there, and {normalisation.rule!r} here")
    return normalisation
