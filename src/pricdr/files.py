"""Writing files so that a reader never sees half of one: staged beside the target, then renamed."""

import errno
import os
import shlex
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from pricdr.errors import POSIX_ONLY, BusyError, InputError, InputFileError, OutputError, PriCDRError

try:
    import fcntl
except ImportError as error:
    raise ImportError(POSIX_ONLY) from error

PRIVATE = stat.S_IRUSR | stat.S_IWUSR
_REMOTE_SCHEMES: Final = frozenset(
    {
        "abfs",
        "abfss",
        "adl",
        "az",
        "ftp",
        "gcs",
        "gs",
        "hdfs",
        "http",
        "https",
        "s3",
        "s3a",
        "s3n",
        "sftp",
        "wasb",
        "wasbs",
    }
)
"""URL schemes of files on other machines."""
_staged: set[Path] = set()
"""The staging paths that this process is using now."""


def require_local(path: Path, error: type[PriCDRError] = InputError) -> None:
    """Refuse the address of a file on another machine, such as ``s3://bucket/ratings.csv``.

    A path has one slash where an address has two, so the error would otherwise be "no such file: s3:/bucket".

    >>> require_local(Path("s3://bucket/r"))
    Traceback (most recent call last):
    ...
    pricdr.errors.InputError: s3://bucket/r: s3:// is not supported, only files on this machine: copy it, or mount it
    """
    scheme, *rest = path.parts or ("",)
    if scheme[:-1].lower() in _REMOTE_SCHEMES and scheme.endswith(":") and not os.path.lexists(scheme):
        address = f"{scheme}//{'/'.join(rest)}"
        raise error(f"{address}: {scheme}// is not supported, only files on this machine: copy it, or mount it")


def require_absent(path: Path) -> None:
    """Refuse an output path that exists already, or is not on this machine."""
    require_local(path, OutputError)
    if path.name == "-":
        raise OutputError(f"{path} would be a file of that name: only --json writes to standard output")
    if os.path.lexists(path):
        raise OutputError(f"{path} exists already; choose another name or remove it first")


def require_writable(path: Path) -> None:
    """Refuse an output path that could not be written, as far as that can be checked in advance."""
    require_absent(path)
    nearest = next(folder for folder in path.absolute().parents if os.path.lexists(folder))
    if not nearest.is_dir():
        raise OutputError(f"cannot write {path}: {nearest} is not a folder")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise OutputError(f"cannot write {path}: {os.strerror(errno.EACCES)}")


def require_private_file(path: Path) -> None:
    """Refuse a file of secrets (a signing key, a TLS key, a list of API keys) that others can read or write, like ssh.

    A file of another owner was handed to us, by systemd or a container: a group may then be how we read it.
    """
    status = path.stat()
    mode = stat.S_IMODE(status.st_mode)
    ours = status.st_uid == os.geteuid()
    if stat.S_ISREG(status.st_mode) and mode & (0o077 if ours else 0o027):
        remedy = f"chmod {'600' if ours else '640'} {shlex.quote(str(path))}"
        raise InputFileError(
            str(path), f"mode {mode:04o} lets others read or write it, and it holds a secret: {remedy}"
        )


@contextmanager
def new_folder(path: Path, *, private: bool = False) -> Iterator[Path]:
    """Yield a staging folder that becomes ``path`` when the block succeeds, and is removed otherwise.

    A ``private`` folder holds ratings in plaintext: only its owner can read it and the files in it, from the start and
    whatever the umask. Other folders and files follow the umask.

    A process that is killed leaves at most the hidden staging folder, never a partial ``path``. The next run that
    writes the same output removes it. A lock shows whether its writer is still alive: process numbers do not, since
    every container has its own.
    """
    require_absent(path)
    missing = [folder for folder in (path.parent, *path.parent.parents) if not os.path.lexists(folder)]
    visible = False
    with _naming_output(path), _claim_staging(path) as staging, ExitStack() as held:
        try:
            _make_parent(path)
            _sweep(path)
            held.enter_context(_make_staging(staging, path, mode=0o700 if private else 0o777))
        except (BusyError, FileExistsError):  # another run was first
            discard(None, missing)
            raise
        except BaseException:
            discard(staging, missing)
            raise
        try:
            yield staging
            for written in sorted(staging.rglob("*")):
                if private and written.parent == staging and written.is_file():
                    take_mode(written)
                sync(written)
            sync(staging)
            require_absent(path)
            staging.rename(path)
            visible = True
            sync(path.parent)
        except BaseException:
            with suppress(OSError):
                if visible:
                    path.rename(staging)
            discard(staging, missing)
            raise


def take_mode(file: Path) -> None:
    """Give a file the mode of its folder, without execute bits: some libraries choose a mode of their own."""
    file.chmod(stat.S_IMODE(file.parent.stat().st_mode) & 0o666)


