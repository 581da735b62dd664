"""Training options that apply to every network."""

import re
from dataclasses import dataclass

import torch

from pricdr.errors import ParameterError, require_count, require_not_negative, require_positive, require_seed


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """How a network is trained: epochs, batch size, optimiser, seed and device."""

    epochs: int = 400
    patience: int = 20
    """Epochs without a better validation metric before stopping."""
    patience_steps: int = 160
    """Patience lasts at least this many steps: on small data epochs are short, and training starts on a plateau."""
    batch: int = 256
    learning_rate: float = 1e-3
    weight_decay: float = 1e-4
    seed: int = 0
    device: str = "auto"
    bf16: bool = False
    """Multiply in bfloat16 on a GPU: faster, and slightly less exact."""

    def __post_init__(self) -> None:
        require_count(epochs=self.epochs, patience=self.patience, patience_steps=self.patience_steps, batch=self.batch)
        require_positive(learning_rate=self.learning_rate)
        require_not_negative(weight_decay=self.weight_decay)
        require_seed(seed=self.seed)
        if not re.fullmatch(r"auto|cpu|mps|cuda(:(0|[1-9][0-9]{0,2}))?", self.device):
            raise ParameterError(f"device must be auto, cpu, mps, cuda or cuda:N, got {self.device[:40]!r}")

    def torch_device(self) -> torch.device:
        """Return the torch device, with ``auto`` resolved.

        Raises:
            ParameterError: This machine does not have it.
        """
        if self.device.startswith("cuda"):
            number = int(self.device.partition(":")[2] or 0)
            if not torch.cuda.is_available() or number >= torch.cuda.device_count():
                raise ParameterError(f"device {self.device} is not available on this machine: use cpu or auto")
        if self.device == "mps" and not torch.backends.mps.is_available():
            raise ParameterError("device mps is not available on this machine: use cpu or auto")
        name = ("cuda" if torch.cuda.is_available() else "cpu") if self.device == "auto" else self.device
        return torch.device(name)
