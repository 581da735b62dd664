"""Find the user, item, rating and time columns: by their names, or where the caller says."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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
}
"""Known header names, as :func:`_plain` normalises them."""
_TIME_ALIASES = ("timestamp", "unixreviewtime", "unixtime", "datetime", "time", "ts", "date", "ratedat", "createdat")
"""Known names of the time column, the best first. A file may have several of them, or none."""
_DELIMITERS = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas", "::": "double colons"}
_HINT = "name them with --columns user=…,item=…[,rating=…][,time=…]"
_FRAME_HINT = "name them with user=…, item=…, rating=…, time=…"
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
            if not equals or role not in ("user", "item", "rating", "time") or role in named or not name:
                form = "user=…,item=…[,rating=…][,time=…]"
                raise ParameterError(f"columns must read {form}, {' or '.join(known)}, got {shorten(text)}")
            named[role] = int(name) if name.isascii() and name.isdigit() else name
        if not {"user", "item"} <= named.keys():
            raise ParameterError(f"columns must name user and item, got {shorten(text)}")
        return cls(named["user"], named["item"], named.get("rating"), named.get("time"))


AMAZON_2014 = Columns(user=1, item=2, rating=3, time=4)
"""Amazon's 2014 ratings files: user, item, rating, time, without a header."""
AMAZON_2018 = Columns(user=2, item=1, rating=3, time=4)
"""Amazon's 2018 ratings files: item, user, rating, time, without a header."""


def find_named(
    file: Path | str,
    header: Sequence[str],
    columns: Columns | Mapping[str, str] | None,
    *,
    need_rating: bool = False,
) -> dict[str, int]:
    """Return the position of each role in ``header``, counted from 0, or raise a refusal that shows the header.

    Where a caller gave ``Columns``, a rating that it does not name is read only if it is needed; names for some roles
    of a data frame leave the others to be found.
    """
    in_frame = isinstance(columns, Mapping)
    given = {} if columns is None else dict(columns) if isinstance(columns, Mapping) else columns.given
    if isinstance(columns, Columns) and columns.by_position:
        raise _refusal(file, "positions are for files without a header, this one has names", f": {_shown(header)}")
    if not in_frame:
        _require_several(file, header)
    repeated = [name for name, times in Counter(header).items() if times > 1]
    if repeated:
        raise _refusal(file, "the header names a column more than once", f": {shorten(repeated[0])} more than once")
    # Without a single known name the first line may be data: then say so, and not that a column is missing.
    if columns is None and not any(_hits(header, role) for role in _ALIASES):
        raise _no_header(file, header)
    hint = _FRAME_HINT if in_frame else _HINT
    found: dict[str, int] = {}
    for role in ("user", "item", "rating", "time"):
        needed = role in ("user", "item") or (role == "rating" and need_rating)
        if role not in given and role == "rating" and isinstance(columns, Columns) and not need_rating:
            continue
        name = given.get(role)
        hits = _hits(header, role, name, taken=found.values() if role == "time" and name is None else ())
        if len(hits) > 1 and name is not None:
            raise _refusal(file, f"more than one column {shorten(name)} in the header", f" {_shown(header)}")
        if len(hits) > 1:
            names = " and ".join(shorten(header[at]) for at in hits[:3])
            raise _refusal(
                file, f"several columns could be the {role} column", f": {names} in {_shown(header)}", f"; {hint}"
            )
        if hits:
            found[role] = hits[0]
        elif name is not None:
            raise _refusal(file, f"no column {shorten(name)} in the header", f" {_shown(header)}")
        elif needed:
            missing = "a rating column is asked for and there is none" if role == "rating" else f"no {role} column"
            raise _refusal(file, f"{missing} in the header", f" {_shown(header)}", f"; {hint}")
    if len(set(found.values())) < len(found):
        raise ParameterError(f"user, item, rating and time must be different columns, got {list(given.values())}")
    return found


