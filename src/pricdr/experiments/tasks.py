"""The data of an experiment, prepared once and kept as arrays that need no reader; and independent runs on it."""

import hashlib
import io
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar
from zipfile import BadZipFile

import numpy as np

from pricdr.data.csr import sp
from pricdr.data.pairs import DomainPair, prepare, prepare_several
from pricdr.data.ratings import Ids, Ratings
from pricdr.data.reading.columns import AMAZON_2014, AMAZON_2018, Columns
from pricdr.data.reading.read import MemoryReading, read_ratings_file
from pricdr.data.reading.text_files import refusal, shorten
from pricdr.data.splits import HeldOut, Split, hold_out, official as official_split, read_official
from pricdr.errors import InputError, MissingDataError, printable, require_count
from pricdr.experiments.arms import DataSpec
from pricdr.files import replace_file
from pricdr.models.catalogue import METHODS
from pricdr.parallel import process_pool
from pricdr.privacy.strategies import BY_NAME
from pricdr.randomness import Simulation

_REVIEWS: Final = Columns(user="reviewerID", item="asin", rating="overall", time="unixReviewTime")
_ASIN: Final = re.compile(r"[0-9A-Z]{10}")
"""Amazon's product number, which for a book is the ISBN. User ids have 10 to 28 characters, few of them 10."""


class Distribution(NamedTuple):
    """One public release of a data set: the file name of a domain declares its layout, which is never guessed."""

    release: str
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


class KnownFile(NamedTuple):
    """A file of ratings that was found, and what its name declares."""

    path: Path
    distribution: Distribution | None
    """None for a file that was named directly: its header says which column is which."""

    def read(self) -> MemoryReading:
        """Read the file, with its columns in the declared order; refuse one whose ids contradict that."""
        declared = self.distribution
        if declared is None:
            return read_ratings_file(self.path)
        content = read_ratings_file(self.path, columns=declared.columns, delimiter=declared.delimiter)
        items = content.ratings.items
        others = [item for item in items if declared.asins and not _ASIN.fullmatch(item)]
        if 2 * len(others) > len(items):  # its user and item columns are probably swapped
            count = f"{len(others):,} of {len(items):,} item ids are not Amazon's (10 digits or capital letters)"
            order = f"by its name it is {declared.release}, with the item in column {declared.columns.item}"
            rule = f"{count}, such as {shorten(others[0])}; {order}: does it have another order?"
            raise refusal(self.path, rule)
        return content


def find_files(root: Path, folder: str, *names: str) -> tuple[KnownFile, ...]:
    """Return the named files, or those of the named :data:`DOMAINS`, which must come from one release."""
    found = {name: [file for file in _candidates(root / folder, name) if file.path.is_file()] for name in names}
    if missing := [_expected(folder, name) for name, files in found.items() if not files]:
        raise MissingDataError(*missing)
    for name, files in found.items():
        if len(files) > 1:
            several = " and ".join(str(file.path.relative_to(root / folder)) for file in files)
            raise InputError(f"{root / folder}: {several} are all files of {name}; keep the one to be read")
    releases = {file.distribution.release: file.path for (file,) in found.values() if file.distribution is not None}
    if len(releases) > 1:
        parts = " and ".join(f"{path.name} ({release})" for release, path in releases.items())
        raise InputError(f"{root / folder}: {parts} are of different releases; both domains must come from one")
    return tuple(found[name][0] for name in names)


def _candidates(folder: Path, name: str) -> list[KnownFile]:
    if name not in DOMAINS:
        return [KnownFile(folder / name, None)]
    return [
        KnownFile(folder / f"{distribution.file_name.format(name)}{suffix}", distribution)
        for distribution in DOMAINS[name]
        for suffix in ("", ".gz")
    ]


def _expected(folder: str, name: str) -> str:
    if name not in DOMAINS:
        return f"{folder}/{name}"
    files = ", ".join(f"{folder}/{distribution.file_name.format(name)}" for distribution in DOMAINS[name])
    return f"one of {files} (each also .gz)"


@dataclass(frozen=True, eq=False)
class Task:
    """Two domains and perhaps further sources, over the same users; and the official split where there is one."""

    pair: DomainPair
    official: Split | None
    cold: float
    more_sources: tuple[Ratings, ...] = ()

    def split(self, seed: int) -> Split:
        """Return the target's split for one seed; an official split is the same for all."""
        return self.official or hold_out(self.pair.target, seed=seed, cold=self.cold)


