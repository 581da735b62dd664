"""Folders and files from outside: opened and read once, up to a limit: what is hashed and parsed are the same bytes."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pricdr.errors import InputError, PriCDRError, printable
from pricdr.files import require_local


class Folder:
    """An open folder. Its files are opened relative to its descriptor, never by a link: renaming changes nothing."""

    def __init__(self, path: Path, descriptor: int, error: type[PriCDRError]) -> None:
        self.path = path
        self._descriptor = descriptor
        self._error = error

    @classmethod
    @contextmanager
    def opened(cls, path: Path, what: str, *, error: type[PriCDRError] = InputError) -> Iterator["Folder"]:
        """Open ``path``, which should be ``what``; faults of the files in it are raised as ``error``."""
        require_local(path)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except NotADirectoryError as refused:
            raise InputError(f"{path} is not {what}: it is not a folder") from refused
        except FileNotFoundError as refused:
            raise InputError(f"{path} is not {what}: no such folder") from refused
        except (OSError, ValueError) as refused:  # ValueError: a path with a NUL in it
            raise InputError(f"{path} cannot be opened: {getattr(refused, 'strerror', None) or refused}") from refused
        try:
            yield cls(path, descriptor, error)
        finally:
            os.close(descriptor)

    def holds(self, name: str) -> bool:
        """Return whether there is anything called ``name`` in it."""
        return self._mode(name) != 0

    def is_link(self, name: str) -> bool:
        """Return whether ``name`` is a symbolic link."""
        return stat.S_ISLNK(self._mode(name))

    def _mode(self, name: str) -> int:
        try:
            return os.stat(name, dir_fd=self._descriptor, follow_symlinks=False).st_mode
        except OSError:
            return 0

    def names(self, *, ending: str, limit: int) -> list[str]:
        """Return the names in it that end so, sorted; refuse more than ``limit`` entries of any name."""
        found = []
        with os.scandir(self._descriptor) as entries:
            for count, entry in enumerate(entries, 1):
                if count > limit:
                    raise self._error(f"{self.path} holds more than {limit:,} entries, the most that are looked at")
                if entry.name.endswith(ending) and not entry.name.startswith("."):  # a dot: still being written
                    found.append(entry.name)
        return sorted(found)

    def require_only(self, *allowed: str) -> None:
        """Refuse a folder that holds anything else."""
        with os.scandir(self._descriptor) as entries:
            for entry in entries:
                if entry.name not in allowed:
                    raise self._error(f"'{printable(entry.name[:60])}' does not belong in {self.path}")

    @contextmanager
    def file(self, name: str, *, limit: int) -> Iterator[int]:
        """Open a regular file of at most ``limit`` bytes and yield its descriptor."""
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=self._descriptor)
        except FileNotFoundError as refused:
            raise self._error(f"{self.path / name} is missing") from refused
        except OSError as refused:
            reason = "it is a link" if self.is_link(name) else refused.strerror
            raise self._error(f"{self.path / name} cannot be read: {reason}") from refused
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise self._error(f"{self.path / name} is not a regular file")
            if status.st_size > limit:
                raise self._error(f"{self.path / name} has {status.st_size:,} bytes; at most {limit:,} are allowed")
            yield descriptor
        finally:
            os.close(descriptor)

    def read(self, name: str, *, limit: int) -> bytes:
        """Return all of a file, read once."""
        with self.file(name, limit=limit) as descriptor:
            content = read_all(descriptor, limit + 1)
        if len(content) > limit:
            raise self._error(f"{self.path / name} grew beyond {limit:,} bytes while it was being read")
        return content


def read_bounded(path: Path, *, limit: int) -> bytes:
    """Return the content of a file that the user named, a link or a pipe too; refuse one of over ``limit`` bytes."""
    require_local(path)
    with path.open("rb") as file:  # an error of the system is raised as it is: the caller knows what the file is for
        content = file.read(limit + 1)
    if len(content) > limit:
        raise InputError(f"{path} has more than {limit:,} bytes, the most that is read")
    return content


def read_all(descriptor: int, limit: int) -> bytes:
    """Return what is left of an open file, up to ``limit`` bytes."""
    blocks, left = [], limit
    # A file in one piece, as a rule: to join many takes as much memory again. A pipe has no size.
    size = max(1 << 20, os.fstat(descriptor).st_size)
    while left and (block := os.read(descriptor, min(left, size))):
        blocks.append(block)
        left -= len(block)
    return b"".join(blocks)