def find_placed(
    file: Path, first: Sequence[str], wanted: Columns, *, need_rating: bool, lenient: bool = False
) -> dict[str, int]:
    """Return the position of each role in a file without a header: as declared, whatever its first line is.

    That line may only show that the declaration is wrong; where rows may be skipped (``lenient``), only a header does.
    """
    found = {role: at - 1 for role, at in wanted.given.items() if isinstance(at, int)}
    width = max(found.values()) + 1
    if not lenient:
        _require_several(file, first)
    if width > len(first) and not lenient:
        raise _refusal(file, f"line 1 has {len(first)} fields, column {width} is asked for", f": {_shown(first)}")
    if need_rating and wanted.rating is None:
        raise file_refusal(file, f"a rating column is asked for and --columns names none; {_HINT}")
    # Positions skip nothing: a header would become a user called "userId".
    named = [first[at] for role, at in found.items() if role != "time"] if width <= len(first) else []
    if named and all(_plain(name) in sum(_ALIASES.values(), ()) for name in named):
        rule = f"; positions are for files without one; {_HINT}"
        raise _refusal(file, "line 1 looks like a header", f": {_shown(first)}", rule)
    return found


def find_fields(
    names: Sequence[str], wanted: Mapping[str, str | None], taken: Iterable[str] = ()
) -> dict[str, str] | str:
    """Return the fields of one JSON object by role, or what is wrong with it; no other object matters.

    ``wanted`` gives the name of each role: None where a known one is searched for (a time may then be missing). Columns
    that a folder gives are ``taken``: an object must not have them.
    """
    if both := set(taken).intersection(names):
        return f"names {shorten(min(both))}, which a folder names too"
    found: dict[str, int] = {}
    # Declared names first, so that none of them is taken for another role.
    for role, name in sorted(wanted.items(), key=lambda item: item[1] is None):
        hits = _hits(names, role, name, taken=found.values())
        if len(hits) > 1:
            return f"names the {role} more than once: {shorten(names[hits[0]])} and {shorten(names[hits[1]])}"
        if hits:
            found[role] = hits[0]
        elif role != "time" or name is not None:
            return f"has no {role}{'' if name is None else f' (the field {shorten(name)})'}; {_HINT}"
    return {role: names[at] for role, at in found.items()}


def _hits(names: Sequence[str], role: str, wanted: str | int | None = None, taken: Iterable[int] = ()) -> list[int]:
    """Return the positions of the names that may be meant: those of the column that is wanted, or of a known name."""
    taken = set(taken)
    free = {at: name for at, name in enumerate(names) if at not in taken}
    if wanted is not None:  # exact names first: a file may have both ``User`` and ``user``
        exact = [at for at, name in free.items() if name == wanted]
        return exact or [at for at, name in free.items() if name.strip().casefold() == str(wanted).casefold()]
    if role != "time":
        return [at for at, name in free.items() if _plain(name) in _ALIASES[role]]
    known = {_plain(name): at for at, name in reversed(free.items())}
    return [known[alias] for alias in _TIME_ALIASES if alias in known][:1]


def _refusal(file: Path | str, fault: str, shown: str = "", rule: str = "") -> InputFileError:
    """Return a refusal of a file; logs get it without what is shown, which may be a row."""
    return file_refusal(file, f"{fault}{shown}{rule}", logged=fault + rule)


def _require_several(file: Path | str, first: Sequence[str]) -> None:
    if len(first) > 1:
        return
    only = first[0] if first else ""
    for mark, name in _DELIMITERS.items():
        if mark in only:
            rule = ".csv is read with commas, .tsv and .inter with tabs, .dat with ::"
            fault = f"the delimiter looks wrong, this file seems to use {name} ({rule}; set it with --delimiter)"
            raise _refusal(file, fault, f": line 1 is one column, {shorten(only)}")
    raise _refusal(file, "line 1 has one column", f", {shorten(only)}", "; a user and an item column are needed")


def _no_header(file: Path | str, header: Sequence[str]) -> InputFileError:
    if any(re.fullmatch(r"\s*[-+]?[\d.]+([eE][-+]?\d+)?\s*", name) for name in header):
        return _refusal(file, "line 1 looks like data, not like a header", f": {_shown(header)}", f"; {_HEADERLESS}")
    fault = "no user or item column in the header"
    return _refusal(file, fault, f" {_shown(header)}", f"; {_HINT}; {_HEADERLESS}")


def _plain(name: str) -> str:
    """Return a header name without case, blanks and punctuation, so that ``User-ID`` equals ``user_id``."""
    return re.sub(r"[\s_.-]", "", name).casefold()


def _shown(header: Sequence[str]) -> str:
    names = ", ".join(shorten(name, 24) for name in header[:8])
    return f"[{names}, … {len(header) - 8} more]" if len(header) > 8 else f"[{names}]"
