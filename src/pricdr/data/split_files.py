"""A split on disk: SPLIT/train, validation, test and negatives as Parquet, and split.json."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from pricdr.data.hold_out_rules import OFFICIAL, ONE_AT_RANDOM
from pricdr.data.ids import Ids, require_ids
from pricdr.data.ratings import IntArray, Ratings
from pricdr.data.reading.fields import CSV
from pricdr.data.reading.readers import read_ratings
from pricdr.data.splits import HeldOut, Split, cold_users, official
from pricdr.data.tables import Columns, Text, read_delimited, read_text_columns, texts, write_ratings, write_table
from pricdr.errors import InputError, ParameterError, require_seed
from pricdr.memory import memory_limit
from pricdr.untrusted import Folder

_PARTS = ("validation", "test")
_LONGEST_PROTOCOL = 200


def save_split(split: Split, folder: Path) -> None:
    """Write ``split`` into an existing folder."""
    train = split.train
    write_ratings(folder / "train.parquet", train)
    parts = (split.validation, split.test)
    for name, part in zip(_PARTS, parts, strict=True):
        write_table(folder / f"{name}.parquet", _pairs(train, part.users, part.items))
    owners = np.concatenate([np.repeat(part.users, part.negatives.shape[1]) for part in parts])
    drawn = np.concatenate([part.negatives.ravel() for part in parts])
    of_part = texts(_PARTS, np.repeat([0, 1], [part.negatives.size for part in parts]))
    write_table(folder / "negatives.parquet", {**_pairs(train, owners, drawn), "for": of_part})
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
        seed, left_out, stated = about["seed"], about["strata"]["not_evaluated"], about["fingerprint"]
        if seed is not None:  # none where the authors made the split
            require_seed(seed=seed)
        if type(left_out) is not int or left_out < 0:
            raise InputError(f"strata.not_evaluated is {left_out!r:.40}, a whole number is needed")
        protocol = about.get("protocol", OFFICIAL if seed is None else ONE_AT_RANDOM)
        if type(protocol) is not str or len(protocol) > _LONGEST_PROTOCOL or not protocol.isprintable():
            raise InputError(f"protocol is {protocol!r:.40}, a printable line is needed")
    except (InputError, ParameterError) as error:
        raise InputError(f"{folder / 'split.json'}: {error}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{folder / 'split.json'} is not a split.json that can be read") from error
    train = read_ratings(folder / "train.parquet").select(users, items)
    if train.fingerprint() != stated:
        raise InputError(f"{folder / 'train.parquet'} is not the one the split was written with")
    negatives = _negatives(folder / "negatives.parquet", users, items)
    validation, test = (_held_out(folder, name, users, items, negatives) for name in _PARTS)
    # Which users are cold is not stored: an evaluated user without ratings to train on is.
    return Split(train, validation, test, cold_users(train, test), seed, left_out, protocol)


def read_official(path: Path, ratings: Ratings) -> Split:
    """Read a split the authors made: CSV with user, valid_item, test_item and negatives_99 (space-separated).

    Validation and test share their negatives there, as published.
    """
    columns = read_delimited(path, CSV, "an official split")
    try:
        users, valid, test, negatives = (columns[name] for name in ("user", "valid_item", "test_item", "negatives_99"))
    except KeyError as error:
        raise InputError(f"{path} is not a split: user, valid_item, test_item and negatives_99 are needed") from error
    at_user = _positions(path, "user", ratings.users, users)
    lists = [row.split(" ") for row in negatives]
    if len({len(row) for row in lists}) != 1:
        raise InputError(f"{path}: every user needs the same number of negatives")
    flat = _positions(path, "item", ratings.items, [item for row in lists for item in row])
    shared = flat.reshape(len(lists), -1)
    parts = (
        _from_file(path, at_user, _positions(path, "item", ratings.items, items), shared) for items in (valid, test)
    )
    return official(ratings, *parts)


def _negatives(path: Path, users: Ids, items: Ids) -> dict[str, tuple[IntArray, IntArray]]:
    """Read the negatives of each part: the positions of users and of items.

    There are two hundred of a user, so none of them is ever a text of its own.
    """
    owners, drawn, parts = read_text_columns(path, ["user", "item", "for"])
    columns = [
        _coded_positions(path, *role, text) for role, text in zip(_roles(users, items), (owners, drawn), strict=True)
    ]
    of_part = {
        name: np.isin(parts.codes, [at for at, part in enumerate(parts.values) if part == name]) for name in _PARTS
    }
    return {name: (columns[0][keep], columns[1][keep]) for name, keep in of_part.items()}


def _held_out(
    folder: Path, name: str, users: Ids, items: Ids, negatives: Mapping[str, tuple[IntArray, IntArray]]
) -> HeldOut:
    """Read one part: the first item of a user belongs to the user's first negatives, the next to the next."""
    path, others = folder / f"{name}.parquet", folder / "negatives.parquet"
    pairs = read_text_columns(path, ["user", "item"])
    rows, columns = (
        _coded_positions(path, *role, text) for role, text in zip(_roles(users, items), pairs, strict=True)
    )
    owners, drawn = negatives[name]
    each, uneven = divmod(len(owners), max(len(rows), 1))
    # Per user: how many there must be.
    wanted = each * np.bincount(rows, minlength=len(users))
    if not each or uneven or (np.bincount(owners, minlength=len(users)) != wanted).any():
        raise InputError(f"{others} does not hold the same number for every item of {name}")
    order = np.empty(len(users), dtype=np.int64)
    order[rows[::-1]] = np.arange(len(rows))[::-1]  # where each user's first row is
    grouped = np.argsort(order[owners], kind="stable")
    return _from_file(path, rows, columns, drawn[grouped].reshape(len(rows), each))


def _from_file(path: Path, users: IntArray, items: IntArray, negatives: IntArray) -> HeldOut:
    try:
        return HeldOut(users, items, negatives)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _roles(users: Ids, items: Ids) -> tuple[tuple[str, Ids], tuple[str, Ids]]:
    return ("user", users), ("item", items)


def _pairs(ratings: Ratings, users: IntArray, items: IntArray) -> Columns:
    return {"user": texts(ratings.users, users), "item": texts(ratings.items, items)}


def _coded_positions(path: Path, what: str, ids: Ids, names: Text) -> IntArray:
    """Return the positions of names of which each distinct one is looked up once."""
    at = _positions(path, what, ids, [*names.values, *((None,) if (names.codes < 0).any() else ())])
    return at[names.codes]


def _positions(path: Path, what: str, ids: Ids, names: Sequence[str | None]) -> IntArray:
    at: dict[str | None, int] = {name: position for position, name in enumerate(ids)}
    try:
        return np.array([at[name] for name in names], dtype=np.int64)
    except KeyError as error:
        raise InputError(f"{path} names the {what} {error.args[0]!r:.60}, which is not in the ratings") from error
