"""What a result was measured by: the program, its commit, the libraries and the machine."""

import os
import platform
import re
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final

from pricdr.experiments.records import RECORD, Line

COMMIT: Final = "PRICDR_COMMIT"
"""The environment variable that names the commit where the program runs without its repository."""


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """What measured a result, and when."""

    __pydantic_config__ = RECORD

    version: Line
    """Of pricdr."""
    commit: Line
    """Of its repository, with + where files differ from it; ``unknown`` outside one."""
    python: Line
    torch: Line
    numpy: Line
    scipy: Line
    machine: Line
    """The GPU, or the processor and how many cores this process may use."""
    finished: Line
    """Date and time, UTC."""


def provenance(device: str) -> Provenance:
    """Return the provenance of something measured now on a kind of device (``cpu``, ``cuda``)."""
    import numpy as np
    import scipy
    import torch

    import pricdr

    return Provenance(
        version=pricdr.__version__,
        commit=commit(),
        python=platform.python_version(),
        torch=str(torch.__version__),
        numpy=np.__version__,
        scipy=scipy.__version__,
        machine=torch.cuda.get_device_name() if device == "cuda" else _processor(),
        finished=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )


@cache
def commit() -> str:
    """Return the commit that this program is of; read once, since files may change while it runs."""
    given = os.environ.get(COMMIT, "")
    if given:
        return given if re.fullmatch(r"[0-9a-f]{7,64}\+?", given) else "unknown"
    here = Path(__file__).parent
    head = _git(here, "rev-parse", "--short=12", "HEAD")
    # A program installed into somebody else's repository is not of that repository.
    if head is None or _git(here, "ls-files", "--error-unmatch", Path(__file__).name) is None:
        return "unknown"
    return head + ("+" if _git(here, "status", "--porcelain", "--untracked-files=no", ".") else "")


def _git(folder: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", folder, *words], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _processor() -> str:
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return f"{platform.machine() or 'unknown'}, {available} core{'s' if available > 1 else ''}"
