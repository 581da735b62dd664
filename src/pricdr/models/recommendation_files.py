"""Recommendations for any number of users in one file, written in parts so that a stopped run can be resumed."""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np

import pricdr
from pricdr.data.reading.read import has_utf8_name
from pricdr.data.tables import require_whole, write_table
from pricdr.errors import BusyError, InputError, OutputError, ParameterError, PriCDRError
from pricdr.files import PRIVATE, require_absent
from pricdr.memory import require_memory
from pricdr.models.recommend import Recommender, WrittenRecommendations
from pricdr.progress import Progress, silent

SUFFIXES: Final = (".parquet", ".csv")
_RUN: Final = "run"  # names the run that wrote the parts, by a fingerprint of everything they follow from
_START_OVER: Final = "recommend without resuming, which starts afresh"


def write_recommendations(
    path: Path, recommender: Recommender, *, resume: bool = False, progress: Progress = silent
) -> WrittenRecommendations:
    """Write all recommendations to ``path``, see :meth:`FittedModel.recommend_to`."""
    if path.suffix not in SUFFIXES:
        raise ParameterError(f"the output file must end in .parquet or .csv, got {path.name!r}")
    require_absent(path)
    users, items = len(recommender.users), len(recommender.model.items)
    require_memory(recommender.memory(), f"recommending {items:,} items to {users:,} users")
    parts = recommender.parts()
    if len(parts) <= 1:
        rows = write_table(path, recommender.columns(slice(0, users), progress), mode=PRIVATE)
    else:
        rows = _write_parts(path, recommender, parts, progress, resume=resume)
    return WrittenRecommendations(path, rows, users, len(recommender.unknown_users))


def parts_folder(path: Path) -> Path:
    """Return the folder that holds the finished parts of ``path`` until the file is complete."""
    return path.with_name(f".{path.name}.recommending")


def kept_parts(path: Path) -> int:
    """Return how many finished parts of ``path`` a stopped run has left."""
    return len(list(parts_folder(path).glob("part-*.parquet")))


def _write_parts(path: Path, recommender: Recommender, parts: list[slice], progress: Progress, *, resume: bool) -> int:
    folder = parts_folder(path)
    if not has_utf8_name(folder):
        raise OutputError(f"cannot write {path} in parts: its name is not UTF-8")
    names = [folder / f"part-{number:05}.parquet" for number in range(len(parts))]
    with _locked_folder(folder, path, _fingerprint(recommender), resume=resume):
        for name, part in zip(names, parts, strict=True):
            if not name.is_file():
                write_table(name, recommender.columns(part, progress), mode=PRIVATE)
        rows = write_table(path, names, folder=folder, mode=PRIVATE)
        shutil.rmtree(folder, ignore_errors=True)
    return rows


@contextmanager
def _locked_folder(folder: Path, path: Path, run: bytes, *, resume: bool) -> Iterator[None]:
    """Lock the folder of parts for this process; start with an empty folder unless its parts are resumed."""
    try:
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            raise InputError(f"{folder} is not a plain folder: remove it")
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with os.fdopen(os.open(folder / _RUN, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "r+b") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # released when the file is closed
            except BlockingIOError as error:
                raise BusyError(f"{path} is being written by another run: try again when it has ended") from error
            previous = file.read(len(run) + 1)
            if resume and previous:
                if previous != run:
                    what = "model, users, -k, ratings to leave out or version of this software"
                    raise InputError(f"{folder} was left by a run with another {what}: {_START_OVER}")
                _require_parts(folder)
            else:
                for stale in folder.iterdir():
                    if stale.name != _RUN:
                        stale.unlink()
                file.seek(0)
                file.truncate()
                file.write(run)
                file.flush()
                os.fsync(file.fileno())
            try:
                yield
            except BaseException:
                if not kept_parts(path):
                    shutil.rmtree(folder, ignore_errors=True)
                raise
    except PriCDRError:  # OutputError is an OSError too, and already names the file
        raise
    except OSError as error:
        raise OutputError(f"cannot use {folder}: {error.strerror or error}") from error


def _require_parts(folder: Path) -> None:
    """Refuse links, whose targets would become part of the output, and damaged files."""
    for file in sorted(folder.iterdir()):
        if file.is_symlink() or not file.is_file():
            raise InputError(f"{file} is not a plain file: {_START_OVER}")
        if file.name.startswith("part-"):
            try:
                require_whole(file)
            except InputError as error:
                raise InputError(f"{file} is damaged: {_START_OVER}") from error


def _fingerprint(recommender: Recommender) -> bytes:
    """Return the SHA-256 of all that recommendations follow from; like the model, it is for its owner only."""
    model, seen = recommender.model, recommender.seen
    parts: list[Any] = [model.user_vectors, model.item_vectors, model.item_bias, model.in_release, model.seen]
    parts.append(np.array([model.uses_history, recommender.k]))
    if model.interaction is not None:
        parts += [model.interaction.user_parts, model.interaction.item_parts, *chain(*model.interaction.layers)]
    if model.summary is not None:
        parts += [model.summary.item_counts, model.summary.has_history]
    digest = hashlib.sha256(f"{pricdr.__version__} {None if seen is None else seen.fingerprint()}".encode())
    for ids in (model.users, model.items, recommender.users):
        digest.update(f" {len(ids)} ".encode() + "".join(f"{name}\n" for name in ids).encode())
    for part in parts:
        for array in [part] if isinstance(part, np.ndarray) else [part.data, part.indices, part.indptr]:
            digest.update(f" {array.dtype} {array.shape} ".encode())
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest().encode()
