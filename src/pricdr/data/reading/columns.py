"""Find the user, item, rating and time columns: by their names, or where the caller says."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pricdr.data.reading.text_files import file_refusal, shorten
from pricdr.errors import ParameterError

_ALIASES = {
    "user": ("user", "userid", "uid", "reviewerid", "customerid", "memberid"),
    "item": (
        *("item", "itemid", "iid", "movieid", "asin", "parentasin", "businessid", "productid", "bookid"),
        *("isbn", "musicid", "songid", "trackid", "artistid", "gameid", "sku"),
    ),
    "rating": ("rating", "ratings", "rate", "score", "stars", "starrating", "overall", "bookrating"),
}
"""Known header names, as :func:`_plain` normalises them."""
_TIME_ALIASES = ("timestamp", "unixreviewtime", "unixtime", "datetime", "time", "date", "ratedat", "createdat")
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
        given = [name for name in (self.user, self.item, self.rating, self.time) if name is not None]
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
        """Return whether these are positions, so that the file has no header."""
        return isinstance(self.user, int)

    @classmethod
    def parse(cls, text: str) -> "Columns":
        """Parse columns as the command line writes them; digits are positions in a file without a header.

        >>> Columns.parse("user=reviewerID,item=asin,rating=overall")
        Columns(user='reviewerID', item='asin', rating='overall', time=None)
        >>> Columns.parse("user=1,item=2,time=4"), Columns.parse("amazon-2018") == AMAZON_2018
        (Columns(user=1, item=2, rating=None, time=4), True)
        """
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


class ColumnPositions(NamedTuple):
    """The positions of user, item, rating and time in one file or data frame, counted from 0."""

    user: int
    item: int
    rating: int | None
    time: int | None = None


def find_named(
    file: Path | str, header: Sequence[str], wanted: Columns | None, *, need_rating: bool
) -> ColumnPositions:
    """Return the positions of the columns in ``header``, or raise a refusal that shows it.

    >>> find_named(Path("r.csv"), ["userId", "movieId", "rating", "timestamp"], None, need_rating=True)
    ColumnPositions(user=0, item=1, rating=2, time=3)
    """
    if wanted is not None and wanted.by_position:
        fault = "positions are for files without a header, this one has names"
        raise file_refusal(file, f"{fault}: {_shown(header)}", logged=fault)
    _require_several(file, header)
    _require_distinct(file, header)
    if wanted is not None:
        user, item = (_position(file, header, name) for name in (wanted.user, wanted.item))
        if wanted.rating is not None:
            rating: int | None = _position(file, header, wanted.rating)
        else:
            rating = _alias(file, header, "rating", needed=True) if need_rating else None
        return _with_time(file, header, ColumnPositions(user, item, rating), wanted.time)
    # Without a single known name the first line may be data: then say so, and not that a column is missing.
    if not any(_plain(name) in names for name in header for names in _ALIASES.values()):
        _require_header(file, header)
    user_at, item_at = (_alias(file, header, role, needed=True) for role in ("user", "item"))
    assert user_at is not None
    assert item_at is not None
    positions = ColumnPositions(user_at, item_at, _alias(file, header, "rating", needed=need_rating))
    return _with_time(file, header, positions, None)


def find_in_frame(frame: str, header: Sequence[str], named: Mapping[str, str | None]) -> ColumnPositions:
    """Return the positions of the columns in a data frame: as named, or by the rules for files.

    >>> find_in_frame("the data frame", ["buyer", "movieId", "stars"], {"user": "buyer"})
    ColumnPositions(user=0, item=1, rating=2, time=None)
    """
    _require_distinct(frame, header)
    positions: list[int | None] = []
    for role in ("user", "item", "rating"):
        name = named.get(role)
        if name is None:
            positions.append(_alias(frame, header, role, needed=role != "rating", hint=_FRAME_HINT))
        else:
            positions.append(_position(frame, header, name))
    user_at, item_at, rating_at = positions
    assert user_at is not None
    assert item_at is not None
    if len({user_at, item_at, rating_at}) < 3:
        raise ParameterError(f"user, item and rating must be different columns, got {_shown(header)}")
    return _with_time(frame, header, ColumnPositions(user_at, item_at, rating_at), named.get("time"))


def find_placed(
    file: Path, first: Sequence[str], wanted: Columns, *, need_rating: bool, lenient: bool = False
) -> ColumnPositions:
    """Return the positions of the columns in a file without a header: as declared, whatever its first line is.

    That line may only show that the declaration is wrong; where rows may be skipped (``lenient``), only a header does.

    >>> find_placed(Path("r.csv"), ["A1", "B2", "5.0", "1400000"], AMAZON_2018, need_rating=False)
    ColumnPositions(user=1, item=0, rating=2, time=3)
    """
    roles = (wanted.user, wanted.item, wanted.rating, wanted.time)
    last = max(p for p in roles if isinstance(p, int))
    if not lenient:
        _require_several(file, first)
    if last > len(first) and not lenient:
        fault = f"line 1 has {len(first)} fields, column {last} is asked for"
        raise file_refusal(file, f"{fault}: {_shown(first)}", logged=fault)
    if need_rating and wanted.rating is None:
        raise file_refusal(file, f"a rating column is asked for and --columns names none; {_HINT}")
    # Positions skip nothing: a header would become a user called "userId".
    named = [p for p in roles[:3] if isinstance(p, int)]
    if last <= len(first) and all(_plain(first[place - 1]) in sum(_ALIASES.values(), ()) for place in named):
        rule = f"positions are for files without one; {_HINT}"
        fault = "line 1 looks like a header"
        raise file_refusal(file, f"{fault}: {_shown(first)}; {rule}", logged=f"{fault}; {rule}")
    user, item, rating, time = (position - 1 if isinstance(position, int) else None for position in roles)
    assert user is not None
    assert item is not None
    return ColumnPositions(user, item, rating, time)


def roles_of_objects(
    file: Path, wanted: Columns | None, *, need_rating: bool
) -> tuple[dict[str, str | None], dict[str, str | None]]:
    """Return the roles that every object of a file of JSON lines must fill, and those that it may, with their names.

    They follow from what was declared alone, since a first object is a row like any other. A name is None where each
    object is searched for a known one.

    >>> roles_of_objects(Path("r.jsonl"), None, need_rating=False)
    ({'user': None, 'item': None, 'rating': None}, {'time': None})
    >>> roles_of_objects(Path("r.jsonl"), Columns("uid", "sku", time="at"), need_rating=False)
    ({'user': 'uid', 'item': 'sku', 'time': 'at'}, {})
    """
    if wanted is None:
        return {"user": None, "item": None, "rating": None}, {"time": None}
    if wanted.by_position:
        raise file_refusal(file, "positions are for files without a header, and JSON lines have names")
    names = {"user": wanted.user, "item": wanted.item, "rating": wanted.rating, "time": wanted.time}
    given: dict[str, str | None] = {role: str(name) for role, name in names.items() if name is not None}
    if need_rating:
        given.setdefault("rating", None)
    return given, {} if "time" in given else {"time": None}


def find_fields(
    names: tuple[str, ...],
    required: Mapping[str, str | None],
    optional: Mapping[str, str | None],
    taken: frozenset[str] = frozenset(),
) -> dict[str, str] | str:
    """Return the fields of one object by their roles, or what is wrong with it; no other object matters.

    >>> find_fields(("uid", "sku", "stars"), {"user": None, "item": "SKU"}, {"time": None})
    {'item': 'sku', 'user': 'uid'}
    >>> find_fields(("uid", "user", "item"), {"user": None, "item": None}, {})
    "names the user more than once: 'uid' and 'user'"
    """
    if both := taken.intersection(names):
        return f"names {shorten(min(both))}, which a folder names too"
    found: dict[str, str] = {}
    # Declared names first, so that none of them is taken for another role.
    for role, wanted in sorted({**required, **optional}.items(), key=lambda item: item[1] is None):
        free = [name for name in names if name not in found.values()]
        if wanted is not None:
            hits = [name for name in free if name == wanted]
            hits = hits or [name for name in free if name.strip().casefold() == wanted.casefold()]
        elif role == "time":
            plain = [_plain(name) for name in free]
            hits = [free[plain.index(alias)] for alias in _TIME_ALIASES if alias in plain][:1]
        else:
            hits = [name for name in free if _plain(name) in _ALIASES[role]]
        if len(hits) > 1:
            return f"names the {role} more than once: {shorten(hits[0])} and {shorten(hits[1])}"
        if hits:
            found[role] = hits[0]
        elif role in required:
            return f"has no {role}{'' if wanted is None else f' (the field {shorten(wanted)})'}; {_HINT}"
    return found


def _with_time(
    file: Path | str, header: Sequence[str], positions: ColumnPositions, wanted: str | int | None
) -> ColumnPositions:
    """Add the time column: the one that is named, or the first that has a known name, or none."""
    if wanted is not None:
        time = _position(file, header, wanted)
        if time in positions:
            raise ParameterError(f"the time must be another column than user, item and rating, got {shorten(wanted)}")
        return positions._replace(time=time)
    names = [None if at in positions else _plain(name) for at, name in enumerate(header)]
    return positions._replace(time=next((names.index(alias) for alias in _TIME_ALIASES if alias in names), None))


def _require_several(file: Path | str, first: Sequence[str]) -> None:
    if len(first) > 1:
        return
    only = first[0] if first else ""
    for mark, name in _DELIMITERS.items():
        if mark in only:
            rule = ".csv is read with commas, .tsv and .inter with tabs, .dat with ::"
            fault = f"the delimiter looks wrong, this file seems to use {name} ({rule}; set it with --delimiter)"
            raise file_refusal(file, f"line 1 is one column, {shorten(only)}: {fault}", logged=fault)
    rule = "a user and an item column are needed"
    raise file_refusal(file, f"line 1 has one column, {shorten(only)}; {rule}", logged=f"line 1 has one column; {rule}")


def _require_distinct(file: Path | str, header: Sequence[str]) -> None:
    repeated = [name for name, times in Counter(header).items() if times > 1]
    if repeated:
        logged = "the header names a column more than once"
        raise file_refusal(file, f"the header names {shorten(repeated[0])} more than once", logged=logged)


def _require_header(file: Path | str, header: Sequence[str]) -> None:
    if any(re.fullmatch(r"\s*[-+]?[\d.]+([eE][-+]?\d+)?\s*", name) for name in header):
        fault = "line 1 looks like data, not like a header"
        raise file_refusal(file, f"{fault}: {_shown(header)}; {_HEADERLESS}", logged=f"{fault}; {_HEADERLESS}")
    fault, hint = "no user or item column in the header", f"{_HINT}; {_HEADERLESS}"
    raise file_refusal(file, f"{fault} {_shown(header)}; {hint}", logged=f"{fault}; {hint}")


def _alias(file: Path | str, header: Sequence[str], role: str, *, needed: bool, hint: str = _HINT) -> int | None:
    hits = [at for at, name in enumerate(header) if _plain(name) in _ALIASES[role]]
    if len(hits) > 1:
        names = " and ".join(shorten(header[at]) for at in hits[:3])
        logged = f"several columns could be the {role} column; {hint}"
        raise file_refusal(file, f"{names} could each be the {role} column in {_shown(header)}; {hint}", logged=logged)
    if not hits and needed:
        missing = "a rating column is asked for and there is none" if role == "rating" else f"no {role} column"
        fault = f"{missing} in the header"
        raise file_refusal(file, f"{fault} {_shown(header)}; {hint}", logged=f"{fault}; {hint}")
    return hits[0] if hits else None


def _position(file: Path | str, header: Sequence[str], name: str | int) -> int:
    # Exact names first: a file may have both ``User`` and ``user``.
    exact = [at for at, column in enumerate(header) if column == name]
    loose = [at for at, column in enumerate(header) if column.strip().casefold() == str(name).casefold()]
    for hits in (exact, loose):
        if len(hits) == 1:
            return hits[0]
    fault = f"{'more than one column' if loose else 'no column'} {shorten(name)} in the header"
    raise file_refusal(file, f"{fault} {_shown(header)}", logged=fault)


def _plain(name: str) -> str:
    """Return a header name without case, blanks and punctuation, so that ``User-ID`` equals ``user_id``."""
    return re.sub(r"[\s_.-]", "", name).casefold()


def _shown(header: Sequence[str]) -> str:
    names = ", ".join(shorten(name, 24) for name in header[:8])
    return f"[{names}, … {len(header) - 8} more]" if len(header) > 8 else f"[{names}]"
