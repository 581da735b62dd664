"""Whether a device can run our own kernels: they need Triton, and Triton needs a C compiler."""

from functools import cache
from types import ModuleType

import torch


def kernels_for(device: torch.device) -> ModuleType | None:
    """Return :mod:`pricdr.training.kernels` if the device can run them; None means to use torch's operations."""
    return _load_kernels(device) if device.type == "cuda" else None


@cache
def _load_kernels(device: torch.device) -> ModuleType | None:
    # Whatever fails (a missing package, an old GPU, no compiler, no space for its cache), training works without them.
    try:
        from pricdr.training import kernels  # imported here: Triton takes a second to load

        ones = torch.ones(2, 4, device=device)
        kernels.add_rows(ones, ones.clone(), torch.tensor([[0, 2], [0, 1]], device=device))
        works = ones.tolist() == [[2.0] * 4, [1.0] * 4]
    except Exception:
        return None
    return kernels if works else None
