"""A memory limit that computations check before they allocate anything."""

import os
import re
import resource
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from pricdr.errors import MemoryLimitError, ParameterError

VARIABLE: Final = "PRICDR_MEMORY"
_SHARE: Final = 0.5
CONTAINER_LIMITS: Final = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Files with the memory limit of a Linux container, in version 2 and version 1 of control groups."""
EXPANSION: Final = 25
"""Bytes of memory that publishing takes for every byte of the files. For Parquet, the densest format, 18 were measured
(``benchmarks/scale.py``, 10 M ratings); a user list in another order takes more, since ratings are then held twice."""
_UNITS: Final = {"MB": 10**6, "GB": 10**9, "TB": 10**12}


def require_memory(need: int, what: str) -> None:
    """Refuse a computation that needs more bytes than the limit; the message starts with ``what``."""
    limit = memory_limit()
    if need > limit:
        now = os.environ.get(VARIABLE) or "not set: half of what this machine or container has"
        raise MemoryLimitError(
            f"{what} needs about {format_bytes(need)} of memory, the limit is {format_bytes(limit)}: use smaller "
            f"inputs or settings, or raise the limit with the environment variable {VARIABLE} (now {now})"
        )


def memory_limit(container: Sequence[Path] = CONTAINER_LIMITS) -> int:
    """Return the limit in bytes: from the environment, or half of the memory of machine, container or process."""
    text = os.environ.get(VARIABLE)
    if not text:
        return int(_SHARE * min([os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), *_stated_limits(container)]))
    number = re.fullmatch(r"([1-9][0-9]{0,8})(MB|GB|TB)", text)
    if number is None:
        raise ParameterError(f"{VARIABLE} must be a whole number and MB, GB or TB, such as 8GB, got {text!r:.40}")
    return int(number[1]) * _UNITS[number[2]]


def _stated_limits(files: Sequence[Path]) -> list[int]:
    """Return the limits of the process (``ulimit -v``) and of the container, where there are any."""
    soft_limits = (resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA))
    limits = [soft for soft in soft_limits if soft != resource.RLIM_INFINITY]
    for path in files:
        with suppress(OSError, ValueError):  # "max" where there is no limit
            limits.append(int(path.read_text(encoding="ascii")))
    return limits


def format_bytes(size: int) -> str:
    """Return a number of bytes in a unit that suits it."""
    for unit, bytes_ in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 1000)):
        if size >= bytes_:
            return f"{size / bytes_:,.1f} {unit}"
    return f"{size} bytes"
