"""Writing files so that a reader never sees half of one: staged beside the target, then renamed."""

import errno
import glob
import hashlib
import os
import re
import shlex
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from pricdr.errors import POSIX_ONLY, BusyError, InputError, InputFileError, OutputError, PriCDRError

try:
    import fcntl
except ImportError as error:
    raise ImportError(POSIX_ONLY) from error

PRIVATE = stat.S_IRUSR | stat.S_IWUSR
_REMOTE: Final = re.compile("abfss?|adl|az|ftp|gcs|gs|hdfs|https?|s3[an]?|sftp|wasbs?", re.IGNORECASE)
_in_use: set[Path] = set()  # the staging paths that this process is using now


def require_local(path: Path, error: type[PriCDRError] = InputError) -> None:
    """Refuse the address of a file on another machine; else the error would be "no such file: s3:/bucket"."""
    scheme, *rest = path.parts or ("",)
    if scheme.endswith(":") and _REMOTE.fullmatch(scheme[:-1]) and not os.path.lexists(scheme):
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
        fault = f"mode {mode:04o} lets others read or write it, and it holds a secret: {remedy}"
        raise InputFileError(str(path), fault)


@contextmanager
def new_folder(path: Path, *, private: bool = False) -> Iterator[Path]:
    """Yield a staging folder that becomes ``path`` when the block succeeds, and is removed otherwise.

    A ``private`` folder holds ratings in plaintext: only its owner can read it and the files in it, from the start and
    whatever the umask. A process that is killed leaves at most the hidden staging folder, never a partial ``path``; the
    next run that writes the same output removes it. A lock shows whether its writer is alive: process numbers do not,
    since every container has its own.
    """
    require_absent(path)
    visible = False
    with _staged(path, 0o700 if private else 0o777, folder=True) as (staging, _):
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
    with _staged(path, mode) as (staging, descriptor), os.fdopen(descriptor, "wb", closefd=False) as file:
        yield file
        file.flush()
        os.fsync(descriptor)
        try:
            os.link(staging, path)  # unlike a rename, a link never replaces
        except FileExistsError:
            require_absent(path)
            raise
        except OSError:  # a file system without hard links
            staging.rename(path)
        else:
            staging.unlink()
        sync(path.parent)


def replace_file(
    path: Path, content: bytes | Iterable[bytes | memoryview], *, mode: int = 0o644, keep: os.stat_result | None = None
) -> None:
    """Replace ``path`` by ``content`` atomically; with ``keep`` the new file gets this owner, group and mode."""
    require_local(path, OutputError)
    private = mode if keep is None else PRIVATE
    with _staged(path, private) as (staging, descriptor), os.fdopen(descriptor, "wb", closefd=False) as file:
        file.writelines([content] if isinstance(content, bytes) else content)
        file.flush()
        os.fsync(descriptor)
        if keep is not None:  # the mode last, since changing the owner clears some of its bits
            if (keep.st_uid, keep.st_gid) != (os.fstat(descriptor).st_uid, os.fstat(descriptor).st_gid):
                os.chown(staging, keep.st_uid, keep.st_gid)
            staging.chmod(stat.S_IMODE(keep.st_mode))
        staging.rename(path)
        sync(path.parent)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, read in pieces: it may be larger than memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Flush ``path`` (a file or a folder) to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _staged(path: Path, mode: int, *, folder: bool = False) -> Iterator[tuple[Path, int]]:
    """Yield a new file or folder beside ``path`` and its descriptor, for the block to fill and to move there.

    Where that fails, nothing is left of it, nor of the parent folders made for it, and a system error names the output.
    What dead processes left for the same ``path`` is removed first.
    """
    staging = path.parent / f".{path.name}.partial-{os.getpid()}"
    if staging in _in_use:
        raise OutputError(f"{path} is being written by this process already")
    _in_use.add(staging)
    missing = [parent for parent in path.parents if not os.path.lexists(parent)]
    ours = descriptor = None
    try:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except FileExistsError as error:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from error
        for left in {staging, *path.parent.glob(f".{glob.escape(path.name)}.partial-*")}:
            # Its name may be ours: from a dead process with our number, or a living one in another container.
            if left == staging or _is_dead(left.name.removeprefix(f".{path.name}.partial-")):
                with _locked(left) as free:
                    if free:
                        discard(left)
                    elif left == staging:
                        raise _busy(path)
        ours = staging
        descriptor = _create_locked(staging, mode, folder=folder)
        if descriptor is None:
            ours = None
            raise _busy(path)
        yield staging, descriptor
    except BaseException as error:
        discard(ours, missing)
        if isinstance(error, OSError) and not isinstance(error, OutputError):
            raise OutputError(f"cannot write {path}: {error.strerror or error}") from error
        raise
    finally:
        if descriptor is not None:
            os.close(descriptor)
        _in_use.discard(staging)


