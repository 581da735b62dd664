"""``Split``: what the target trains on, what it is measured by, who has no history; and the folder that holds a split.

A split holds items out at random, the latest ones, or those that somebody gave; and hides the whole history of some
users, who look like newcomers. Every held-out item comes with unrated items, its negatives, to be ranked among.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Final

import numpy as np

from pricdr.arrays import BoolArray, Float64Array, IntArray
from pricdr.data.csr import CSR, entry_rows, row_counts
from pricdr.data.ids import Ids, require_ids
from pricdr.data.ratings import Ratings, RatingsLike, position_of
from pricdr.data.reading.formats import CSV
from pricdr.data.reading.read import read_ratings
from pricdr.data.tables import Columns, read_delimited, read_positions, texts, write_ratings, write_table
from pricdr.errors import InputError, ParameterError, require_count, require_probability, require_seed, require_share
from pricdr.memory import memory_limit, require_memory
from pricdr.randomness import Simulation
from pricdr.untrusted import Folder

NEGATIVES: Final = 99
FEW: Final = 3
"""The most training ratings of a user who counts as having few."""
_FEWEST: Final = 3
"""Ratings a user needs to be evaluated: one to test, one to validate, one to train on."""
_COPIES: Final = 6
"""Arrays of the drawn items' size in memory while they are drawn."""
ONE_AT_RANDOM: Final = "one rating of each user, at random"
"""The protocol of a split that does not say otherwise."""
_OFFICIAL: Final = "an official split"
_REPEATED: Final = "every rating given for that is also in another part"
_MAX_PROTOCOL_LENGTH: Final = 200
_PARTS: Final = ("validation", "test")


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Held-out items, one or several per evaluated user, and the unrated items that each is ranked among."""

    users: IntArray
    """Of each held-out item; those of a user are adjacent."""
    items: IntArray
    negatives: IntArray
    """``len(users)`` x 99, items the user never rated."""

    def __post_init__(self) -> None:
        if len(self.starts) != len(np.unique(self.users)):
            raise InputError("the held-out items of a user must follow one another")
        pairs = self.users.astype(np.int64) * (int(self.items.max(initial=0)) + 1) + self.items
        if len(np.unique(pairs)) != len(pairs):
            raise InputError("the same item of a user is held out twice")

    def __len__(self) -> int:
        return len(self.users)

    def __repr__(self) -> str:  # sizes only: what was rated is private
        users = f"{len(self.starts)} users"
        held_out = users if len(self.starts) == len(self) else f"{len(self)} items of {users}"
        return f"HeldOut({held_out}, {self.negatives.shape[1]} negatives each)"

    @cached_property
    def starts(self) -> IntArray:
        """Where the rows of each user begin."""
        return np.flatnonzero(np.diff(self.users, prepend=-1))

    @property
    def evaluated(self) -> IntArray:
        """Each user once, in order."""
        return self.users[self.starts]

    @property
    def user_of_row(self) -> IntArray:
        """The position in ``evaluated`` of each row's user."""
        return np.repeat(np.arange(len(self.starts)), np.diff(self.starts, append=len(self)))

    def only(self, keep: BoolArray | slice) -> "HeldOut":
        """Return the part where ``keep`` is true, or a slice of it."""
        return HeldOut(self.users[keep], self.items[keep], self.negatives[keep])


