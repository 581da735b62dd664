"""A pool of processes ends with its block, and touches no other process of the program."""

import multiprocessing
import time

import pytest

from pricdr.parallel import process_pool


class StopError(Exception):
    pass


def nothing() -> None:
    pass


def stop_while_a_worker_is_busy() -> None:
    with process_pool(1, nothing) as pool:
        pool.submit(nothing).result()
        pool.submit(time.sleep, 60)
        raise StopError


@pytest.mark.slow
def test_an_error_ends_the_workers_of_the_pool_and_no_other_child():
    spawn = multiprocessing.get_context("spawn")
    other = spawn.Process(target=time.sleep, args=(60,), daemon=True)
    other.start()
    try:
        started = time.monotonic()
        with pytest.raises(StopError):
            stop_while_a_worker_is_busy()
        assert time.monotonic() - started < 30  # the worker was not waited for
        other.join(2)  # a signal takes a moment
        assert other.exitcode is None
    finally:
        other.kill()
        other.join()
