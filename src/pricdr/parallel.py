"""Work on every core: blocks of rows in threads, and work that holds the interpreter lock in processes.

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
    """Run ``work`` on consecutive slices of ``range(total)``, in any order and in parallel."""
    slices = [slice(start, min(start + size, total)) for start in range(0, total, size)]
    each_slice(slices, work, what=what, progress=progress)


def each_slice(
    slices: Sequence[slice], work: Callable[[slice], None], *, what: str = "", progress: Progress = silent
) -> None:
    """Run ``work`` on each of these slices, in any order and in parallel."""
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
def process_pool(jobs: int, initialise: Callable[..., object], *arguments: object) -> Iterator[ProcessPoolExecutor]:
    """Yield a pool of new interpreters that call ``initialise`` first and end with this process, however it ends."""
    import multiprocessing

    # Spawned: a forked interpreter cannot use a GPU, and inherits locks of threads that it does not have.
    spawn = multiprocessing.get_context("spawn")
    initializer = partial(_start_worker, initialise, *arguments)
    with _safe_imports(), ProcessPoolExecutor(jobs, mp_context=spawn, initializer=initializer) as pool:
        try:
            yield pool
        except BaseException:
            # Only this pool's processes: the caller may have others. They are known until the pool is shut down.
            workers = list((pool._processes or {}).values())
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in workers:  # otherwise they would finish what they have started
                worker.terminate()
            raise


@contextmanager
def _safe_imports() -> Iterator[None]:
    """Keep new interpreters from importing modules of the working folder: a hostile socket.py may be beside a spec."""
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop("PYTHONSAFEPATH", None)
        else:
            os.environ["PYTHONSAFEPATH"] = before


def _start_worker(initialise: Callable[..., object], *arguments: object) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles interrupts
    threading.Thread(target=_end_with_parent, daemon=True).start()
    initialise(*arguments)


def _end_with_parent() -> None:
    """End this process when its parent has ended: a parent that was killed cannot close its pool."""
    import multiprocessing

    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "process_cpu_count"):
        return os.process_cpu_count() or 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
