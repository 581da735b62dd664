"""Find the paper's data by the file names of its distributors: which file holds a domain, and which column is which.

Amazon's ratings come without a header, in one order in 2014 and in another in 2018. Nothing in a row says which column
is the user, so the order is never guessed: the file name declares it, and ids that contradict it are refused.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pricdr.data.reading.columns import AMAZON_2014, AMAZON_2018, Columns
from pricdr.data.reading.text_files import refusal, shorten
from pricdr.errors import InputError, MissingDataError

if TYPE_CHECKING:
    from pricdr.data.reading.read import MemoryReading

_REVIEWS: Final = Columns(user="reviewerID", item="asin", rating="overall", time="unixReviewTime")
_ASIN: Final = re.compile(r"[0-9A-Z]{10}")
"""Amazon's product number, which for a book is the ISBN. User ids have 10 to 28 characters, few of them 10."""


@dataclass(frozen=True)
class Distribution:
    """One public release of a data set: the file name and the layout of a domain."""

    release: str
    """Its name in messages."""
    file_name: str
    """With ``{}`` for the domain; each file may also be compressed, with ``.gz`` at the end."""
    columns: Columns
    """The order of the columns in a file without a header; otherwise their names."""
    delimiter: str | None = None
    asins: bool = False
    """Whether the order is checked by the items' ids, which must be Amazon's."""


_AMAZON: Final = (
    Distribution("Amazon 2014, ratings only", "ratings_{}.csv", AMAZON_2014, asins=True),
    Distribution("Amazon 2018, ratings only", "{}.csv", AMAZON_2018, asins=True),
    Distribution("Amazon 2014, 5-core reviews", "reviews_{}_5.json", _REVIEWS),
    Distribution("Amazon 2018, 5-core reviews", "{}_5.json", _REVIEWS),
)
_DOUBAN: Final = (
    Distribution("GA-DTCDR", "douban_{}/ratings.dat", Columns(user=1, item=2, rating=3), delimiter="tab"),
    Distribution("GA-DTCDR", "{}.csv", Columns(user="user", item="item", rating="rating")),
)
DOMAINS: Final[Mapping[str, tuple[Distribution, ...]]] = {
    **dict.fromkeys(("Books", "CDs_and_Vinyl", "Movies_and_TV"), _AMAZON),
    **dict.fromkeys(("book", "movie", "music"), _DOUBAN),
}
"""What a spec may name instead of a file: a domain of the paper, by its distributors' name."""


@dataclass(frozen=True)
class KnownFile:
    """A file of ratings that was found, and what its name declares."""

    path: Path
    distribution: Distribution | None
    """None for a file that was named directly: its header says which column is which."""

    def read(self) -> "MemoryReading":
        """Read the file, with its columns in the order that its name declares.

        Raises:
            InputError: the file cannot be used, or its ids contradict the declared order.
        """
        from pricdr.data.reading.read import read_ratings_file

        if self.distribution is None:
            return read_ratings_file(self.path)
        declared = self.distribution
        content = read_ratings_file(self.path, columns=declared.columns, delimiter=declared.delimiter)
        if declared.asins:
            _require_asins(self.path, content.ratings.items, declared)
        return content


def find_files(root: Path, folder: str, *names: str) -> tuple[KnownFile, ...]:
    """Return the named files, or the files of the named domains of the paper, in one folder of the data sets.

    Args:
        root: the folder of data sets (PRICDR_DATA).
        folder: the folder of one data set.
        names: each a file in it, or one of :data:`DOMAINS`.

    Raises:
        MissingDataError: one of them is not there; its ``expected`` says which files would do.
        InputError: there are several files of a domain, or domains of different releases.
    """
    files, missing = [], []
    for name in names:
        file = _find(root / folder, name)
        if file is None:
            missing.append(expected(folder, name))
        else:
            files.append(file)
    if missing:
        raise MissingDataError(*missing)
    releases = {file.distribution.release: file.path for file in files if file.distribution is not None}
    if len(releases) > 1:
        parts = " and ".join(f"{path.name} ({release})" for release, path in releases.items())
        raise InputError(f"{root / folder}: {parts} are of different releases; both domains must come from one")
    return tuple(files)


def read_pair(root: Path, folder: str, source: str, target: str) -> "tuple[MemoryReading, MemoryReading]":
    """Read the source and the target, each a file in ``folder`` or a domain of the paper; see :func:`find_files`."""
    first, second = find_files(root, folder, source, target)
    return first.read(), second.read()


def expected(folder: str, name: str) -> str:
    """Return, for messages, which files are accepted for a file or a domain.

    >>> expected("douban_raw", "movie")
    'one of douban_raw/douban_movie/ratings.dat, douban_raw/movie.csv (each also .gz)'
    """
    if name not in DOMAINS:
        return f"{folder}/{name}"
    files = ", ".join(f"{folder}/{distribution.file_name.format(name)}" for distribution in DOMAINS[name])
    return f"one of {files} (each also .gz)"


def _find(folder: Path, name: str) -> KnownFile | None:
    if name not in DOMAINS:
        return KnownFile(folder / name, None) if (folder / name).is_file() else None
    candidates = [
        KnownFile(folder / f"{distribution.file_name.format(name)}{suffix}", distribution)
        for distribution in DOMAINS[name]
        for suffix in ("", ".gz")
    ]
    existing = [file for file in candidates if file.path.is_file()]
    if len(existing) > 1:
        names = " and ".join(str(file.path.relative_to(folder)) for file in existing)
        raise InputError(f"{folder}: {names} are all files of {name}; keep the one to be read")
    return existing[0] if existing else None


def _require_asins(file: Path, items: tuple[str, ...], declared: Distribution) -> None:
    """Refuse a file whose item ids are not product numbers: its user and item columns are probably swapped."""
    others = [item for item in items if not _ASIN.fullmatch(item)]
    if 2 * len(others) > len(items):
        count = f"{len(others):,} of {len(items):,} item ids are not Amazon's (10 digits or capital letters)"
        order = f"by its name it is {declared.release}, with the item in column {declared.columns.item}"
        raise refusal(file, f"{count}, such as {shorten(others[0])}; {order}: does it have another order?")
