"""Keep the checkpoints of a training beside its model until it is done, so that ``--resume`` can continue."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pricdr.cli.console import warn
from pricdr.errors import InputError, OutputError

if TYPE_CHECKING:
    from pricdr.training.checkpoints import CheckpointFiles

_LONGEST_DESCRIPTION: Final = 1000
"""The most characters of the text that describes a training."""
_CHECKPOINT: Final = "checkpoint"


class ResumableRun:
    """A hidden folder beside the model: checkpoints, the log, and a line that describes the training."""

    def __init__(self, out: Path, description: str) -> None:
        self.out, self.folder, self._description = out, out.with_name(f".{out.name}.training"), description
        self._made: list[Path] = []
        self.log = self.folder / "log.jsonl"

    @property
    def checkpoints(self) -> "CheckpointFiles":
        """The checkpoint files of the training."""
        from pricdr.training.checkpoints import CheckpointFiles

        return CheckpointFiles(self.folder / _CHECKPOINT)

    @contextmanager
    def begun(self, *, resume: bool) -> Iterator[None]:
        """Keep the folder while the training runs, and afterwards only if it can be resumed."""
        if resume and not self._left_behind():
            warn("there is nothing to resume: training starts from the beginning")
        self._begin(resume=resume and bool(self._left_behind()))
        try:
            yield
        except BaseException:
            if self._left_behind():
                warn(f"the epochs so far are kept in {self.folder}: continue with --resume")
            else:
                self._remove()
            raise
        self._remove()

    def copy_log(self, path: Path) -> None:
        """Copy the log to ``path``; an empty file if the method does not train in epochs."""
        path.write_bytes(self.log.read_bytes() if self.log.exists() else b"")

    def _begin(self, *, resume: bool) -> None:
        description = self.folder / "run.txt"
        try:
            if resume:
                self._require_plain_files()
                with description.open(encoding="utf-8") as file:
                    previous = file.read(_LONGEST_DESCRIPTION)
                if previous != self._description:
                    raise InputError(
                        f"{self.folder} was left by {previous}, not by {self._description}: train without --resume"
                    )
            else:
                self._remove()
                self._made = [parent for parent in self.folder.parents if not parent.exists()]
                self.folder.mkdir(parents=True, mode=0o700)  # what is learnt from ratings is for their owner alone
                description.write_text(self._description, encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise OutputError(f"cannot use {self.folder}: {getattr(error, 'strerror', None) or error}") from error

    def _require_plain_files(self) -> None:
        """Refuse links: the log is appended to and copied into the model, and a link could lead anywhere."""
        for path in (self.folder, *self.folder.iterdir()):
            if path.is_symlink() or not (path.is_file() or path == self.folder):
                raise InputError(f"{path} is not a plain file: train without --resume")

    def _left_behind(self) -> list[Path]:
        """Return the checkpoints that are there, one for each network whose training began."""
        return list(self.folder.glob(f"{_CHECKPOINT}*"))

    def _remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        for parent in self._made:
            with suppress(OSError):  # not empty: the model is there by now
                parent.rmdir()
