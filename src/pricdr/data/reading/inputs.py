"""What the user names as ratings: one file, a folder or a pattern of them, or standard input."""

import glob
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import unquote

from pricdr.data.reading.raw_ratings import NOTHING_BESIDE, Beside
from pricdr.data.reading.text_files import STANDARD_INPUT, explaining_os_errors, refusal
from pricdr.errors import InputError
from pricdr.files import require_local

AnyPath: TypeAlias = str | os.PathLike[str]
_MOST_FILES: Final = 100_000
_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
"""What Hive and Spark call the partition of rows without a value."""
_TABLES: Final = {"_delta_log": "a Delta table", ".hoodie": "a Hudi table"}
"""Folders whose files only a log tells apart: those that count, and those of rows that were deleted or replaced."""


@dataclass(frozen=True)
class _State:
    """What changes when somebody writes to a file or puts another in its place."""

    device: int
    inode: int
    size: int
    modified: int

    @classmethod
    def of(cls, found: os.stat_result) -> "_State":
        return cls(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


@dataclass(frozen=True)
class InputFile:
    """One file of ratings, as it was when it was found."""

    path: Path
    partitions: Beside
    """The columns that its folders name (``country=de``), and their values."""
    state: _State | None
    """None where it is no regular file, such as standard input: then nothing can be said about changes."""

    @property
    def size(self) -> int | None:
        """Return its bytes, where that is known."""
        return None if self.state is None else self.state.size

    @classmethod
    def of(cls, path: Path, partitions: Beside = NOTHING_BESIDE) -> "InputFile":
        """Return the file at ``path`` as it is now."""
        if path == STANDARD_INPUT:
            return cls(path, partitions, None)
        with explaining_os_errors(path):
            found = path.stat()
        return cls(path, partitions, _State.of(found) if stat.S_ISREG(found.st_mode) else None)

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Refuse the file if it is another than the one that was found, before the block or after it."""
        self._require_unchanged()
        yield
        self._require_unchanged()

    def _require_unchanged(self) -> None:
        if self.state is not None and InputFile.of(self.path).state != self.state:
            raise refusal(self.path, "the file changed while it was read; read it when nobody writes to it")


@dataclass(frozen=True)
class Inputs:
    """All files that the user named together, in the order of their names."""

    path: Path
    """As it was written."""
    files: tuple[InputFile, ...]
    several: bool
    """Whether a folder or a pattern was named, so that messages must tell files apart."""

    @property
    def size(self) -> int | None:
        """Return the bytes of all files, where that is known."""
        sizes = [file.size for file in self.files]
        return None if None in sizes else sum(size for size in sizes if size is not None)


def find_inputs(path: Path) -> Inputs:
    """Return the files that ``path`` names: a file, all files in a folder, those that match a pattern, or ``-``.

    In a folder, what Spark skips is skipped: names that begin with a dot or an underscore. A path that exists is no
    pattern, whatever characters it holds.
    """
    require_local(path)
    pattern = glob.has_magic(str(path)) and not os.path.lexists(path)
    if not pattern and not path.is_dir():
        return Inputs(path, (InputFile.of(path),), several=False)
    found = _matching(path) if pattern else list(_files_in(path))
    if not found:
        fault = "no such file, and as a pattern it matches none" if pattern else "the folder holds no file of ratings"
        raise refusal(path, fault)
    root = _root(path)
    ordered = sorted(set(found), key=os.fsencode)
    return Inputs(path, tuple(InputFile.of(file, _partitions(file, root)) for file in ordered), several=True)


def without_rows(inputs: Inputs) -> InputError:
    """Return the refusal of Parquet files that have columns alone."""
    subject = "the files have" if inputs.several else "the file has"
    return refusal(inputs.path, f"{subject} columns and no rows")


def _matching(pattern: Path) -> list[Path]:
    """Return the files that match, and those in the folders that match."""
    found: list[Path] = []
    root = _root(pattern)
    for name in glob.iglob(str(pattern), recursive=True):  # noqa: PTH207 - it takes a pattern with its root
        match = Path(name)
        if any(map(_is_skipped, match.relative_to(root).parts)):
            continue
        found += _files_in(match) if match.is_dir() else [match]
        _require_countable(pattern, len(found))
    return found


def _root(path: Path) -> Path:
    """Return the part of a path before the first pattern in it: partitions are named by what follows."""
    plain = list(path.parts)
    if not path.is_dir():
        magic = next(at for at, part in enumerate(plain) if glob.has_magic(part))
        plain = plain[:magic]
    return Path(*plain)


def _files_in(folder: Path) -> Iterator[Path]:
    """Yield every file in a folder and the folders in it."""
    waiting, count = [folder], 0
    while waiting:
        current = waiting.pop()
        with explaining_folder_errors(current), os.scandir(current) as entries:
            for entry in entries:
                if entry.name in _TABLES:
                    rule = "its files alone do not say which rows count: export it, or read it with Spark"
                    raise refusal(current, f"this is {_TABLES[entry.name]}; {rule}")
                if _is_skipped(entry.name):
                    continue
                path = current / entry.name
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(path)
                elif entry.is_dir():
                    raise refusal(path, "this is a link to a folder; inside a folder of ratings none is followed")
                else:
                    count += 1
                    _require_countable(folder, count)
                    yield path


def _is_skipped(name: str) -> bool:
    """Return whether Spark skips a name: those of marks, checksums and files still being written."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith((".crc", "._COPYING_"))


def _require_countable(path: Path, count: int) -> None:
    if count > _MOST_FILES:
        raise refusal(path, f"it names more than {_MOST_FILES:,} files, the most that are read together")


def _partitions(file: Path, root: Path) -> Beside:
    """Return what the folders between ``root`` and a file say: ``key=value``, written as Hive and Spark do.

    >>> dict(_partitions(Path("r/country=de/day=2024%2F1/p.parquet"), Path("r")))
    {'country': 'de', 'day': '2024/1'}
    """
    pairs = [part.partition("=") for part in file.relative_to(root).parts[:-1]]
    named = {unquote(key): unquote(value) for key, equals, value in pairs if key and equals}
    return {key: None if value == _NULL else value for key, value in named.items()}


@contextmanager
def explaining_folder_errors(folder: Path) -> Iterator[None]:
    """Turn what the system says about a folder into a refusal."""
    try:
        yield
    except InputError:
        raise
    except OSError as error:
        raise refusal(folder, f"the folder cannot be read: {error.strerror or error}") from error