@dataclass(frozen=True, eq=False)
class Split:
    """Ratings to train on, held-out items to validate and to test by, and the users whose history is hidden."""

    train: Ratings
    """Over all users and items; a cold user's row is empty."""
    validation: HeldOut
    test: HeldOut
    seed: int | None
    protocol: str = ONE_AT_RANDOM

    @cached_property
    def cold(self) -> BoolArray:
        """Per user of ``train``: evaluated, but without any rating to train on."""
        cold = np.zeros(len(self.train.users), dtype=bool)
        cold[self.test.evaluated] = row_counts(self.train.matrix)[self.test.evaluated] == 0
        return cold

    @property
    def not_evaluated(self) -> int:
        """Users without a test item; all of their ratings are trained on, or validated by."""
        return len(self.train.users) - len(self.test.starts)

    @classmethod
    def of(
        cls,
        train: RatingsLike,
        test: RatingsLike,
        validation: RatingsLike | None = None,
        *,
        cold: float = 0.0,
        seed: int = 0,
    ) -> "Split":
        """Make a split of ratings that somebody divided already, as ``pricdr split --train --test`` does.

        Each rated pair counts as 1. A pair to train on is not tested by, and neither of them is validated by: such
        repetitions are dropped. Test users without ratings to train on are cold; ``cold`` also hides the whole history
        of this share of those who have some. Without ``validation``, one rating of every user with two or more in
        ``train`` is set aside, at random.
        """
        require_seed(seed=seed)
        require_share(cold=cold)
        simulation = Simulation(seed)
        given = [Ratings.of(part).positives() for part in (train, test, validation) if part is not None]
        users = tuple(sorted({user for part in given for user in part.rated().users}))
        items = tuple(sorted({item for part in given for item in part.rated().items}))
        codes = [pair_codes(part.select(users, items)) for part in given]
        union = np.unique(np.concatenate(codes))
        rows, columns = np.divmod(union, max(len(items), 1))
        before = next((part.filtered_by for part in given if part.filtered_by is not None), None)
        whole = Ratings.from_codes(rows, columns, np.ones(len(union)), users, items, has_values=False)
        whole = replace(whole, filtered_by=before)
        trained, tested, *rest = (np.isin(union, part) for part in codes)
        tested &= ~trained
        if rest:
            validated, fault = rest[0] & ~trained & ~tested, _REPEATED
        else:
            validated, fault = _one_of_each(whole, trained, simulation), "no user has two ratings to train on"
        lacks = ("train on", f"test by: {_REPEATED}", f"validate by: {fault}")
        for mask, lack in zip((trained, tested, validated), lacks, strict=True):
            if not mask.any():
                raise InputError(f"nothing is left to {lack}")
        hidden = _newcomers(len(users), np.intersect1d(rows[tested], rows[trained]), cold, simulation)
        kept = _training_part(whole, trained & ~validated & ~hidden[rows])
        return cls(kept, *_with_negatives(whole, validated, tested, simulation), seed, "ratings that were given apart")

    def __repr__(self) -> str:  # sizes only: what was rated is private
        evaluated = f"{len(self.test.starts)} users evaluated, {int(self.cold.sum())} of them cold"
        return f"Split({len(self.train)} ratings to train on, {evaluated})"

    def _repr_html_(self) -> str:
        from pricdr.pages import summary_html

        facts = {"ratings to train on": f"{len(self.train):,}", "items": f"{len(self.train.items):,}"}
        for stratum, keep in self.strata().items():
            facts[f"test users, {stratum}"] = f"{int(keep.sum()):,}"
        facts["users not evaluated"] = f"{self.not_evaluated:,}"
        facts["seed"] = "none: an official split" if self.seed is None else str(self.seed)
        return summary_html("Split", facts)

    def strata(self) -> dict[str, BoolArray]:
        """Return which users count for each kind of user, as masks over ``test.evaluated``.

        ``warm`` users have ratings to train on, ``cold`` users none. ``few`` users, with 1 to 3, are warm users too.
        """
        cold = self.cold[self.test.evaluated]
        ratings = row_counts(self.train.matrix)[self.test.evaluated]
        few = ~cold & (ratings > 0) & (ratings <= FEW)
        return {"all": np.ones(len(cold), dtype=bool), "warm": ~cold, "few": few, "cold": cold}


def split(
    ratings: RatingsLike,
    *,
    threshold: float | None = None,
    cold: float = 0.0,
    seed: int = 0,
    test_items: int = 1,
    ratio: float | None = None,
    times: Float64Array | str | None = None,
) -> Split:
    """Hold out items of each user for testing and one for validation, as ``pricdr split`` does.

    Each rated pair counts as 1, whatever its value; users and items without any are left out. A user with too few to
    test, to validate and to train by is trained on but not evaluated.

    Args:
        ratings: The target's ratings, or a data frame of them.
        threshold: Count only what is rated at least this.
        cold: Hide the whole history of this share of the evaluated users: they are what a newcomer looks like.
        seed: Of everything that chance decides.
        test_items: How many items of each user to test by.
        ratio: Test by this share of each user's ratings instead, rounded: at least one, and all but two at most.
        times: When each pair was rated: each user's latest ones are tested by and the one before them is validated by,
            where chance decides without it. Of a data frame the name of its time column; of ``Ratings`` one number per
            rating, in the order of ``ratings.to_frame()``.

    >>> others = [f"user {n}" for n in range(300)]
    >>> ratings = Ratings.from_triples(["alice"] * 5 + others, [f"item {n}" for n in range(305)])
    >>> split(ratings)
    Split(303 ratings to train on, 1 users evaluated, 0 of them cold)
    """
    if isinstance(ratings, Ratings) and isinstance(times, str):
        raise InputError(f"times={times!r:.60} names a column of a data frame, and Ratings have no times")
    if isinstance(times, str):
        from pricdr.data.frames import read_frame

        reading = read_frame(ratings, {"time": times}, with_times=True)
        ratings, times = reading.ratings, reading.times
    elif times is not None and not isinstance(ratings, Ratings):
        # Ratings are sorted by their ids: a column in the order of the frame's rows would silently belong to others.
        raise InputError("times must be the name of a column where ratings are a data frame, whose rows are reordered")
    given = Ratings.of(ratings)
    if times is not None and threshold is not None and len(times) == len(given):
        times = times[given.matrix.data >= threshold]
    kept = given.positives(threshold).rated()
    return hold_out(kept, seed=seed, cold=cold, test_items=test_items, ratio=ratio, times=times)