def missing_files(spec: DataSpec, root: Path, prepared: Path | None = None) -> tuple[str, ...]:
    """Return, for people, which files of the data are not there; none where its prepared arrays are."""
    kept = _kept(spec, prepared)
    if kept is not None and kept.exists():
        return ()
    try:
        names = (spec.source, spec.target, spec.official, *spec.more_sources)
        find_files(root, spec.folder, *(name for name in names if name is not None))
    except MissingDataError as error:
        return error.expected
    return ()


def load_task(spec: DataSpec, root: Path, prepared: Path | None = None) -> Task:
    """Return the data, read and prepared; with ``prepared``, a folder, arrays are read from there and left there."""
    kept = _kept(spec, prepared)
    if kept is not None and kept.exists():
        try:
            return _load(kept, spec)
        except (OSError, ValueError, TypeError, LookupError, EOFError, BadZipFile, zlib.error) as error:
            raise InputError(f"{kept} does not hold prepared arrays, remove it: {error}") from error
    task = _prepare(spec, root)
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        _save(kept, task)
    return task


def _kept(spec: DataSpec, prepared: Path | None) -> Path | None:
    """Return where the arrays are kept; which users are cold is decided later."""
    if prepared is None:
        return None
    content = json.dumps({**spec.content(), "cold": None}, sort_keys=True)
    return prepared / f"{spec.folder}-{hashlib.sha256(content.encode()).hexdigest()[:8]}.npz"


def prepare_pair(spec: DataSpec, source: Ratings, target: Ratings) -> DomainPair:
    """Return the pair that a spec makes of two domains, with duplicate items and with values still."""
    if spec.filtered:
        return DomainPair(source.select(users=target.users), target)
    return prepare(source, target, threshold=spec.threshold, core=spec.core)


def _prepare(spec: DataSpec, root: Path) -> Task:
    files = find_files(root, spec.folder, spec.source, spec.target, *spec.more_sources)
    source, target, *others = (file.read().ratings for file in files)
    if others:
        assert spec.core is not None
        rated = prepare_several([source, *others], target, core=spec.core, any_source=spec.any_source)
    else:
        rated = [prepare_pair(spec, source, target)]
    pairs = [DomainPair(one.source.positives(), one.target.positives()) for one in rated]
    pair, *more = (one.without_duplicates() for one in pairs) if spec.distinct else pairs
    if spec.sample is not None:
        pair = _sampled(pair, spec.sample)
    official = None if spec.official is None else read_official(root / spec.folder / spec.official, pair.target)
    return Task(pair, official, spec.cold, tuple(one.source for one in more))


def _sampled(pair: DomainPair, count: int) -> DomainPair:
    """Return so many users of a pair, with the items that they rated."""
    order = Simulation(0).generator("sampled users").permutation(len(pair.users))
    users = tuple(pair.users[at] for at in np.sort(order[:count]))
    return DomainPair(*(side.select(users=users).rated().select(users=users) for side in (pair.source, pair.target)))


def _save(path: Path, task: Task) -> None:
    arrays: dict[str, Any] = {"users": np.array(task.pair.users)}
    more = ((f"source {number}", side) for number, side in enumerate(task.more_sources, 2))
    for name, side in (("source", task.pair.source), ("target", task.pair.target), *more):
        arrays[f"{name}_items"] = np.array(side.items)
        arrays[f"{name}_indptr"] = side.matrix.indptr.astype(np.int32)
        arrays[f"{name}_indices"] = side.matrix.indices.astype(np.int32)
    if task.official is not None:
        for name, held_out in (("validation", task.official.validation), ("test", task.official.test)):
            arrays[name] = np.column_stack([held_out.users, held_out.items, held_out.negatives]).astype(np.int32)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    replace_file(path, buffer.getvalue())


