"""A private folder for data that do not fit into memory. It holds ratings in plaintext until the run ends."""

import errno
import fcntl
import math
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
from pricdr.files import require_local
from pricdr.memory import format_bytes

_NAME: Final = ".pricdr-sort-"
_HINT: Final = "choose another disk with temp-dir in --config"


class Workspace:
    """A folder with mode 0700 that is locked while its owner is alive, and removed at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    @contextmanager
    def opened(cls, parent: Path) -> Iterator["Workspace"]:
        """Yield a new workspace inside ``parent``, after removing those that killed processes left there.

        The lock shows whether the owner is alive; in a container every run may have the same process number.
        """
        require_local(parent, OutputError)
        try:
            sweep(parent)
            folder, lock = _create_locked(parent)
        except OSError as error:
            reason = error.strerror or error
            raise OutputError(f"cannot sort in {parent}: {reason} (choose another temp-dir in --config)") from error
        try:
            yield cls(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)

    def array(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return an array that is mapped to a file in this folder, so that it takes no anonymous memory.

        The file has no name: it disappears with the array. Its space is allocated at once: later a full disk kills.
        """
        with self.explained(), tempfile.TemporaryFile(dir=self.folder) as file:
            if hasattr(os, "posix_fallocate"):  # macOS has none
                os.posix_fallocate(file.fileno(), 0, max(1, math.prod(shape) * np.dtype(dtype).itemsize))
            return np.memmap(file, dtype, "r+", shape=shape).view(np.ndarray)

    def require_space(self, need: int, what: str) -> None:
        """Refuse work that needs more room than is free on this disk."""
        free = shutil.disk_usage(self.folder).free
        if need > free:
            fault = f"{what} needs about {format_bytes(need)} on the disk of {self.folder.parent}"
            raise DiskSpaceError(f"{fault}, {format_bytes(free)} are free: {_HINT}")

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn an error of the system about a file in this folder into one that names the folder."""
        try:
            yield
        except OSError as error:
            hint = f": {_HINT}" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
            raise OutputError(f"cannot sort in {self.folder.parent}: {error.strerror or error}{hint}") from error


def _create_locked(parent: Path) -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_NAME, dir=parent))  # mode 0700
        # Empty and not yet locked, it is a leftover to a sweep of another run: then create the next one.
        with suppress(FileNotFoundError):
            lock = os.open(folder, os.O_RDONLY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)  # waits only for a sweep, which holds it briefly
                folder.lstat()
            except BaseException:
                os.close(lock)
                raise
            return folder, lock


def sweep(parent: Path) -> None:
    """Remove the workspaces in ``parent`` whose owners are dead: only this user's own, and never through a link."""
    for leftover in parent.glob(f"{_NAME}*"):
        with suppress(OSError):  # locked, another user's, or swept by another process at the same time
            descriptor = os.open(leftover, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(descriptor).st_uid == os.geteuid():
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(leftover, ignore_errors=True)
            finally:
                os.close(descriptor)
