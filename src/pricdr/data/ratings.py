"""``Ratings``: an immutable sparse matrix with the ids of its rows and columns."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import TYPE_CHECKING, Any, Final, TypeAlias, Union

import numpy as np
import numpy.typing as npt

from pricdr.data.blocks import Convert, InMemory, Numbers, RatingsSource
from pricdr.data.csr import RatingMatrix, as_csr, csr_of_cells, kept_entries, moved_entries, row_counts, with_values
from pricdr.data.ids import Ids as Ids, IdsLike as IdsLike, as_ids, require_ids
from pricdr.errors import MAX_SCALE, InputError, ParameterError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from pricdr.data.periods import Window
    from pricdr.data.tables import Library

# Names, not types: ratings do not need any of these libraries.
RatingsLike: TypeAlias = Union["Ratings", "pl.DataFrame", "pl.LazyFrame", "pd.DataFrame", "pa.Table"]
"""Anything accepted as ratings; other tables with the Arrow PyCapsule interface work too."""
MAX_FILTER_LENGTH: Final = 400
"""The most characters in the description of a filter; those of ``prepare`` and ``split`` together take 300."""
_MAX_STARS: Final = 10


@dataclass(frozen=True, eq=False, repr=False)
class Ratings(RatingsSource):
    """Ratings of one domain: users x items, one stored entry per rated (user, item) pair.

    A missing entry means "not rated" and counts as 0; a stored entry may have any finite value. Ids are text, kept byte
    for byte. The arrays are read-only: methods that change ratings return new ones.
    """

    matrix: RatingMatrix
    """float64, ``len(users)`` x ``len(items)``, a CSR array of scipy with the columns of a row in order, none twice."""
    users: Ids
    items: Ids
    filtered_by: str | None = None
    """The filter on counts that these ratings went through (set by ``prepare``), which a certificate must disclose."""
    has_values: bool = True
    """Whether the stored values are ratings; otherwise they only mark which pairs were rated."""
    threshold: float | None = None
    """If set, only pairs rated at least this were kept."""
    window: "Window | None" = None
    """If set, only rows of these days were read."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "matrix", as_csr(self.matrix).astype(np.float64, copy=False))
        rows, columns = self.matrix.shape
        if (rows, columns) != (len(self.users), len(self.items)):
            rule = f"does not fit {len(self.users)} users and {len(self.items)} items"
            raise InputError(f"a matrix of {rows} x {columns} {rule}")
        require_ids("user", self.users)
        require_ids("item", self.items)
        require_filter(self.filtered_by)
        if self.window is not None and self.window.days is not None:
            raise ParameterError(f"ratings of {self.window} are PeriodRatings: repeats are merged within a period")
        # Ratings are shared between objects, so they must not be changed in place.
        for part in (self.matrix.data, self.matrix.indices, self.matrix.indptr):
            part.flags.writeable = False

    @classmethod
    def from_triples(
        cls, users: IdsLike, items: IdsLike, values: Sequence[float] | npt.NDArray[Any] | None = None
    ) -> "Ratings":
        """Return ratings from three sequences of equal length; the largest value of a repeated pair counts.

        Ids are text or whole numbers, which become their decimal text. Without values every pair counts as 1.

        >>> r = Ratings.from_triples(["bob", "alice", "bob"], ["x", "x", "x"], [1, 2, 5])
        >>> r.users, r.items, r.matrix.toarray().tolist()
        (('alice', 'bob'), ('x',), [[2.0], [5.0]])
        """
        users, items = as_ids("users", users), as_ids("items", items)
        numbers = np.ones(len(users)) if values is None else _as_numbers(values)
        if not len(users) == len(items) == len(numbers):
            counts = f"{len(users)} users, {len(items)} items and {len(numbers)} ratings"
            raise InputError(f"there are {counts}: give one of each")
        if not np.isfinite(numbers).all():
            raise InputError("ratings must be finite numbers")
        user_ids, item_ids = tuple(sorted(set(users))), tuple(sorted(set(items)))
        user_at, item_at = position_of(user_ids), position_of(item_ids)
        # Sorted by pair and value: the last of a pair is the largest.
        cells = sorted(zip(map(user_at.get, users), map(item_at.get, items), numbers.tolist(), strict=True))
        largest = {(row, column): value for row, column, value in cells}
        rows, columns = np.array([*largest], dtype=np.int64).reshape(-1, 2).T
        data = np.array([*largest.values()], dtype=np.float64)
        return cls.from_codes(rows, columns, data, user_ids, item_ids, has_values=values is not None)

    @classmethod
    def from_codes(
        cls, rows: Numbers, columns: Numbers, values: Numbers, users: Ids, items: Ids, *, has_values: bool = True
    ) -> "Ratings":
        """Return ratings from positions in ``users`` and ``items``; pairs must be distinct."""
        matrix = csr_of_cells(rows, columns, values, (len(users), len(items)))
        return cls(matrix, users, items, has_values=has_values)

    @classmethod
    def of(
        cls,
        ratings: "RatingsLike",
        *,
        user: str | None = None,
        item: str | None = None,
        rating: str | None = None,
        time: str | None = None,
        window: "Window | None" = None,
    ) -> "Ratings":
        """Return ratings as they are, or those in a data frame of any kind, under the same rules as a file.

        Every function that accepts ratings converts them here. A frame is of polars (lazy or not) or pandas, or any
        object with the Arrow PyCapsule interface: tables of pyarrow, relations of DuckDB and others. Columns that are
        not named are found by the names that files may use. Ids are text or whole numbers (which become their decimal
        text). Without a rating column each row counts as 1. Of a repeated pair the latest row counts if there is a time
        column, and otherwise the largest value. With a ``window`` only rows of its days count. Use :meth:`disclosing`
        if a frame was filtered by counts.

        >>> import polars
        >>> frame = polars.DataFrame({"userId": [7, 7], "movieId": ["x", "y"], "rating": [4.0, 2.5]})
        >>> ratings = Ratings.of(frame)
        >>> ratings.users, ratings.items, ratings.matrix.toarray().tolist()
        (('7',), ('x', 'y'), [[4.0, 2.5]])
        """
        if isinstance(ratings, Ratings):
            if window not in (None, ratings.window):
                raise ParameterError("ratings have no times once they are read: give window where they are")
            return ratings
        from pricdr.data.frames import read_frame

        given = {"user": user, "item": item, "rating": rating, "time": time}
        named = {role: name for role, name in given.items() if name is not None}
        return read_frame(ratings, named, window=window).ratings

    def to_frame(self, library: "Library | None" = None) -> Any:  # noqa: ANN401 - of whatever library there is
        """Return a data frame of ``user``, ``item`` and, where values mean something, ``rating``: a row per rating.

        It is of polars, pandas or pyarrow: the first of them that is installed, or the ``library`` asked for.

        >>> Ratings.from_triples(["bob", "alice"], ["x", "y"], [1, 2]).to_frame("polars").rows()
        [('alice', 'y', 2.0), ('bob', 'x', 1.0)]
        """
        from pricdr.data.tables import columns_of, to_frame

        return to_frame(columns_of(self), library)

    def __len__(self) -> int:
        return int(self.matrix.nnz)

    def _repr_html_(self) -> str:  # sizes and declared facts: ratings are private
        from pricdr.pages import summary_html

        pairs = len(self.users) * len(self.items)
        facts = {
            "users": f"{len(self.users):,}",
            "items": f"{len(self.items):,}",
            "rated": f"{len(self):,}" + (f" ({len(self) / pairs:.2%} of all pairs)" if pairs else ""),
            "values": "ratings" if self.has_values else "each rated pair counts as 1",
        }
        if self.threshold is not None:
            facts["kept"] = f"pairs rated at least {self.threshold:g}"
        if self.filtered_by is not None:
            facts["filtered by"] = self.filtered_by
        return summary_html("Ratings", facts)

    def at_least(self, threshold: float) -> "Ratings":
        """Keep the pairs rated at least ``threshold``. All users and items stay, so this is not a filter by counts."""
        require_threshold(threshold, has_values=self.has_values)
        return replace(self.only(self.matrix.data >= threshold), threshold=float(threshold))

    def positives(self, threshold: float | None = None) -> "Ratings":
        """Return 1 for every entry rated at least ``threshold`` (by default all of them); all users and items stay.

        >>> Ratings.from_triples(["a", "b"], ["x", "x"], [2, 4]).positives(threshold=3).matrix.toarray().tolist()
        [[0.0], [1.0]]
        """
        kept = self if threshold is None else self.at_least(threshold)
        return replace(kept, matrix=with_values(kept.matrix, np.ones(len(kept))), has_values=False)

    def over(self, users: Ids, items: Ids) -> "Ratings":
        """Return the ratings of exactly these users and items."""
        row_of, column_of = position_of(users), position_of(items)
        new_row = np.array([row_of.get(name, -1) for name in self.users], dtype=np.int64)
        new_column = np.array([column_of.get(name, -1) for name in self.items], dtype=np.int64)
        matrix = moved_entries(self.matrix, new_row, new_column, (len(users), len(items)))
        return replace(self, matrix=matrix, users=users, items=items)

    def units(self, convert: Convert) -> InMemory:
        """Return the values for publishing, converted to whole units by ``convert``."""
        return InMemory(convert(self.matrix))

    def only(self, keep: npt.NDArray[np.bool_]) -> "Ratings":
        """Keep the stored entries where ``keep`` is true, in storage order; all users and items stay."""
        return replace(self, matrix=kept_entries(self.matrix, keep))

    def rated(self) -> "Ratings":
        """Return the ratings without the users and items that have none."""
        rated = np.bincount(self.matrix.indices, minlength=len(self.items))
        return self.select(tuple(compress(self.users, row_counts(self.matrix))), tuple(compress(self.items, rated)))

    def fingerprint(self) -> str:
        """Return the SHA-256 of who rated what. Keep it private: who guesses the ratings can confirm that with it."""
        digest = hashlib.sha256()
        for ids in (self.users, self.items):
            digest.update("\n".join(ids).encode() + b"\0")
        for part in (self.matrix.indptr, self.matrix.indices):
            digest.update(part.astype("<i8").tobytes())
        return digest.hexdigest()

    def disclosing(self, filtered_by: str) -> "Ratings":
        """Return the same ratings, marked as filtered by counts."""
        return replace(self, filtered_by=filtered_by)


