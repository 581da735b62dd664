"""Writing files so that a reader never sees half of one: stage beside the target, then rename."""

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pricdr.errors import OutputError

PRIVATE = stat.S_IRUSR | stat.S_IWUSR


def require_absent(path: Path) -> None:
    """Refuse an output path that is already taken."""
    if os.path.lexists(path):
        raise OutputError(f"{path} exists already; choose another --out or remove it first")


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a staging folder that becomes ``path`` when the block ends well, and vanishes otherwise.

    A process killed outright leaves at most the hidden staging folder, never a partial ``path``; the next run that
    writes the same output sweeps it away.
    """
    require_absent(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _sweep(path)
        staging = path.parent / f".{path.name}.partial-{os.getpid()}"
        staging.mkdir()
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from error
    try:
        yield staging
        for written in sorted(staging.iterdir()):
            sync(written)
        sync(staging)
        require_absent(path)
        staging.rename(path)
        sync(path.parent)
    except BaseException as error:
        shutil.rmtree(staging, ignore_errors=True)
        if isinstance(error, OSError) and not isinstance(error, OutputError):
            raise OutputError(f"cannot write {path}: {error.strerror or error}") from error
        raise


def write_new(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """Create ``path`` with ``content``, whole or not at all; refuse to overwrite."""
    require_absent(path)
    replace_file(path, content, mode=mode)


def replace_file(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """Put ``content`` at ``path`` in one step, over whatever is there."""
    staging = path.with_name(f".{path.name}.partial-{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(staging, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        staging.rename(path)
        sync(path.parent)
    except OSError as error:
        with suppress(OSError):
            staging.unlink(missing_ok=True)
        raise OutputError(f"cannot write {path}: {error.strerror}") from error


def sync(path: Path) -> None:
    """Ask the disk to have ``path`` (a file or a folder) for good."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sweep(path: Path) -> None:
    """Remove staging folders of ``path`` whose process is gone."""
    for stale in path.parent.iterdir():
        staged, _, owner = stale.name.rpartition("-")
        if staged == f".{path.name}.partial" and owner.isdigit() and not _alive(int(owner)):
            shutil.rmtree(stale, ignore_errors=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
