"""Folders and files from outside: opened once, never through a link, and read once up to a limit.

What is hashed and what is parsed are then the same bytes, whatever somebody does to the folder meanwhile.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pricdr.errors import InputError, PriCDRError, printable

LARGEST_EXPANSION: Final = 200
"""How many times its own size data may unpack to, once past ``EXPANSION_FROM`` bytes; gzip reaches 1032."""
EXPANSION_FROM: Final = 64 << 20


class Folder:
    """An open folder. Its files are found through the open folder, not through its name."""

    def __init__(self, path: Path, descriptor: int, error: type[PriCDRError]) -> None:
        self.path = path
        self._descriptor = descriptor
        self._error = error

    @classmethod
    @contextmanager
    def opened(cls, path: Path, what: str, *, error: type[PriCDRError] = InputError) -> Iterator["Folder"]:
        """Open ``path``, which should be ``what``; what is wrong with a file in it is raised as ``error``."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except NotADirectoryError as refused:
            raise InputError(f"{path} is not {what}: it is a file") from refused
        except FileNotFoundError as refused:
            raise InputError(f"{path} is not {what}: no such folder") from refused
        except (OSError, ValueError) as refused:  # ValueError: a path with a NUL in it
            raise InputError(f"{path} cannot be opened: {getattr(refused, 'strerror', None) or refused}") from refused
        try:
            yield cls(path, descriptor, error)
        finally:
            os.close(descriptor)

    def holds(self, name: str) -> bool:
        """Whether there is anything called ``name`` in it."""
        try:
            os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)
        except OSError:
            return False
        return True

    def require_only(self, *allowed: str) -> None:
        """Refuse a folder in which anything else lies."""
        with os.scandir(self._descriptor) as entries:
            for entry in entries:
                if entry.name not in allowed:
                    shown = printable(entry.name[:60])
                    raise self._error(f"'{shown}' does not belong into {self.path}: nothing accounts for it")

    @contextmanager
    def file(self, name: str, *, limit: int) -> Iterator[int]:
        """A descriptor of a regular file of at most ``limit`` bytes."""
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=self._descriptor)
        except FileNotFoundError as refused:
            raise self._error(f"{self.path / name} is missing") from refused
        except OSError as refused:
            reason = "it is a link" if self._is_link(name) else refused.strerror
            raise self._error(f"{self.path / name} cannot be read: {reason}") from refused
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise self._error(f"{self.path / name} is no file")
            if found.st_size > limit:
                raise self._error(f"{self.path / name} has {found.st_size:,} bytes, {limit:,} are allowed")
            yield descriptor
        finally:
            os.close(descriptor)

    def read(self, name: str, *, limit: int) -> bytes:
        """All of a file, read once."""
        with self.file(name, limit=limit) as descriptor:
            content = read_all(descriptor, limit + 1)
        if len(content) > limit:
            raise self._error(f"{self.path / name} has grown beyond {limit:,} bytes while it was read")
        return content

    def _is_link(self, name: str) -> bool:
        try:
            return stat.S_ISLNK(os.stat(name, dir_fd=self._descriptor, follow_symlinks=False).st_mode)
        except OSError:
            return False


def read_all(descriptor: int, limit: int) -> bytes:
    """What is left of an open file, up to ``limit`` bytes."""
    blocks, left = [], limit
    while left and (block := os.read(descriptor, min(left, 1 << 20))):
        blocks.append(block)
        left -= len(block)
    return b"".join(blocks)
