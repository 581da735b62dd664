"""Where a training reports while it runs: a log file, checkpoints and a progress bar.

None of it changes the model: a checkpoint only saves running an epoch twice.
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
from pricdr.training.checkpoints import Checkpoints

Batch = TypeVar("Batch")

_REPORT_INTERVAL: Final = 0.1  # seconds between reports inside an epoch, which would take most of the time


@dataclass(frozen=True)
class Epoch:
    """One line of a training log."""

    epoch: int
    loss: float
    metric: float | None  # the validation metric; None where there is no validation
    seconds: float


@dataclass
class _LastReport:
    """Reports inside an epoch are spaced out, and repeat the last note."""

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
    """Precedes the network's name where the same networks are trained more than once."""
    network: str = "training"
    """What the log and the progress bar call the network that is being trained."""
    _last: _LastReport = field(default_factory=_LastReport, repr=False, compare=False)

    @property
    def label(self) -> str:
        """Phase and network, as the log and the progress bar show them."""
        return f"{self.phase} {self.network}".lstrip()

    @contextmanager
    def reporting_to(self, progress: Progress | bool) -> Iterator["RunLog"]:
        """Yield this run log with its progress sent to ``progress``, unless that is False."""
        if progress is False:
            yield self
            return
        with shown(progress) as report:
            yield replace(self, progress=report)

    def batches(self, batches: Sequence[Batch], epoch: int, last_epoch: int) -> Iterator[Batch]:
        """Yield an epoch's batches and report now and then, reading nothing from the device: that would stall a GPU."""
        for number, batch in enumerate(batches):
            now = time.monotonic()
            # The very first batch reports that training has started; later epochs start right after a ``record``.
            if not (number or epoch) or (number and now - self._last.at >= _REPORT_INTERVAL):
                self._last.at = now
                last_note = f", {self._last.note}" if self._last.note and self._last.label == self.label else ""
                note = f"epoch {epoch + 1}, batch {number + 1:,} of {len(batches):,}{last_note}"
                self.progress(self.label, epoch + number / len(batches), last_epoch, note)
            yield batch

    def record(self, epoch: Epoch, last_epoch: int, *, best: float, best_epoch: int) -> None:
        """Write and report a finished epoch, the best so far, and the last one if none is better than that."""
        if self.file is not None:
            with self.file.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"part": self.label, **asdict(epoch)}) + "\n")
        note = f"loss {epoch.loss:.4g}"
        if epoch.metric is not None:
            ends = f"ends after epoch {last_epoch} unless it gets better"
            note += f", validation {epoch.metric:.4f} (best {best:.4f} in epoch {best_epoch}; {ends})"
        self._last.label, self._last.note = self.label, note
        self.progress(self.label, epoch.epoch, last_epoch, note)


NO_LOG = RunLog()