def hold_out(
    ratings: Ratings,
    *,
    seed: int,
    cold: float = 0.0,
    test_items: int = 1,
    ratio: float | None = None,
    times: Float64Array | None = None,
) -> Split:
    """Hold out items of every user with enough ratings, see :func:`split`."""
    require_seed(seed=seed)
    require_count(test_items=test_items)
    require_share(cold=cold)
    counts, simulation = row_counts(ratings.matrix), Simulation(seed)
    fewest, wanted = test_items + _FEWEST - 1, np.asarray(test_items)
    if ratio is not None:
        require_probability(ratio=ratio)
        if test_items != 1:
            raise ParameterError("test_items and ratio exclude each other: both say how much is held out")
        wanted = np.clip(np.floor(ratio * counts + 0.5).astype(np.int64), 1, counts - _FEWEST + 1)
    tests = np.where(counts >= fewest, wanted, 0)
    if not tests.any():
        raise InputError(f"no user has {fewest} ratings or more: nothing can be held out")
    if times is None:
        to_test, to_validate = _at_random(ratings.matrix, tests, simulation)
    else:
        to_test, to_validate = _latest(ratings.matrix, tests, np.asarray(times, dtype=np.float64), simulation)
    hidden = _newcomers(len(counts), np.flatnonzero(tests), cold, simulation)
    keep = ~(np.repeat(hidden, counts) | to_test | to_validate)
    held_out = _with_negatives(ratings, to_validate, to_test, simulation)
    protocol = described(test_items, ratio, by_time=times is not None)
    return Split(_training_part(ratings, keep), *held_out, seed, protocol)


def set_aside(
    ratings: Ratings, *, seed: int, cold: float = 0.0, among: BoolArray | None = None
) -> tuple[Ratings, HeldOut]:
    """Return ratings without one item of every user with two or more, and these items, to choose by.

    With ``cold``, that fraction of the users ``among`` (of all without it) loses the rest of its history too.
    """
    require_seed(seed=seed)
    counts, simulation = row_counts(ratings.matrix), Simulation(seed)
    chosen = np.flatnonzero(counts > 1)
    if not len(chosen):
        raise InputError("no user has two ratings or more: nothing can be set aside")
    out = _one_of_each(ratings, np.ones(len(ratings), dtype=bool), simulation)
    candidates = chosen if among is None else chosen[among[chosen]]
    hidden = _newcomers(len(ratings.users), candidates, cold, simulation)
    negatives = _unrated(ratings, chosen, NEGATIVES, simulation)
    held_out = HeldOut(chosen, ratings.matrix.indices[out].astype(np.int64), negatives)
    return ratings.only(~(np.repeat(hidden, counts) | out)), held_out


def official(ratings: Ratings, validation: HeldOut, test: HeldOut) -> Split:
    """Make a split of given held-out pairs: they leave the training ratings, and everything else stays."""
    codes = pair_codes(ratings)
    out = np.concatenate([part.users * len(ratings.items) + part.items for part in (validation, test)])
    missing = ~np.isin(out, codes)
    if missing.any():
        user, item = divmod(int(out[missing][0]), len(ratings.items))
        raise InputError(f"the split holds out {ratings.items[item]!r} of {ratings.users[user]!r}, who never rated it")
    return Split(_training_part(ratings, ~np.isin(codes, out)), validation, test, None, _OFFICIAL)


