"""Finished portions of a step, kept in a hidden folder beside its output, so that a run that was killed can go on.

A portion belongs to one step of one session: its file is named after them, and its SHA-256 covers them. Whatever is
not whole, or another's, is computed again.
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
    """Keeps portions while the block runs, and afterwards only where it ended in an error that may pass."""

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
                raise OutputError(f"{self.folder} is a link, a folder of our own is needed: remove it")
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
        if kind is None or issubclass(kind, VerificationError):  # no later run could come to another end
            shutil.rmtree(self.folder, ignore_errors=True)
        else:
            with suppress(OSError):  # not empty: there is something to go on with
                self.folder.rmdir()

    @property
    def count(self) -> int:
        """How many portions are kept."""
        with suppress(OSError):
            return len(list(self.folder.glob(f"{self._prefix}-*")))
        return 0

    def read(self, name: str, size: int) -> bytes | None:
        """Return the portion of this name, if it is there and whole."""
        try:
            descriptor = os.open(self._path(name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            content = file.read(size + _DIGEST + 1)
        points, digest = content[:size], content[size:]
        return points if digest == self._digest(name, points) else None

    def write(self, name: str, content: bytes) -> None:
        """Keep a finished portion, for its owner alone: what is made with a key says who the common users are."""
        replace_file(self._path(name), [content, self._digest(name, content)], mode=PRIVATE)

    def _path(self, name: str) -> Path:
        return self.folder / f"{self._prefix}-{name}"

    def _digest(self, name: str, points: bytes) -> bytes:
        return hashlib.sha256(self._identity + name.encode() + points).digest()