def write_new(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """Create ``path`` with ``content``, completely or not at all; never overwrite, even when two write at once."""
    with new_file(path, mode=mode) as file:
        file.write(content)


@contextmanager
def new_file(path: Path, *, mode: int = 0o644) -> Iterator[BinaryIO]:
    """Yield a file to write to, which becomes ``path`` when the block succeeds, and is removed otherwise."""
    require_absent(path)
    with _staged_file(path, mode) as (staging, file):
        yield file
        _flush(file)
        try:
            os.link(staging, path)  # unlike a rename, a link never replaces
        except FileExistsError:
            require_absent(path)
            raise
        except OSError:  # a file system without hard links
            staging.rename(path)


def replace_file(
    path: Path, content: bytes | Iterable[bytes | memoryview], *, mode: int = 0o644, keep: os.stat_result | None = None
) -> None:
    """Replace ``path`` by ``content`` (bytes, or chunks of bytes) atomically.

    With ``keep`` the new file gets this owner, group and mode.
    """
    with _staged_file(path, mode if keep is None else PRIVATE) as (staging, file):
        file.writelines([content] if isinstance(content, bytes) else content)
        _flush(file)
        if keep is not None:
            _copy_ownership(staging, keep)
        staging.rename(path)


def sync(path: Path) -> None:
    """Flush ``path`` (a file or a folder) to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _copy_ownership(path: Path, status: os.stat_result) -> None:
    """Give a file this owner, group and mode: mode last, since changing the owner clears some of its bits."""
    current = path.stat()
    if (current.st_uid, current.st_gid) != (status.st_uid, status.st_gid):
        os.chown(path, status.st_uid, status.st_gid)
    path.chmod(stat.S_IMODE(status.st_mode))


@contextmanager
def _staged_file(path: Path, mode: int) -> Iterator[tuple[Path, BinaryIO]]:
    """Yield a new open file beside ``path``, for the block to write and move there; remove it afterwards."""
    require_local(path, OutputError)
    with _naming_output(path), _claim_staging(path) as staging:
        _make_parent(path)
        _sweep(path)
        with os.fdopen(os.open(staging, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            try:
                _lock(file.fileno(), staging, path)
                yield staging, file
                sync(path.parent)
            finally:
                discard(staging)


def _flush(file: BinaryIO) -> None:
    """Flush everything that was written to the disk."""
    file.flush()
    os.fsync(file.fileno())


@contextmanager
def _make_staging(staging: Path, path: Path, *, mode: int) -> Iterator[None]:
    """Create the staging folder of ``path``, and hold its lock."""
    staging.mkdir(mode=mode)
    descriptor = os.open(staging, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        _lock(descriptor, staging, path)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, staging: Path, path: Path) -> None:
    """Lock a new staging path; raise :class:`BusyError` if a process with the same number took it for a left-over."""
    with suppress(OSError):  # a file system without locks: there the process number has to do
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise _busy(path) from error
    try:
        ours = os.path.samestat(os.fstat(descriptor), staging.lstat())
    except FileNotFoundError:
        ours = False
    if not ours:
        raise _busy(path)


def _busy(path: Path) -> BusyError:
    return BusyError(f"{path} is in use by another run: nothing was spent; try again when it has ended")


def is_held(staged: Path) -> bool:
    """Return whether a process holds the lock of a file or folder; False if it no longer exists."""
    return not _unless_held(staged, lambda: None)


def _removed_unless_held(staged: Path) -> bool:
    """Remove the staging path of a dead process; leave it and return False if its writer is alive."""
    return _unless_held(staged, lambda: _remove(staged))


def _unless_held(staged: Path, act: Callable[[], None]) -> bool:
    """Call ``act`` under the lock of a file or folder; return False, without calling it, if the lock is held."""
    try:
        descriptor = os.open(staged, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:  # gone, a link, or not readable for us: there is no lock to respect
        act()
        return True
    try:
        with suppress(OSError):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        act()
        return True
    finally:
        os.close(descriptor)


@contextmanager
def _claim_staging(path: Path) -> Iterator[Path]:
    """Yield the staging path of ``path`` in this process, for one writer at a time."""
    staging = path.parent / f".{path.name}.partial-{os.getpid()}"
    if staging in _staged:
        raise OutputError(f"{path} is being written by this process already")
    _staged.add(staging)
    try:
        # From an earlier process with the same number, as in containers, or from a living one in another container.
        if not _removed_unless_held(staging):
            raise _busy(path)
        yield staging
    finally:
        _staged.discard(staging)


def _make_parent(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from error


@contextmanager
def _naming_output(path: Path) -> Iterator[None]:
    """Turn a system error of a write into an :class:`OutputError` that names the output."""
    try:
        yield
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error


def _sweep(path: Path) -> None:
    """Remove the staging paths that dead processes left for ``path``."""
    with suppress(OSError):  # a folder that cannot be listed has nothing to sweep
        for stale in path.parent.iterdir():
            staged, _, owner = stale.name.rpartition("-")
            if staged == f".{path.name}.partial" and owner.isdecimal() and not _alive(int(owner)):
                _removed_unless_held(stale)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def discard(staging: Path | None, parents: Sequence[Path] = ()) -> None:
    """Remove a staging path and the folders made for it; an interrupt is raised only after that."""
    interrupt = None
    while True:
        try:
            if staging is not None:
                _remove(staging)
            for folder in parents:
                with suppress(OSError):  # not empty: something else uses it by now
                    folder.rmdir()
            break
        except (KeyboardInterrupt, SystemExit) as another:
            interrupt = another
    if interrupt is not None:
        raise interrupt


def _remove(staging: Path) -> None:
    if staging.is_dir() and not staging.is_symlink():
        shutil.rmtree(staging, ignore_errors=True)
    else:
        with suppress(OSError):
            staging.unlink(missing_ok=True)
