"""Whether a device can run kernels of our own: they need Triton, and Triton needs a C compiler."""

from functools import cache
from types import ModuleType

import torch


def kernels_for(device: torch.device) -> ModuleType | None:
    """Return :mod:`pricdr.training.kernels` where the device can run them, or else None: torch's operations do too."""
    return _tried(device) if device.type == "cuda" else None


@cache
def _tried(device: torch.device) -> ModuleType | None:
    # Whatever is wrong, a missing package, an old GPU, no compiler, no room for its files: training works without.
    try:
        from pricdr.training import kernels  # here, since Triton takes a second to import

        ones = torch.ones(2, 4, device=device)
        kernels.add_rows(ones, ones.clone(), torch.tensor([[0, 2], [0, 1]], device=device))
        works = ones.tolist() == [[2.0] * 4, [1.0] * 4]
    except Exception:
        return None
    return kernels if works else None
