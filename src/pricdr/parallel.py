"""Work on every core: row blocks on threads, and what holds the interpreter lock in processes.

numpy and AES release the lock, so that threads use every core. Training and X25519 do not.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from functools import partial

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


@contextmanager
def process_pool(jobs: int, initialise: Callable[..., None], *arguments: object) -> Iterator[ProcessPoolExecutor]:
    """Yield a pool of fresh interpreters, which end with this process however it ends.

    An error inside the block ends them at once, in the middle of whatever they do.

    Args:
        jobs: how many.
        initialise: a function of a module that each calls first, with ``arguments``.
        arguments: what it is called with.
    """
    import multiprocessing

    # Fresh ones: a forked interpreter cannot use a GPU, and has the locks of threads that it has not.
    spawning = multiprocessing.get_context("spawn")
    begin = partial(_start_worker, initialise, *arguments)
    with _safe_imports(), ProcessPoolExecutor(jobs, mp_context=spawning, initializer=begin) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():  # else they would finish what they have begun
                process.terminate()
            raise


@contextmanager
def _safe_imports() -> Iterator[None]:
    """Let no new interpreter import from the working folder, where a spec from elsewhere may lie beside a socket.py."""
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop("PYTHONSAFEPATH", None)
        else:
            os.environ["PYTHONSAFEPATH"] = before


def _start_worker(initialise: Callable[..., None], *arguments: object) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the parent's business
    threading.Thread(target=_end_with_parent, daemon=True).start()
    initialise(*arguments)


def _end_with_parent() -> None:
    """End this process when its parent has ended: one that was killed closes no pool, and its workers would stay."""
    import multiprocessing

    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "process_cpu_count"):
        return os.process_cpu_count() or 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
