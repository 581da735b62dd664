"""The most memory that one run of many in the same process used, where the system can tell."""

import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

_STATUS: Final = Path("/proc/self/status")
_CLEAR: Final = Path("/proc/self/clear_refs")


def watch_memory() -> None:
    """Forget the peak so far: a run begins."""
    with suppress(OSError):  # no Linux, or not permitted: peak_memory then knows of none
        _CLEAR.write_text("5", encoding="ascii")
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.reset_peak_memory_stats()


def peak_memory(device: str) -> float | None:
    """Return the peak in bytes since :func:`watch_memory`: of the GPU for ``cuda``, else of the whole process."""
    if device == "cuda":
        return float(sys.modules["torch"].cuda.max_memory_allocated())
    if not _CLEAR.exists():
        return None
    with suppress(OSError):
        peak = re.search(r"VmHWM:\s*(\d+) kB", _STATUS.read_text(encoding="ascii"))
        return None if peak is None else 1024.0 * int(peak[1])
    return None