def require_threshold(threshold: float, *, has_values: bool) -> None:
    """Refuse a threshold that no certificate can state, and one for ratings without values."""
    if not has_values:
        raise InputError("a threshold needs ratings, and these hold none: there was no rating column")
    if not abs(threshold) <= MAX_SCALE:
        raise ParameterError(f"threshold must be a finite number from -1e15 to 1e15, got {threshold!r}")


def require_filter(text: str | None) -> None:
    """Refuse the description of a filter that could not stand in a certificate, as one printable line."""
    if text is not None and (not text.isprintable() or len(text) > MAX_FILTER_LENGTH):
        rule = f"one printable line of at most {MAX_FILTER_LENGTH} characters"
        raise InputError(f"a filter must be described in {rule}, got {len(text):,} characters: {text[:40]!r}")


def stars_caution(
    ratings: RatingsSource, rating_range: tuple[float, float] | None = None, *, half_steps: bool = False
) -> str | None:
    """Return a warning where ratings look like stars and, without a threshold, all of them count as likes.

    Not where ``prepare`` filtered them, since the threshold was chosen there; nor where even the fewest stars are more
    than half of the most, since lower ratings were then left out before. Ratings in memory need no range.
    """
    if rating_range is None and isinstance(ratings, Ratings) and ratings.has_values and len(ratings):
        values = ratings.matrix.data
        rating_range, half_steps = (values.min(), values.max()), bool((np.rint(2 * values) == 2 * values).all())
    if rating_range is None or not half_steps or ratings.threshold is not None or ratings.filtered_by is not None:
        return None
    fewest, most = rating_range
    if not 0 <= fewest <= most / 2 < most <= _MAX_STARS:
        return None
    rule = "without a threshold each row counts as a like"
    return f"ratings from {fewest:g} to {most:g} look like stars: {rule}, even one of {fewest:g}"


def _as_numbers(values: Sequence[float] | npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"ratings must be numbers: {error}") from error
    if numbers.ndim != 1:
        raise InputError(f"ratings must be one list of numbers, got an array of {numbers.ndim} dimensions")
    return numbers


def position_of(ids: Ids) -> dict[str, int]:
    """Return the position of each id; refuse a list that names one twice."""
    at = {name: position for position, name in enumerate(ids)}
    if len(at) != len(ids):
        repeated = next(name for position, name in enumerate(ids) if at[name] != position)
        raise InputError(f"the list names {repeated!r} more than once")
    return at
