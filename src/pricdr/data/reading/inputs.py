"""Find the files that the user names as ratings: one file, a folder, a pattern, or standard input."""

import glob
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import unquote

from pricdr.data.reading.text_files import STANDARD_INPUT, explaining_os_errors, file_refusal, named
from pricdr.errors import InputError, InputFileError
from pricdr.files import require_local

AnyPath: TypeAlias = str | os.PathLike[str]
_MOST_FILES: Final = 100_000
_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
"""The name that Hive and Spark give the partition of rows without a value."""
_TABLES: Final = {"_delta_log": "a Delta table", ".hoodie": "a Hudi table"}
"""Tables whose own log says which files count, and which hold rows that were deleted or replaced."""


@dataclass(frozen=True)
class _State:
    """Facts that change when somebody writes to a file or replaces it."""

    device: int
    inode: int
    size: int
    modified: int

    @classmethod
    def of(cls, status: os.stat_result) -> "_State":
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


@dataclass(frozen=True)
class InputFile:
    """One file of ratings, and its state when it was found."""

    path: Path
    partitions: Mapping[str, str | None]
    """The columns that its folders name (``country=de``), and their values."""
    state: _State | None
    """None for anything but a regular file, such as standard input: changes to it cannot be noticed."""

    @property
    def size(self) -> int | None:
        """Return its size in bytes; None where that is not known."""
        return None if self.state is None else self.state.size

    @classmethod
    def of(cls, path: Path, partitions: Mapping[str, str | None] | None = None) -> "InputFile":
        """Return the file at ``path`` as it is now."""
        partitions = partitions or {}
        if path == STANDARD_INPUT:
            return cls(path, partitions, None)
        with explaining_os_errors(path):
            status = path.stat()
            if stat.S_ISREG(status.st_mode):  # opening a pipe would take it from its reader
                path.open("rb").close()
        return cls(path, partitions, _State.of(status) if stat.S_ISREG(status.st_mode) else None)

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Refuse the file if it has changed since it was found, before the block or after it."""
        self._require_unchanged()
        yield
        self._require_unchanged()

    def _require_unchanged(self) -> None:
        if self.state is not None and InputFile.of(self.path).state != self.state:
            raise file_refusal(self.path, "the file changed while it was read; read it when nobody writes to it")


@dataclass(frozen=True)
class Inputs:
    """All files that the user named together, in the order of their names."""

    path: Path
    """As the user wrote it."""
    files: tuple[InputFile, ...]
    several: bool
    """Whether a folder or a pattern was named, so that messages must tell files apart."""

    @property
    def size(self) -> int | None:
        """Return the size of all files in bytes; None where that is not known."""
        sizes = [file.size for file in self.files]
        return None if None in sizes else sum(size for size in sizes if size is not None)


def find_inputs(path: Path) -> Inputs:
    """Return the files that ``path`` names: a file, all files in a folder, those that match a pattern, or ``-``.

    In a folder, names that begin with a dot or an underscore are skipped, as Spark does. A path that exists is not a
    pattern, whatever characters are in it.
    """
    require_local(path)
    pattern = glob.has_magic(str(path)) and not os.path.lexists(path)
    if not pattern and not _is_folder(path):
        return Inputs(path, (InputFile.of(path),), several=False)
    with naming_in_logs(path):
        files = _matching(path) if pattern else list(_files_in(path))
        root = _root(path)
        ordered = sorted(set(files), key=os.fsencode)
        inputs = tuple(InputFile.of(file, _partitions(file, root)) for file in ordered)
    if not inputs:
        fault = "no such file, and as a pattern it matches none" if pattern else "the folder holds no file of ratings"
        raise file_refusal(path, fault)
    return Inputs(path, inputs, several=True)


@contextmanager
def naming_in_logs(path: Path, *, several: bool = True) -> Iterator[None]:
    """Let logs name only ``path``, which the user wrote, where ``several`` files were found there.

    The name of a file that was found may be an id: folders are named after the values of a column (``user=alice``).
    """
    try:
        yield
    except InputFileError as error:
        if several:
            error.log_as(f"in {named(path)}")
        raise


def without_rows(inputs: Inputs) -> InputError:
    """Return the refusal of Parquet files that have columns and no rows."""
    subject = "the files have" if inputs.several else "the file has"
    return file_refusal(inputs.path, f"{subject} columns and no rows")


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError as error:  # a parent that may not be searched, or a name that is too long
        raise file_refusal(path, f"cannot be read: {error.strerror}") from error


def _matching(pattern: Path) -> list[Path]:
    """Return the files that match, and those in the folders that match."""
    files: list[Path] = []
    root = _root(pattern)
    for name in glob.iglob(str(pattern), recursive=True):  # noqa: PTH207 - it takes a pattern with its root
        match = Path(name)
        below = match.relative_to(root).parts
        if any(map(_is_skipped, below)):
            continue
        for found in (match, *match.parents)[: len(below)]:
            if found.is_symlink():
                raise _link_refused(found)
        files += _files_in(match) if _is_folder(match) else [match]
        _require_countable(pattern, len(files))
    return files


def _root(path: Path) -> Path:
    """Return the part of a path before the first pattern in it: the folders after it name partitions."""
    parts = list(path.parts)
    if not path.is_dir():
        magic = next(at for at, part in enumerate(parts) if glob.has_magic(part))
        parts = parts[:magic]
    return Path(*parts)


def _files_in(folder: Path) -> Iterator[Path]:
    """Yield every file in a folder and its subfolders."""
    folders, count = [folder], 0
    while folders:
        current = folders.pop()
        with explaining_folder_errors(current), os.scandir(current) as entries:
            for entry in entries:
                if entry.name in _TABLES:
                    rule = "its files alone do not say which rows count: export it, or read it with Spark"
                    raise file_refusal(current, f"this is {_TABLES[entry.name]}; {rule}")
                if _is_skipped(entry.name):
                    continue
                path = current / entry.name
                if entry.is_symlink():
                    raise _link_refused(path)
                if entry.is_dir():
                    folders.append(path)
                else:
                    count += 1
                    _require_countable(folder, count)
                    yield path


def _link_refused(path: Path) -> InputFileError:
    """Return the refusal of a link that nobody named: whoever can add one to a folder could have any file published."""
    return file_refusal(path, "this is a link, and inside a folder of ratings no link is followed")


def _is_skipped(name: str) -> bool:
    """Return whether Spark skips a name: markers, checksums, and files that are still being written."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith((".crc", "._COPYING_"))


def _require_countable(path: Path, count: int) -> None:
    if count > _MOST_FILES:
        raise file_refusal(path, f"it names more than {_MOST_FILES:,} files, the most that are read together")


def _partitions(file: Path, root: Path) -> dict[str, str | None]:
    """Return the columns that folders between ``root`` and a file name: ``key=value``, as Hive and Spark write them.

    >>> dict(_partitions(Path("r/country=de/day=2024%2F1/p.parquet"), Path("r")))
    {'country': 'de', 'day': '2024/1'}
    """
    pairs = [part.partition("=") for part in file.relative_to(root).parts[:-1]]
    columns = {unquote(key): unquote(value) for key, equals, value in pairs if key and equals}
    return {key: None if value == _NULL else value for key, value in columns.items()}


@contextmanager
def explaining_folder_errors(folder: Path) -> Iterator[None]:
    """Turn an error of the system about a folder into a refusal."""
    try:
        yield
    except InputError:
        raise
    except OSError as error:
        raise file_refusal(folder, f"the folder cannot be read: {error.strerror or error}") from error