def _training_part(ratings: Ratings, keep: BoolArray) -> Ratings:
    """Return the ratings to train on, marked as the part of a split.

    One rating more can deal the items of others anew: a release keeps its promise for this part as it was split.
    """
    rules = (ratings.filtered_by, "the training part of a split")
    return ratings.only(keep).disclosing(", ".join(filter(None, rules)))


def _with_negatives(
    ratings: Ratings, to_validate: BoolArray, to_test: BoolArray, simulation: Simulation
) -> tuple[HeldOut, HeldOut]:
    """Return what is held out, masks over the stored ratings, with unrated items: others to validate than to test."""
    rows, items = entry_rows(ratings.matrix), ratings.matrix.indices.astype(np.int64)
    users, n_items = np.unique(rows[to_validate | to_test]), len(ratings.items)
    drawn = _unrated(ratings, users, 2 * NEGATIVES, simulation)
    to_validation, tested = drawn[:, :NEGATIVES], np.searchsorted(users, rows[to_test])
    negatives = drawn[tested, NEGATIVES:]
    if len(further := np.flatnonzero(np.diff(tested, prepend=-1) == 0)):
        taken = np.union1d(pair_codes(ratings), (users[:, None] * n_items + to_validation).ravel())
        generator = simulation.generator("further negatives")
        negatives[further] = draw_negatives(taken, n_items, users[tested[further]], NEGATIVES, generator)
    of_validation = to_validation[np.searchsorted(users, rows[to_validate])]
    validation = HeldOut(rows[to_validate], items[to_validate], of_validation)
    return validation, HeldOut(rows[to_test], items[to_test], negatives)


def _unrated(ratings: Ratings, users: IntArray, count: int, simulation: Simulation) -> IntArray:
    """Draw items that each of these users did not rate; refuse ratings that leave somebody too few."""
    most, n_items = int(row_counts(ratings.matrix)[users].max()), len(ratings.items)
    if n_items - most < count:
        left = f"a user who rated {most:,} of them leaves fewer than {count} to be ranked among"
        raise InputError(f"{n_items:,} items are too few: {left}")
    return draw_negatives(pair_codes(ratings), n_items, users, count, simulation.generator("negatives"))


def described(test_items: int, ratio: float | None, *, by_time: bool) -> str:
    """Return what is tested by, in words.

    >>> described(1, None, by_time=True), described(1, 0.2, by_time=False)
    ('the latest rating of each user', "20 % of each user's ratings, at random")
    """
    amount = "one rating" if test_items == 1 else f"{test_items} ratings"
    tested = f"{amount} of each user" if ratio is None else f"{100 * ratio:g} % of each user's ratings"
    return f"the latest {tested}".replace("latest one rating", "latest rating") if by_time else f"{tested}, at random"


def drawn_at_random(protocol: str) -> tuple[int, float | None] | None:
    """Return how many test items, or which ratio, the words of :func:`described` stand for; None if drawn otherwise."""
    if protocol in (ONE_AT_RANDOM, _OFFICIAL):
        return 1, None
    if several := re.fullmatch(r"([0-9]{1,6}) ratings of each user, at random", protocol):
        return int(several[1]), None
    share = re.fullmatch(r"([0-9.]{1,12}(?:e-[0-9]{1,3})?) % of each user's ratings, at random", protocol)
    return None if share is None else (1, float(share[1]) / 100)


def _at_random(matrix: CSR, tests: IntArray, simulation: Simulation) -> tuple[BoolArray, BoolArray]:
    """Choose what to test and what to validate by, uniformly, as masks; ``tests`` says how many items of each user."""
    to_test, to_validate = np.zeros((2, matrix.nnz), dtype=bool)
    evaluated = np.flatnonzero(tests)
    counts, starts = row_counts(matrix)[evaluated], matrix.indptr[evaluated]
    picks = simulation.generator("held-out items")
    first = picks.integers(0, counts)
    # Another position, uniformly among the others.
    second = (first + picks.integers(1, counts)) % counts
    to_test[starts + first] = to_validate[starts + second] = True
    if tests.max() > 1:
        key = simulation.generator("further held-out items").random(matrix.nnz)
        key[to_test | to_validate] = np.inf
        to_test |= _places(matrix, key) < (tests - 1)[entry_rows(matrix)]
    return to_test, to_validate


