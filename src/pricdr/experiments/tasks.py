"""The data of an experiment: both domains in plaintext, prepared once and kept as arrays.

Prepared arrays need numpy and scipy alone, so a machine with a GPU and little else can run what this one prepared.
"""

import hashlib
import io
import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from pricdr.data.csr import sp
from pricdr.data.pairs import DomainPair
from pricdr.data.ratings import Ids, Ratings
from pricdr.data.reading.known_files import find_files, read_pair
from pricdr.data.splits import HeldOut, Split, hold_out
from pricdr.data.splits import official as official_split
from pricdr.errors import InputError, MissingDataError
from pricdr.experiments.data_spec import DataSpec
from pricdr.files import replace_file


@dataclass(frozen=True, eq=False)
class Task:
    """Two domains, and the official split where there is one."""

    pair: DomainPair
    official: Split | None
    cold: float

    def split(self, seed: int) -> Split:
        """Return the target's split for one seed; an official split is the same for all."""
        if self.official is not None:
            return self.official
        return hold_out(self.pair.target, seed=seed, cold=self.cold)


def is_present(spec: DataSpec, root: Path, prepared: Path | None = None) -> bool:
    """Return whether all files of the data are there, or its prepared arrays."""
    return not missing_files(spec, root, prepared)


def missing_files(spec: DataSpec, root: Path, prepared: Path | None = None) -> tuple[str, ...]:
    """Return, for people, which files of the data are not there; none where its prepared arrays are."""
    kept = _kept(spec, prepared)
    if kept is not None and kept.exists():
        return ()
    try:
        find_files(root, spec.folder, *(name for name in (spec.source, spec.target, spec.official) if name is not None))
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
    return None if prepared is None else prepared / f"{spec.folder}-{_digest(spec)}.npz"


def _digest(spec: DataSpec) -> str:
    """Return what tells one preparation from another; which users are cold is decided later."""
    content = json.dumps({**spec.content(), "cold": None}, sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:8]


def _prepare(spec: DataSpec, root: Path) -> Task:
    # Imported here: where arrays are prepared already, DuckDB need not be installed.
    from pricdr.data.pairs import prepare
    from pricdr.data.splits import read_official

    source, target = (file.ratings for file in read_pair(root, spec.folder, spec.source, spec.target))
    if spec.filtered:
        pair = DomainPair(source.positives().select(users=target.users), target.positives())
    else:
        prepared = prepare(source, target, threshold=spec.threshold, core=spec.core)
        pair = DomainPair(prepared.source.positives(), prepared.target.positives())
    if spec.distinct:
        pair = pair.without_duplicates()
    official = None if spec.official is None else read_official(root / spec.folder / spec.official, pair.target)
    return Task(pair, official, spec.cold)


def _save(path: Path, task: Task) -> None:
    arrays: dict[str, Any] = {"users": np.array(task.pair.users)}
    sides = [("source", task.pair.source), ("target", task.pair.target)]
    if task.official is not None:
        for name in ("validation", "test"):
            held_out: HeldOut = getattr(task.official, name)
            arrays[name] = np.column_stack([held_out.users, held_out.items, held_out.negatives]).astype(np.int32)
    for name, side in sides:
        arrays[f"{name}_items"] = np.array(side.items)
        arrays[f"{name}_indptr"] = side.matrix.indptr.astype(np.int32)
        arrays[f"{name}_indices"] = side.matrix.indices.astype(np.int32)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    replace_file(path, buffer.getvalue())


def _load(path: Path, spec: DataSpec) -> Task:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        users: Ids = tuple(arrays["users"].tolist())

        def side(name: str) -> Ratings:
            items: Ids = tuple(arrays[f"{name}_items"].tolist())
            indices = arrays[f"{name}_indices"]
            parts = (np.ones(len(indices)), indices.astype(np.int64), arrays[f"{name}_indptr"].astype(np.int64))
            matrix = sp.csr_array(parts, shape=(len(users), len(items)))
            return Ratings(matrix, users, items, has_values=False)

        def held_out(name: str, n_items: int) -> HeldOut:
            columns = arrays[name].astype(np.int64)
            held = HeldOut(columns[:, 0], columns[:, 1], columns[:, 2:])
            for part, most in ((held.users, len(users)), (columns[:, 1:], n_items)):
                if part.size and not 0 <= part.min() <= part.max() < most:
                    raise ValueError(f"{name} has a position outside the ratings")
            return held

        target, official = side("target"), None
        if spec.official is not None:
            parts = (held_out(name, len(target.items)) for name in ("validation", "test"))
            official = official_split(target, *parts)
        return Task(DomainPair(side("source"), target), official, spec.cold)
