"""What the user names as ratings: one file, a folder, a pattern, standard input, or a query and its database."""

import glob
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import unquote

from pricdr.data.reading.text_files import STANDARD_INPUT, explaining_os_errors, file_refusal, named, shorten
from pricdr.errors import InputFileError, ParameterError
from pricdr.files import require_local

AnyPath: TypeAlias = str | os.PathLike[str]
_MAX_FILES: Final = 100_000
_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
"""The name that Hive and Spark give the partition of rows without a value."""
_TABLES: Final = {"_delta_log": "a Delta table", ".hoodie": "a Hudi table"}
"""Tables whose own log says which files count, and which hold rows that were deleted or replaced."""
_ENVIRONMENT: Final = "env:"
_SERVERS: Final = ("postgresql", "postgres")
_FILE: Final = "sqlite:///"
"""How the address of a SQLite file starts; a fourth slash makes its path absolute."""
_ADDRESS: Final = re.compile(
    r"(?P<scheme>[a-z]+)://((?P<user>[^:@/?#\s]*)(:(?P<password>[^@/?#\s]*))?@)?[^@/?#\s]*(/[^@/?#\s]*)?"
    r"(\?(?P<options>[^#\s]*))?"
)
"""Stricter than drivers are: they would take part of an unescaped password for a port, and quote it."""
_SECRET_OPTIONS: Final = ("password", "sslpassword")
_MAX_REASON_LENGTH: Final = 300


@dataclass(frozen=True)
class InputFile:
    """One file of ratings, and its state when it was found."""

    path: Path
    partition_values: Mapping[str, str | None]
    """The columns that its folders name (``country=de``), and their values."""
    size: int | None
    """None for anything but a regular file, such as standard input: changes to it cannot be noticed."""
    state: tuple[int, ...] | None
    """Facts that change when somebody writes to the file or replaces it."""

    @classmethod
    def of(cls, path: Path, partition_values: Mapping[str, str | None] | None = None) -> "InputFile":
        """Return the file at ``path`` as it is now."""
        size = state = None
        if path != STANDARD_INPUT:
            with explaining_os_errors(path):
                now = path.stat()
                if stat.S_ISREG(now.st_mode):  # opening a pipe would take it from its reader
                    path.open("rb").close()
                    size, state = now.st_size, (now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns)
        return cls(path, partition_values or {}, size, state)

    def require_unchanged(self) -> None:
        """Refuse the file if it has changed since it was found."""
        if self.state is not None and InputFile.of(self.path).state != self.state:
            raise file_refusal(self.path, "the file changed while it was read; read it when nobody writes to it")


@dataclass(frozen=True)
class InputFiles:
    """All files that the user named together, in the order of their names."""

    path: Path
    files: tuple[InputFile, ...]
    several: bool
    """Whether a folder or a pattern was named, so that messages must tell files apart."""

    @property
    def size(self) -> int | None:
        """The size of all files in bytes; None where that is not known."""
        sizes = [file.size for file in self.files]
        return None if None in sizes else sum(filter(None, sizes))


def find_inputs(path: Path) -> InputFiles:
    """Return the files that ``path`` names: a file, a folder but for what Spark skips, a pattern, or ``-``."""
    require_local(path)
    pattern = glob.has_magic(str(path)) and not os.path.lexists(path)
    if not pattern and not os.path.isdir(path):  # noqa: PTH112 - Path.is_dir raises for names that are too long
        return InputFiles(path, (InputFile.of(path),), several=False)
    with naming_in_logs(path):
        root, files = _root(path), set(_matching(path) if pattern else _files_in(path))
        inputs = tuple(InputFile.of(file, _partition_values(file, root)) for file in sorted(files, key=os.fsencode))
    if not inputs:
        fault = "no such file, and as a pattern it matches none" if pattern else "the folder holds no file of ratings"
        raise file_refusal(path, fault)
    return InputFiles(path, inputs, several=True)


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


def _matching(pattern: Path) -> list[Path]:
    files, root = list[Path](), _root(pattern)
    for name in glob.iglob(str(pattern), recursive=True):  # noqa: PTH207 - it takes a pattern with its root
        match = Path(name)
        below = match.relative_to(root).parts
        if any(map(_is_skipped, below)):
            continue
        for found in (match, *match.parents)[: len(below)]:
            if found.is_symlink():
                raise _link_refused(found)
        files += _files_in(match) if match.is_dir() else [match]
        _require_countable(pattern, len(files))
    return files


