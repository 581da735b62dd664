"""Blinding many ids or points in portions, on several processes; finished portions can be stored for a later run."""

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

from pricdr.alignment.curve import SIZE, BlindingKey, Points, as_points, hash_to_u, split_points
from pricdr.errors import PriCDRError
from pricdr.parallel import process_pool
from pricdr.progress import Progress, silent

PORTION: Final = 10_000
"""Ids or points that are blinded at a time: about a second of one core."""
_ID, _DUMMY = b"\0", b"\1"
"""The byte that is hashed before an id or a dummy, so that no id can hash to a dummy's point."""


class PortionStore(Protocol):
    """Where finished portions are stored until all of them are done."""

    def read(self, name: str, size: int) -> bytes | None:
        """Return the portion with this name, or None if it is missing or damaged."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """Store a finished portion."""
        ...


class NoStore:
    """A store that keeps nothing: an interrupted run starts from scratch."""

    def read(self, name: str, size: int) -> bytes | None:
        """Return None."""
        return None

    def write(self, name: str, content: bytes) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class Blinder:
    """Blinds ids and points, and reports progress.

    Args:
        processes: number of worker processes; 1 means no workers. More than 1 needs an importable main module, as
            ``multiprocessing`` with the spawn method always does.
        progress: called with the number of points done.
        store: where finished portions are stored.
    """

    processes: int = 1
    progress: Progress = silent
    store: PortionStore = field(default_factory=NoStore)

    def ids(self, ids: Sequence[str], session: bytes, key: BlindingKey, *, pad_to: int) -> Points:
        """Return the blinded points of the ids, followed by those of enough dummies to make ``pad_to`` points."""

        def contents(start: int, stop: int) -> list[bytes]:
            real = [session + _ID + user_id.encode() for user_id in ids[start:stop]]
            return real + [session + _DUMMY + key.dummy(number) for number in range(max(start, len(ids)), stop)]

        return self._run("ids", pad_to, lambda start, stop: (_blind_contents, contents(start, stop)), key)

    def points(self, points: Points, key: BlindingKey) -> Points:
        """Return the points times the key, in the same order. They must have passed ``require_points``."""
        return self._run(
            "points",
            len(points),
            lambda start, stop: (_blind_points, split_points(points[start:stop].tobytes())),
            key,
        )

    def _run(self, what: str, total: int, task: "_TaskOf", key: BlindingKey) -> Points:
        out = bytearray(total * SIZE)
        done, missing = 0, []
        for start in range(0, total, PORTION):
            stop = min(start + PORTION, total)
            content = self.store.read(f"{what}-{start:09}", (stop - start) * SIZE)
            if content is None:
                missing.append((start, stop))
            else:
                out[start * SIZE : stop * SIZE] = content
                done += stop - start
        label = f"blinding {what}"
        self.progress(label, done, total)
        with closing(_blinded(missing, task, key, min(self.processes, len(missing)))) as blinded:
            for start, stop, content in blinded:
                self.store.write(f"{what}-{start:09}", content)
                out[start * SIZE : stop * SIZE] = content
                done += stop - start
                self.progress(label, done, total)
        return as_points(out)


_Blind: TypeAlias = Callable[[list[bytes], BlindingKey], bytes]
_TaskOf: TypeAlias = Callable[[int, int], tuple[_Blind, list[bytes]]]
"""Maps the bounds of a portion to the function that blinds it and the contents to blind."""


def _blinded(
    portions: Sequence[tuple[int, int]], task: _TaskOf, key: BlindingKey, processes: int
) -> Generator[tuple[int, int, bytes], None, None]:
    """Yield the bounds and the blinded points of each portion, in any order."""
    if processes <= 1:
        for start, stop in portions:
            blind, contents = task(start, stop)
            yield start, stop, blind(contents, key)
        return
    waiting = iter(portions)
    running: dict[Future[bytes], tuple[int, int]] = {}
    with _explaining_killed_workers(), process_pool(processes, _set_key, key.reveal()) as pool:

        def submit() -> None:
            # A few at a time: the contents of all portions together would take as much memory as the ids.
            for start, stop in waiting:
                blind, contents = task(start, stop)
                running[pool.submit(_in_worker, blind, contents)] = (start, stop)
                if len(running) >= 2 * processes:
                    return

        submit()
        while running:
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                start, stop = running.pop(future)
                yield start, stop, future.result()
            submit()


@contextmanager
def _explaining_killed_workers() -> Iterator[None]:
    """Turn a broken pool into an error that says what to do. Submitting can raise it as well as a result."""
    try:
        yield
    except BrokenProcessPool as error:
        why = "a worker process was killed while blinding, perhaps for lack of memory"
        raise PriCDRError(f"{why}: use fewer --processes") from error


_KEY: list[BlindingKey] = []
"""The key of a worker process."""


def _set_key(content: bytes) -> None:
    _KEY.append(BlindingKey(content))


def _in_worker(blind: _Blind, contents: list[bytes]) -> bytes:
    return blind(contents, _KEY[0])


def _blind_contents(contents: list[bytes], key: BlindingKey) -> bytes:
    """Hash the contents to points and return these, blinded."""
    return key.multiply(split_points(hash_to_u(contents)))


def _blind_points(points: list[bytes], key: BlindingKey) -> bytes:
    return key.multiply(points)