def _load(path: Path, spec: DataSpec) -> Task:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        arrays = dict(archive)
    users: Ids = tuple(arrays["users"].tolist())

    def side(name: str) -> Ratings:
        items: Ids = tuple(arrays[f"{name}_items"].tolist())
        indices, indptr = (arrays[f"{name}_{part}"].astype(np.int64) for part in ("indices", "indptr"))
        matrix = sp.csr_array((np.ones(len(indices)), indices, indptr), shape=(len(users), len(items)))
        return Ratings(matrix, users, items, has_values=False)

    def held_out(name: str, n_items: int) -> HeldOut:
        columns = arrays[name].astype(np.int64)
        limits = np.array([len(users), *[n_items] * (columns.shape[1] - 1)])
        if not ((columns >= 0) & (columns < limits)).all():
            raise ValueError(f"{name} has a position outside the ratings")
        return HeldOut(columns[:, 0], columns[:, 1], columns[:, 2:])

    target, official = side("target"), None
    if spec.official is not None:
        official = official_split(target, *(held_out(name, len(target.items)) for name in ("validation", "test")))
    more = tuple(side(f"source {number}") for number, _ in enumerate(spec.more_sources, 2))
    return Task(DomainPair(side("source"), target), official, spec.cold, more)


T = TypeVar("T")
Plan: TypeAlias = tuple[Any, ...]
"""What one run is given beside data and device."""


@dataclass(frozen=True)
class RunContext:
    """Where the data is, on what device to run, and how many runs at a time."""

    data: Path
    prepared: Path | None = None
    device: str = "auto"
    jobs: int = 1
    methods: tuple[str, ...] = ()
    """As module:Class, those that the user named: a spec may use them, and every process has to import them."""
    strategies: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_count(jobs=self.jobs)

    def import_outside(self) -> None:
        """Make the methods and strategies known that the user named."""
        for registry, names in ((METHODS, self.methods), (BY_NAME, self.strategies)):
            for name in names:
                registry.resolve_reference(name)


class Outcome(NamedTuple, Generic[T]):
    """What came of one run: a value, or why there is none."""

    plan: Plan
    value: T | None = None
    failure: str = ""


def spread(work: Callable[..., T], data: DataSpec, context: RunContext, plans: Sequence[Plan]) -> Iterator[Outcome[T]]:
    """Yield what ``work(task, device, *plan)`` gives for every plan, in any order; ``work`` is of a module."""
    if not plans:
        return
    if context.jobs == 1:
        _set_up()
        task = load_task(data, context.data, context.prepared), context.device
        for plan in plans:
            yield Outcome(plan, *_attempt(work, plan, task))
        return
    load_task(data, context.data, context.prepared)  # prepared once, and what is wrong with the data is said here
    waiting = list(plans)
    while waiting:
        for outcome in _in_processes(work, data, context, waiting):
            waiting = [plan for plan in waiting if plan is not outcome.plan]
            yield outcome
        # Where some are left, a process died and took the pool with it: one of those under way, which came first.
        suspects, waiting = waiting[: context.jobs], waiting[context.jobs :]
        for plan in suspects:
            alone = _in_processes(work, data, replace(context, jobs=1), [plan])
            yield next(alone, Outcome(plan, failure="its process was killed, for want of memory perhaps"))


def _in_processes(
    work: Callable[..., T], data: DataSpec, context: RunContext, plans: Sequence[Plan]
) -> Iterator[Outcome[T]]:
    """Yield the outcomes of all plans; of some of them only, where a process dies."""
    with process_pool(min(context.jobs, len(plans)), _take_task, data, context) as pool:
        running = {pool.submit(_attempt, work, plan): plan for plan in plans}
        for finished in as_completed(running):
            if not isinstance(finished.exception(), BrokenProcessPool):
                yield Outcome(running[finished], *finished.result())


_TASK: list[tuple[Task, str]] = []
"""What a worker process holds."""


def _set_up() -> None:
    """Make arithmetic the same in one process and in many."""
    import torch

    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("high")  # a GPU multiplies in TF32; processors take no notice


def _take_task(data: DataSpec, context: RunContext) -> None:
    _set_up()
    context.import_outside()
    _TASK.append((load_task(data, context.data, context.prepared), context.device))


def _attempt(work: Callable[..., T], plan: Plan, given: tuple[Task, str] | None = None) -> tuple[T | None, str]:
    """Return what comes of a run on what is given, or the process holds; or one line that says what went wrong."""
    try:
        return work(*(given or _TASK[0]), *plan), ""
    except Exception as error:  # whatever it is, the other runs go on, and the caller names this one
        return None, printable(f"{type(error).__name__}: {error}")[:500]
