"""What a training leaves beside its model until it is done, so that ``--resume`` can go on."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from pricdr.cli.console import warn
from pricdr.errors import InputError, OutputError

_LONGEST_RUN: Final = 1000
"""Characters that say whose training it is."""


class Unfinished:
    """A hidden folder beside the model: checkpoints, the log, and whose they are."""

    def __init__(self, out: Path, run: str) -> None:
        self._folder, self._run = out.with_name(f".{out.name}.training"), run
        self._made: list[Path] = []
        self.log, self.checkpoint = self._folder / "log.jsonl", self._folder / "checkpoint"

    @contextmanager
    def begun(self, *, resume: bool) -> Iterator[None]:
        """The folder is there inside, and afterwards only where something can be resumed."""
        if resume and not self._checkpoints():
            warn("there is nothing to resume: training starts afresh")
        self._begin(resume=resume and bool(self._checkpoints()))
        try:
            yield
        except BaseException:
            if self._checkpoints():
                warn(f"the epochs so far are kept in {self._folder}: go on with --resume")
            else:
                self._forget()
            raise
        self._forget()

    def _begin(self, *, resume: bool) -> None:
        whose = self._folder / "run.txt"
        try:
            if resume:
                self._require_plain_files()
                with whose.open(encoding="utf-8") as file:
                    left = file.read(_LONGEST_RUN)
                if left != self._run:
                    raise InputError(f"{self._folder} was left by {left}, not by {self._run}: train without --resume")
            if not resume:
                self._forget()
                self._made = [parent for parent in self._folder.parents if not parent.exists()]
                self._folder.mkdir(parents=True)
                whose.write_text(self._run, encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise OutputError(f"cannot use {self._folder}: {getattr(error, 'strerror', None) or error}") from error

    def _require_plain_files(self) -> None:
        """Refuse links: the log is written on and copied into the model, wherever it may be."""
        for left in (self._folder, *self._folder.iterdir()):
            if left.is_symlink() or not (left.is_file() or left == self._folder):
                raise InputError(f"{left} is no plain file: train without --resume")

    def _checkpoints(self) -> list[Path]:
        """One for each part of a training."""
        return list(self._folder.glob(f"{self.checkpoint.name}*"))

    def _forget(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        for parent in self._made:
            with suppress(OSError):  # not empty: the model is there by now
                parent.rmdir()
