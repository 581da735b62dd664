"""Where a training reports to while it runs: a log file, checkpoints and a progress bar.

The model does not depend on any of it: a checkpoint only saves epochs from being run twice.
"""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pricdr.progress import Progress, silent
from pricdr.training.checkpoints import Checkpoint, Checkpoints


@dataclass(frozen=True)
class Epoch:
    """One line of a training log."""

    epoch: int
    loss: float
    metric: float | None
    """The validation metric; None where there is no validation."""
    seconds: float


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

    def record(self, epoch: Epoch, total: int, best: float) -> None:
        """Report one finished epoch out of ``total`` at most; ``best`` is the best metric so far."""
        if self.file is not None:
            with self.file.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"part": self.label, **asdict(epoch)}) + "\n")
        note = f"loss {epoch.loss:.4g}"
        if epoch.metric is not None:
            note += f", validation {epoch.metric:.4f} (best {best:.4f})"
        self.progress(self.label, epoch.epoch, total, note)


NO_LOG = RunLog()
