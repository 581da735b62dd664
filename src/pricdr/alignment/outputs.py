"""The output files of an alignment: the user list, its record, and a table of the party's own spellings."""

import csv
import hashlib
import io
import os
from collections.abc import Iterable
from pathlib import Path

from pricdr.alignment.protocol import Alignment
from pricdr.alignment.record import list_content, read_record, record_beside
from pricdr.data.reading.readers import read_ids
from pricdr.data.reading.text_files import explaining_os_errors, named
from pricdr.errors import ParameterError, VerificationError
from pricdr.files import PRIVATE, new_file, require_writable


def require_new_outputs(users: Path, own_ids: Path | None) -> None:
    """Refuse outputs that exist already or cannot be written, before anything is computed."""
    outputs = (users, record_beside(users))
    for path in outputs:
        require_writable(path)
    if own_ids is not None:
        if own_ids.resolve() in {path.resolve() for path in outputs}:
            raise ParameterError(f"--own-ids is {own_ids}, which is where the user list or its record goes")
        require_writable(own_ids)


def write_alignment(alignment: Alignment, users: Path, *, own_ids: Path | None = None) -> None:
    """Write the user list, its record and, if ``own_ids`` is given, the table of own spellings."""
    write_once(users, [list_content(alignment.users)])
    write_once(record_beside(users), [alignment.record.content()])
    write_own_ids(alignment, own_ids)


def write_own_ids(alignment: Alignment, path: Path | None) -> None:
    """Write the party's own spelling of each listed user: columns user and own, mode 0600."""
    if path is not None:
        write_once(path, [_csv_table(zip(alignment.users, alignment.own, strict=True))], mode=PRIVATE)


def write_once(path: Path, content: Iterable[bytes | memoryview], *, mode: int = 0o644) -> None:
    """Create a file, unless an interrupted run has already written the same bytes to it."""
    blocks = list(content)
    if path.is_file() and not path.is_symlink() and _digest(path) == hashlib.sha256(b"".join(blocks)).digest():
        return
    with new_file(path, mode=mode) as file:
        file.writelines(blocks)


def read_list(path: Path) -> tuple[str, ...]:
    """Return the users of the list that the starter sent; an empty file lists no users."""
    with explaining_os_errors(path):
        empty = path.is_file() and path.stat().st_size == 0
    return () if empty else read_ids(path)


def require_unchanged(alignment: Alignment, users: Path) -> None:
    """Refuse a list that is not byte for byte what ``finish`` wrote, or whose record differs from ours."""
    with explaining_os_errors(users):
        digest = _digest(users)
    if digest.hex() != alignment.record.users_sha256:
        raise VerificationError(
            f"{named(users)}: the file was changed in transit: check line endings, byte order mark and the last line"
        )
    beside = record_beside(users)
    if os.path.lexists(beside):
        theirs, ours = read_record(beside).model_dump(mode="json"), alignment.record.model_dump(mode="json")
        for field, value in ours.items():
            if theirs[field] != value:
                raise VerificationError(f"{named(beside)}: {field} is {theirs[field]!r} there but {value!r} here")


def _digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _csv_table(pairs: Iterable[tuple[str, str]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["user", "own"])
    writer.writerows(pairs)
    return text.getvalue().encode()
