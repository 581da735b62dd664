"""The six tasks of the paper as data: their files, their counts in Table 3, and what stands in for those not here."""

from dataclasses import astuple, dataclass
from typing import Final

from pricdr.errors import ParameterError
from pricdr.experiments.records import RECORD, Whole


@dataclass(frozen=True)
class Counts:
    """The figures of one row of Table 3."""

    __pydantic_config__ = RECORD

    users: Whole
    source_items: Whole
    source_ratings: Whole
    target_items: Whole
    target_ratings: Whole

    def __post_init__(self) -> None:
        for figure in astuple(self):
            if figure < 0:
                raise ParameterError(f"counts must be 0 or more, got {figure}")

    @property
    def source_density(self) -> float:
        """Return the share of all (user, item) pairs that are rated in the source.

        >>> f"{Counts(924, 3_916, 50_429, 4_228, 50_157).source_density:.2%}"
        '1.39%'
        """
        return _share(self.source_ratings, self.users * self.source_items)

    @property
    def target_density(self) -> float:
        """Return the same share in the target."""
        return _share(self.target_ratings, self.users * self.target_items)


@dataclass(frozen=True, kw_only=True)
class PaperTask:
    """Two domains, where their raw files lie, and how they are prepared."""

    company: str
    source: str
    target: str
    folder: str
    """In the folder of data sets (PRICDR_DATA)."""
    source_file: str
    """A file in that folder, or a domain of the paper: see ``pricdr.data.reading.known_files``."""
    target_file: str
    counts: Counts | None = None
    """What the paper's Table 3 says; None for data that is not the paper's."""
    stand_in: bool = False
    """Whether this is other data than that of the paper's task of the same name."""
    threshold: float | None = 3.0
    core: int | None = None
    """The K of a joint K-core; without it, the paper's five steps."""
    filtered: bool = False
    """Whether the files are taken as they are."""

    @property
    def name(self) -> str:
        """Return the task as the paper's tables call it."""
        return f"{self.company} {self.source}→{self.target}"

    @property
    def preprocessing(self) -> str:
        """Return, for people, what is done to the raw files."""
        if self.filtered:
            return "taken as it is"
        rated = "all ratings" if self.threshold is None else f"rating ≥ {self.threshold:g}"
        return f"{rated}, {'the five steps' if self.core is None else f'joint {self.core}-core'}"


PAPER_TASKS: Final = (
    PaperTask(
        company="Amazon",
        source="Music",
        target="Book",
        folder="amazon",
        source_file="CDs_and_Vinyl",
        target_file="Books",
        counts=Counts(16_367, 18_467, 233_251, 23_988, 291_325),
    ),
    PaperTask(
        company="Amazon",
        source="Movie",
        target="Music",
        folder="amazon",
        source_file="Movies_and_TV",
        target_file="CDs_and_Vinyl",
        counts=Counts(15_914, 19_794, 416_228, 20_058, 280_398),
    ),
    PaperTask(
        company="Amazon",
        source="Movie",
        target="Book",
        folder="amazon",
        source_file="Movies_and_TV",
        target_file="Books",
        counts=Counts(29_476, 24_091, 591_258, 41_884, 579_131),
    ),
    PaperTask(
        company="Douban",
        source="Book",
        target="Music",
        folder="douban_raw",
        source_file="book",
        target_file="music",
        counts=Counts(924, 3_916, 50_429, 4_228, 50_157),
    ),
    PaperTask(
        company="Douban",
        source="Movie",
        target="Book",
        folder="douban_raw",
        source_file="movie",
        target_file="book",
        counts=Counts(1_574, 9_471, 744_983, 6_139, 85_602),
    ),
    PaperTask(
        company="Douban",
        source="Movie",
        target="Music",
        folder="douban_raw",
        source_file="movie",
        target_file="music",
        counts=Counts(1_055, 9_386, 557_989, 4_981, 60_626),
    ),
)
"""In the order of the paper's Table 3."""

OTHER_DATA: Final = (
    PaperTask(
        company="Amazon",
        source="Movie",
        target="Music",
        folder="amazon_movie_music",
        source_file="movie.csv.gz",
        target_file="music.csv.gz",
        stand_in=True,
        core=5,
    ),
    PaperTask(
        company="Amazon",
        source="Movie",
        target="Book",
        folder="amazon_movie_book_implicit",
        source_file="movie.csv.gz",
        target_file="book.csv.gz",
        stand_in=True,
        threshold=None,
        filtered=True,
    ),
    PaperTask(
        company="Amazon",
        source="Electronics",
        target="Cell phones",
        folder="amazon_electronics_cell",
        source_file="electronic.csv.gz",
        target_file="cell.csv.gz",
        threshold=None,
        core=3,
    ),
)
"""What the experiments run on beside the paper's tasks."""


def _share(ratings: int, cells: int) -> float:
    return ratings / cells if cells else 0.0
