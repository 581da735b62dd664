"""A private folder for what does not fit into memory. It holds ratings in plaintext while the work goes on."""

import errno
import fcntl
import mmap
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pricdr.errors import DiskSpaceError, OutputError
from pricdr.files import PRIVATE, require_local
from pricdr.memory import in_words

_NAME: Final = ".pricdr-sort-"
_UNFINISHED: Final = ".pricdr-new-"
"""What a folder is called until its owner holds the lock: nobody may sweep it away before."""


class Workspace:
    """A folder of mode 0700 that is locked while its owner lives, and removed at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    @contextmanager
    def opened(cls, parent: Path) -> Iterator["Workspace"]:
        """Yield a new workspace inside ``parent``; what killed processes left there is removed first.

        The lock tells a living owner from a dead one. A process number would not: in a container every run may have
        the same one.
        """
        require_local(parent, OutputError)
        try:
            sweep(parent)
            made, lock = _made_and_locked(parent)
            folder = made.rename(made.with_name(made.name.replace(_UNFINISHED, _NAME)))
        except OSError as error:
            fault = error.strerror or error
            raise OutputError(f"cannot sort in {parent}: {fault} (choose another --temp-dir)") from error
        try:
            yield cls(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)

    def column(self, name: str, dtype: npt.DTypeLike) -> "ColumnFile":
        """Return a new, empty file of numbers."""
        with self.explained():
            return ColumnFile(self, self.folder / name, np.dtype(dtype))

    def array(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return an array that a file of this folder backs, so that it takes no anonymous memory.

        The file has no name any more: it is gone with the array, also after a kill. Its space is taken at once, since
        a write to a mapping of a full disk would end the process.
        """
        kind = np.dtype(dtype)
        size = max(1, int(np.prod(shape)) * kind.itemsize)
        with self.explained(), tempfile.TemporaryFile(dir=self.folder) as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
            else:  # macOS
                os.truncate(file.fileno(), size)
            mapped = mmap.mmap(file.fileno(), size)
        return np.frombuffer(mapped, dtype=kind, count=int(np.prod(shape))).reshape(shape)

    def require_space(self, need: int, what: str) -> None:
        """Refuse work for which this disk has too little room left."""
        free = shutil.disk_usage(self.folder).free
        if need > free:
            raise DiskSpaceError(
                f"{what} needs about {in_words(need)} on the disk of {self.folder.parent}, {in_words(free)} are free: "
                "choose another disk with --temp-dir"
            )

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn what the system says about a file of this folder into an error that names the folder."""
        try:
            yield
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            hint = ": choose another disk with --temp-dir" if full else ""
            raise OutputError(f"cannot sort in {self.folder.parent}: {error.strerror or error}{hint}") from error


class ColumnFile:
    """Numbers of one kind in a file: appended or written at a position, and read back by position.

    Read and written by system calls, not by a mapping: pages of a mapping would count as memory of the process.
    """

    def __init__(self, workspace: Workspace, path: Path, dtype: "np.dtype[Any]") -> None:
        self._workspace, self._path, self._dtype = workspace, path, dtype
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def append(self, numbers: npt.NDArray[Any]) -> None:
        """Write numbers after the last."""
        self.write(self._length, numbers)
        self._length += len(numbers)

    def write(self, position: int, numbers: npt.NDArray[Any]) -> None:
        """Write numbers from ``position`` on."""
        left = np.ascontiguousarray(numbers, dtype=self._dtype).view(np.uint8).data
        offset = position * self._dtype.itemsize
        with self._workspace.explained():
            while left:
                written = os.pwrite(self._descriptor, left, offset)
                left, offset = left[written:], offset + written

    def read(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Return the numbers from ``start`` up to ``stop``."""
        numbers = np.empty(stop - start, dtype=self._dtype)
        left, offset = numbers.view(np.uint8).data, start * self._dtype.itemsize
        with self._workspace.explained():
            while left:
                got = os.preadv(self._descriptor, [left], offset)
                if not got:
                    raise OSError(errno.EIO, f"{self._path.name} is shorter than what was written to it")
                left, offset = left[got:], offset + got
        return numbers

    def delete(self) -> None:
        """Give the space back."""
        os.close(self._descriptor)
        self._path.unlink(missing_ok=True)


def _made_and_locked(parent: Path) -> tuple[Path, int]:
    """Return a new folder and a descriptor that holds its lock."""
    while True:
        made = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=parent))  # mode 0700
        # Until it is locked, another run may take it for a left-over: then there is another one.
        with suppress(FileNotFoundError):
            lock = os.open(made, os.O_RDONLY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)  # a sweep holds it for a moment, and nobody else can open it
                made.lstat()
            except BaseException:
                os.close(lock)
                raise
            return made, lock


def sweep(parent: Path) -> None:
    """Remove the workspaces in ``parent`` whose owners are gone; only those of this user, and never through a link."""
    for left in [*parent.glob(f"{_NAME}*"), *parent.glob(f"{_UNFINISHED}*")]:
        with suppress(OSError):  # somebody else's, or swept by another process at the same time
            descriptor = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(descriptor).st_uid == os.geteuid():
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if left.name.startswith(_NAME):
                        shutil.rmtree(left, ignore_errors=True)
                    else:
                        left.rmdir()  # still empty: files come after the lock
            finally:
                os.close(descriptor)
