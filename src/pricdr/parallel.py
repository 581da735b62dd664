"""Row blocks on a thread pool. numpy and AES release the interpreter lock, so threads use every core."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from pricdr.progress import Progress, silent


def each_block(
    total: int, size: int, work: Callable[[slice], None], *, what: str = "", progress: Progress = silent
) -> None:
    """Run ``work`` on consecutive slices of ``range(total)``; blocks may run in any order, so each must stand alone.

    >>> seen = []
    >>> each_block(5, 2, seen.append)
    >>> sorted(seen, key=lambda s: s.start)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    slices = [slice(start, min(start + size, total)) for start in range(0, total, size)]
    each_slice(slices, work, what=what, progress=progress)


def each_slice(
    slices: Sequence[slice], work: Callable[[slice], None], *, what: str = "", progress: Progress = silent
) -> None:
    """Run ``work`` on each of these slices, in any order."""
    with ThreadPoolExecutor(cores()) as pool:
        running = [pool.submit(work, part) for part in slices]
        done = 0
        try:
            for finished in as_completed(running):
                finished.result()
                done += 1
                progress(what, done, len(slices))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "process_cpu_count"):
        return os.process_cpu_count() or 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