def _latest(matrix: CSR, tests: IntArray, times: Float64Array, simulation: Simulation) -> tuple[BoolArray, BoolArray]:
    """Choose the latest ratings of each user to test by and the one before them to validate by, as masks."""
    if times.shape != (matrix.nnz,):
        raise InputError(f"there are {matrix.nnz:,} ratings and {times.size:,} times: give one of each")
    if not np.isfinite(times).all():
        raise InputError("times must be finite numbers")
    # Ratings of the same time, a day say, come in random order: in the file's they would follow the items' names.
    places = _places(matrix, simulation.generator("order of ties").random(matrix.nnz), -times)
    of_user = tests[entry_rows(matrix)]
    return places < of_user, (places == of_user) & (of_user > 0)


def _places(matrix: CSR, *keys: Float64Array) -> IntArray:
    """Return the place of each stored rating among its user's, from 0, sorted by the last key and then the others."""
    rows, places = entry_rows(matrix), np.empty(matrix.nnz, dtype=np.int64)
    places[np.lexsort((*keys, rows))] = np.arange(matrix.nnz) - matrix.indptr[rows]
    return places


def _one_of_each(ratings: Ratings, among: BoolArray, simulation: Simulation) -> BoolArray:
    of_users = np.bincount(entry_rows(ratings.matrix)[among], minlength=len(ratings.users))
    several = np.flatnonzero(of_users > 1)
    starts = np.cumsum(of_users) - of_users
    picked = starts[several] + simulation.generator("items set aside").integers(0, of_users[several])
    chosen = np.zeros(len(ratings), dtype=bool)
    chosen[np.flatnonzero(among)[picked]] = True
    return chosen


def _newcomers(users: int, candidates: IntArray, cold: float, simulation: Simulation) -> BoolArray:
    hidden = np.zeros(users, dtype=bool)
    count = math.floor(cold * len(candidates) + 0.5)
    hidden[simulation.generator("cold users").permutation(candidates)[:count]] = True
    return hidden


def pair_codes(ratings: Ratings) -> IntArray:
    """Return each rated pair as one number, ascending: user x items + item."""
    return entry_rows(ratings.matrix) * len(ratings.items) + ratings.matrix.indices


def draw_negatives(codes: IntArray, n_items: int, users: IntArray, count: int, rng: np.random.Generator) -> IntArray:
    """Draw ``count`` distinct items for each user, uniformly, again where they collide or are in ``codes``, sorted."""
    require_memory(_COPIES * 8 * count * len(users), f"{count} negatives for each of {len(users):,} held-out items")
    offsets = users[:, None] * n_items
    drawn = rng.integers(0, n_items, (len(users), count))
    while True:
        order = np.argsort(drawn, axis=1, kind="stable")
        ordered = np.take_along_axis(drawn, order, axis=1)
        again = np.zeros_like(drawn, dtype=bool)
        repeated = np.pad(ordered[:, 1:] == ordered[:, :-1], ((0, 0), (1, 0)))
        np.put_along_axis(again, order, repeated, axis=1)
        at = np.searchsorted(codes, drawn + offsets)
        # The minimum: a pair after the last rated one is found past the end.
        again |= codes[np.minimum(at, len(codes) - 1)] == drawn + offsets
        if not again.any():
            return drawn
        drawn[again] = rng.integers(0, n_items, int(again.sum()))


def save_split(split: Split, folder: Path) -> None:
    """Write ``split`` into an existing folder."""
    train, parts = split.train, (split.validation, split.test)

    def pairs(users: IntArray, items: IntArray) -> Columns:
        return {"user": texts(train.users, users), "item": texts(train.items, items)}

    write_ratings(folder / "train.parquet", train)
    for name, part in zip(_PARTS, parts, strict=True):
        write_table(folder / f"{name}.parquet", pairs(part.users, part.items))
    owners = np.concatenate([np.repeat(part.users, part.negatives.shape[1]) for part in parts])
    drawn = np.concatenate([part.negatives.ravel() for part in parts])
    of_part = texts(_PARTS, np.repeat([0, 1], [part.negatives.size for part in parts]))
    write_table(folder / "negatives.parquet", {**pairs(owners, drawn), "for": of_part})
    strata = {name: int(keep.sum()) for name, keep in split.strata().items() if name != "all"}
    about = {
        "schema_version": 1,
        "seed": split.seed,
        "strata": {**strata, "not_evaluated": split.not_evaluated},
        "fingerprint": train.fingerprint(),
        "users": train.users,
        "items": train.items,
        # Not for the protocol of old, so that its files stay what they were.
        **({} if split.protocol == ONE_AT_RANDOM else {"protocol": split.protocol}),
    }
    (folder / "split.json").write_text(json.dumps(about, ensure_ascii=False) + "\n", encoding="utf-8")


