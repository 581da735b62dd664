"""What an alignment leaves: the user list, its record beside it, and a table of the party's own spellings."""

import csv
import hashlib
import io
from collections.abc import Iterable
from pathlib import Path

from pricdr.alignment.protocol import Alignment
from pricdr.alignment.record import list_content, read_record, record_beside
from pricdr.data.reading.readers import read_ids
from pricdr.data.reading.text_files import explaining_os_errors, named
from pricdr.errors import VerificationError
from pricdr.files import PRIVATE, new_file, require_writable


def require_room(users: Path, own_ids: Path | None) -> None:
    """Refuse outputs that are there already or cannot be written, before anything is computed."""
    for path in (users, record_beside(users), own_ids):
        if path is not None:
            require_writable(path)


def write_alignment(alignment: Alignment, users: Path, *, own_ids: Path | None = None) -> None:
    """Write the user list, its record, and the table of own spellings where one is asked for."""
    write_once(users, [list_content(alignment.users)])
    write_once(record_beside(users), [alignment.record.content()])
    write_own_ids(alignment, own_ids)


def write_own_ids(alignment: Alignment, path: Path | None) -> None:
    """Write which id of the list is which of ours: columns user and own, for the party itself (mode 0600)."""
    if path is not None:
        write_once(path, [_table(zip(alignment.users, alignment.own, strict=True))], mode=PRIVATE)


def write_once(path: Path, content: Iterable[bytes | memoryview], *, mode: int = 0o644) -> None:
    """Create a file; leave it where a run that was killed right afterwards has written the very same bytes."""
    blocks = list(content)
    if path.is_file() and not path.is_symlink() and _digest(path) == hashlib.sha256(b"".join(blocks)).digest():
        return
    with new_file(path, mode=mode) as file:
        file.writelines(blocks)


def read_list(path: Path) -> tuple[str, ...]:
    """Return the users of the list that the starter sent; nobody, where the file is empty."""
    with explaining_os_errors(path):
        empty = path.is_file() and path.stat().st_size == 0
    return () if empty else read_ids(path)


def require_list(alignment: Alignment, users: Path) -> None:
    """Refuse a list that is not byte for byte as ``finish`` wrote it, or that has another record beside it."""
    name = named(users)
    with explaining_os_errors(users):
        found = _digest(users)
    if found.hex() != alignment.record.users_sha256:
        raise VerificationError(f"{name}: its bytes changed on the way: line ends, a byte order mark or a last line")
    beside = record_beside(users)
    if beside.exists():
        theirs, ours = read_record(beside).model_dump(mode="json"), alignment.record.model_dump(mode="json")
        for field, value in ours.items():
            if theirs[field] != value:
                raise VerificationError(f"{named(beside)}: {field} is {theirs[field]!r} there, and {value!r} here")


def _digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _table(pairs: Iterable[tuple[str, str]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["user", "own"])
    writer.writerows(pairs)
    return text.getvalue().encode()