def _create_locked(staging: Path, mode: int, *, folder: bool) -> int | None:
    """Create a staging file or folder and return its descriptor, which holds its lock; None if another was faster."""
    try:
        if folder:
            staging.mkdir(mode=mode)
            descriptor = os.open(staging, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        else:
            descriptor = os.open(staging, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        return None
    with suppress(FileNotFoundError):
        if _lock(descriptor) and os.path.samestat(os.fstat(descriptor), staging.lstat()):
            return descriptor
    os.close(descriptor)
    return None


def _lock(descriptor: int) -> bool:
    """Take the lock of an open file or folder; False if another process has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: there the process number has to do
        pass
    return True


@contextmanager
def _locked(staged: Path) -> Iterator[bool]:
    """Hold the lock of a file or folder, if no process has it, and yield whether that is so."""
    try:
        descriptor = os.open(staged, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:  # gone, a link, or not readable for us: there is no lock to respect
        yield True
        return
    try:
        yield _lock(descriptor)
    finally:
        os.close(descriptor)


def require_only_writer(staging: Path, path: Path) -> None:
    """Refuse an output that another run is staging; ``staging`` is ours. Of two at the same instant both may lose."""
    for other in path.parent.glob(f".{glob.escape(path.name)}.partial-*"):
        if other != staging:
            with _locked(other) as free:
                if not free:
                    raise _busy(path, other.name.rpartition("-")[2])


@contextmanager
def only_run(file: Path, outcome: str = "nothing was spent") -> Iterator[None]:
    """Allow one run at a time with a ledger or a state; :class:`BusyError`, with this outcome, where another has it.

    So a run that a timer starts while the last one is working does not spend on the same week twice. The lock is a
    hidden file beside it, since every change replaces the file itself; the system releases it when a process dies.
    """
    file = file.resolve()  # one lock, by whatever name the file is given
    if not file.name:
        raise OutputError(f"cannot lock {file}: this is a folder, a file is needed")
    lock = file.with_name(f".{file.name}.lock")
    descriptor = _acquired(lock, file, outcome)
    try:
        yield
    finally:
        try:
            discard(lock)  # while the lock is held: afterwards the file may be another run's
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # closing is not enough: a forked child has the descriptor too
            os.close(descriptor)


def _acquired(lock: Path, file: Path, outcome: str) -> int:
    while True:
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, PRIVATE)
        except OSError as error:
            raise OutputError(f"cannot lock {file}: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), lock.stat()):
                with suppress(OSError):  # a full disk: the lock holds without our process number in it
                    os.ftruncate(descriptor, 0)
                    os.write(descriptor, f"{os.getpid()}\n".encode())
                return descriptor
        except BlockingIOError as error:
            holder = os.read(descriptor, 20).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise _busy(file, holder, outcome) from error
        except FileNotFoundError:
            pass  # the run before this one has just ended and removed its file
        except OSError as error:
            os.close(descriptor)
            raise OutputError(f"cannot lock {file}: {error.strerror}") from error
        os.close(descriptor)


def _busy(path: Path, holder: str = "", outcome: str = "nothing was spent") -> BusyError:
    who = f"another run (process {holder})" if holder.isdecimal() else "another run"
    return BusyError(f"{path} is in use by {who}: {outcome}; try again when it has ended")


def _is_dead(number: str) -> bool:
    """Return whether this is the number of a process that does not run."""
    try:
        if number.isdecimal():
            os.kill(int(number), 0)
    except PermissionError:
        return False
    except (ProcessLookupError, OverflowError):
        return True
    return False


def discard(staging: Path | None, parents: Sequence[Path] = ()) -> None:
    """Remove a staging path and the folders made for it; an interrupt is raised only after that."""
    interrupt = None
    while True:
        try:
            if staging is not None and staging.is_dir() and not staging.is_symlink():
                shutil.rmtree(staging, ignore_errors=True)
            elif staging is not None:
                with suppress(OSError):
                    staging.unlink(missing_ok=True)
            for folder in parents:
                with suppress(OSError):  # not empty: something else uses it by now
                    folder.rmdir()
            break
        except (KeyboardInterrupt, SystemExit) as another:
            interrupt = another
    if interrupt is not None:
        raise interrupt