def _root(path: Path) -> Path:
    """Return the part of a path before the first pattern in it: the folders after it name partitions."""
    return path if path.is_dir() else Path(*takewhile(lambda part: not glob.has_magic(part), path.parts))


def _files_in(folder: Path) -> list[Path]:
    """Return every file in a folder and its subfolders."""

    def refuse(error: OSError) -> None:
        raise file_refusal(error.filename or folder, f"the folder cannot be read: {error.strerror or error}") from error

    files: list[Path] = []
    for current, folders, names in os.walk(folder, onerror=refuse):
        place = Path(current)
        if table := next((what for mark, what in _TABLES.items() if mark in folders), None):
            rule = "its files alone do not say which rows count: export it, or read it with Spark"
            raise file_refusal(place, f"this is {table}; {rule}")
        folders[:] = [name for name in folders if not _is_skipped(name)]
        found = [place / name for name in names if not _is_skipped(name)]
        if link := next((path for path in [*(place / name for name in folders), *found] if path.is_symlink()), None):
            raise _link_refused(link)
        files += found
        _require_countable(folder, len(files))
    return files


def _link_refused(path: Path) -> InputFileError:
    """Return the refusal of a link that nobody named: whoever can add one to a folder could have any file published."""
    return file_refusal(path, "this is a link, and inside a folder of ratings no link is followed")


def _is_skipped(name: str) -> bool:
    """Return whether Spark skips a name: markers, checksums, and files that are still being written."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith((".crc", "._COPYING_"))


def _require_countable(path: Path, count: int) -> None:
    if count > _MAX_FILES:
        raise file_refusal(path, f"it names more than {_MAX_FILES:,} files, the most that are read together")


def _partition_values(file: Path, root: Path) -> dict[str, str | None]:
    """Return the columns that folders between ``root`` and a file name: ``key=value``, as Hive and Spark write them."""
    pairs = [part.partition("=") for part in file.relative_to(root).parts[:-1]]
    columns = {unquote(key): unquote(value) for key, equals, value in pairs if key and equals}
    return {key: None if value == _NULL else value for key, value in columns.items()}


@dataclass(frozen=True)
class Query:
    """A query and the database that answers it. The address may hold a password, and is never shown."""

    address: str = field(repr=False)
    sql: str = field(repr=False)

    @classmethod
    def of(cls, source: str, sql: str) -> "Query":
        """Return the query; ``source`` is an address, or ``env:NAME`` for the variable that holds it."""
        address, origin = source, "from"
        if source.startswith(_ENVIRONMENT):
            name = source.removeprefix(_ENVIRONMENT)
            origin = f"the environment variable {shorten(name)}"
            address = os.environ.get(name, "")
            if not address:
                raise ParameterError(f"{origin} is not set, and from names it as the address of a database")
        parts = _ADDRESS.fullmatch(address)
        is_file = address.startswith(_FILE) and address != _FILE
        if not is_file and (parts is None or parts["scheme"] not in _SERVERS):
            form = "postgresql://user:password@host:port/database or sqlite:///file"
            rule = "with / ? # @ and blanks in a name or password written as %2F, %3F, %23, %40, %20"
            raise ParameterError(f"{origin} must read {form}, {rule}; its value is not shown because of the password")
        if not sql.strip(" \t\r\n;"):
            raise ParameterError("query is empty; it must select a user, an item and perhaps a rating and a time")
        return cls(address, sql)

    @property
    def file(self) -> str | None:
        """The path of a SQLite file; None where PostgreSQL answers."""
        return self.address.removeprefix(_FILE) if self.address.startswith(_FILE) else None

    def __str__(self) -> str:
        return f"the {'postgresql' if self.file is None else 'sqlite'} query"

    def cleaned(self, text: str) -> str:
        """Return the message of a driver in one line, without the address, passwords, and the query itself."""
        parts = _ADDRESS.fullmatch(self.address)
        secrets = []
        if parts is not None:  # a path of SQLite may be any text
            options = [option.partition("=") for option in (parts["options"] or "").split("&")]
            secrets = [parts["password"] or "", *(value for key, _, value in options if key in _SECRET_OPTIONS)]
        # Before anything is cut: half of a password would no longer match.
        for secret in sorted({self.address, *secrets, *map(unquote, secrets)}, key=len, reverse=True):
            text = text.replace(secret, "…") if secret else text
        reason = re.sub(r"^[A-Z_]+: ", "", text.partition("Query was:")[0])
        return " ".join(reason.split())[:_MAX_REASON_LENGTH]
