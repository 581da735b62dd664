"""Where a training reports to while it runs: a log file, checkpoints and a progress bar.

The model does not depend on any of it: a checkpoint only saves epochs from being run twice.
"""

import json
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final, TypeVar

from pricdr.progress import Progress, shown, silent
from pricdr.training.checkpoints import Checkpoint, Checkpoints
from pricdr.training.distributed import processes

Batch = TypeVar("Batch")

_BETWEEN_BATCHES: Final = 0.1
"""Seconds between two reports from inside an epoch: small batches would do little else."""


@dataclass(frozen=True)
class Epoch:
    """One line of a training log."""

    epoch: int
    loss: float
    metric: float | None
    """The validation metric; None where there is no validation."""
    seconds: float


@dataclass
class _LastReport:
    """What was last reported, and when: the next one from inside an epoch waits for its turn and repeats the note."""

    at: float = -math.inf
    label: str = ""
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class RunLog:
    """What a training writes and reports; by default nothing."""

    file: Path | None = None
    """One JSON line per epoch is appended to it."""
    checkpoints: Checkpoints | None = None
    """Where interrupted networks are kept, and resumed from."""
    progress: Progress = silent
    phase: str = ""
    """Written before the network's name where everything is trained more than once."""
    network: str = "training"
    """What the log and the progress bar call the network that is being trained."""
    _last: _LastReport = field(default_factory=_LastReport, repr=False, compare=False)

    @property
    def label(self) -> str:
        """Phase and network, as the log and the progress bar show them."""
        return f"{self.phase} {self.network}".lstrip()

    def of_network(self, name: str) -> "RunLog":
        """Return the run log of one network of a method that has several."""
        return replace(self, network=name)

    def in_phase(self, name: str) -> "RunLog":
        """Return the run log of one of several trainings of the same networks."""
        return replace(self, phase=name)

    def checkpoint(self, fingerprint: str) -> Checkpoint | None:
        """Return the checkpoint of this network; ``fingerprint`` tells one training from any other."""
        return None if self.checkpoints is None else self.checkpoints.open(self.label, fingerprint)

    @contextmanager
    def shown(self, progress: Progress | bool) -> Iterator["RunLog"]:
        """Yield the same run log, which reports to ``progress`` instead, unless that is False.

        Of processes that train together, the first alone writes and reports.
        """
        if not processes().is_first:
            yield NO_LOG
            return
        if progress is False:
            yield self
            return
        with shown(progress) as report:
            yield replace(self, progress=report)

    def working(self, what: str, note: str = "") -> None:
        """Report work that cannot say how far it is."""
        self.progress(what, 0, 0, note)

    def batches(self, batches: Sequence[Batch], epoch: int, epochs: int) -> Iterator[Batch]:
        """Yield the batches of an epoch, counted from 0, and report now and then how far it has come.

        A report reads nothing off the device: asking for a loss would make a GPU wait.
        """
        for number, batch in enumerate(batches):
            now = time.monotonic()
            # The very first says that training has begun; of other epochs ``record`` has just said so.
            if not (number or epoch) or (number and now - self._last.at >= _BETWEEN_BATCHES):
                self._last.at = now
                so_far = f", {self._last.note}" if self._last.note and self._last.label == self.label else ""
                note = f"epoch {epoch + 1}, batch {number + 1:,} of {len(batches):,}{so_far}"
                self.progress(self.label, epoch + number / len(batches), epochs, note)
            yield batch

    def record(self, epoch: Epoch, total: int, best: float) -> None:
        """Report one finished epoch out of ``total`` at most; ``best`` is the best metric so far."""
        if self.file is not None:
            with self.file.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"part": self.label, **asdict(epoch)}) + "\n")
        note = f"loss {epoch.loss:.4g}"
        if epoch.metric is not None:
            note += f", validation {epoch.metric:.4f} (best {best:.4f})"
        self._last.label, self._last.note = self.label, note
        self.progress(self.label, epoch.epoch, total, note)


NO_LOG = RunLog()
