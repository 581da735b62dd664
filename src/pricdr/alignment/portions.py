"""Finished portions of a step, stored in a hidden folder beside its output, so that an interrupted run can resume.

A portion belongs to one step of one session: the name and the SHA-256 of its file cover both. A portion that is damaged
or belongs to another step is computed again.
"""

import hashlib
import os
import shutil
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final

from pricdr.alignment.protocol import State
from pricdr.errors import OutputError, VerificationError
from pricdr.files import PRIVATE, replace_file

_DIGEST: Final = 32


class PortionFiles:
    """Stores portions while the block runs, and keeps them afterwards only if a later run could still use them."""

    def __init__(self, out: Path, state: State) -> None:
        self.folder = out.with_name(f".{out.name}.aligning")
        key = b"" if state.key is None else state.key.reveal()
        facts = f"{state.session} {state.step.value} {state.first_message} {state.second_message} "
        self._identity = hashlib.sha256(facts.encode() + key).digest()
        self._prefix = self._identity.hex()[:16]

    def __enter__(self) -> "PortionFiles":
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if self.folder.is_symlink():
                raise OutputError(f"{self.folder} is a link, and a folder is needed: remove it")
            for stale in self.folder.iterdir():
                if not stale.name.startswith(self._prefix):
                    stale.unlink()
        except OutputError:
            raise
        except OSError as error:
            raise OutputError(f"cannot use {self.folder}: {error.strerror or error}") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None or issubclass(kind, VerificationError):  # a later run would fail in the same way
            shutil.rmtree(self.folder, ignore_errors=True)
        else:
            with suppress(OSError):  # not empty: a later run resumes with what is there
                self.folder.rmdir()

    @property
    def count(self) -> int:
        """How many portions are stored."""
        with suppress(OSError):
            return len(list(self.folder.glob(f"{self._prefix}-*")))
        return 0

    def read(self, name: str, size: int) -> bytes | None:
        """Return the portion with this name, or None if it is missing or damaged."""
        try:
            descriptor = os.open(self._path(name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            content = file.read(size + _DIGEST + 1)
        points, digest = content[:size], content[size:]
        return points if digest == self._digest(name, points) else None

    def write(self, name: str, content: bytes) -> None:
        """Store a finished portion with mode 0600: blinded points can reveal who the common users are."""
        replace_file(self._path(name), [content, self._digest(name, content)], mode=PRIVATE)

    def _path(self, name: str) -> Path:
        return self.folder / f"{self._prefix}-{name}"

    def _digest(self, name: str, points: bytes) -> bytes:
        return hashlib.sha256(self._identity + name.encode() + points).digest()
