"""Raw files as the paper's data is distributed, written by the tests; and the paper's preprocessing in plain Python."""

import gzip
import json
import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


class Row(NamedTuple):
    """One rating; users and items are numbers here, and become ids of the right form in each file."""

    user: int
    item: int
    rating: int
    time: int


def _amazon(row: Row) -> tuple[str, str, str]:
    return f"A{row.user:013d}", f"B{row.item:09d}", f"{row.rating:.1f}"


def ratings_2014(rows: Iterable[Row]) -> str:
    return "".join("{},{},{},".format(*_amazon(row)) + f"{row.time}\n" for row in rows)


def ratings_2018(rows: Iterable[Row]) -> str:
    return "".join("{1},{0},{2},".format(*_amazon(row)) + f"{row.time}\n" for row in rows)


def ratings_2023(rows: Iterable[Row]) -> str:
    return "user_id,parent_asin,rating,timestamp\n" + ratings_2014(row._replace(time=1000 * row.time) for row in rows)


def _reviews(rows: Iterable[Row], **others: object) -> str:
    objects = []
    for row in rows:
        user, item, _ = _amazon(row)
        found = {"reviewerID": user, "asin": item, "overall": float(row.rating), "unixReviewTime": row.time}
        objects.append(json.dumps({**others, **found}) + "\n")
    return "".join(objects)


def reviews_2014(rows: Iterable[Row]) -> str:
    text = {"reviewerName": 'Ann "A." O\'Neill', "reviewText": "A line,\nand a \t tab; 5 stars."}
    return _reviews(rows, **text, helpful=[1, 2], summary="{'overall': 1.0}", reviewTime="01 20, 2014")


def reviews_2018(rows: Iterable[Row]) -> str:
    return _reviews(rows, vote="3", verified=True, reviewTime="05 1, 2015", style={"Format:": " Audio CD"})


def _numbered(rows: Iterable[Row], mark: str) -> str:
    # The files of GA-DTCDR end without a line feed.
    return "\n".join(mark.join((str(row.user + 1), str(row.item + 1), str(row.rating))) for row in rows)


@dataclass(frozen=True)
class Form:
    """A distribution, and the names that its files of two domains have."""

    name: str
    folder: str
    domains: tuple[str, str]
    """As a spec names them."""
    files: tuple[str, str]
    write: Callable[[Iterable[Row]], str]
    timed: bool = True
    """Whether the latest of repeated rows counts; without times it is the largest."""

    def put(self, root: Path, source: Iterable[Row], target: Iterable[Row], *, packed: bool = False) -> None:
        """Write both files below ``root``."""
        for name, rows in zip(self.files, (source, target), strict=True):
            content = self.write(rows).encode()
            path = root / self.folder / (f"{name}.gz" if packed else name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(gzip.compress(content) if packed else content)


AMAZON = ("CDs_and_Vinyl", "Books")
SPARSE = tuple(f"{name}.csv" for name in AMAZON)
DOUBAN = ("movie", "book")
FORMS = (
    Form("2014", "amazon", AMAZON, ("ratings_CDs_and_Vinyl.csv", "ratings_Books.csv"), ratings_2014),
    Form("2018", "amazon", AMAZON, SPARSE, ratings_2018),
    Form("2014-5", "amazon", AMAZON, ("reviews_CDs_and_Vinyl_5.json", "reviews_Books_5.json"), reviews_2014),
    Form("2018-5", "amazon", AMAZON, ("CDs_and_Vinyl_5.json", "Books_5.json"), reviews_2018),
    Form("2023", "amazon_2023", SPARSE, SPARSE, ratings_2023),
    Form(
        *("GA-DTCDR", "douban_raw", DOUBAN, ("douban_movie/ratings.dat", "douban_book/ratings.dat")),
        lambda rows: _numbered(rows, "\t"),
        timed=False,
    ),
    Form(
        *("header", "douban_raw", DOUBAN, ("movie.csv", "book.csv")),
        lambda rows: f"user,item,rating\n{_numbered(rows, ',')}\n",
        timed=False,
    ),
)


def known_pair() -> tuple[list[Row], list[Row]]:
    """Return two domains whose counts are known: 7 users with 7 ratings of 7 items in both, whatever else is there."""
    square = [Row(user, item, 3 + (user + item) % 3, 100) for user in range(7) for item in range(7)]
    source, target = list(square), list(square)
    # A user with exactly 5 positives, whose other two are rated too low: not more than 5.
    source += [Row(20, item, 4 if item < 5 else 2, 100) for item in range(7)]
    target += [Row(20, item, 5, 100) for item in range(7)]
    # Users of one domain.
    source += [Row(30, item, 5, 100) for item in range(7)]
    target += [Row(31, item, 5, 100) for item in range(7)]
    # An item with 5 raters who stay and two who go, and one that nobody rates high enough.
    source += [Row(user, 50, 5, 100) for user in (0, 1, 2, 3, 4, 30, 32)]
    target += [Row(user, 51, 2, 100) for user in range(7)]
    # Pairs that repeat: the later rating is also the larger one.
    source += [Row(0, 0, 1, 50), Row(1, 1, 2, 60)]
    target += [Row(6, 6, 1, 50), Row(6, 6, 1, 50)]
    return source, target


KNOWN_COUNTS = (7, 7, 49, 7, 49)


def random_pair(seed: int) -> tuple[list[Row], list[Row]]:
    """Return two domains at random, of which a part is filtered away, with repeated pairs."""
    rng = random.Random(seed)

    def domain(users: range, items: int) -> list[Row]:
        popularity = [0.2 + 0.8 * rng.random() for _ in range(items)]
        rows = [
            Row(user, item, rng.randint(1, 5), rng.randrange(1_000_000))
            for user in users
            for item in range(items)
            if rng.random() < popularity[item] * (0.2 + (user % 7) / 7)
        ]
        again = [row._replace(rating=rng.randint(1, 5), time=rng.randrange(1_000_000)) for row in rng.sample(rows, 40)]
        mixed = rows + again
        rng.shuffle(mixed)
        return mixed

    return domain(range(70), 30), domain(range(10, 80), 24)


def counts_in_plain_python(source: list[Row], target: list[Row], *, timed: bool) -> tuple[int, ...]:
    """Return Table 3's counts by the five steps of the paper, with sets and counters alone."""
    sides = [_positives(rows, timed=timed) for rows in (source, target)]
    busy = [{user for user, n in Counter(user for user, _ in side).items() if n > 5} for side in sides]
    common = busy[0] & busy[1]
    sides = [{pair for pair in side if pair[0] in common} for side in sides]
    liked = [{item for item, n in Counter(item for _, item in side).items() if n > 5} for side in sides]
    sides = [{pair for pair in side if pair[1] in items} for side, items in zip(sides, liked, strict=True)]
    left = {user for user, _ in sides[0]} & {user for user, _ in sides[1]}
    sides = [{pair for pair in side if pair[0] in left} for side in sides]
    return (len(left), *(figure for side in sides for figure in (len({item for _, item in side}), len(side))))


def _positives(rows: list[Row], *, timed: bool) -> set[tuple[int, int]]:
    last: dict[tuple[int, int], tuple[int, int]] = {}
    for row in rows:
        rank = (row.time if timed else 0, row.rating)
        last[row.user, row.item] = max(rank, last.get((row.user, row.item), rank))
    return {pair for pair, (_, rating) in last.items() if rating >= 3}
