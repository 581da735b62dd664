"""Find the user, item, rating and time columns: by their names, or where the caller says."""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pricdr.data.reading.text_files import file_refusal, shorten
from pricdr.errors import InputFileError, ParameterError

_ALIASES = {
    "user": ("user", "userid", "uid", "reviewerid", "customerid", "memberid"),
    "item": (
        *("item", "itemid", "iid", "movieid", "asin", "parentasin", "businessid", "productid", "bookid"),
        *("isbn", "musicid", "songid", "trackid", "artistid", "gameid", "sku"),
    ),
    "rating": ("rating", "ratings", "rate", "score", "stars", "starrating", "overall", "bookrating"),
    # The best first: a file may have several of them.
    "time": ("timestamp", "unixreviewtime", "unixtime", "datetime", "time", "ts", "date", "ratedat", "createdat"),
}
"""Known names by role, as :func:`_plain` normalises them."""
ROLES = tuple(_ALIASES)
_DELIMITERS = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas", "::": "double colons"}
HINT = "name them with --columns user=…,item=…[,rating=…][,time=…]"
FRAME_HINT = "name them with user=…, item=…, rating=…, time=…"
_HEADERLESS = (
    "for a file without a header give positions (--columns user=1,item=2,rating=3), "
    "or amazon-2014 (user, item, rating, time) or amazon-2018 (item, user, rating, time)"
)


@dataclass(frozen=True)
class Columns:
    """The columns of user, item, rating and time: header names, or 1-based positions in a file without a header.

    Without ``rating`` no rating column is read, unless a threshold needs one (then it is found by name). Without
    ``time`` a time column is found by name where there is one; it decides which row of a repeated pair counts.
    """

    user: str | int
    item: str | int
    rating: str | int | None = None
    time: str | int | None = None

    def __post_init__(self) -> None:
        given = list(self.given.values())
        for name in given:
            if isinstance(name, bool) or not isinstance(name, str | int) or name == "":
                raise ParameterError(f"a column must be a name or a position, got {name!r}")
            if isinstance(name, int) and name < 1:
                raise ParameterError(f"positions of columns start at 1, got {name}")
        if len({type(name) for name in given}) > 1:
            raise ParameterError(f"columns must all be names or all be positions, got {given}")
        if len(set(given)) < len(given):
            raise ParameterError(f"user, item, rating and time must be different columns, got {given}")

    @property
    def by_position(self) -> bool:
        """Whether these are positions, so that the file has no header."""
        return isinstance(self.user, int)

    @property
    def given(self) -> dict[str, str | int]:
        """The columns that were given, by role."""
        return {role: name for role, name in vars(self).items() if name is not None}

    @classmethod
    def parse(cls, text: str) -> "Columns":
        """Parse columns as the command line writes them; digits are positions in a file without a header."""
        known = {"amazon-2014": AMAZON_2014, "amazon-2018": AMAZON_2018}
        if text.strip().lower() in known:
            return known[text.strip().lower()]
        named: dict[str, str | int] = {}
        for part in text.split(","):
            role, equals, name = (piece.strip() for piece in part.partition("="))
            if not equals or role not in ROLES or role in named or not name:
                form = "user=…,item=…[,rating=…][,time=…]"
                raise ParameterError(f"columns must read {form}, {' or '.join(known)}, got {shorten(text)}")
            named[role] = int(name) if name.isascii() and name.isdigit() else name
        if not {"user", "item"} <= named.keys():
            raise ParameterError(f"columns must name user and item, got {shorten(text)}")
        return cls(named["user"], named["item"], named.get("rating"), named.get("time"))


AMAZON_2014 = Columns(user=1, item=2, rating=3, time=4)
AMAZON_2018 = Columns(user=2, item=1, rating=3, time=4)
"""Amazon's files of ratings, which have no header."""


def find_named(
    file: Path | str, header: Sequence[str], columns: Columns | None, *, need_rating: bool = False
) -> dict[str, int]:
    """Return the position of each role in a header; a rating that ``columns`` leave out is found only if needed."""
    given = {} if columns is None else columns.given
    if columns is not None and columns.by_position:
        raise _refusal(file, "positions are for files without a header, this one has names", f": {_shown(header)}")
    _require_several(file, header)
    # Without a single known name the first line may be data: then say so, and not that a column is missing.
    if columns is None and not any(_hits(header, role) for role in _ALIASES if role != "time"):
        fault, shown, hint = "no user or item column in the header", " ", f"{HINT}; {_HEADERLESS}"
        if any(re.fullmatch(r"\s*[-+]?[\d.]+([eE][-+]?\d+)?\s*", name) for name in header):
            fault, shown, hint = "line 1 looks like data, not like a header", ": ", _HEADERLESS
        raise _refusal(file, fault, f"{shown}{_shown(header)}", f"; {hint}")
    needed = ("user", "item", "rating") if need_rating else ("user", "item")
    optional = ("rating", "time") if columns is None else ("time",)
    return find_columns(file, header, given, needed, optional, hint=HINT)