def load_split(folder: Path) -> Split:
    """Read the split in ``folder``; :class:`InputError` where it is none, or was changed."""
    with Folder.opened(folder, "a split") as opened:
        if not opened.holds("split.json"):
            raise InputError(f"{folder} is not a split: there is no split.json in it (pricdr split makes one)")
        raw = opened.read("split.json", limit=memory_limit() // 8)
    try:
        about = json.loads(raw)
        users, items = require_ids("user", about["users"]), require_ids("item", about["items"])
        seed, stated = about["seed"], about["fingerprint"]
        if seed is not None:  # none where the authors made the split
            require_seed(seed=seed)
        protocol = about.get("protocol", _OFFICIAL if seed is None else ONE_AT_RANDOM)
        if type(protocol) is not str or len(protocol) > _MAX_PROTOCOL_LENGTH or not protocol.isprintable():
            raise InputError(f"protocol is {protocol!r:.40}, a printable line is needed")
    except (InputError, ParameterError) as error:
        raise InputError(f"{folder / 'split.json'}: {error}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{folder / 'split.json'} is not a split.json that can be read") from error
    train = read_ratings(folder / "train.parquet").select(users, items)
    if train.fingerprint() != stated:
        raise InputError(f"{folder / 'train.parquet'} is not the one the split was written with")
    validation, test = _read_held_out(folder, train)
    return Split(train, validation, test, seed, protocol)


def read_official(path: Path, ratings: Ratings) -> Split:
    """Read a split the authors made: CSV with user, valid_item, test_item and negatives_99, which both parts share."""
    columns = read_delimited(path, CSV, "an official split")
    try:
        users, valid, test, negatives = (columns[name] for name in ("user", "valid_item", "test_item", "negatives_99"))
    except KeyError as error:
        raise InputError(f"{path} is not a split: user, valid_item, test_item and negatives_99 are needed") from error
    lists = [row.split(" ") for row in negatives]
    if len({len(row) for row in lists}) != 1:
        raise InputError(f"{path}: every user needs the same number of negatives")

    def positions(what: str, ids: Ids, names: Iterable[str]) -> IntArray:
        at = position_of(ids)
        try:
            return np.array([at[name] for name in names], dtype=np.int64)
        except KeyError as error:
            raise InputError(f"{path} names the {what} {error.args[0]!r:.60}, which is not in the ratings") from error

    at_user = positions("user", ratings.users, users)
    shared = positions("item", ratings.items, chain(*lists)).reshape(len(lists), -1)
    parts = (_from_file(path, at_user, positions("item", ratings.items, items), shared) for items in (valid, test))
    return official(ratings, *parts)


def _read_held_out(folder: Path, train: Ratings) -> Iterator[HeldOut]:
    """Yield both parts: the first item of a user belongs to the user's first negatives, the next to the next."""
    n_users, pair = len(train.users), {"user": train.users, "item": train.items}
    of_negatives = folder / "negatives.parquet"
    owners, negatives, parts = read_positions(of_negatives, {**pair, "for": _PARTS})
    for at, name in enumerate(_PARTS):
        path, ours = folder / f"{name}.parquet", parts == at
        rows, columns = read_positions(path, pair)
        each, uneven = divmod(int(ours.sum()), max(len(rows), 1))
        wanted = each * np.bincount(rows, minlength=n_users)
        if not each or uneven or (np.bincount(owners[ours], minlength=n_users) != wanted).any():
            raise InputError(f"{of_negatives} does not hold the same number for every item of {name}")
        first_row = np.empty(n_users, dtype=np.int64)
        first_row[rows[::-1]] = np.arange(len(rows))[::-1]
        grouped = np.argsort(first_row[owners[ours]], kind="stable")
        yield _from_file(path, rows, columns, negatives[ours][grouped].reshape(len(rows), each))


def _from_file(path: Path, users: IntArray, items: IntArray, negatives: IntArray) -> HeldOut:
    try:
        return HeldOut(users, items, negatives)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