def find_columns(
    file: Path | str,
    names: Sequence[str],
    given: Mapping[str, str | int],
    needed: Collection[str] = ("user", "item"),
    optional: Collection[str] = ("rating", "time"),
    *,
    what: str = "the header",
    hint: str = FRAME_HINT,
) -> dict[str, int]:
    """Return the position of each role among the names of ``what``: by the name that was given, or by a known one."""
    if len(set(given.values())) < len(given):
        raise ParameterError(f"user, item, rating and time must be different columns, got {list(given.values())}")
    if repeated := [name for name, times in Counter(names).items() if times > 1]:
        raise _refusal(file, f"{what} names a column more than once", f": {shorten(repeated[0])}")
    found: dict[str, int] = {}
    # Names that were given first, so that none of them is taken for another role.
    for role in dict.fromkeys((*given, *needed, *optional)):
        hits = _hits(names, role, given.get(role), found.values())
        if len(hits) == 1:
            found[role] = hits[0]
        elif role in given:
            fault = f"more than one column {shorten(given[role])}" if hits else f"no column {shorten(given[role])}"
            raise _refusal(file, f"{fault} in {what}", f" {_shown(names)}")
        elif hits:
            several = " and ".join(shorten(names[at]) for at in hits[:3])
            fault = f"several columns could be the {role} column"
            raise _refusal(file, fault, f": {several} in {_shown(names)}", f"; {hint}")
        elif role in needed:
            missing = "a rating column is asked for and there is none" if role == "rating" else f"no {role} column"
            raise _refusal(file, f"{missing} in {what}", f" {_shown(names)}", f"; {hint}")
    return found


def find_placed(
    file: Path, first: Sequence[str], wanted: Columns, *, need_rating: bool, lenient: bool = False
) -> dict[str, int]:
    """Return the position of each role in a file without a header: as declared, whatever its first line is.

    That line may only show that the declaration is wrong; where rows may be skipped (``lenient``), only a header does.
    """
    found = {role: at - 1 for role, at in wanted.given.items() if isinstance(at, int)}
    width = max(found.values()) + 1
    if need_rating and wanted.rating is None:
        raise file_refusal(file, f"a rating column is asked for and --columns names none; {HINT}")
    if width > len(first):
        if not lenient:
            _require_several(file, first)
            raise _refusal(file, f"line 1 has {len(first)} fields, column {width} is asked for", f": {_shown(first)}")
    # Positions skip nothing: a header would become a user called "userId".
    elif all(_plain(first[at]) in sum(_ALIASES.values(), ()) for role, at in found.items() if role != "time"):
        rule = f"; positions are for files without one; {HINT}"
        raise _refusal(file, "line 1 looks like a header", f": {_shown(first)}", rule)
    return found


def _hits(names: Sequence[str], role: str, wanted: str | int | None = None, taken: Collection[int] = ()) -> list[int]:
    """Return the positions of the names that may be meant: those of the column that is wanted, or of a known name."""
    free = {at: name for at, name in enumerate(names) if at not in taken}
    if wanted is not None:  # exact names first: a file may have both ``User`` and ``user``
        exact = [at for at, name in free.items() if name == wanted]
        return exact or [at for at, name in free.items() if name.strip().casefold() == str(wanted).casefold()]
    hits = [at for at, name in free.items() if _plain(name) in _ALIASES[role]]
    # Of several times the best known one, and the first of those; any other role must be clear.
    return sorted(hits, key=lambda at: _ALIASES[role].index(_plain(names[at])))[:1] if role == "time" else hits


def _refusal(file: Path | str, fault: str, shown: str = "", rule: str = "") -> InputFileError:
    """Return a refusal that logs get without what is ``shown``: it may be a row."""
    return file_refusal(file, f"{fault}{shown}{rule}", logged=fault + rule)


def _require_several(file: Path | str, first: Sequence[str]) -> None:
    if len(first) > 1:
        return
    only = first[0] if first else ""
    for mark, name in _DELIMITERS.items():
        if mark in only:
            rule = ".csv is read with commas, .tsv and .inter with tabs, .dat with ::"
            fault = f"the delimiter looks wrong, this file seems to use {name} ({rule}; set the delimiter)"
            raise _refusal(file, fault, f": line 1 is one column, {shorten(only)}")
    raise _refusal(file, "line 1 has one column", f", {shorten(only)}", "; a user and an item column are needed")


def _plain(name: str) -> str:
    """Return a header name without case, blanks and punctuation, so that ``User-ID`` equals ``user_id``."""
    return re.sub(r"[\s_.-]", "", name).casefold()


def _shown(header: Sequence[str]) -> str:
    names = ", ".join(shorten(name, 24) for name in header[:8])
    return f"[{names}, … {len(header) - 8} more]" if len(header) > 8 else f"[{names}]"
